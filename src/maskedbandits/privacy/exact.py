"""What an epsilon is, and which of 2^n words make a false answer: exact arithmetic, no floats.

An epsilon is the decimal number that a person writes: a float is read by its shortest text, so that 0.1 means 1/10.
To be epsilon-private with one of k answers, each false answer needs at least a share ``1 / (e^eps + k - 1)`` of the
words, that is ``t = ceil(2^n / (e^eps + k - 1))`` of them. Rounded up, it makes the real epsilon, the logarithm of
``(2^n - (k - 1) t) / t``, at most the stated one.

e^eps is enclosed by its Taylor series in integers, summed rounded down and rounded up. After the terms have begun to
halve, what is left of the series is less than twice the next term. The enclosure is refined until both of its ends give
the same answer. This ends: e^x is irrational for every rational x but 0 (Lindemann), where the enclosure is a point.
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

MOST = 16  # epsilon: at 16 a report is false once in nine million times
LONGEST = 1000  # digits of a number that a person may write
WORDS = (8, 16, 32, 64)  # bits that a word may have; fewer than 64 are for proofs by enumeration
PLACES = 24  # decimals that tell the real epsilon of a 64-bit word from the stated one


def as_number(name: str, value: Number) -> Fraction:
    """Return the number that a person wrote, exactly; refuse what is none."""
    try:
        with localcontext(_context(28)):
            number = _read(value)
    except (ValueError, ZeroDivisionError, InvalidOperation):
        shown = " ".join(reprlib.repr(value).split())  # an array's has several lines
        raise UserError(f"{name} = {shown} is not a number: give one such as 0.5") from None
    if isinstance(number, Decimal):
        if number.is_nan():
            raise UserError(f"{name} is NaN, not a number: give one such as 0.5")
        if number.is_infinite():
            raise UserError(f"{name} is infinite, which hides nothing: give a finite number such as 0.5")
    if _digits(number) > LONGEST:  # a billion zeros would keep the machine busy for hours
        raise UserError(f"{name} has more than {LONGEST} digits: round it")
    return Fraction(number)


def _read(value: Any) -> Fraction | Decimal:
    """Return a number of any kind, numpy's included, without a change; a truth value is none."""
    if isinstance(value, Fraction):
        return Fraction(int(value.numerator), int(value.denominator))  # which may be numpy's
    if isinstance(value, Decimal):
        return value
    text = _text(value)
    if text is None:
        number = plain(value)
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError
        return Fraction(number)
    text = text.strip()
    return Fraction(text) if "/" in text else Decimal(text)


def _text(value: Any) -> str | None:
    """Return a text, or of a float the shortest that reads back as the same, however numbers are printed now."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float):
        return float.__repr__(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.floating):
        return str(numpy.format_float_scientific(value))
    return None


def plain(value: Any) -> Any:
    """Return one of numpy's numbers as Python's own; whoever has one has loaded numpy, so devices do without."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _digits(number: Fraction | Decimal) -> int:
    """Return about how many digits it takes to write a finite number down."""
    if isinstance(number, Decimal):
        _, digits, exponent = number.as_tuple()
        return len(digits) + abs(int(exponent))
    return max(number.numerator.bit_length(), number.denominator.bit_length()) * 3 // 10


def as_epsilon(value: Number) -> Fraction:
    """Return epsilon as the exact number that a person wrote, or refuse it with the reason.

    >>> as_epsilon(0.1)
    Fraction(1, 10)
    """
    epsilon = as_number("epsilon", value)
    if epsilon < 0:
        raise UserError(f"epsilon = {as_text(epsilon)} is negative: give 0 (pure noise) or more")
    if epsilon > MOST:
        raise UserError(
            f"epsilon = {as_text(epsilon)} is above {MOST}, where a report is false less than once in eight million "
            f"times and hides nothing: give {MOST} or less"
        )
    return epsilon


def as_text(number: Fraction) -> str:
    """Return a number as a person would write it: a decimal where that is exact and short, else a ratio."""
    if number.denominator == 1:
        return str(number)
    with localcontext(_context(28)):
        decimal = Decimal(number.numerator) / Decimal(number.denominator)
        return str(decimal.normalize()) if Fraction(decimal) == number else str(number)


def as_sum(number: Fraction, places: int = 9) -> str:
    """Return a sum as a decimal, rounded up: as a ratio it may have thousands of digits."""
    return as_text(Fraction(math.ceil(number * 10**places), 10**places))


def _context(digits: int) -> Context:
    """Return a context for decimals that the caller's own settings do not reach."""
    return Context(digits, ROUND_HALF_EVEN, -999_999, 999_999, 1, 0, [], [InvalidOperation, DivisionByZero, Overflow])


