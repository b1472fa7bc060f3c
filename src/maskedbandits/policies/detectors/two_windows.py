"""Two windows: alarm when the sums of the last w/2 observations and of the w/2 before differ by more than h.

After Cao, Wen, Kveton & Xie 2019, Nearly optimal adaptive procedure with change detection for piecewise-stationary
bandit, AISTATS.
"""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inner
from maskedbandits._numba.state import Floats, Ints, array, param, record, size
from maskedbandits.policies import validation
from maskedbandits.policies.restarts.detected import Restarts


@record
class Detector(Restarts):
    """A ring of observations of every arm."""

    ring: int = size()  # w, an even number
    width: int = param(200, validation.count, "number of observations in both windows", stored=False)
    threshold: float = param(30.0, validation.between(0, math.inf), "evidence at which a change is detected")
    lengths: Floats = array(lambda scalars: scalars.arms, least=0.0, most=lambda scalars: scalars.ring)
    recent: Floats = array(lambda scalars: scalars.arms)  # sum of the last w/2
    older: Floats = array(lambda scalars: scalars.arms)  # and of those before
    slots: Ints = array(lambda scalars: scalars.arms, least=0, most=lambda scalars: scalars.ring - 1)
    rings: Floats = array(lambda scalars: scalars.arms * scalars.ring, least=0.0, most=1.0)


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return the length of the rings."""
    return {"ring": 2 * (max(parameters["width"], 2) // 2)}


@inner
def restart(state: Detector, arm: int) -> None:
    """Forget every observation of an arm."""
    window = state.scalars[0].ring
    state.lengths[arm] = 0.0
    state.recent[arm] = 0.0
    state.older[arm] = 0.0
    state.slots[arm] = 0
    state.rings[arm * window : (arm + 1) * window] = 0.0


@inner
def detects(state: Detector, arm: int, feedback: float, time: float) -> bool:
    """Compare the sums of the two halves of a ring."""
    scalars = state.scalars[0]
    window = scalars.ring
    half = window // 2
    slot = state.slots[arm]
    ring = state.rings[arm * window : (arm + 1) * window]
    passing = ring[slot - half if slot >= half else slot + half]  # from the recent half to the older one
    state.recent[arm] += feedback - passing
    state.older[arm] += passing - ring[slot]
    ring[slot] = feedback
    state.slots[arm] = slot + 1
    if slot + 1 == window:  # recompute the sums, to remove rounding errors of fractions
        state.slots[arm] = 0
        state.older[arm] = 0.0
        state.recent[arm] = 0.0
        for place in range(half):
            state.older[arm] += ring[place]
            state.recent[arm] += ring[half + place]
    state.lengths[arm] = min(state.lengths[arm] + 1.0, float(window))
    return state.lengths[arm] == window and abs(state.recent[arm] - state.older[arm]) > scalars.threshold
