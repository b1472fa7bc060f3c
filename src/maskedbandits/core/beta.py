"""Draws from Beta distributions, as Thompson sampling needs them: many, with shapes of at least 1."""

import math

import numpy as np

from maskedbandits.core.compiled import compiled


@compiled
def _gamma(rng: np.random.Generator, shape: float) -> float:
    """Draw from the Gamma distribution of a shape of at least 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = rng.standard_normal()
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v = root * root * root
        u = rng.random()
        square = x * x
        if u < 1.0 - 0.0331 * square * square:
            return d * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return d * v


@compiled
def draw(rng: np.random.Generator, a: float, b: float) -> float:
    """Draw from Beta(a, b), a and b at least 1."""
    x = _gamma(rng, a)
    return x / (x + _gamma(rng, b))
