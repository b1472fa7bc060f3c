"""Exact arithmetic for epsilon: the number a person wrote, and how many of 2^n words give a false answer.

An epsilon is the decimal number that a person writes: a float means its shortest text, so 0.1 is 1/10.

Guarantee
---------
To be epsilon-private with one of k answers, each false answer needs at least a share ``1 / (e^eps + k - 1)`` of the
words, that is ``t = ceil(2^n / (e^eps + k - 1))`` of them. Because t is rounded up, the real epsilon, the logarithm of
``(2^n - (k - 1) t) / t``, is at most the stated one.

Proof. Each of the k - 1 false answers has t words, the truth has the other 2^n - (k - 1) t. The ratio of the
probabilities of an answer under two truths is at most (2^n - (k - 1) t) / t = 2^n / t - (k - 1), which falls with t,
and is e^eps at t = 2^n / (e^eps + k - 1).

e^eps is enclosed by its Taylor series in integers, one sum rounded down and one rounded up. Once the terms halve, the
rest of the series is less than twice the next term. The enclosure is refined until both ends give the same t. This
terminates: e^x is irrational for every rational x except 0, where the enclosure is a point.

Citations
---------
Lindemann 1882 (e^x is transcendental for algebraic x other than 0).
"""

import math
import operator
import reprlib
import sys
from dataclasses import dataclass
from decimal import (
    ROUND_CEILING,
    ROUND_HALF_EVEN,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
    Overflow,
    localcontext,
)
from fractions import Fraction
from typing import Any, SupportsIndex

from ..errors import UserError

Number = int | float | Fraction | Decimal | str

MAX_EPSILON = 16  # a report is false once in nine million times
MAX_DIGITS = 1000  # of a number that a person may write
WORD_SIZES = (8, 16, 32, 64)  # bits; fewer than 64 are for proofs by enumeration
DECIMALS = 24  # enough to distinguish the real epsilon of a 64-bit word from the stated one


def as_number(name: str, value: Number) -> Fraction:
    """Return the number that a person wrote, exactly. Raise ``UserError`` for anything else."""
    try:
        with localcontext(_decimal_context(28)):
            number = _parse(value)
    except (ValueError, ZeroDivisionError, InvalidOperation):
        shown = " ".join(reprlib.repr(value).split())  # the text of an array has several lines
        raise UserError(f"{name} = {shown} is not a number: give one such as 0.5") from None
    if isinstance(number, Decimal):
        if number.is_nan():
            raise UserError(f"{name} is NaN, not a number: give one such as 0.5")
        if number.is_infinite():
            raise UserError(f"{name} is infinite, which hides nothing: give a finite number such as 0.5")
    if _count_digits(number) > MAX_DIGITS:  # a billion zeros would take hours
        raise UserError(f"{name} has more than {MAX_DIGITS} digits: round it")
    return Fraction(number)


def _parse(value: Any) -> Fraction | Decimal:
    """Return a number of any type, numpy's included, unchanged. Reject truth values."""
    if isinstance(value, Fraction):
        return Fraction(int(value.numerator), int(value.denominator))  # they may be numpy's
    if isinstance(value, Decimal):
        return value
    text = _shortest_text(value)
    if text is None:
        number = to_python(value)
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError
        return Fraction(number)
    text = text.strip()
    return Fraction(text) if "/" in text else Decimal(text)


def _shortest_text(value: Any) -> str | None:
    """Return a text, or the shortest text that reads back as the same float."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.floating):
        return str(numpy.format_float_scientific(value))
    return None


def to_python(value: Any) -> Any:
    """Convert a numpy scalar to a Python number without importing numpy."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _count_digits(number: Fraction | Decimal) -> int:
    """Return about how many digits a finite number has."""
    if isinstance(number, Decimal):
        _, digits, exponent = number.as_tuple()
        return len(digits) + abs(int(exponent))
    return max(number.numerator.bit_length(), number.denominator.bit_length()) * 3 // 10


def as_epsilon(value: Number) -> Fraction:
    """Return epsilon as the exact number that a person wrote.

    Parameters
    ----------
    value
        A number, or its text as a decimal or a ratio.

    Returns
    -------
    Fraction
        The exact value, from 0 to 16.

    Raises
    ------
    UserError
        The value is not a number, negative, or above 16.

    Examples
    --------
    >>> as_epsilon(0.1)
    Fraction(1, 10)

    """
    epsilon = as_number("epsilon", value)
    if epsilon < 0:
        raise UserError(f"epsilon = {as_text(epsilon)} is negative: give 0 (pure noise) or more")
    if epsilon > MAX_EPSILON:
        raise UserError(
            f"epsilon = {as_text(epsilon)} is above {MAX_EPSILON}, where reports are false less than once in eight "
            f"million times and hides nothing: give {MAX_EPSILON} or less"
        )
    return epsilon


def as_text(number: Fraction) -> str:
    """Format a number as a person would: a short exact decimal, else a ratio."""
    if number.denominator == 1:
        return str(number)
    with localcontext(_decimal_context(28)):
        decimal = Decimal(number.numerator) / Decimal(number.denominator)
        return str(decimal.normalize()) if Fraction(decimal) == number else str(number)


def as_sum(number: Fraction, places: int = 9) -> str:
    """Format a sum as a decimal, rounded up. As a ratio it may have thousands of digits."""
    return as_text(Fraction(math.ceil(number * 10**places), 10**places))


def _decimal_context(digits: int) -> Context:
    """Return a decimal context that is independent of the caller's settings."""
    return Context(digits, ROUND_HALF_EVEN, -999_999, 999_999, 1, 0, [], [InvalidOperation, DivisionByZero, Overflow])


