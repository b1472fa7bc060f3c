"""Kullback-Leibler divergence between Bernoulli distributions, and its inverse on either side.

With ``d(p, q) = p log(p/q) + (1-p) log((1-p)/(1-q))``, ``upper(p, x)`` is the largest ``q`` with
``d(p, q) <= x``, and ``lower(p, x)`` the smallest, which is ``1 - upper(1-p, x)``.

The inverse is solved for ``z = q - p`` rather than for ``q``, so that it keeps its digits where ``x`` is tiny. With
``v = p (1-p)``, ``s = sqrt(2 v x)`` and ``r = s / v``, the power series of the inverse,

    z = s (1 + (1-2p)/3 r + (1-13v)/36 r^2 - ...),

is all that is needed for ``r < 0.25``, as for arms that were pulled often. Elsewhere Halley's steps (of cubic
convergence) on

    h(z) = d(p, p + z) - x,   h' = z / (q (1-q)),   h'' = p / q^2 + (1-p) / (1-q)^2,

which is convex and increasing on ``(0, 1-p)``, settle in one to three from the start chosen below; a bracket catches
the step that would leave it.
"""

import math

from maskedbandits._numba.jit import compiled

TINY = 1e-16  # a mean this close to 0 is 0: the inverse moves by less than 1e-13


@compiled
def divergence(p: float, q: float) -> float:
    """Return d(p, q); infinite when q excludes what p allows."""
    z = q - p
    if abs(z) < 0.1 * min(p, 1.0 - p):  # the two terms nearly cancel: keep the digits of z
        return max(0.0, -p * math.log1p(z / p) - (1.0 - p) * math.log1p(-z / (1.0 - p)))
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
def _series(p: float, s: float, r: float) -> float:
    """Return z by its power series: its error is below 1e-12 for r < 0.25, and below 1e-5 z for r < 1.2."""
    v = p * (1.0 - p)
    skew = 1.0 - 2.0 * p
    tail = 0.0
    if r > 0.15:
        c8 = (-571.0 + v * (8956.0 + v * (-13074.0 + v * (-224804.0 + v * 2697077.0)))) / 2351462400.0
        c9 = skew * (-281.0 + v * (-40.0 + v * (2184.0 + v * (11186.0 + v * 268183.0)))) / 1515591000.0
        c10 = 163879.0 + v * (-771431.0 + v * (63094.0 + v * (1106210.0 + v * (18879539.0 - v * 226718347.0))))
        tail = r * (c8 + r * (c9 + r * c10 / 2172751257600.0))
    c2 = (1.0 - 13.0 * v) / 36.0
    c3 = -skew * (1.0 + 23.0 * v) / 270.0
    c4 = (1.0 + v * (-26.0 + v * 313.0)) / 4320.0
    c5 = skew * (1.0 + v * (10.0 + v * 241.0)) / 17010.0
    c6 = -(139.0 + v * (-237.0 + v * (-4695.0 + v * 56201.0))) / 5443200.0
    c7 = skew * (1.0 - v * (3.0 + v * (15.0 + v * 361.0))) / 204120.0
    near = r * (c2 + r * (c3 + r * (c4 + r * (c5 + r * (c6 + r * (c7 + tail))))))
    return s * (1.0 + r * (skew / 3.0 + near))


@compiled
def _start(p: float, x: float, s: float, r: float) -> float:
    """Guess z: from the series for a small x, from the logarithm's pole at 1 for a large one."""
    if r < 2.0:
        return _series(p, s, r)
    rest = 1.0 - p
    near = s * (1.0 + r * (1.0 - 2.0 * p) / 3.0)
    if near < 0.5 * rest and s < 2.0 * p:
        return near
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
    v = p * rest
    s = math.sqrt(2.0 * v * x)
    r = s / v
    if r < 0.25:
        return p + _series(p, s, r)
    return p + _solve(p, x, _start(p, x, s, r))


@compiled
def _solve(p: float, x: float, z: float) -> float:
    """Return the root of h, starting from a guess."""
    rest = 1.0 - p
    low = 0.0
    high = min(rest * (1.0 - 5e-16), math.sqrt(0.5 * x))  # short of the pole; Pinsker: d >= 2 z^2
    if not low < z < high:
        z = 0.5 * high
    for _ in range(64):
        one_over_q = 1.0 / (p + z)
        one_over_gap = 1.0 / (rest - z)
        left = p * one_over_q
        right = rest * one_over_gap
        h = p * math.log(left) + rest * math.log(right) - x
        if h > 0.0:
            high = z
        else:
            low = z
        first = z * one_over_q * one_over_gap
        second = left * one_over_q + right * one_over_gap
        square = first * first
        step = h * first / max(square - 0.5 * h * second, 0.5 * square)
        z -= step
        if abs(step) <= max(1e-5 * min(z, rest - z), 1e-14):  # cubic: the next step would be below 1e-14
            break
        if not low < z < high:
            z = 0.5 * (low + high)
    return min(max(z, low), high)


@compiled
def lower(p: float, x: float) -> float:
    """Return the smallest q in [0, p] with d(p, q) <= x, within 1e-12."""
    return 1.0 - upper(1.0 - p, x)
