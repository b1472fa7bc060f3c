"""A policy on the axes.

It has a memory (``memories/``), an index (``indices/``, and how it stays cheap: ``scores.py``), and what makes it
forget at once (``restarts.py``, ``exploration.py``).
"""

from maskedbandits._numba.jit import inlined, inner
from maskedbandits.policies import indices, memories
from maskedbandits.policies.index import watch
from maskedbandits.policies.index.restarts import Phases, forget_everything
from maskedbandits.policies.index.state import Axes
from maskedbandits.policies.index.state import evidence_of as evidence_of  # what groups are compared by (``levels.py``)
from maskedbandits.policies.pending import await_nothing
from maskedbandits.policies.state import NOT_NEGATIVE, flipped


@inner
def start(state: Phases) -> None:
    """Forget everything, also the time."""
    scalars = state.scalars[0]
    scalars.time = 0
    scalars.following = 0
    scalars.alarms = 0
    scalars.fractional = 0
    await_nothing(state)
    indices.start(state)
    forget_everything(state)


@inner
def begin_segment(state: Phases) -> None:
    """Forget every observation, as a restart that is planned does."""
    forget_everything(state)


@inlined
def choose(state: Axes) -> int:
    """Return the arm to pull next."""
    arm = watch.due_look(state)
    if arm == watch.NOT_NOW:
        arm = indices.highest_arm(state)
    return arm & NOT_NEGATIVE


@inlined
def choose_ahead(state: Axes) -> int:
    """Return the arm to pull next while reports are awaited; a look that is under way is not taken again."""
    arm = watch.due_look(state)
    if arm == watch.NOT_NOW or watch.is_look_under_way(state, arm):
        arm = indices.highest_ahead(state)
    return arm & NOT_NEGATIVE


@inner
def choose_open(state: Axes) -> int:
    """Return the arm to pull next among those that are open at this moment."""
    arm = watch.due_look(state)
    if arm == watch.NOT_NOW or state.closed[arm] or watch.is_look_under_way(state, arm):
        arm = indices.highest_open(state)
    return arm


@inlined
def observe(state: Axes, arm: int, feedback: float) -> None:
    """Take in the feedback of a pull."""
    memories.age(state)
    feedback = flipped(state, arm, feedback)
    if not memories.takes_short_way(state, arm, feedback):
        _weigh_in(state, arm, feedback)


@inner
def observe_masked(state: Axes, arm: int, feedback: float, low: float, span: float, shown: float, usual: bool) -> None:
    """Take in a feedback with a corruption of its own: flipped, if need be, so that it increases from low by span.

    A detector is shown another number instead, or nothing if that is NaN. Once they are mixed all are weighed alike.
    """
    memories.age(state)
    evicted = memories.push_masked(state, arm, feedback, low, span)
    _carry_on(state, arm, evicted, memories.tidy_masked(state, evicted), shown)


@inner
def _weigh_in(state: Axes, arm: int, feedback: float) -> None:
    """Take in any feedback under the arm's own corruption."""
    scalars = state.scalars[0]
    if feedback != 0.0 and feedback != 1.0:
        scalars.fractional = 1
        memories.settle(state, False)
    evicted = memories.push(state, arm, feedback)
    _carry_on(state, arm, evicted, memories.tidy(state, evicted), feedback)


@inner
def _carry_on(state: Axes, arm: int, evicted: int, tidied: bool, shown: float) -> None:
    """Show a detector what is to be shown, and bring scores up to date."""
    scalars = state.scalars[0]
    scalars.time += 1
    scalars.pulled = arm
    if not watch.is_watchful(state) or not watch.look_out(state, arm, shown):
        indices.bring_up_to_date(state, arm, evicted, tidied)


@inner
def score(state: Axes, arm: int) -> float:
    """Return what is compared at this moment; for Thompson sampling, the means of the posteriors."""
    return indices.score(state, arm)
