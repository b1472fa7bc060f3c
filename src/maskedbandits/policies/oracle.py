"""Oracle: plays the best arm of every segment, which it is given. It shows the reward of perfect knowledge."""

from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import POSITION, REQUIRED, Ints, fixed_array, param, record, size, variable
from maskedbandits.errors import UserError, WrongValueError
from maskedbandits.policies import validation
from maskedbandits.policies.restarts.planned import restart_times
from maskedbandits.policies.state import Arms, count_feedback, forget

SUMMARY = "always plays the best arm"
LEARNS_FROM = "nothing"


@record
class Policy(Arms):
    """The start of each segment, and its best arm."""

    segments: int = size(1)
    restarts: Any = param(
        REQUIRED, validation.restarts, "starts of the segments, such as [0, 5000]", stored=False, time=POSITION
    )
    best: Any = param(REQUIRED, validation.best_arms, "best arm of every segment, such as [0, 2]", stored=False)
    following: int = variable(0, most=lambda scalars: scalars.segments - 1)  # changes so far
    begins: Ints = fixed_array(lambda scalars: scalars.segments - 1)
    best_arms: Ints = fixed_array(lambda scalars: scalars.segments)


def check(parameters: Mapping[str, Any], arms: int) -> None:
    """Refuse best arms that do not fit the arms or the segments."""
    starts, best = parameters["restarts"], parameters["best"]
    if not isinstance(starts, list) or not starts or starts[0] != 0:
        raise WrongValueError("restarts", starts, "the times at which segments begin, the first of them 0")
    if len(best) != len(starts):
        raise UserError(f"best has {len(best)} arms for {len(starts)} segments: give one for each of the restarts")
    if max(best) >= arms:
        raise UserError(f"best = {best!r}: arms are numbered 0 to {arms - 1}")


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of segments."""
    return {"segments": len(parameters["best"])}


def configure(state: Policy, parameters: Mapping[str, Any]) -> None:
    """Write the segments to the state."""
    state.begins[:] = restart_times(parameters)
    state.best_arms[:] = parameters["best"]


@inlined
def start(state: Policy) -> None:
    """Begin with the first segment."""
    forget(state)
    state.scalars[0].following = 0


@inlined
def begin_segment(state: Policy) -> None:
    """Begin the next segment."""
    scalars = state.scalars[0]
    scalars.following = min(scalars.following + 1, state.begins.size)


@inlined
def choose(state: Policy) -> int:
    """Return the arm that is best in this segment."""
    return state.best_arms[state.scalars[0].following]


@inner
def choose_ahead(state: Policy) -> int:
    """Return the best arm at the time when all pending reports will have arrived."""
    scalars = state.scalars[0]
    following = scalars.following
    while (
        following < state.begins.size
        and max(scalars.decisions, scalars.time + scalars.pending_total) >= state.begins[following]
    ):
        following += 1
    return state.best_arms[following]


@inlined
def observe(state: Policy, arm: int, feedback: float) -> None:
    """Count the feedback, and the segments."""
    count_feedback(state, arm, feedback)
    scalars = state.scalars[0]
    if scalars.following < state.begins.size and scalars.time == state.begins[scalars.following]:
        scalars.following += 1


@inlined
def score(state: Policy, arm: int) -> float:
    """Return 1 for the best arm, and 0 for the others."""
    return 1.0 if arm == choose(state) else 0.0
