"""Levels of confidence: how improbable a bound is to fail, as minus a logarithm."""

import math

from maskedbandits.compiled import compiled


@compiled
def exploration(x: float, c: float) -> float:
    """Return f(x) = log x + c log(max(1, log x)), for x >= 1."""
    log = math.log(x)
    return log + c * math.log(max(1.0, log))


@compiled
def plus_level(count: float, arms: float, horizon: float) -> float:
    """Return the level of KL-UCB++, which shrinks with the count instead of growing with time."""
    ratio = horizon / (arms * count)
    log = math.log(max(1.0, ratio))
    return math.log(max(1.0, ratio * (1.0 + log * log)))
