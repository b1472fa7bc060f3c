"""EXP3.S: exponential weights that can rise again, tuned as in Corollary 8.3 of Auer et al. 2002."""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.state import param, record
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

SUMMARY = "exponential weights that can rise again, for adversaries"
REFERENCE = "Auer et al. 2002"


@record
class Policy(Weights):
    """What the tuning needs to know."""

    changes: int = param(
        1, validation.count, "how many segments to be ready for; a world that never changes has 1", stored=False
    )


def configure(state: Policy, parameters: Mapping[str, Any]) -> None:
    """Tune it for so many changes."""
    exp3_weights.configure(state, parameters)
    scalars, horizon = state.scalars[0], parameters["horizon"]
    effort = scalars.arms * (parameters["changes"] * math.log(scalars.arms * horizon) + math.e)
    scalars.gamma = min(1.0, math.sqrt(effort / ((math.e - 1.0) * horizon)))
    scalars.alpha = 1.0 / horizon
