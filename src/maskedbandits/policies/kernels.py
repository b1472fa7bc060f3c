"""The entry points of a live policy, and the main loop of the simulator.

Each step of the loop draws a feedback, gives it to the policy, and counts regret. A reward with mean m that is then
corrupted is a Bernoulli feedback with mean g(m), so one random number per step draws both with the exact distribution.
Regret is the sum of gaps between means, not of rewards.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, dispatch, entry, inlined
from maskedbandits._numba.state import Floats, Ints
from maskedbandits.math import rng
from maskedbandits.policies.index.report_masks import ARMS_OWN, as_seen, is_the_arms
from maskedbandits.policies.pending import await_reports, give_up, take_pending
from maskedbandits.policies.state import Arms, count_feedback, forget


class World(NamedTuple):
    """A piecewise stationary problem, as arrays."""

    starts: Ints  # (L + 1,), the horizon at the end
    feedback_means: NDArray[np.float64]  # (L, K)
    gaps: NDArray[np.float64]  # (L, K) best mean minus the arm's
    worse: NDArray[np.bool_]  # (L, K) whether another arm is better


class Tally(NamedTuple):
    """The counts of one run."""

    position: Ints  # steps done, segment, next checkpoint
    regret: Floats  # (C,) cumulative at the checkpoints
    total: Floats  # (1,) cumulative so far
    pulls: Ints  # (K,)
    suboptimal_pulls: Ints  # (K,)
    recent: Ints  # (K,) pulls that are not in the regret yet
    pulls_over_time: NDArray[np.int64]  # (C, K) pulls up to each checkpoint, summed over the runs that share the array
    switches: (
        Ints  # (2,) switches of arms, or NONE_YET before the first pull; and the last arm. ``advance`` counts none
    )


NONE_YET = -1

# Functions that a policy may define. These are the defaults.


@dispatch("code")
def start(state: Arms) -> None:
    """Reset everything, also the time."""
    forget(state)


@dispatch("code")
def choose(state: Arms) -> int:
    """Return the arm to pull next: the first one with the highest score."""
    best = -math.inf
    chosen = 0
    for arm in range(state.scalars[0].arms):
        value = score_ahead(state, arm)
        if value > best:
            best = value
            chosen = arm
    return chosen


@dispatch("code")
def choose_ahead(state: Arms) -> int:
    """Return the arm to pull next while reports are pending."""
    return choose(state)


@dispatch("code")
def choose_open(state: Arms) -> int:
    """Return the arm to pull next among those that are open, which may change between calls."""
    return choose(state)


@dispatch("code")
def observe(state: Arms, arm: int, feedback: float) -> None:
    """Process the feedback of a pull."""
    count_feedback(state, arm, feedback)


@dispatch("code", inline=False)
def begin_segment(state: Arms) -> None:
    """Begin the next segment of a plan, when the replay of a log has reached its row."""


@dispatch("code")
def score(state: Arms, arm: int) -> float:
    """Return the score of an arm: its index, or for policies that draw an arm its probability."""
    return 0.0


@dispatch("code")
def score_ahead(state: Arms, arm: int) -> float:
    """Return the score of an arm, with pending reports counted as received."""
    return score(state, arm)


@dispatch("code")
def observe_masked(state: Arms, arm: int, feedback: float, low: float, span: float, shown: float, usual: bool) -> None:
    """Process a feedback that has its own corruption, flipped if necessary so that it increases from low by span.

    A detector gets the number ``shown`` instead, or nothing if that is NaN. ``usual`` tells whether the report has the
    arm's corruption. Most policies off the axes do not accept such reports.
    """


@inlined
def next_arm(state: Arms) -> int:
    """Choose an arm."""
    return choose(state) if state.scalars[0].pending_total == 0 else choose_ahead(state)


@inlined
def decide(state: Arms) -> int:
    """Choose an arm; its report is pending from now on."""
    arm = next_arm(state)
    await_reports(state, arm, 1)
    return arm


@inlined
def take_in(state: Arms, arm: int, feedback: float) -> None:
    """Process a report."""
    take_pending(state, arm)
    observe(state, arm, feedback)


@entry
def start_live(state: Any) -> None:
    """Reset everything, also the time."""
    start(state)


@entry
def choose_live(state: Any) -> int:
    """Return the arm to pull next."""
    return decide(state)


@entry
def wait_live(state: Any, arm: int, more: int) -> int:
    """Add pending reports of an arm, or give up on some if ``more`` is negative; return the change."""
    if more < 0:
        return -give_up(state, arm, -more)
    if more > 0:
        await_reports(state, arm, more)
    return more


@entry
def observe_live(state: Any, arm: int, feedback: float) -> None:
    """Process the feedback of a pull."""
    take_in(state, arm, feedback)


@entry
def choose_many_live(state: Any, out: Ints) -> None:
    """Write the arms of many decisions to ``out``."""
    for index in range(out.size):
        out[index] = decide(state)


@entry
def observe_many_live(state: Any, arms: Ints, feedbacks: Floats) -> None:
    """Process many reports."""
    for index in range(arms.size):
        take_in(state, arms[index], feedbacks[index])


@entry
def sample_live(state: Any, out: Ints) -> None:
    """Write arms that could be chosen next to ``out``; none of them is a decision."""
    for index in range(out.size):
        out[index] = next_arm(state)


@entry
def choose_open_live(state: Any, out: Ints, decides: int) -> None:
    """Write open arms to ``out``: decisions, or arms that could be chosen."""
    for index in range(out.size):
        out[index] = choose_open(state)
        if decides:
            await_reports(state, out[index], 1)


@entry
def tell_apart_live(state: Any, arms: Ints, masks: Ints, lines: NDArray[np.float64], honest: float) -> int:
    """Mark reports with the corruption of their arm; return the index of the first one without."""
    first = arms.size
    for index in range(arms.size - 1, -1, -1):
        if masks[index] != ARMS_OWN and is_the_arms(state, arms[index], masks[index], lines, honest):
            masks[index] = ARMS_OWN
        if masks[index] != ARMS_OWN:
            first = index
    return first


@entry
def observe_masked_live(
    state: Any, arms: Ints, feedbacks: Floats, masks: Ints, lines: NDArray[np.float64], honest: float
) -> None:
    """Process reports, each with one of several corruptions or that of its arm (``report_masks.py``)."""
    for index in range(arms.size):
        arm, mask = arms[index], masks[index]
        take_pending(state, arm)
        value, low, span, shown = as_seen(state, arm, feedbacks[index], mask, lines, honest)
        observe_masked(state, arm, value, low, span, shown, mask == ARMS_OWN)


@entry
def scores_live(state: Any, out: Floats) -> None:
    """Write the scores to ``out``."""
    for arm in range(state.scalars[0].arms):
        out[arm] = score(state, arm)


@inlined
def _play(state: Arms, feedback_means: Floats, recent: Ints, steps: int) -> None:
    """Play steps within a segment."""
    for _ in range(steps):
        arm = choose(state)
        feedback = 1.0 if rng.uniform(state.rng) < feedback_means[arm] else 0.0
        observe(state, arm, feedback)
        recent[arm] += 1


@inlined
def _add_regret(world: World, segment: int, tally: Tally) -> None:
    """Add the recent pulls to the regret."""
    gaps, worse = world.gaps[segment], world.worse[segment]
    for arm in range(gaps.size):
        pulls = tally.recent[arm]
        tally.recent[arm] = 0
        tally.pulls[arm] += pulls
        if worse[arm]:
            tally.suboptimal_pulls[arm] += pulls
        tally.total[0] += gaps[arm] * pulls  # replayed gaps can be negative


@inlined
def settle_regret(
    world: World, checkpoints: Ints, tally: Tally, done: int, segment: int, following: int
) -> tuple[int, int]:
    """Update regret at a change or a checkpoint; return the next segment and the next checkpoint."""
    changed = done == world.starts[segment + 1]
    checked = following < checkpoints.size and done == checkpoints[following]
    if changed or checked:  # nowhere else, so that pauses of the caller do not change rounding
        _add_regret(world, segment, tally)
    if checked:
        tally.regret[following] = tally.total[0]
        for arm in range(tally.pulls.size):
            tally.pulls_over_time[following, arm] += tally.pulls[arm]
    return segment + int(changed), following + int(checked)


@inlined
def count_switch(tally: Tally, arm: int) -> None:
    """Count a switch if an arm is not that of the pull before."""
    if tally.switches[1] != arm:
        tally.switches[0] += 1
        tally.switches[1] = arm


@compiled
def advance(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int) -> None:
    """Continue a run up to step ``until``; update regret at every change and every checkpoint."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        stop = min(until, world.starts[segment + 1])
        if following < checkpoints.size:
            stop = min(stop, checkpoints[following])
        _play(state, world.feedback_means[segment], tally.recent, stop - done)
        done = stop
        segment, following = settle_regret(world, checkpoints, tally, done, segment, following)
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
