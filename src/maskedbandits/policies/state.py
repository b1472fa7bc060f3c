"""The state of every policy: its arms, their feedback, their masks, and a random generator."""

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import Floats, Ints, Words, array, computed, fixed_array, record, size, variable
from maskedbandits.math import piecewise
from maskedbandits.policies.pending import FOREVER, Pending, clear_pending

NOT_NEGATIVE = FOREVER - 1  # a mask that tells the compiler that an index is not negative


@record
class Arms(Pending):
    """A policy's arms; one corruption may serve several, whose polylines share their nodes."""

    nodes: int = size(2)
    curved: int = computed()  # 1 if the polyline of some arm is not a straight line; that of randomised response is
    time: int = variable(0, most=FOREVER)  # observations taken in
    alarms: int = variable(0, most=FOREVER)  # changes seen
    retired: int = variable(0, most=lambda scalars: scalars.arms - 1)  # arms that are
    rng: Words = array(lambda scalars: 4, scratch=True)
    closed: Ints = array(
        lambda scalars: scalars.arms, least=0, most=1
    )  # 1 if the arm is retired: it is never chosen again
    counts: Floats = array(
        lambda scalars: scalars.arms, least=0.0, most=1e200
    )  # observations that count, or their weights
    sums: Floats = array(
        lambda scalars: scalars.arms, least=-1e200, most=1e200
    )  # their feedbacks, flipped where g decreases
    flips: Ints = fixed_array(lambda scalars: scalars.arms)  # 1 where g decreases
    first_node: Ints = fixed_array(lambda scalars: scalars.arms)  # the arm's polyline among the nodes
    last_node: Ints = fixed_array(lambda scalars: scalars.arms)
    node_means: Floats = fixed_array(lambda scalars: scalars.nodes)
    node_feedbacks: Floats = fixed_array(lambda scalars: scalars.nodes)
    lows: Floats = fixed_array(lambda scalars: scalars.arms)  # its first feedback
    rates: Floats = fixed_array(lambda scalars: scalars.arms)  # one over its secant slope


@inlined
def mean_behind(state: Arms, arm: int, feedback_mean: float) -> float:
    """Return the inverse of the arm's (increasing) corruption."""
    first = state.first_node[arm]
    last = state.last_node[arm]
    if not state.scalars[0].curved or last == first + 1:
        return (feedback_mean - state.lows[arm]) * state.rates[arm]
    return piecewise.inverse(feedback_mean, state.node_means, state.node_feedbacks, first, last)


@inlined
def forget(state: Arms) -> None:
    """Forget everything, also the time."""
    scalars = state.scalars[0]
    scalars.time = 0
    scalars.alarms = 0
    for arm in range(scalars.arms):
        state.counts[arm] = 0.0
        state.sums[arm] = 0.0
    clear_pending(state)


@inlined
def flip_feedback(state: Arms, arm: int, feedback: float) -> float:
    """Return the feedback as an increasing corruption would have shown it."""
    return 1.0 - feedback if state.flips[arm] else feedback


@inlined
def count_feedback(state: Arms, arm: int, feedback: float) -> float:
    """Count a feedback, and return it as an increasing corruption would have shown it."""
    state.scalars[0].time += 1
    feedback = flip_feedback(state, arm, feedback)
    state.counts[arm] += 1.0
    state.sums[arm] += feedback
    return feedback
