"""The sub-Gaussian index: p + sqrt(xi f / N), on the feedback scale (Gajane et al. 2018; Garivier & Moulines 2011)."""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import param, record
from maskedbandits.errors import UserError
from maskedbandits.math.confidence import exploration
from maskedbandits.policies import validation
from maskedbandits.policies.index.pending_scores import (  # noqa: F401 -- for all optimistic indices
    highest_open,
    highest_with_pending,
)
from maskedbandits.policies.index.scores import (  # noqa: F401 -- as above
    Scores,
    forget_all,
    highest_arm,
    retire,
    score,
    update_scores,
    widen,
)
from maskedbandits.policies.indices import STEEP

WORDS = "UCB index"
REFERENCE = "Gajane et al. 2018; Garivier & Moulines 2011"
ARMS_COME_AND_GO = True


@record
class Index(Scores):
    """The level f(x) = log x + c log log x, and the width of intervals."""

    c: float = param(0.0, validation.between(0, math.inf), "factor of log log t in the exploration")
    xi: float = param(
        2.0, validation.between(0, math.inf), "width of confidence intervals, sqrt(xi f(t) / N) with N observations"
    )


def completed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter that follows from sigma (``divergences.py``): xi = 2 sigma^2."""
    sigma = parameters.get("sigma")
    return {} if sigma is None else {"xi": 2.0 * sigma**2}


def check(parameters: Mapping[str, Any], arms: int) -> None:
    """Refuse contamination where feedback is unbounded."""
    if parameters.get("sigma") is not None and parameters["contamination"] > 0.0:
        raise UserError("contamination: lies are unbounded when feedback is; leave out contamination")


@inlined
def common_level(state: Index, seen: float) -> float:
    """Return f of the number of observations of all arms that count."""
    return exploration(max(1.0, seen), state.scalars[0].c)


@inlined
def bound(state: Index, mean: float, spread: float) -> float:
    """Return the upper end of the sub-Gaussian confidence interval of the feedback mean."""
    return mean + math.sqrt(state.scalars[0].xi * spread)


@inlined
def slope(state: Index, bound: float, bonus: float) -> float:
    """Return u' = xi / (2 sqrt(xi x))."""
    return 0.5 * state.scalars[0].xi / bonus


@inlined
def max_bound(state: Index) -> float:
    """Return an upper limit of all bounds."""
    return STEEP
