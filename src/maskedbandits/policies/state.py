"""What every policy keeps: its arms, what was seen of them, how they are masked, and lots to draw."""

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import Floats, Ints, Words, derived, fixed, gathered, record, section, size
from maskedbandits.math import piecewise
from maskedbandits.policies.pending import FOREVER, Pending, await_nothing

NOT_NEGATIVE = FOREVER - 1  # a mask that tells the compiler that an index is none of Python's negative ones


@record
class Arms(Pending):
    """A policy's arms; one corruption may serve several, whose polylines share their nodes."""

    nodes: int = size(2)
    curved: int = derived()  # 1 if the polyline of some arm is no straight line, as that of randomised response is
    time: int = gathered(0, most=FOREVER)  # observations taken in
    alarms: int = gathered(0, most=FOREVER)  # changes seen
    retired: int = gathered(0, most=lambda own: own.arms - 1)  # arms that are
    lots: Words = section(lambda own: 4, scratch=True)
    closed: Ints = section(lambda own: own.arms, least=0, most=1)  # 1 if the arm is retired: it is never chosen again
    counts: Floats = section(lambda own: own.arms, least=0.0, most=1e200)  # observations that count, or their weights
    sums: Floats = section(lambda own: own.arms, least=-1e200, most=1e200)  # their feedbacks, flipped where g decreases
    flips: Ints = fixed(lambda own: own.arms)  # 1 where g decreases
    first_node: Ints = fixed(lambda own: own.arms)  # the arm's polyline among the nodes
    last_node: Ints = fixed(lambda own: own.arms)
    node_means: Floats = fixed(lambda own: own.nodes)
    node_feedbacks: Floats = fixed(lambda own: own.nodes)
    lows: Floats = fixed(lambda own: own.arms)  # its first feedback
    rates: Floats = fixed(lambda own: own.arms)  # one over its secant slope


@inlined
def mean_behind(state: Arms, arm: int, feedback_mean: float) -> float:
    """Return the inverse of the arm's (increasing) corruption."""
    first = state.first_node[arm]
    last = state.last_node[arm]
    if not state.own[0].curved or last == first + 1:
        return (feedback_mean - state.lows[arm]) * state.rates[arm]
    return piecewise.inverse(feedback_mean, state.node_means, state.node_feedbacks, first, last)


@inlined
def forget(state: Arms) -> None:
    """Forget everything, also the time."""
    own = state.own[0]
    own.time = 0
    own.alarms = 0
    for arm in range(own.arms):
        state.counts[arm] = 0.0
        state.sums[arm] = 0.0
    await_nothing(state)


@inlined
def flipped(state: Arms, arm: int, feedback: float) -> float:
    """Return the feedback as an increasing corruption would have shown it."""
    return 1.0 - feedback if state.flips[arm] else feedback


@inlined
def counted(state: Arms, arm: int, feedback: float) -> float:
    """Count a feedback, and return it as an increasing corruption would have shown it."""
    state.own[0].time += 1
    feedback = flipped(state, arm, feedback)
    state.counts[arm] += 1.0
    state.sums[arm] += feedback
    return feedback
