"""Restarts at given times, or on a schedule that doubles."""

from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import POSITION, Ints, derived, fixed, gathered, given, record, size
from maskedbandits.policies import indices, memories, validation
from maskedbandits.policies.index import watch
from maskedbandits.policies.index.state import Axes, forget_reports

NEVER, PLANNED, DOUBLING = range(3)
FIRST_PHASE = 1000  # steps until the first restart of the doubling schedule (Besson & Kaufmann 2018)
MOST_PHASES = 50  # a schedule that doubles gets no further


@record
class Phases(Axes):
    """A play in phases; nothing is remembered from one to the next."""

    plans: int = size()
    schedule: int = derived()
    following: int = gathered(0, most=lambda own: max(own.plans, MOST_PHASES))  # restarts so far
    phase: float = gathered(0.0)  # the horizon that is played for, or 0
    plan: Ints = fixed(lambda own: own.plans)  # times at which to restart


@record
class Watch(Phases):
    """Restarts that are planned."""

    restarts: Any = given(
        None,
        validation.restarts,
        "when to forget everything: at given times, or on a schedule that doubles",
        stored=False,
        time=POSITION,
    )


def times(parameters: Mapping[str, Any]) -> list[int]:
    """Return the times at which to restart."""
    told = parameters.get("restarts")
    return [time for time in told if time > 0] if isinstance(told, list) else []


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return how many restarts are planned."""
    return {"plans": len(times(parameters))}


def configure(state: Watch, parameters: Mapping[str, Any]) -> None:
    """Write down what is planned."""
    told = parameters.get("restarts")
    own = state.own[0]
    own.schedule = NEVER if told is None else DOUBLING if told == "doubling" else PLANNED
    own.phase = parameters.get("horizon") or 0.0
    state.plan[:] = times(parameters)


def contradiction(state: Watch, parameters: Mapping[str, Any]) -> str:
    """Return where a saved state contradicts its plan."""
    own = state.own[0]
    expected = parameters.get("horizon") or 0.0
    if own.schedule == DOUBLING:
        expected = max(FIRST_PHASE, own.since)
    return "" if own.phase == expected else "its horizon is not that of its phase"


@inner
def forget_everything(state: Phases) -> None:
    """Forget every observation."""
    own = state.own[0]
    own.since = own.time
    if own.schedule == DOUBLING:  # the trick: each phase is played as if the horizon were its end
        own.phase = float(max(FIRST_PHASE, own.time))
    forget_reports(state, 0, own.arms - 1)
    for each in range(own.arms):
        state.unanswered[each] = 0.0
    memories.forget_all(state)
    indices.forget_all(state)
    watch.forget_all(state)


@inlined
def is_watchful(state: Watch) -> bool:
    """Tell whether a restart is planned."""
    return state.own[0].schedule != NEVER


@inner
def look_out(state: Watch, arm: int, shown: float) -> bool:
    """Restart if it is time, and tell whether that was done."""
    own = state.own[0]
    if own.schedule == DOUBLING:
        due = own.time == FIRST_PHASE << own.following
    else:
        due = own.following < state.plan.size and own.time == state.plan[own.following]
    if due:
        own.following += 1
        forget_everything(state)
    return due