def exp_between(x: Fraction, precision: int) -> tuple[int, int]:
    """Return integers around 2^precision e^x, for x >= 0."""
    low = high = 0
    below = above = 1 << precision
    k = 0
    while above > 1 or k < 2 * x:
        low, high, k = low + below, high + above, k + 1
        below = below * x.numerator // (x.denominator * k)
        above = -(-above * x.numerator // (x.denominator * k))
    return low, high + 2 * above


def as_whole(name: str, value: SupportsIndex) -> int:
    """Return a whole number as Python's own, which has no largest: numpy's would overflow in silence."""
    try:
        return operator.index(value)
    except TypeError:
        raise UserError(f"{name} is of type {type(value).__name__}, not a whole number: give one") from None


def as_word(bits: SupportsIndex) -> int:
    """Return the bits of a word, or refuse a size that no word has."""
    size = as_whole("bits", bits)
    if size not in WORDS:
        raise UserError(f"bits = {size} is no size of a word: give one of {', '.join(map(str, WORDS))}")
    return size


def threshold(epsilon: Number, bits: SupportsIndex = 64, answers: SupportsIndex = 2) -> int:
    """Return how many of the 2^bits words make one false answer: ceil(2^bits / (e^eps + answers - 1)).

    >>> threshold(0)
    9223372036854775808
    """
    exact, size, count = as_epsilon(epsilon), as_word(bits), as_whole("answers", answers)
    if count < 2:
        raise UserError(f"answers = {count}: a single answer says nothing, give 2 or more")
    false = _threshold(exact, size, count)
    if not 0 < false <= -(-(1 << size) // count):  # at most an equal share: a slip above must not become a report
        raise ArithmeticError(f"{false} of 2^{size} words cannot be those of one false answer of {count}: tell us")
    return false


def _threshold(epsilon: Fraction, bits: int, answers: int) -> int:
    precision = 2 * bits
    while True:
        low, high = exp_between(epsilon, precision)
        words, others = 1 << (bits + precision), (answers - 1) << precision
        least, most = -(-words // (high + others)), -(-words // (low + others))
        if least == most:
            return least
        precision *= 2


def at_most_exp(ratio: Fraction, x: Fraction) -> bool:
    """Tell whether ratio <= e^x, for x >= 0."""
    if x >= ratio.numerator.bit_length():  # then ratio < 2^x, and the series for e^x would be long
        return True
    precision = 128
    while True:
        low, high = exp_between(x, precision)
        scaled = ratio * (1 << precision)
        if scaled <= low:
            return True
        if scaled > high:
            return False
        precision *= 2


@dataclass(frozen=True)
class ExactEpsilon:
    """The epsilon that words of the machine really give: the logarithm of a ratio of whole numbers.

    The ratio is the largest, over all answers, of an answer's probabilities under two truths.

    >>> print(ExactEpsilon(Fraction(3)))
    ln(3/1) <= 1.098612288668109691395246
    """

    odds: Fraction

    def at_most(self, epsilon: Number) -> bool:
        """Tell whether this is at most the epsilon given: a proof, not an approximation."""
        bound = as_number("epsilon", epsilon)
        return bound >= 0 and at_most_exp(self.odds, bound)

    def belief(self, prior: Fraction) -> Fraction:
        """Return the most that one report can make of a belief about the truth, by Bayes' rule.

        >>> ExactEpsilon(Fraction(3)).belief(Fraction(1, 2))
        Fraction(3, 4)
        """
        odds = self.odds * prior / (1 - prior)
        return odds / (1 + odds)

    def rounded_up(self, places: int = PLACES) -> Decimal:
        """Return the smallest decimal with so many places that is not below."""
        with localcontext(_context(places + 30)):
            unit = Decimal(1).scaleb(-places)
            guess = (Decimal(self.odds.numerator) / Decimal(self.odds.denominator)).ln()
            guess = max(guess, Decimal(0)).quantize(unit, ROUND_CEILING)
            while not at_most_exp(self.odds, Fraction(guess)):
                guess += unit
            while guess > 0 and at_most_exp(self.odds, Fraction(guess - unit)):
                guess -= unit
            return guess

    def __float__(self) -> float:
        value = float(self.rounded_up())
        while not at_most_exp(self.odds, Fraction(value)):
            value = math.nextafter(value, math.inf)
        return value

    def __str__(self) -> str:
        return f"ln({self.odds.numerator}/{self.odds.denominator}) <= {self.rounded_up():f}"
