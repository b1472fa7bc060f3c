"""Randomised response, drawn exactly: a bit, one of k answers, or a value in [0, 1] first rounded to a bit.

One word of the operating system's generator decides a report. Of all 2^64 words, those below a threshold T flip the
bit: ``T = ceil(2^64 / (1 + e^eps))``, so that the real epsilon, ``ln((2^64 - T) / T)``, is a logarithm of a ratio of
whole numbers and never above the stated one. A matrix (p00, p11) has a threshold for each bit; both are rounded towards
the matrix that tells less.

Of k answers each false one has ``t = ceil(2^64 / (e^eps + k - 1))`` words. A value v in [0, 1] is a float, so a whole
multiple of 2^-1074, and becomes a 1 if a word of more bits than that is below its share: the mean of the bit is v.

There is no seed, and no state between two calls: threads and forked processes cannot draw the same word twice. Every
report costs the same draws, one comparison, and no branch on the bit. No error repeats what was to be masked.
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from ..errors import UserError
from .exact import (
    MOST,
    ExactEpsilon,
    Number,
    as_epsilon,
    as_number,
    as_text,
    as_whole,
    as_word,
    at_most_exp,
    plain,
    threshold,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ..corruption import RandomizedResponse

ROUNDING_BITS = 1080  # whole bytes, and no fewer than the 1074 of the smallest float


def _word(bits: int) -> int:
    """Return a fresh word; every call asks the operating system, so no buffer is shared by a fork."""
    return int.from_bytes(os.urandom(bits // 8), "little")


def round_value(value: float) -> int:
    """Return a 0 or a 1 whose mean is exactly the value, a number in [0, 1].

    >>> round_value(1.0)
    1
    """
    return _rounded(value, _word(ROUNDING_BITS), ROUNDING_BITS)


def _rounded(value: float, word: int, bits: int) -> int:
    """Return the bit that a word makes of a value, which must be a multiple of 2^-bits."""
    numerator, denominator = _as_value(value).as_integer_ratio()
    whole = 1 << bits  # added to both sides, that numbers of the same length are compared whatever the value
    return int(word + whole < numerator * (whole // denominator) + whole)


def _as_value(value: float) -> float:
    """Return a reward, exactly. No error says more of it than its type, or that it is out of range: errors are logged.

    A ratio such as 1/3 or a decimal such as 0.1 is no multiple of any 2^-n: no number of random bytes gives this mean.
    """
    own = plain(value)
    if not isinstance(own, (int, float)):  # a longdouble of numpy's stays one, and is no multiple of 2^-1074
        raise UserError(f"a value of type {type(value).__name__} is not masked: give an int or a float in [0, 1]")
    number = float(own) if -1 <= own <= 2 else math.nan  # a long int has no float
    if not 0 <= number <= 1:
        raise UserError("a value outside [0, 1] is not masked: bring it into [0, 1] first")
    return number


class Report(NamedTuple):
    """All that leaves a device: a masked bit, the epsilon it was masked with, and how often it is true."""

    bit: int
    epsilon: Fraction
    p00: Fraction
    p11: Fraction

    @property
    def corruption(self) -> RandomizedResponse:
        """What a policy must know to learn from this report: ``observe(arm, report.bit, report.corruption)``."""
        return _corruption(self.p00, self.p11)


class Randomizer:
    """Masks a bit, or a value in [0, 1], so that a report is epsilon-locally differentially private.

    >>> Randomizer(1).exact_epsilon.at_most(1)
    True
    """

    epsilon: Fraction  # as stated
    word_bits: int
    flips: tuple[int, int]  # of the 2^word_bits words, how many flip a 0, and how many a 1

    def __init__(self, epsilon: Number, *, bits: SupportsIndex = 64) -> None:
        self.word_bits = as_word(bits)
        self.epsilon = as_epsilon(epsilon)
        flips = threshold(self.epsilon, self.word_bits)
        self.flips = (flips, flips)

    @classmethod
    def from_matrix(cls, p00: Number, p11: Number, *, bits: SupportsIndex = 64) -> Randomizer:
        """Report a 0 truly with probability p00 and a 1 with p11, rounded so that epsilon is not above theirs.

        Its ``epsilon`` is theirs, rounded up to 12 decimals.
        """
        made = cls.__new__(cls)
        made.word_bits = as_word(bits)
        false = (1 - _probability("p00", p00), 1 - _probability("p11", p11))
        stated = _odds(false, Fraction(1))
        if not at_most_exp(stated, Fraction(MOST)):
            raise UserError(
                f"p00 = {p00} and p11 = {p11} have an epsilon above {MOST}, which hides nothing: "
                "bring the probabilities of one answer under both bits closer together"
            )
        made.epsilon = Fraction(ExactEpsilon(stated).rounded_up(12))
        made.flips = _rounded_flips(false, 1 << made.word_bits)
        return made

    def __repr__(self) -> str:
        return f"<Randomizer, epsilon={as_text(self.epsilon)}, p00={float(self.p00):.6g}, p11={float(self.p11):.6g}>"

    @property
    def p00(self) -> Fraction:
        """The probability that a 0 is reported as 0."""
        return 1 - Fraction(self.flips[0], 1 << self.word_bits)

    @property
    def p11(self) -> Fraction:
        """The probability that a 1 is reported as 1."""
        return 1 - Fraction(self.flips[1], 1 << self.word_bits)

    @property
    def exact_epsilon(self) -> ExactEpsilon:
        """The real epsilon, which is not above the stated one."""
        return ExactEpsilon(_odds((Fraction(self.flips[0]), Fraction(self.flips[1])), Fraction(1 << self.word_bits)))

    @property
    def corruption(self) -> RandomizedResponse:
        """The real probabilities, for whoever learns from the reports; epsilon = 0 leaves nothing to learn."""
        return _corruption(self.p00, self.p11)

    def bit(self, value: float) -> int:
        """Return a 0, a 1 or a value between them as a masked bit."""
        rounded, word = round_value(value), _word(self.word_bits)
        whole = 1 << self.word_bits  # added to both sides, that numbers of the same length are compared
        return int(_masked(rounded, word + whole, (self.flips[0] + whole, self.flips[1] + whole)))

    def report(self, value: float) -> Report:
        """Return a 0, a 1 or a value between them as a report, which carries its epsilon."""
        return self.as_report(self.bit(value))

    def as_report(self, bit: int) -> Report:
        """Return a bit that this randomiser masked before as the report that it was."""
        return Report(bit, self.epsilon, self.p00, self.p11)

    def bits(self, values: ArrayLike) -> NDArray[np.uint8]:
        """Return an array of bits, each masked on its own; this needs numpy, single reports do not."""
        numpy = _numpy()
        given = numpy.asarray(values)
        if given.dtype.kind not in "biu" or not numpy.all((given == 0) | (given == 1)):
            raise UserError("values of an array must be bits: give 0 and 1, or mask values one by one")
        drawn = numpy.frombuffer(os.urandom(self.word_bits // 8 * given.size), dtype=f"<u{self.word_bits // 8}")
        flips = numpy.array(self.flips, dtype=drawn.dtype)
        masked: NDArray[np.uint8] = _masked(given.astype(numpy.uint8), drawn.reshape(given.shape), flips)
        return masked


def _masked(plain: Any, word: Any, flips: Any) -> Any:
    """Return the bit that a word makes of a bit: a look-up, a comparison, and no branch.

    Bits and words may be arrays: there is no other way to a report, so who audits one way audits all.
    """
    return plain ^ (word < flips[plain])


def _numpy() -> Any:
    """Return numpy, which arrays need and devices do not have."""
    try:
        import numpy
    except ImportError:
        raise UserError("an array of bits needs numpy: install it, or mask values one by one") from None
    return numpy


def _corruption(p00: Fraction, p11: Fraction) -> RandomizedResponse:
    """Return what a policy must know; policies are not on devices, so nothing of theirs is imported before."""
    try:
        from ..corruption import RandomizedResponse
    except ImportError:
        raise UserError("a corruption is for a policy: install maskedbandits where the policy is") from None
    return RandomizedResponse(float(p00), float(p11))


def _probability(name: str, value: Number) -> Fraction:
    """Return a probability as a person wrote it."""
    number = as_number(name, value)
    if not 0 <= number <= 1:
        raise UserError(f"{name} = {as_text(number)} is not a probability: give a number between 0 and 1")
    if number in (0, 1):
        raise UserError(f"{name} = {number} lets an answer prove what the bit was: give a number between 0 and 1")
    return number


def _odds(flips: tuple[Fraction, Fraction], whole: Fraction) -> Fraction:
    """Return the largest ratio of an answer's probabilities under the two bits, of false shares of a whole."""
    zero, one = flips
    ratios = (zero / (whole - one), one / (whole - zero))
    return max(max(ratio, 1 / ratio) for ratio in ratios)


