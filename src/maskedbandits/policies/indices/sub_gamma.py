"""The index for feedback with a heavier tail than the normal, such as Laplace noise: p + sqrt(xi f / N) + tail f / N.

If E exp(l (y - mean)) <= exp(l^2 sigma^2 / (2 (1 - tail |l|))), the mean of N feedbacks exceeds its expectation by more
than sqrt(2 sigma^2 x) + tail x with probability at most exp(-N x) (Boucheron, Lugosi and Massart 2013, Concentration
inequalities, section 2.4). With x = f / N and xi = 2 sigma^2 this is the sub-Gaussian index and a term that matters
while there are few observations. Without it, one report far out in the tail could delay the best arm beyond any bound.
"""

import math

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import REQUIRED, param, record
from maskedbandits.policies import validation
from maskedbandits.policies.index.pending_scores import (  # noqa: F401 -- for all optimistic indices
    highest_open,
    highest_with_pending,
)
from maskedbandits.policies.index.scores import (  # noqa: F401 -- as above
    forget_all,
    highest_arm,
    retire,
    score,
    update_scores,
    widen,
)
from maskedbandits.policies.indices import ucb
from maskedbandits.policies.indices.ucb import check as check
from maskedbandits.policies.indices.ucb import common_level as common_level
from maskedbandits.policies.indices.ucb import completed as completed
from maskedbandits.policies.indices.ucb import max_bound as max_bound

WORDS = "sub-gamma index"
REFERENCE = "Boucheron et al. 2013"
ARMS_COME_AND_GO = True


@record
class Index(ucb.Index):
    """The weight of the tail."""

    tail: float = param(REQUIRED, validation.between(0, math.inf, above=True), "the scale of Laplace noise")


@inlined
def bound(state: Index, mean: float, spread: float) -> float:
    """Return the upper end of the confidence interval of the feedback mean."""
    return ucb.bound(state, mean, spread) + state.scalars[0].tail * spread


@inlined
def slope(state: Index, bound: float, bonus: float) -> float:
    """Return u' = sqrt(xi / 4 x) + tail; sqrt(x) is the root of bonus = sqrt(xi x) + tail x."""
    scalars = state.scalars[0]
    width = math.sqrt(scalars.xi)
    root = 2.0 * bonus / (width + math.sqrt(scalars.xi + 4.0 * scalars.tail * bonus))
    return 0.5 * width / root + scalars.tail
