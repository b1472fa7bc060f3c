"""Randomised response, drawn exactly: of a bit, of one of k answers, or of a value in [0, 1] rounded to a bit first.

One word of the operating system's generator decides a report. Of all 2^64 words, those below a threshold T flip the
bit. There is no seed and no state between calls, so threads and forked processes never draw the same word twice. Every
report takes the same draws, one comparison, and no branch on the bit. Errors never repeat the value to be masked.

Guarantee
---------
``Randomizer(eps)`` uses ``T = ceil(2^64 / (1 + e^eps))``. A report of either bit has the probabilities T / 2^64 and
1 - T / 2^64, so the real epsilon is ``ln((2^64 - T) / T)``, the logarithm of a ratio of whole numbers. It falls with T,
and T is rounded up, so it is never above the stated one (``exact.py``).

``Randomizer.from_matrix(p00, p11)`` has a threshold for each bit; both are rounded towards the matrix that reveals
less (``_round_flips``).

``KaryRandomizer(k, eps)`` gives each false answer ``t = ceil(2^64 / (e^eps + k - 1))`` words (``exact.py``).

A value v in [0, 1] is a float, a multiple of 2^-1074. It becomes 1 if a word of more bits than that is below its share,
so the mean of the bit is exactly v. Rounding happens before masking and cannot increase epsilon.

Citations
---------
Warner 1965; Wang, Wu & Hu 2016, Result 1 (the symmetric matrix has the largest p00 + p11 at an epsilon); Kairouz, Oh &
Viswanath 2016 (staircase mechanisms).
"""

from __future__ import annotations

