"""Intervals for what an adaptive log tells: sure ones, which hold for any number of reports, and narrower ones.

Who decided what is shown had learnt from earlier reports, so that the terms X of a sum depend on each other. Let g be a
guess of each X that was known before it, and never further from it than c. Then for every l in [0, 1/c)

    exp(l (X - g) - psi(l) (X - g)^2) <= 1 + l (X - g),    psi(l) = (-log(1 - c l) - c l) / c^2

(Fan, Grama and Liu 2015, Exponential inequalities for martingales with applications, Electronic Journal of Probability
20). So exp(l S - psi(l) V) is a supermartingale, S the sum of all X minus their means given what came before, V the sum
of (X - g)^2: an empirical Bernstein bound (Howard, Ramdas, McAuliffe and Sekhon 2021, Time-uniform, nonparametric,
nonasymptotic confidence sequences, Annals of Statistics 49, Theorem 4). No mean need be the same as another.

Its average over l, with a density proportional to exp(l rho / c) (1 - c l)^(rho / c^2), is the evidence

    M = E(A, B) / E(A0, A0),    E(A, B) = e^B B^(-A-1) gamma(A+1, B)

with A = (V + rho) / c^2, B = A + S / c, A0 = rho / c^2, and gamma the lower incomplete gamma function. It passes
1/delta with a probability of at most delta (Ville's inequality). rho says for which V the bound is at its best, and is
chosen before V is known: one that is ten times too large widens the interval by a fifth, ten times too small by less.

The approximate interval is that of the central limit theorem for martingales (Hall and Heyde 1980, Martingale limit
theory and its application, section 3.2): S / sqrt(V) is about normal once no single term weighs much in V.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from scipy import optimize, special

DELTA = 0.05
NORMAL = 1.959963984540054  # standard deviations that 95 % of a normal distribution lie within
TUNED = 0.1  # rho as a share of the V for which the bound shall be best


class Interval(NamedTuple):
    """From where to where a mean reward may lie, within [0, 1]."""

    low: float
    high: float


class Method(Protocol):
    """How far a sum may stray from its mean."""

    def excess(self, deviation: float, squares: float) -> float:
        """Return by how much a deviation is too large to be believed; it is believed if that is not above 0."""

    def radius(self, squares: float) -> float:
        """Return the largest deviation that is believed."""


class Sure(NamedTuple):
    """Both sides together fail with a probability of at most delta, whatever the number of reports."""

    most: float  # c: how far a term may be from its guess
    rho: float
    delta: float = DELTA

    def excess(self, deviation: float, squares: float) -> float:
        """Return the logarithm of the evidence, above what is allowed for one side."""
        return self._evidence(deviation, squares) - math.log(2.0 / self.delta)

    def _evidence(self, deviation: float, squares: float) -> float:
        start, shape = self.rho / self.most**2, (squares + self.rho) / self.most**2
        return _log_integral(shape, shape + deviation / self.most) - _log_integral(start, start)

    def radius(self, squares: float) -> float:
        """Return the deviation at which the evidence reaches what is allowed."""
        high = math.sqrt(squares + self.rho) + self.most
        while self.excess(high, squares) <= 0.0:
            high *= 2.0
        return float(optimize.brentq(lambda deviation: self.excess(deviation, squares), 0.0, high, xtol=1e-12))


class Normal(NamedTuple):
    """About 95 %, if there are many reports."""

    def excess(self, deviation: float, squares: float) -> float:
        """Return the deviation beyond so many standard deviations."""
        return deviation - self.radius(squares)

    def radius(self, squares: float) -> float:
        """Return so many standard deviations."""
        return NORMAL * math.sqrt(squares)


def _log_integral(shape: float, end: float) -> float:
    """Return log E(A, B); end is never below shape, so that the incomplete gamma function is not near 0."""
    whole = float(special.gammaln(shape + 1.0)) + math.log(float(special.gammainc(shape + 1.0, end)))
    return end - (shape + 1.0) * math.log(end) + whole


def around(method: Method, total: float, squares: float, whole: float) -> Interval:
    """Return the interval of a mean: the total of all terms, over how many they are, or weigh."""
    reach = method.radius(squares)
    return Interval(_within((total - reach) / whole), _within((total + reach) / whole))


def where_believed(method: Method, sum_at: Callable[[float], tuple[float, float]], middle: float) -> Interval:
    """Return the means at which a sum, and its squares, are such as would be 0 but for chance.

    The sum falls as the mean rises, and is 0 in the middle. The square root of the squares is convex, so what is not
    believed on either side is one stretch: if it does not reach the end of [0, 1], neither does it matter.
    """

    def excess(mean: float) -> float:
        total, squares = sum_at(mean)
        return method.excess(abs(total), squares)

    middle = _within(middle)
    if excess(middle) > 0.0:  # far outside of [0, 1]
        return Interval(middle, middle)
    low = 0.0 if excess(0.0) <= 0.0 else float(optimize.brentq(excess, 0.0, middle, xtol=1e-12))
    high = 1.0 if excess(1.0) <= 0.0 else float(optimize.brentq(excess, middle, 1.0, xtol=1e-12))
    return Interval(low, high)


def _within(mean: float) -> float:
    return min(max(mean, 0.0), 1.0)
