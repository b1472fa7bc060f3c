"""Confidence intervals for adaptive logs: exact ones for any number of reports, and narrower approximate ones.

Decisions depend on earlier reports, so the terms X of a sum depend on each other. Let g be a prediction of each X from
earlier terms, at a distance of at most c. Then for every l in [0, 1/c)

    exp(l (X - g) - psi(l) (X - g)^2) <= 1 + l (X - g),    psi(l) = (-log(1 - c l) - c l) / c^2

(Fan, Grama and Liu 2015, Exponential inequalities for martingales with applications, Electronic Journal of Probability
20). So exp(l S - psi(l) V) is a supermartingale, S the sum of all X minus their means given what came before, V the sum
of (X - g)^2: an empirical Bernstein bound (Howard, Ramdas, McAuliffe and Sekhon 2021, Time-uniform, nonparametric,
nonasymptotic confidence sequences, Annals of Statistics 49, Theorem 4). The means may all differ.

Its average over l, with a density proportional to exp(l rho / c) (1 - c l)^(rho / c^2), is the evidence

    M = E(A, B) / E(A0, A0),    E(A, B) = e^B B^(-A-1) gamma(A+1, B)

with A = (V + rho) / c^2, B = A + S / c, A0 = rho / c^2, and gamma the lower incomplete gamma function. It passes
1/delta with a probability of at most delta (Ville's inequality). rho sets the V for which the bound is tightest, and is
chosen before V is known. Ten times too large widens the interval by a fifth, ten times too small by less.

The approximate interval is that of the central limit theorem for martingales (Hall and Heyde 1980, Martingale limit
theory and its application, section 3.2): S / sqrt(V) is about normal once no single term dominates V.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from scipy import optimize, special

DELTA = 0.05
NORMAL_QUANTILE = 1.959963984540054  # standard deviations around the mean that hold 95 % of a normal distribution
RHO_SHARE = 0.1  # of the V for which the bound shall be tightest


class Interval(NamedTuple):
    """Limits of a mean reward, within [0, 1]."""

    low: float
    high: float


class Method(Protocol):
    """A bound on the deviation of a sum from its mean."""

    def excess(self, deviation: float, squares: float) -> float:
        """Return how far a deviation is beyond the bound; at most 0 within it."""

    def radius(self, squares: float) -> float:
        """Return the largest deviation within the bound."""


class EmpiricalBernstein(NamedTuple):
    """A bound that fails on either side with a probability of at most delta, for any number of reports."""

    reach: float  # c: the largest distance of a term from its prediction
    rho: float
    delta: float = DELTA

    def excess(self, deviation: float, squares: float) -> float:
        """Return the logarithm of the evidence, above the level of one side."""
        return self._evidence(deviation, squares) - math.log(2.0 / self.delta)

    def _evidence(self, deviation: float, squares: float) -> float:
        start, shape = self.rho / self.reach**2, (squares + self.rho) / self.reach**2
        return _log_integral(shape, shape + deviation / self.reach) - _log_integral(start, start)

    def radius(self, squares: float) -> float:
        """Return the deviation at which the evidence reaches its level."""
        high = math.sqrt(squares + self.rho) + self.reach
        while self.excess(high, squares) <= 0.0:
            high *= 2.0
        return float(optimize.brentq(lambda deviation: self.excess(deviation, squares), 0.0, high, xtol=1e-12))


class NormalApproximation(NamedTuple):
    """A bound that holds with about 95 % if there are many reports."""

    def excess(self, deviation: float, squares: float) -> float:
        """Return the deviation beyond the radius."""
        return deviation - self.radius(squares)

    def radius(self, squares: float) -> float:
        """Return the quantile in standard deviations."""
        return NORMAL_QUANTILE * math.sqrt(squares)


def _log_integral(shape: float, end: float) -> float:
    """Return log E(A, B); end is at least shape, so the incomplete gamma function is not near 0."""
    whole = float(special.gammaln(shape + 1.0)) + math.log(float(special.gammainc(shape + 1.0, end)))
    return end - (shape + 1.0) * math.log(end) + whole


def build_interval(method: Method, total: float, squares: float, weight: float) -> Interval:
    """Return the interval of a mean: a total over the sum of weights."""
    radius = method.radius(squares)
    return Interval(_clip((total - radius) / weight), _clip((total + radius) / weight))


def invert_test(method: Method, sum_at: Callable[[float], tuple[float, float]], middle: float) -> Interval:
    """Return the means at which a sum, given with its squares, is within the bound around 0.

    The sum falls as the mean rises, and is 0 in the middle. The square root of the squares is convex. So the rejected
    means on each side are one stretch, and those that do not reach an end of [0, 1] do not matter.
    """

    def excess(mean: float) -> float:
        total, squares = sum_at(mean)
        return method.excess(abs(total), squares)

    middle = _clip(middle)
    if excess(middle) > 0.0:  # far outside [0, 1]
        return Interval(middle, middle)
    low = 0.0 if excess(0.0) <= 0.0 else float(optimize.brentq(excess, 0.0, middle, xtol=1e-12))
    high = 1.0 if excess(1.0) <= 0.0 else float(optimize.brentq(excess, middle, 1.0, xtol=1e-12))
    return Interval(low, high)


def _clip(mean: float) -> float:
    return min(max(mean, 0.0), 1.0)
