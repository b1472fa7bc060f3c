"""The index for feedback with a heavier tail than a normal one, such as Laplace noise: p + sqrt(xi f / N) + tail f / N.

Where E exp(l (y - mean)) <= exp(l^2 sigma^2 / (2 (1 - tail |l|))), the mean of N feedbacks is above
sqrt(2 sigma^2 x) + tail x with a probability of at most exp(-N x) (Boucheron, Lugosi and Massart 2013, Concentration
inequalities, section 2.4): so with x = f / N and xi = 2 sigma^2 this is the sub-Gaussian index and a term that counts
while there are few observations. Without it, one report far out in the tail could keep the best arm from being pulled
for a time that no bound covers.
"""

import math

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import REQUIRED, param, record
from maskedbandits.policies import validation
from maskedbandits.policies.index.pending_scores import (  # noqa: F401 -- what every optimistic index has
    highest_ahead,
    highest_open,
)
from maskedbandits.policies.index.scores import (  # noqa: F401 -- as above
    bring_up_to_date,
    forget_all,
    highest_arm,
    retire,
    score,
    widen,
)
from maskedbandits.policies.indices import ucb
from maskedbandits.policies.indices.ucb import check as check
from maskedbandits.policies.indices.ucb import completed as completed
from maskedbandits.policies.indices.ucb import highest as highest
from maskedbandits.policies.indices.ucb import level_of as level_of

WORDS = "sub-gamma index"
REFERENCE = "Boucheron et al. 2013"
ARMS_COME_AND_GO = True


@record
class Index(ucb.Index):
    """How heavy the tail is."""

    tail: float = param(REQUIRED, validation.between(0, math.inf, above=True), "the scale of Laplace noise")


@inlined
def bound(state: Index, mean: float, spread: float) -> float:
    """Return the upper end of the confidence interval of the feedback mean."""
    return ucb.bound(state, mean, spread) + state.scalars[0].tail * spread


@inlined
def slope(state: Index, bound: float, bonus: float) -> float:
    """Return u' = sqrt(xi / 4 x) + tail, where the bonus is sqrt(xi x) + tail x: of which sqrt(x) is a root."""
    scalars = state.scalars[0]
    width = math.sqrt(scalars.xi)
    root = 2.0 * bonus / (width + math.sqrt(scalars.xi + 4.0 * scalars.tail * bonus))
    return 0.5 * width / root + scalars.tail
