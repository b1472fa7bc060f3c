"""The information that one report reveals about a person, in numbers and in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from maskedbandits._util.safe_text import percent
from maskedbandits.privacy.exact import ExactEpsilon
from maskedbandits.privacy.randomized_response import KaryRandomizer, Randomizer


@dataclass(frozen=True)
class Exposure:
    """The information that one report reveals about a person."""

    truth: float  # the probability that it is true
    odds: float  # the factor by which it changes the odds of a guess
    from_half: float  # the posterior of a guess of 50 %
    from_tenth: float  # and of 10 %

    @property
    def summary(self) -> str:
        """A sentence that follows the name of the report."""
        return (
            f"it is true {percent(self.truth)} of the time. It can turn a guess of 50 % into "
            f"{percent(self.from_half)}, one of 10 % into {percent(self.from_tenth)}: the odds become "
            f"{self.odds:.3g} times as high."
        )


def compute_exposure(epsilon: float | Fraction, answers: int = 2) -> Exposure:
    """Return what one report at an epsilon reveals; at an infinite epsilon it is the truth.

    The report is a masked bit, or one of several answers.
    """
    if math.isinf(epsilon):
        return Exposure(1.0, math.inf, 1.0, 1.0)
    truth, exact = _describe_mechanism(epsilon, answers)
    beliefs = [float(exact.belief(prior)) for prior in (Fraction(1, 2), Fraction(1, 10))]
    return Exposure(float(truth), float(exact.odds), *beliefs)


def _describe_mechanism(epsilon: float | Fraction, answers: int) -> tuple[Fraction, ExactEpsilon]:
    """Return how often an answer is true and the real epsilon of the device's mechanism."""
    if answers == 2:
        bit = Randomizer(epsilon)
        return bit.p00, bit.exact_epsilon
    many = KaryRandomizer(answers, epsilon)
    return many.truth, many.exact_epsilon
