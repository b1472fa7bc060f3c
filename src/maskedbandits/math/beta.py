"""Draws from Beta distributions: quick ones for Thompson sampling, with shapes of at least 1, and any others."""

import math

from maskedbandits._numba.jit import compiled
from maskedbandits.math import rng
from maskedbandits.math.rng import Words


@compiled
def _gamma(words: Words, shape: float) -> float:
    """Draw from the Gamma distribution of a shape of at least 1 (Marsaglia and Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = rng.normal(words)
        root = 1.0 + c * x
        if root <= 0.0:
            continue
        v = root * root * root
        u = rng.uniform(words)
        square = x * x
        if u < 1.0 - 0.0331 * square * square:
            return d * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return d * v


@compiled
def draw(words: Words, a: float, b: float) -> float:
    """Draw from Beta(a, b), a and b at least 1."""
    x = _gamma(words, a)
    return x / (x + _gamma(words, b))


@compiled
def _log_gamma(words: Words, shape: float) -> float:
    """Draw the logarithm of a Gamma number of any shape above 0 (Marsaglia and Tsang 2000, section 6)."""
    return math.log(_gamma(words, shape + 1.0)) + math.log(1.0 - rng.uniform(words)) / shape


@compiled
def draw_around(words: Words, mean: float, concentration: float) -> float:
    """Draw from Beta(mean c, (1 - mean) c), whose shapes may be below 1: by logarithms, as small ones underflow."""
    if mean <= 0.0 or mean >= 1.0:
        return mean
    x = _log_gamma(words, mean * concentration)
    y = _log_gamma(words, (1.0 - mean) * concentration)
    return 1.0 / (1.0 + math.exp(min(y - x, 700.0)))


LARGE = 20.0  # from these shapes on, a Beta distribution is nearly a normal one with some skew


@compiled
def draw_near(words: Words, a: float, b: float, width: float) -> float:
    """Draw from Beta(a, b), and return a number that is ``width`` times as far from the mean.

    For large shapes it draws a normal number and corrects its skew (Cornish and Fisher 1937). The mean is exact; the
    variance and the third moment are exact up to terms of the next order.
    """
    whole = a + b
    mean = a / whole
    if a < LARGE or b < LARGE:
        return mean + width * (draw(words, a, b) - mean)
    z = rng.normal(words)
    spread = math.sqrt(mean * (1.0 - mean) / (whole + 1.0))
    bend = (1.0 - 2.0 * mean) / (3.0 * (whole + 2.0))
    return mean + width * (spread * z + bend * (z * z - 1.0))
