"""Thompson sampling: a draw from Beta(1 + S, 1 + N - S) (Gajane et al. 2018; Kaufmann et al. 2012)."""

import math

from maskedbandits._numba.jit import inner
from maskedbandits.math import beta
from maskedbandits.policies import memories
from maskedbandits.policies.index.state import Axes, mean_of

DRAWS_FROM = "posterior"
ARMS_COME_AND_GO = True
WORDS = "Thompson sampling"
REFERENCE = "Gajane et al. 2018; Kaufmann et al. 2012"

Index = Axes


@inner
def highest_arm(state: Axes) -> int:
    """Return the arm with the highest draw from the posterior of its mean."""
    scalars = state.scalars[0]
    counts, sums, words = state.counts, state.sums, state.rng  # looked up once, outside the loop
    lows, rates, straight, closed = state.lows, state.rates, not (scalars.mixed or scalars.curved), state.closed
    best = -math.inf
    chosen = 0
    fading = memories.inverse_weight(state)
    for arm in range(scalars.arms):
        if closed[arm]:
            continue
        count = counts[arm] * fading
        total = min(max(sums[arm] * fading, 0.0), count)
        if scalars.mixed and count <= 0.0:
            return arm  # without an observation there is no mask to invert
        drawn = beta.draw(words, 1.0 + total, 1.0 + count - total)
        value = (drawn - lows[arm]) * rates[arm] if straight else mean_of(state, arm, drawn)
        if value > best:
            best = value
            chosen = arm
    return chosen


@inner
def score(state: Axes, arm: int) -> float:
    """Return the mean of the posterior."""
    heavy = memories.weight(state)
    count = state.counts[arm] / heavy
    total = state.sums[arm] / heavy
    if state.scalars[0].mixed and count <= 0.0:
        return math.inf
    return mean_of(state, arm, (1.0 + total) / (2.0 + count))
