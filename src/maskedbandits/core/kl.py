"""Kullback-Leibler divergence between Bernoulli distributions, and its inverse on either side.

With ``d(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q))``, ``upper(p, x)`` is the largest ``q`` with
``d(p, q) <= x``, and ``lower(p, x)`` the smallest, which is ``1 - upper(1-p, x)``.

The inverse is solved for ``z = q - p`` rather than for ``q``, and through ``log1p``: where ``x`` is tiny the two
logarithms of ``d`` cancel, and ``z`` is what keeps its digits. In ``z`` the function

    h(z) = d(p, p + z) - x,   h' = z / (q (1-q)),   h'' = p / q^2 + (1-p) / (1-q)^2

is convex and increasing on ``(0, 1-p)``, so that Halley's steps (cubic convergence) settle in two or three from the
start chosen below; a bracket catches the step that would leave it.
"""

import math

from maskedbandits.core.compiled import compiled

TINY = 1e-16  # a mean this close to 0 is 0: the inverse moves by less than 1e-13


@compiled
def divergence(p: float, q: float) -> float:
    """Return d(p, q); infinite when q excludes what p allows."""
    total = 0.0
    if p > 0.0:
        if q <= 0.0:
            return math.inf
        total += p * math.log(p / q)
    if p < 1.0:
        if q >= 1.0:
            return math.inf
        total += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return max(total, 0.0)


@compiled
def _start(p: float, x: float) -> float:
    """Guess z: from the expansion at p for a small x, from the logarithm's pole at 1 for a large one."""
    rest = 1.0 - p
    variance = p * rest
    scale = math.sqrt(2.0 * variance * x)
    near = scale + (2.0 / 3.0) * (1.0 - 2.0 * p) * x
    if near < 0.5 * rest and scale < 2.0 * p:
        third = (1.0 - 11.0 * variance) / (36.0 * variance) if scale < 0.5 * variance else 0.0
        return near + third * scale * x * 2.0
    # 1 - q solves (1-p) log(1-q) = -(x + H(p)) - p log q: twice, starting from q = 1
    entropy = -p * math.log(p) - rest * math.log(rest)
    gap = math.exp(-(x + entropy) / rest)
    gap = math.exp(-(x + entropy + p * math.log1p(-min(gap, 0.5 * rest))) / rest)
    return rest - min(gap, 0.5 * rest)


@compiled
def upper(p: float, x: float) -> float:
    """Return the largest q in [p, 1] with d(p, q) <= x, within 1e-12."""
    if x <= 0.0 or p >= 1.0:
        return p
    if p < TINY:
        return max(p, -math.expm1(-x))
    rest = 1.0 - p
    if x > 33.0 * rest:
        return 1.0  # d(p, q) <= (1-p) log((1-p) / (1-q)), so that 1 - q is below exp(-33)
    low = 0.0
    high = min(rest * (1.0 - 5e-16), math.sqrt(0.5 * x))  # short of the pole; Pinsker: d >= 2 z^2
    z = _start(p, x)
    if not low < z < high:
        z = 0.5 * high
    for _ in range(64):
        q = p + z
        gap = rest - z
        h = -p * math.log1p(z / p) - rest * math.log1p(-z / rest) - x
        if h > 0.0:
            high = z
        else:
            low = z
        first = z / (q * gap)
        second = p / (q * q) + rest / (gap * gap)
        newton = h / first
        step = newton / max(1.0 - 0.5 * newton * second / first, 0.5)
        z -= step
        if abs(step) <= 1e-5 * min(z, rest - z):  # cubic: the next step would be below 1e-14
            break
        if not low < z < high:
            z = 0.5 * (low + high)
    return min(p + min(max(z, low), high), 1.0)


@compiled
def lower(p: float, x: float) -> float:
    """Return the smallest q in [0, p] with d(p, q) <= x, within 1e-12."""
    return 1.0 - upper(1.0 - p, x)
