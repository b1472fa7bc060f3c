"""CUSUM: deviations from the mean of the first samples, added up on both sides.

With drift e and threshold h, the first M samples give a mean m; then ``g = max(0, g + x - m - e)`` and its mirror;
alarm when either is >= h (Liu, Lee & Shroff 2018, A change-detection based framework for piecewise-stationary
multi-armed bandits, AAAI).
"""

import math

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import Floats, array, param, record
from maskedbandits.policies import validation
from maskedbandits.policies.restarts.detected import Restarts


@record
class Deviations(Restarts):
    """Cumulated deviations of an arm, on either side."""

    drift: float = param(0.05, validation.between(0, 1), "largest shift of a mean that is not a change")
    threshold: float = param(10.0, validation.between(0, math.inf), "evidence at which a change is detected")
    lengths: Floats = array(
        lambda scalars: scalars.arms, least=0.0, most=float(1 << 53)
    )  # observations since the restart
    totals: Floats = array(lambda scalars: scalars.arms, least=0.0, most=float(1 << 53))  # and their sum
    rises: Floats = array(lambda scalars: scalars.arms, least=0.0)
    falls: Floats = array(lambda scalars: scalars.arms, least=0.0)


@record
class Detector(Deviations):
    """Deviations from the mean of the first samples."""

    samples: int = param(100, validation.count, "number of observations for the reference mean")


@inlined
def restart(state: Deviations, arm: int) -> None:
    """Forget every observation of an arm."""
    state.lengths[arm] = 0.0
    state.totals[arm] = 0.0
    state.rises[arm] = 0.0
    state.falls[arm] = 0.0


@inner
def detects(state: Detector, arm: int, feedback: float, time: float) -> bool:
    """Estimate a mean from the first samples, then cumulate deviations from it."""
    samples = float(state.scalars[0].samples)
    state.lengths[arm] += 1.0
    if state.lengths[arm] <= samples:
        state.totals[arm] += feedback
        return False
    return deviates(state, arm, feedback - state.totals[arm] / max(samples, 1.0))


@inlined
def deviates(state: Deviations, arm: int, deviation: float) -> bool:
    """Add a deviation on both sides; return whether either passes the threshold."""
    scalars = state.scalars[0]
    state.rises[arm] = max(0.0, state.rises[arm] + deviation - scalars.drift)
    state.falls[arm] = max(0.0, state.falls[arm] - deviation - scalars.drift)
    return max(state.rises[arm], state.falls[arm]) >= scalars.threshold
