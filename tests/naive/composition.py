"""Slow, obvious composition of randomised response: every one of the 2^k outcomes; nothing of the package is imported.

Of k reports, a set S is true. Under one sequence of rewards its probability is the product of the truths in S and the
lies outside; under the sequence that differs everywhere, of the lies in S and the truths outside.
"""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from mpmath import MPContext

mp = MPContext()  # its digits are nobody else's
mp.dps = 60
Real = Any  # a number of that context; mpmath ships no types


def real(number: Fraction | float) -> Real:
    """Exactly, as far as the digits go."""
    exact = Fraction(number)
    return mp.mpf(exact.numerator) / mp.mpf(exact.denominator)


def outcomes(epsilons: Sequence[Fraction]) -> list[tuple[Real, Real]]:
    """The probabilities of all outcomes under both sequences."""
    truths = [mp.exp(real(epsilon)) / (1 + mp.exp(real(epsilon))) for epsilon in epsilons]
    pairs = []
    for true in itertools.product([True, False], repeat=len(epsilons)):
        here = [truth if is_true else 1 - truth for truth, is_true in zip(truths, true, strict=True)]
        there = [1 - truth if is_true else truth for truth, is_true in zip(truths, true, strict=True)]
        pairs.append((mp.fprod(here), mp.fprod(there)))
    return pairs


def delta(epsilons: Sequence[Fraction], epsilon: Fraction | float) -> Real:
    """sum over outcomes of max(0, P - e^epsilon Q)."""
    factor = mp.exp(real(epsilon))
    return mp.fsum(max(mp.mpf(0), here - factor * there) for here, there in outcomes(epsilons))


def delta_of_equals(epsilon: Fraction, count: int, total: Fraction | float) -> Real:
    """The same for many reports of one epsilon: outcomes with as many truths are alike."""
    truth = mp.exp(real(epsilon)) / (1 + mp.exp(real(epsilon)))
    lie, factor = 1 - truth, mp.exp(real(total))
    return mp.fsum(
        mp.binomial(count, true)
        * max(mp.mpf(0), truth**true * lie ** (count - true) - factor * lie**true * truth ** (count - true))
        for true in range(count + 1)
    )


def smallest_epsilon(epsilons: Sequence[Fraction], allowed: float) -> Real:
    """The smallest epsilon whose delta is at most the one allowed, by halving an interval."""
    pairs = outcomes(epsilons)

    def too_small(epsilon: Real) -> bool:
        factor = mp.exp(epsilon)
        return bool(mp.fsum(max(mp.mpf(0), here - factor * there) for here, there in pairs) > real(allowed))

    low, high = mp.mpf(0), mp.fsum(real(epsilon) for epsilon in epsilons)
    if not too_small(low):
        return low
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if too_small(middle) else (low, middle)
    return high