def enclose_exp(x: Fraction, precision: int) -> tuple[int, int]:
    """Return integers below and above 2^precision e^x, for x >= 0."""
    low = high = 0
    below = above = 1 << precision
    k = 0
    while above > 1 or k < 2 * x:
        low, high, k = low + below, high + above, k + 1
        below = below * x.numerator // (x.denominator * k)
        above = -(-above * x.numerator // (x.denominator * k))
    return low, high + 2 * above


def check_whole(name: str, value: SupportsIndex) -> int:
    """Return a whole number as a Python int, which cannot overflow."""
    try:
        return operator.index(value)
    except TypeError:
        raise UserError(f"{name} is of type {type(value).__name__}, not a whole number: give one") from None


def check_word_size(bits: SupportsIndex) -> int:
    """Return the number of bits of a word."""
    size = check_whole("bits", bits)
    if size not in WORD_SIZES:
        raise UserError(f"bits = {size} is not a word size: give one of {', '.join(map(str, WORD_SIZES))}")
    return size


def threshold(epsilon: Number, bits: SupportsIndex = 64, answers: SupportsIndex = 2) -> int:
    """Return how many of the 2^bits words give one false answer: ceil(2^bits / (e^eps + answers - 1)).

    Parameters
    ----------
    epsilon
        The stated epsilon.
    bits
        Bits of a word: 8, 16, 32 or 64.
    answers
        The number of answers, at least 2.

    Returns
    -------
    int
        The number of words for each false answer.

    Raises
    ------
    UserError
        A parameter is out of range.

    Examples
    --------
    >>> threshold(0)
    9223372036854775808

    """
    exact, size, count = as_epsilon(epsilon), check_word_size(bits), check_whole("answers", answers)
    if count < 2:
        raise UserError(f"answers = {count}: give 2 or more")
    false = _threshold(exact, size, count)
    if not 0 < false <= -(-(1 << size) // count):  # at most an equal share: a bug above must not become a report
        raise ArithmeticError(
            f"{false} of 2^{size} words per false answer do not fit {count} answers: please report this fault"
        )
    return false


def _threshold(epsilon: Fraction, bits: int, answers: int) -> int:
    precision = 2 * bits
    while True:
        low, high = enclose_exp(epsilon, precision)
        words, others = 1 << (bits + precision), (answers - 1) << precision
        least, most = -(-words // (high + others)), -(-words // (low + others))
        if least == most:
            return least
        precision *= 2


def is_at_most_exp(ratio: Fraction, x: Fraction) -> bool:
    """Tell whether ratio <= e^x, for x >= 0. This is a proof, not an approximation."""
    if x >= ratio.numerator.bit_length():  # then ratio < 2^x, and the series of e^x would be long
        return True
    precision = 128
    while True:
        low, high = enclose_exp(x, precision)
        scaled = ratio * (1 << precision)
        if scaled <= low:
            return True
        if scaled > high:
            return False
        precision *= 2


@dataclass(frozen=True)
class ExactEpsilon:
    """The real epsilon of a randomiser on a machine: the logarithm of a ratio of whole numbers.

    Parameters
    ----------
    odds
        The largest ratio, over all answers, of an answer's probabilities under two truths.

    Examples
    --------
    >>> print(ExactEpsilon(Fraction(3)))
    ln(3/1) <= 1.098612288668109691395246

    """

    odds: Fraction

    def at_most(self, epsilon: Number) -> bool:
        """Tell whether this is at most a given epsilon. The answer is a proof.

        Parameters
        ----------
        epsilon
            The bound.

        Returns
        -------
        bool
            Whether the real epsilon is at most the bound.

        Examples
        --------
        >>> ExactEpsilon(Fraction(3)).at_most("1.0986")
        False
        >>> ExactEpsilon(Fraction(3)).at_most("1.0987")
        True

        """
        bound = as_number("epsilon", epsilon)
        return bound >= 0 and is_at_most_exp(self.odds, bound)

    def belief(self, prior: Fraction) -> Fraction:
        """Return the largest posterior probability that one report can make of a prior, by Bayes' rule.

        Parameters
        ----------
        prior
            The probability of the truth before the report.

        Returns
        -------
        Fraction
            The largest probability after it.

        Examples
        --------
        >>> ExactEpsilon(Fraction(3)).belief(Fraction(1, 2))
        Fraction(3, 4)

        """
        odds = self.odds * prior / (1 - prior)
        return odds / (1 + odds)

    def rounded_up(self, places: int = DECIMALS) -> Decimal:
        """Return the smallest decimal that is not below the real epsilon.

        Parameters
        ----------
        places
            The number of decimals.

        Returns
        -------
        Decimal
            The epsilon, rounded up.

        Examples
        --------
        >>> ExactEpsilon(Fraction(3)).rounded_up(4)
        Decimal('1.0987')

        """
        with localcontext(_decimal_context(places + 30)):
            unit = Decimal(1).scaleb(-places)
            guess = (Decimal(self.odds.numerator) / Decimal(self.odds.denominator)).ln()
            guess = max(guess, Decimal(0)).quantize(unit, ROUND_CEILING)
            while not is_at_most_exp(self.odds, Fraction(guess)):
                guess += unit
            while guess > 0 and is_at_most_exp(self.odds, Fraction(guess - unit)):
                guess -= unit
            return guess

    def __float__(self) -> float:
        value = float(self.rounded_up())
        while not is_at_most_exp(self.odds, Fraction(value)):
            value = math.nextafter(value, math.inf)
        return value

    def __str__(self) -> str:
        return f"ln({self.odds.numerator}/{self.odds.denominator}) <= {self.rounded_up():f}"
