"""REXP3: exponential weights (``exp3_weights.py``) that begin anew after every batch (Besbes, Gur and Zeevi 2014)."""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.state import REQUIRED, param, record
from maskedbandits.policies import exp3_weights, validation
from maskedbandits.policies.exp3_weights import (  # noqa: F401 -- it plays by them
    DRAWS_FROM,
    LEARNS_FROM,
    Weights,
    choose,
    observe,
    score,
    start,
)

SUMMARY = "exponential weights, restarted as a variation budget asks"
REFERENCE = "Besbes et al. 2014"


@record
class Policy(Weights):
    """What the tuning needs to know."""

    variation: float = param(
        REQUIRED,
        validation.between(0, math.inf),
        "by how much the means move in all, such as problem.variation",
        stored=False,
    )


def configure(state: Policy, parameters: Mapping[str, Any]) -> None:
    """Tune it for such a variation (their Theorem 2)."""
    exp3_weights.configure(state, parameters)
    scalars, horizon = state.scalars[0], parameters["horizon"]
    effort = scalars.arms * math.log(scalars.arms)
    budget = parameters["variation"] / scalars.width  # gains move by that much less than means
    batch = effort ** (1 / 3) * (horizon / budget) ** (2 / 3) if budget > 0.0 else math.inf
    length = max(1, math.ceil(min(batch, horizon)))
    scalars.batch = length
    scalars.gamma = min(1.0, math.sqrt(effort / ((math.e - 1.0) * length)))
