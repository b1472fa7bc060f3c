"""CUSUM: deviations from the mean of the first samples, added up on both sides.

With drift e and threshold h, the first M samples give a mean m; then ``g = max(0, g + x - m - e)`` and its mirror;
alarm when either is >= h (Liu, Lee & Shroff 2018, A change-detection based framework for piecewise-stationary
multi-armed bandits, AAAI).
"""

import math

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import Floats, given, record, section
from maskedbandits.policies import validation
from maskedbandits.policies.index.exploration import Watch


@record
class Deviations(Watch):
    """Deviations of an arm, added up on either side."""

    drift: float = given(0.05, validation.between(0, 1), "how far a mean may move without counting as changed")
    threshold: float = given(10.0, validation.between(0, math.inf), "the evidence of a change that raises the alarm")
    lengths: Floats = section(lambda own: own.arms, least=0.0, most=float(1 << 53))  # observations since the restart
    totals: Floats = section(lambda own: own.arms, least=0.0, most=float(1 << 53))  # and their sum
    rises: Floats = section(lambda own: own.arms, least=0.0)
    falls: Floats = section(lambda own: own.arms, least=0.0)


@record
class Detector(Deviations):
    """Deviations from the mean of the first samples."""

    samples: int = given(100, validation.count, "how many observations make the mean that later ones are held against")


@inlined
def restart(state: Deviations, arm: int) -> None:
    """Forget every observation of an arm."""
    state.lengths[arm] = 0.0
    state.totals[arm] = 0.0
    state.rises[arm] = 0.0
    state.falls[arm] = 0.0


@inner
def detects(state: Detector, arm: int, feedback: float, time: float) -> bool:
    """Learn a mean from the first samples, then add up the deviations from it."""
    samples = float(state.own[0].samples)
    state.lengths[arm] += 1.0
    if state.lengths[arm] <= samples:
        state.totals[arm] += feedback
        return False
    return deviates(state, arm, feedback - state.totals[arm] / max(samples, 1.0))


@inlined
def deviates(state: Deviations, arm: int, deviation: float) -> bool:
    """Add a deviation up on both sides, and tell whether either passes the threshold."""
    own = state.own[0]
    state.rises[arm] = max(0.0, state.rises[arm] + deviation - own.drift)
    state.falls[arm] = max(0.0, state.falls[arm] - deviation - own.drift)
    return max(state.rises[arm], state.falls[arm]) >= own.threshold