import math
import os
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from ..errors import UserError
from .exact import (
    MAX_EPSILON,
    ExactEpsilon,
    Number,
    as_epsilon,
    as_number,
    as_text,
    check_whole,
    check_word_size,
    is_at_most_exp,
    threshold,
    to_python,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from ..corruption import RandomizedResponse

ROUNDING_BITS = 1080  # whole bytes, at least the 1074 bits of the smallest float


def draw_word(bits: int) -> int:
    """Return a fresh word from the operating system, so that no buffer is shared by forks."""
    return int.from_bytes(os.urandom(bits // 8), "little")


def round_value(value: float) -> int:
    """Return a bit whose mean is exactly the value.

    Parameters
    ----------
    value
        A number in [0, 1].

    Returns
    -------
    int
        0 or 1.

    Raises
    ------
    UserError
        The value is not an int or float in [0, 1]. The error does not repeat it.

    Examples
    --------
    >>> round_value(1.0)
    1

    """
    return round_with_word(value, draw_word(ROUNDING_BITS), ROUNDING_BITS)


def round_with_word(value: float, word: int, bits: int) -> int:
    """Return the bit that a word makes of a value, a multiple of 2^-bits."""
    numerator, denominator = _check_value(value).as_integer_ratio()
    whole = 1 << bits  # added to both sides: numbers of the same length are compared, whatever the value
    return int(word + whole < numerator * (whole // denominator) + whole)


def _check_value(value: float) -> float:
    """Return a reward, exactly. Errors may be logged, so they mention its type or range at most.

    A ratio such as 1/3 or a decimal such as 0.1 is not a multiple of any 2^-n: no number of random bytes has this mean.
    """
    number = to_python(value)
    if not isinstance(number, (int, float)):  # numpy's longdouble is not a multiple of 2^-1074
        raise UserError(f"a value of type {type(value).__name__} cannot be masked: give an int or a float in [0, 1]")
    number = float(number) if -1 <= number <= 2 else math.nan  # a long int has no float
    if not 0 <= number <= 1:
        raise UserError("a value outside [0, 1] cannot be masked: scale it into [0, 1] first")
    return number


class Report(NamedTuple):
    """A masked bit with the mechanism that masked it: everything that leaves a device.

    Attributes
    ----------
    bit
        The masked bit.
    epsilon
        The stated epsilon.
    p00, p11
        The probabilities that a 0 and a 1 are reported truthfully.

    Examples
    --------
    >>> report = Randomizer(1).report(1)
    >>> report.bit in (0, 1), report.epsilon
    (True, Fraction(1, 1))

    """

    bit: int
    epsilon: Fraction
    p00: Fraction
    p11: Fraction

    @property
    def corruption(self) -> RandomizedResponse:
        """The mechanism for a policy: ``observe(arm, report.bit, report.corruption)``."""
        return _build_corruption(self.p00, self.p11)


class Randomizer:
    """Mask a bit, or a value in [0, 1], so that a report is epsilon-locally differentially private.

    Parameters
    ----------
    epsilon
        The stated epsilon, from 0 to 16.
    bits
        Bits of a random word; fewer than 64 are for proofs by enumeration.

    Raises
    ------
    UserError
        A parameter is out of range.

    Examples
    --------
    >>> Randomizer(1).exact_epsilon.at_most(1)
    True

    """

    epsilon: Fraction  # as stated
    word_bits: int
    flips: tuple[int, int]  # the numbers of words that flip a 0 and a 1

    def __init__(self, epsilon: Number, *, bits: SupportsIndex = 64) -> None:
        self.word_bits = check_word_size(bits)
        self.epsilon = as_epsilon(epsilon)
        flips = threshold(self.epsilon, self.word_bits)
        self.flips = (flips, flips)

    @classmethod
    def from_matrix(cls, p00: Number, p11: Number, *, bits: SupportsIndex = 64) -> Randomizer:
        """Return a randomiser with given probabilities, rounded so that epsilon does not increase.

        Parameters
        ----------
        p00, p11
            The probabilities that a 0 and a 1 are reported truthfully.
        bits
            Bits of a random word.

        Returns
        -------
        Randomizer
            Its ``epsilon`` is that of the matrix, rounded up to 12 decimals.

        Raises
        ------
        UserError
            These are not probabilities strictly between 0 and 1, or epsilon is above 16.

        Examples
        --------
        >>> print(Randomizer.from_matrix(0.9, 0.6))
        <Randomizer, epsilon=1.791759469229, p00=0.9, p11=0.6>

        """
        randomizer = cls.__new__(cls)
        randomizer.word_bits = check_word_size(bits)
        false = (1 - _check_probability("p00", p00), 1 - _check_probability("p11", p11))
        stated = _largest_odds(false, Fraction(1))
        if not is_at_most_exp(stated, Fraction(MAX_EPSILON)):
            raise UserError(
                f"p00 = {p00} and p11 = {p11} have an epsilon above {MAX_EPSILON}, which hides nothing: "
                "choose probabilities with an epsilon of at most 16"
            )
        randomizer.epsilon = Fraction(ExactEpsilon(stated).rounded_up(12))
        randomizer.flips = _round_flips(false, 1 << randomizer.word_bits)
        return randomizer

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
        """The real epsilon, at most the stated one."""
        return ExactEpsilon(
            _largest_odds((Fraction(self.flips[0]), Fraction(self.flips[1])), Fraction(1 << self.word_bits))
        )

    @property
    def corruption(self) -> RandomizedResponse:
        """The real probabilities as a corruption for a policy. With epsilon = 0 reports carry no information."""
        return _build_corruption(self.p00, self.p11)

    def bit(self, value: float) -> int:
        """Return a masked bit.

        Parameters
        ----------
        value
            A number in [0, 1].

        Returns
        -------
        int
            0 or 1.

        Raises
        ------
        UserError
            The value is not an int or float in [0, 1].

        Examples
        --------
        >>> Randomizer(1).bit(0.25) in (0, 1)
        True

        """
        rounded, word = round_value(value), draw_word(self.word_bits)
        whole = 1 << self.word_bits  # added to both sides: numbers of the same length are compared
        return int(mask_with_word(rounded, word + whole, (self.flips[0] + whole, self.flips[1] + whole)))

    def report(self, value: float) -> Report:
        """Return a masked bit with its epsilon and probabilities.

        Parameters
        ----------
        value
            A number in [0, 1].

        Returns
        -------
        Report
            The report to send.

        Raises
        ------
        UserError
            The value is not an int or float in [0, 1].

        Examples
        --------
        >>> report = Randomizer("0.5").report(1)
        >>> report.epsilon
        Fraction(1, 2)

        """
        return self.as_report(self.bit(value))

    def as_report(self, bit: int) -> Report:
        """Return a bit that this randomiser masked before as its report.

        Parameters
        ----------
        bit
            The masked bit.

        Returns
        -------
        Report
            The bit with the epsilon and the probabilities.

        Examples
        --------
        >>> randomizer = Randomizer(1)
        >>> randomizer.as_report(0).p00 == randomizer.p00
        True

        """
        return Report(bit, self.epsilon, self.p00, self.p11)

    def bits(self, values: ArrayLike) -> NDArray[np.uint8]:
        """Return an array of independently masked bits. This requires numpy.

        Parameters
        ----------
        values
            An array of 0 and 1.

        Returns
        -------
        numpy.ndarray
            Masked bits of the same shape.

        Raises
        ------
        UserError
            The array has other values, or numpy is not installed.

        Examples
        --------
        >>> Randomizer(1).bits([0, 1, 1]).shape
        (3,)

        """
        numpy = _import_numpy()
        plain_bits = numpy.asarray(values)
        if plain_bits.dtype.kind not in "biu" or not numpy.all((plain_bits == 0) | (plain_bits == 1)):
            raise UserError("an array must contain bits, 0 or 1: mask other values one by one")
        words = numpy.frombuffer(os.urandom(self.word_bits // 8 * plain_bits.size), dtype=f"<u{self.word_bits // 8}")
        flips = numpy.array(self.flips, dtype=words.dtype)
        masked: NDArray[np.uint8] = mask_with_word(
            plain_bits.astype(numpy.uint8), words.reshape(plain_bits.shape), flips
        )
        return masked


def mask_with_word(bit: Any, word: Any, flips: Any) -> Any:
    """Return the bit that a word makes of a bit: a look-up, a comparison, and no branch.

    Bits and words may be arrays. All reports are made here, so an audit of one way covers all.
    """
    return bit ^ (word < flips[bit])


def _import_numpy() -> Any:
    """Import numpy, which devices may lack."""
    try:
        import numpy
    except ImportError:
        raise UserError("an array of bits needs numpy: install it, or mask values one by one") from None
    return numpy


def _build_corruption(p00: Fraction, p11: Fraction) -> RandomizedResponse:
    """Return the corruption for a policy. Devices have no policies, so the import is late."""
    try:
        from ..corruption import RandomizedResponse
    except ImportError:
        raise UserError("corruption is for policies: install maskedbandits to use it") from None
    return RandomizedResponse(float(p00), float(p11))


def _check_probability(name: str, value: Number) -> Fraction:
    """Return a probability as a person wrote it."""
    number = as_number(name, value)
    if not 0 <= number <= 1:
        raise UserError(f"{name} = {as_text(number)} is not a probability: give a number between 0 and 1")
    if number in (0, 1):
        raise UserError(f"{name} = {number} would reveal the bit: give a number strictly between 0 and 1")
    return number


def _largest_odds(flips: tuple[Fraction, Fraction], whole: Fraction) -> Fraction:
    """Return the largest ratio of an answer's probabilities under the two bits."""
    zero, one = flips
    ratios = (zero / (whole - one), one / (whole - zero))
    return max(max(ratio, 1 / ratio) for ratio in ratios)


def _round_flips(false: tuple[Fraction, Fraction], words: int) -> tuple[int, int]:
    """Return how many words flip each bit, rounded towards the matrix with equal rows.

    Proof that epsilon does not increase. Let f0 and f1 be the false shares. Where f0 + f1 <= 1, the ratios of the
    answers are (1 - f1) / f0 and (1 - f0) / f1, and both fall as both f rise. Elsewhere they are inverted, and fall as
    both f fall. Where rounding would carry f0 + f1 past 1, the rows become equal.
    """
    towards = math.ceil if sum(false) <= 1 else math.floor
    zero = min(max(towards(false[0] * words), 1), words - 1)
    one = towards(false[1] * words)
    return zero, min(one, words - zero) if sum(false) <= 1 else max(one, words - zero)


def mechanism_for(epsilon: Number) -> Randomizer:
    """Return the most informative randomiser of a bit at an epsilon, the one with the largest p00 + p11.

    It is symmetric (Wang, Wu & Hu 2016, Result 1).

    Parameters
    ----------
    epsilon
        The stated epsilon, from 0 to 16.

    Returns
    -------
    Randomizer
        The mechanism.

    Raises
    ------
    UserError
        The epsilon is out of range.

    Examples
    --------
    >>> mechanism_for(1).p00 == mechanism_for(1).p11
    True

    Examples
    --------
    >>> round(float(mechanism_for(1).p11), 3)
    0.731

    """
    return Randomizer(epsilon)


class KaryRandomizer:
    """Mask one of k answers: the truth is e^eps times as likely as any other answer.

    Parameters
    ----------
    answers
        The number of answers, at least 2; they are numbered from 0.
    epsilon
        The stated epsilon, from 0 to 16.
    bits
        Bits of a random word.

    Raises
    ------
    UserError
        A parameter is out of range, or the epsilon is too fine for one word.

    Examples
    --------
    >>> KaryRandomizer(4, 1).exact_epsilon.at_most(1)
    True

    """

    def __init__(self, answers: SupportsIndex, epsilon: Number, *, bits: SupportsIndex = 64) -> None:
        self.word_bits = check_word_size(bits)
        self.epsilon = as_epsilon(epsilon)
        self.answers = check_whole("answers", answers)
        self.words_per_answer = threshold(self.epsilon, self.word_bits, self.answers)
        if (
            self.answers * self.words_per_answer > 1 << self.word_bits
        ):  # the truth would be less likely than a false answer
            raise UserError(
                f"epsilon = {as_text(self.epsilon)} with {self.answers} answers is too fine for words of "
                f"{self.word_bits} bits: give a larger epsilon or fewer answers"
            )

    def __repr__(self) -> str:
        return f"<KaryRandomizer, answers={self.answers}, epsilon={as_text(self.epsilon)}>"

    @property
    def truth(self) -> Fraction:
        """The probability that an answer is reported truthfully."""
        return 1 - (self.answers - 1) * Fraction(self.words_per_answer, 1 << self.word_bits)

    @property
    def exact_epsilon(self) -> ExactEpsilon:
        """The real epsilon, at most the stated one."""
        return ExactEpsilon(self.truth / Fraction(self.words_per_answer, 1 << self.word_bits))

    def answer(self, truth: int) -> int:
        """Return a masked answer.

        Parameters
        ----------
        truth
            The true answer, from 0 to answers - 1.

        Returns
        -------
        int
            The masked answer.

        Raises
        ------
        UserError
            There is no such answer. The error does not repeat it.

        Examples
        --------
        >>> KaryRandomizer(4, 1).answer(2) in range(4)
        True

        """
        index = check_whole("answer", truth)
        if not 0 <= index < self.answers:
            raise UserError(f"no such answer: give a number from 0 to {self.answers - 1}")
        return self.mask_with_word(index, draw_word(self.word_bits))

    def mask_with_word(self, truth: int, word: int) -> int:
        """Return the answer that a word makes of the truth: some steps further, without a branch.

        Parameters
        ----------
        truth
            The true answer.
        word
            A random word, below ``2 ** word_bits``.

        Returns
        -------
        int
            The masked answer.

        Examples
        --------
        >>> randomizer = KaryRandomizer(4, 1, bits=8)
        >>> [randomizer.mask_with_word(2, word) for word in (0, 100, 255)]
        [3, 1, 2]

        """
        steps = (word // self.words_per_answer + 1) * (word < (self.answers - 1) * self.words_per_answer)
        return (truth + steps) % self.answers