def _rounded_flips(false: tuple[Fraction, Fraction], words: int) -> tuple[int, int]:
    """Return how many words flip each bit, rounded towards the matrix whose rows are the same.

    The answers' ratios are (1 - f1) / f0 and (1 - f0) / f1 where f0 + f1 <= 1: both fall as both f rise. Elsewhere they
    are the other way up, and fall as both f fall. Where rounding would carry f0 + f1 past 1, the rows become equal.
    """
    towards = math.ceil if sum(false) <= 1 else math.floor
    zero = min(max(towards(false[0] * words), 1), words - 1)
    one = towards(false[1] * words)
    return zero, min(one, words - zero) if sum(false) <= 1 else max(one, words - zero)


def mechanism_for(epsilon: Number) -> Randomizer:
    """Return the randomiser whose reports tell the most, p00 + p11 at its largest, at an epsilon.

    It is symmetric: Result 1 of Wang, Wu & Hu 2016, and the staircase of Kairouz, Oh & Viswanath 2016 for two answers.
    """
    return Randomizer(epsilon)


class KaryRandomizer:
    """Masks one of k answers, numbered from 0: the truth is e^eps times as likely as any other answer.

    >>> KaryRandomizer(4, 1).exact_epsilon.at_most(1)
    True
    """

    def __init__(self, answers: SupportsIndex, epsilon: Number, *, bits: SupportsIndex = 64) -> None:
        self.word_bits = as_word(bits)
        self.epsilon = as_epsilon(epsilon)
        self.answers = as_whole("answers", answers)
        self.each = threshold(self.epsilon, self.word_bits, self.answers)
        if self.answers * self.each > 1 << self.word_bits:  # the truth would be less likely than a false answer
            raise UserError(
                f"epsilon = {as_text(self.epsilon)} with {self.answers} answers is finer than one word of "
                f"{self.word_bits} bits can draw: give a larger epsilon or fewer answers"
            )

    def __repr__(self) -> str:
        return f"<KaryRandomizer, answers={self.answers}, epsilon={as_text(self.epsilon)}>"

    @property
    def truth(self) -> Fraction:
        """The probability that an answer is reported as it is."""
        return 1 - (self.answers - 1) * Fraction(self.each, 1 << self.word_bits)

    @property
    def exact_epsilon(self) -> ExactEpsilon:
        """The real epsilon, which is not above the stated one."""
        return ExactEpsilon(self.truth / Fraction(self.each, 1 << self.word_bits))

    def answer(self, truth: int) -> int:
        """Return a masked answer."""
        place = as_whole("answer", truth)
        if not 0 <= place < self.answers:
            raise UserError(f"an answer that does not exist is not masked: they are numbered 0 to {self.answers - 1}")
        return self._masked(place, _word(self.word_bits))

    def _masked(self, truth: int, word: int) -> int:
        """Return the answer that a word makes of the truth: so many steps further round, without a branch."""
        steps = (word // self.each + 1) * (word < (self.answers - 1) * self.each)
        return (truth + steps) % self.answers
