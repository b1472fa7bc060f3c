"""A user's error, told in one line: what, where, and what was expected; and the only checkers of plain values.

It needs the standard library alone: devices without numpy import it. Arrays are checked where they are used.
"""

import contextlib
import difflib
import math
import operator
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

LARGEST = 2**53  # beyond it, a float is not exact: the limit of counts that are also reckoned with
JOINERS = "\u200c\u200d"  # invisible, and a part of words in some scripts


class UserError(ValueError):
    """Something that the person at the keyboard can put right; it is printed without a traceback."""


class WrongValueError(UserError):
    """A value that cannot be used: what it is called, what it is, and what to give in its place."""

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(name, value, wanted)
        self.name, self.value, self.wanted = name, value, wanted

    def __str__(self) -> str:
        return f"{self.name} = {abbreviate(self.value)}: give {self.wanted}"


# What reading an archive of arrays raises when the file is damaged, cut off or something else altogether.
DAMAGED = (
    ArithmeticError,
    AttributeError,
    BadZipFile,
    EOFError,
    LookupError,
    MemoryError,  # a header may claim any shape
    NotImplementedError,
    OSError,
    TokenError,  # of a header that is cut off
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    zlib.error,
)


def check_int(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """Return a whole number within its limits; 1e5 is one, True is none.

    >>> whole("runs", 1e5)
    100000
    """
    found = _as_whole(value)
    if found is None or found < least or (most is not None and found > most):
        limits = f"of at least {least}" if most is None or found is None or found < least else f"of at most {most}"
        raise WrongValueError(name, value, f"a whole number {limits}")
    return found


def check_number(
    name: str,
    value: object,
    least: float = -math.inf,
    most: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
    infinite: bool = False,
) -> float:
    """Return a number within its limits: ``above`` and ``below`` exclude them, ``infinite`` admits inf as well.

    >>> number("epsilon", 1, 0, above=True, infinite=True)
    1.0
    """
    found = _as_float(value)
    fits = least <= found <= most and not (above and found == least) and not (below and found == most)
    if not fits or (math.isinf(found) and not (infinite and found > 0.0)):
        raise WrongValueError(name, value, describe_range(least, most, above, below) + (", or inf" if infinite else ""))
    return found


def check_line(name: str, value: object) -> str:
    """Return a text that is not blank and fits on one line: no control character in it ever reaches a terminal."""
    if not isinstance(value, str) or not value.strip():
        raise WrongValueError(name, value, "a text")
    if any(unicodedata.category(letter) in UNSEEN and letter not in JOINERS for letter in value):
        raise WrongValueError(name, value, "a text on one line, without control characters")
    return value


def suggest_nearest(word: object, known: Iterable[str]) -> str:
    """Return the end of a complaint about an unknown word: the nearest known one, or all of them."""
    listed = list(known)
    close = difflib.get_close_matches(str(word).lower(), {each.lower(): each for each in listed}, n=1)
    if close:
        return f"; did you mean {next(each for each in listed if each.lower() == close[0])!r}?"
    return f"; known are {', '.join(listed)}" if listed else "; there are none here"


def abbreviate(value: object) -> str:
    """Return a value as one would write it, shortened to fit in a line."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # a scalar of numpy, as the plain number that it is
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to write out whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


@contextlib.contextmanager
def translate_errors(
    kinds: type[Exception] | tuple[type[Exception], ...], translate: Callable[[Exception], Exception | None]
) -> Iterator[None]:
    """Replace errors of a library, such as a database, by those that ``translate`` returns.

    An error for which it returns None passes unchanged.
    """
    try:
        yield
    except kinds as error:
        translated = translate(error)
        if translated is None:
            raise
        raise translated from error


UNSEEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")  # control, format, unassigned, private, surrogates, ends of lines


def _as_whole(value: Any) -> int | None:
    """Return the whole number that a value is, of whatever type."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        pass
    try:
        found: Any = math.floor(value) if isinstance(value, Real) else None
    except (ValueError, OverflowError):  # NaN, infinity
        return None
    return found if found == value else None


def _as_float(value: object) -> float:
    """Return a value as a float; NaN where it is no number, or too long for one."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def describe_range(least: float, most: float, above: bool, below: bool) -> str:
    """Say which numbers fit."""
    if math.isfinite(least) and math.isfinite(most) and not (above or below):
        return f"a number in [{least:g}, {most:g}]"
    low = f"{'above' if above else 'of at least'} {least:g}" if math.isfinite(least) else ""
    high = f"{'below' if below else 'of at most'} {most:g}" if math.isfinite(most) else ""
    return " ".join(
        ["a", "number" if low or high else "finite number", " and ".join(filter(None, (low, high)))]
    ).rstrip()
