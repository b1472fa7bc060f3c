"""The corruption of one arm, as the compiled code sees it: an increasing polyline and a flip.

A decreasing g of a feedback is the increasing 1 - g of the flipped feedback. So kernels only need increasing functions,
and the policy flips the feedback. A polyline through the nodes (mean, feedback) is exact for randomised response
(two nodes) and a measured approximation for any other g. Outside [0, 1] every g continues as a straight line with
its secant slope g(1) - g(0).
"""

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled


@compiled
def _cell(nodes: NDArray[np.float64], value: float, first: int, last: int) -> int:
    """Return the i with nodes[i] <= value < nodes[i + 1], by bisection."""
    while last - first > 1:
        middle = (first + last) >> 1
        if nodes[middle] <= value:
            first = middle
        else:
            last = middle
    return first


@compiled
def inverse(y: float, means: NDArray[np.float64], feedbacks: NDArray[np.float64], first: int, last: int) -> float:
    """Return the mean whose feedback mean is y, on the polyline through the increasing nodes first to last."""
    low = feedbacks[first]
    high = feedbacks[last]
    if y <= low:
        return (y - low) / (high - low)
    if y >= high:
        return 1.0 + (y - high) / (high - low)
    left = _cell(feedbacks, y, first, last)
    share = (y - feedbacks[left]) / (feedbacks[left + 1] - feedbacks[left])
    return means[left] + share * (means[left + 1] - means[left])
