"""From what is remembered of an arm to its score: optimistic indices, and draws from a posterior.

With N observations of mean p, the index of the paper (KL) has ``u`` the largest q with ``N d(p, q) <= f(t ^ w)``, and
is ``g^-1(u)`` for an increasing g. For a decreasing one it is ``g^-1(l)`` with the smallest such q; flipping the
feedback of such an arm (see ``core/corruption.py``) turns that into the first case. The index is not clipped to [0, 1]:
clipped, all arms would tie at 1 where privacy is strong, and play would be uniform. The others differ in u alone:

    UCB         p + sqrt(xi f / N), on the feedback scale (Gajane et al. 2018; Garivier and Moulines 2011)
    KL++        as KL with the level log+(r (1 + log+^2 r)), r = T / (K N) (Menard and Garivier 2017)
    Thompson    a draw from Beta(1 + S, 1 + N - S) (Gajane et al. 2018; Kaufmann et al. 2012)
"""

import math

import numpy as np
from numpy.typing import NDArray

from maskedbandits.core import kl
from maskedbandits.core.compiled import compiled, inlined

KL, UCB, KL_PLUS, THOMPSON, OWN = range(5)  # OWN: none of these, see own.py


@compiled
def exploration(x: float, c: float) -> float:
    """Return f(x) = log x + c log(max(1, log x)), for x >= 1."""
    log = math.log(x)
    return log + c * math.log(max(1.0, log))


@compiled
def kl_bound(mean: float, spread: float) -> float:
    """Return u, the upper end of the confidence interval of the feedback mean, with the spread f / N."""
    return kl.upper(min(max(mean, 0.0), 1.0), spread)


@inlined
def ucb_bound(mean: float, spread: float, xi: float) -> float:
    """Return the upper end of the sub-Gaussian confidence interval of the feedback mean, with the spread f / N."""
    return mean + math.sqrt(xi * spread)


@compiled
def plus_level(count: float, arms: float, horizon: float) -> float:
    """Return the level of KL-UCB++, which shrinks with the count instead of growing with time."""
    ratio = horizon / (arms * count)
    log = math.log(max(1.0, ratio))
    return math.log(max(1.0, ratio * (1.0 + log * log)))


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
        bounds[slot] = kl_bound(total / count, level / count)
    return bounds[slot]
