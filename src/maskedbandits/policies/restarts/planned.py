"""Restarts at given times, or on a schedule that doubles."""

from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import POSITION, Ints, computed, fixed_array, param, record, size, variable
from maskedbandits.policies import indices, memories, restarts, validation
from maskedbandits.policies.index.state import Axes, forget_reports

NEVER, PLANNED, DOUBLING = range(3)
FIRST_PHASE = 1000  # steps until the first restart of the doubling schedule (Besson & Kaufmann 2018)
MAX_PHASES = 50  # of a schedule that doubles


@record
class Phases(Axes):
    """A play in phases; nothing is remembered from one to the next."""

    plans: int = size()
    schedule: int = computed()
    following: int = variable(0, most=lambda scalars: max(scalars.plans, MAX_PHASES))  # restarts so far
    phase: float = variable(0.0)  # the horizon that is played for, or 0
    plan: Ints = fixed_array(lambda scalars: scalars.plans)  # times at which to restart


@record
class Restarts(Phases):
    """Planned restarts."""

    restarts: Any = param(
        None,
        validation.restarts,
        "when to forget everything: at given times, or on a doubling schedule",
        stored=False,
        time=POSITION,
    )


def restart_times(parameters: Mapping[str, Any]) -> list[int]:
    """Return the times at which to restart."""
    times = parameters.get("restarts")
    return [time for time in times if time > 0] if isinstance(times, list) else []


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return how many restarts are planned."""
    return {"plans": len(restart_times(parameters))}


def configure(state: Restarts, parameters: Mapping[str, Any]) -> None:
    """Write the plan to the state."""
    plan = parameters.get("restarts")
    scalars = state.scalars[0]
    scalars.schedule = NEVER if plan is None else DOUBLING if plan == "doubling" else PLANNED
    scalars.phase = parameters.get("horizon") or 0.0
    state.plan[:] = restart_times(parameters)


def contradiction(state: Restarts, parameters: Mapping[str, Any]) -> str:
    """Return how a saved state contradicts its plan, or an empty text."""
    scalars = state.scalars[0]
    expected = parameters.get("horizon") or 0.0
    if scalars.schedule == DOUBLING:
        expected = max(FIRST_PHASE, scalars.since)
    return "" if scalars.phase == expected else "its horizon is not that of its phase"


@inner
def forget_everything(state: Phases) -> None:
    """Forget every observation."""
    scalars = state.scalars[0]
    scalars.since = scalars.time
    if scalars.schedule == DOUBLING:  # the trick: each phase is played as if the horizon were its end
        scalars.phase = float(max(FIRST_PHASE, scalars.time))
    forget_reports(state, 0, scalars.arms - 1)
    for each in range(scalars.arms):
        state.unanswered[each] = 0.0
    memories.forget_all(state)
    indices.forget_all(state)
    restarts.forget_all(state)


@inlined
def is_active(state: Restarts) -> bool:
    """Return whether a restart is planned."""
    return state.scalars[0].schedule != NEVER


@inner
def restart_if_due(state: Restarts, arm: int, shown: float) -> bool:
    """Restart if it is time; return whether it was."""
    scalars = state.scalars[0]
    if scalars.schedule == DOUBLING:
        due = scalars.time == FIRST_PHASE << scalars.following
    else:
        due = scalars.following < state.plan.size and scalars.time == state.plan[scalars.following]
    if due:
        scalars.following += 1
        forget_everything(state)
    return due
