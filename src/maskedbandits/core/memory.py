"""What of the past counts: everything, the last ``window`` observations, or all of them at a discount.

A memory keeps, for every arm, how many observations count and the sum of their feedbacks. A window also keeps the
observations themselves in a ring, so that the oldest can be taken away again. A discount of gamma a step is kept by
giving later observations larger weights, 1, 1/gamma, 1/gamma^2, ..., and dividing by the weight of the latest when a
count is asked for: so one arm changes in a step, not all.
"""

from maskedbandits.core.compiled import compiled, inlined
from maskedbandits.core.state import FADE, GAMMA, MIXED, NOT_NEGATIVE, WEIGHT, State

ALL, SLIDING, DISCOUNTED = range(3)
NOBODY = -1
HEAVY = 1e100  # a weight at which all are scaled down


@inlined
def push(state: State, slot: int, full: bool, arm: int, feedback: float) -> int:
    """Take in an observation at the ring's slot; return the arm whose oldest one was pushed out, or NOBODY."""
    evicted = NOBODY
    if full:
        evicted = state.ring_arms[slot] & NOT_NEGATIVE
        state.counts[evicted] -= 1.0
        state.sums[evicted] -= state.ring_feedbacks[slot]
    if state.ring_arms.size > 0:
        state.ring_arms[slot] = arm
        state.ring_feedbacks[slot] = feedback
    weight = state.real[WEIGHT]
    state.counts[arm] += weight
    state.sums[arm] += weight * feedback
    return evicted


@compiled
def push_own(state: State, slot: int, full: bool, arm: int, low: float, span: float) -> None:
    """Take in the corruption of an observation, beside the observation itself."""
    if full:
        evicted = state.ring_arms[slot]
        state.low_sums[evicted] -= state.ring_lows[slot]
        state.span_sums[evicted] -= state.ring_spans[slot]
    if state.ring_arms.size > 0:
        state.ring_lows[slot] = low
        state.ring_spans[slot] = span
    state.low_sums[arm] += state.real[WEIGHT] * low
    state.span_sums[arm] += state.real[WEIGHT] * span


@compiled
def age(state: State) -> None:
    """Let one step pass under a discount: the next observation weighs more than all before."""
    state.real[WEIGHT] /= state.real[GAMMA]
    state.real[FADE] /= state.real[GAMMA]
    if state.real[WEIGHT] > HEAVY:
        scale = 1.0 / state.real[WEIGHT]
        for arm in range(state.counts.size):
            state.counts[arm] *= scale
            state.sums[arm] *= scale
        for arm in range(state.low_sums.size):
            state.low_sums[arm] *= scale
            state.span_sums[arm] *= scale
        state.real[WEIGHT] = 1.0


@compiled
def recount(state: State) -> None:
    """Add the sums up anew from a full ring: adding and taking away fractions leaves a rounding error behind."""
    state.sums[:] = 0.0
    for slot in range(state.ring_arms.size):
        state.sums[state.ring_arms[slot]] += state.ring_feedbacks[slot]
    if state.head[MIXED]:
        state.low_sums[:] = 0.0
        state.span_sums[:] = 0.0
        for slot in range(state.ring_arms.size):
            state.low_sums[state.ring_arms[slot]] += state.ring_lows[slot]
            state.span_sums[state.ring_arms[slot]] += state.ring_spans[slot]
