"""Slow, obvious twins of the randomisers; imports nothing of ours."""

from collections.abc import Sequence
from fractions import Fraction

import mpmath


def threshold(epsilon: Fraction, bits: int, answers: int = 2) -> int:
    """The words of one false answer, at 400 digits: far more than the 20 that can matter."""
    with mpmath.workdps(400):
        exponential = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        return int(mpmath.ceil(mpmath.mpf(2) ** bits / (exponential + answers - 1)))


def log_exceeds(ratio: Fraction, x: Fraction) -> bool:
    """Whether the logarithm of a ratio is above x, at 400 digits."""
    with mpmath.workdps(400):
        return bool(mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator) * x.denominator > x.numerator)


def log(ratio: Fraction, places: int = 200) -> Fraction:
    """The logarithm of a ratio, cut off after so many decimals."""
    with mpmath.workdps(400):
        scaled = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator) * mpmath.mpf(10) ** places
        return Fraction(int(mpmath.floor(scaled)), 10**places)


def masked(bit: int, flips: Sequence[int], word: int) -> int:
    if bit == 0:
        return 1 if word < flips[0] else 0
    return 0 if word < flips[1] else 1


def answered(truth: int, answers: int, each: int, word: int) -> int:
    """Give each false answer its words, one answer after the other from the one after the truth; the rest tell it."""
    others: list[int] = [*range(truth + 1, answers), *range(truth)]
    for place, other in enumerate(others):
        if place * each <= word < (place + 1) * each:
            return other
    return truth


def rounded(value: float, word: int, bits: int) -> int:
    return 1 if Fraction(word, 2**bits) < Fraction(value) else 0


def odds(matrix: Sequence[Sequence[Fraction]]) -> Fraction:
    """The largest ratio of one answer's probabilities under two truths; a row for each truth."""
    columns = zip(*matrix, strict=True)
    ratios: list[Fraction] = [a / b for column in columns for a in column for b in column]
    return max(ratios)
