"""From what is remembered of an arm to its score: the optimistic index of the paper.

With N observations of mean p, ``u`` is the largest q with ``N d(p, q) <= f(t ^ w)`` and the index is ``g^-1(u)``,
for an increasing g. For a decreasing one it is ``g^-1(l)`` with the smallest such q; flipping the feedback of such an
arm (see ``core/corruption.py``) turns that into the first case. The index is not clipped to [0, 1]: clipped, all arms
would tie at 1 where privacy is strong, and play would be uniform.
"""

import math

import numpy as np
from numpy.typing import NDArray

from maskedbandits.core import kl
from maskedbandits.core.compiled import compiled, inlined


@compiled
def exploration(x: float, c: float) -> float:
    """Return f(x) = log x + c log(max(1, log x)), for x >= 1."""
    log = math.log(x)
    return log + c * math.log(max(1.0, log))


@compiled
def kl_bound(count: float, total: float, level: float) -> float:
    """Return u, the upper end of the confidence interval of the feedback mean."""
    return kl.upper(min(max(total / count, 0.0), 1.0), level / count)


@inlined
def remembered_kl_bound(
    count: float, total: float, level: float, keys: NDArray[np.int64], bounds: NDArray[np.float64]
) -> float:
    """Return kl_bound for whole numbers, looked up if the same were seen before at the same level.

    Once the window is full the level stays, and (count, total) walks over few values. Totals that differ by one
    lie side by side in the memo, since that is the step that the walk takes most often.
    """
    n = int(count)
    s = int(total)
    slot = (n * 977 + s) & (keys.size - 1)
    key = (n << 32) | s
    if keys[slot] != key:
        keys[slot] = key
        bounds[slot] = kl_bound(count, total, level)
    return bounds[slot]
