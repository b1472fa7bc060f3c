"""What one report says about a person, in numbers and in words, of the randomiser that devices use."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from maskedbandits._util.safe_text import percent
from maskedbandits.privacy.exact import ExactEpsilon
from maskedbandits.privacy.randomized_response import KaryRandomizer, Randomizer


@dataclass(frozen=True)
class Exposure:
    """What one report says about a person."""

    truth: float  # how often it is true
    odds: float  # the factor by which it moves the odds of a guess
    from_half: float  # what it makes of a guess of 50 %
    from_tenth: float  # and of one of 10 %

    @property
    def words(self) -> str:
        """All of it, for a report whose name stands before."""
        return (
            f"it is true {percent(self.truth)} of the time. It can turn a guess of 50 % into "
            f"{percent(self.from_half)}, one of 10 % into {percent(self.from_tenth)}: the odds become "
            f"{self.odds:.3g} times as high."
        )


def exposure(epsilon: float | Fraction, answers: int = 2) -> Exposure:
    """Return what one report at an epsilon says about a person; at an infinite one it is the truth.

    It is a masked bit, or one of so many answers.
    """
    if math.isinf(epsilon):
        return Exposure(1.0, math.inf, 1.0, 1.0)
    truth, exact = _masked(epsilon, answers)
    beliefs = [float(exact.belief(prior)) for prior in (Fraction(1, 2), Fraction(1, 10))]
    return Exposure(float(truth), float(exact.odds), *beliefs)


def _masked(epsilon: float | Fraction, answers: int) -> tuple[Fraction, ExactEpsilon]:
    """Return how often an answer is true, and the real epsilon, of what devices mask with."""
    if answers == 2:
        bit = Randomizer(epsilon)
        return bit.p00, bit.exact_epsilon
    many = KaryRandomizer(answers, epsilon)
    return many.truth, many.exact_epsilon
