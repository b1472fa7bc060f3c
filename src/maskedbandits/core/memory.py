"""What of the past counts: everything, or the last ``window`` observations.

A memory keeps, for every arm, how many observations count and the sum of their feedbacks. A window also keeps the
observations themselves in a ring, so that the oldest can be taken away again. All is a window without a ring.
"""

import numpy as np
from numpy.typing import NDArray

from maskedbandits.core.compiled import compiled, inlined

NOBODY = -1


@inlined
def push(
    counts: NDArray[np.float64],
    sums: NDArray[np.float64],
    ring_arms: NDArray[np.int64],
    ring_feedbacks: NDArray[np.float64],
    slot: int,
    full: bool,
    arm: int,
    feedback: float,
) -> int:
    """Take in an observation at the ring's slot; return the arm whose oldest one was pushed out, or NOBODY."""
    evicted = NOBODY
    if full:
        evicted = ring_arms[slot] & (1 << 62) - 1  # never negative: this spares the compiler Python's wrap-around
        counts[evicted] -= 1.0
        sums[evicted] -= ring_feedbacks[slot]
    if ring_arms.size > 0:
        ring_arms[slot] = arm
        ring_feedbacks[slot] = feedback
    counts[arm] += 1.0
    sums[arm] += feedback
    return evicted


@compiled
def recount(sums: NDArray[np.float64], ring_arms: NDArray[np.int64], ring_feedbacks: NDArray[np.float64]) -> None:
    """Add the sums up anew from a full ring: adding and taking away fractions leaves a rounding error behind."""
    sums[:] = 0.0
    for slot in range(ring_arms.size):
        sums[ring_arms[slot]] += ring_feedbacks[slot]
