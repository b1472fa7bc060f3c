"""Errors that users can fix, in one line: what, where, and what was expected; and checks of plain values.

It uses the standard library alone, because devices without numpy import it. ``_validation.py`` checks arrays.
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

LARGEST = 2**53  # floats are exact up to here, so counts may go no further
JOINERS = "\u200c\u200d"  # invisible, but part of words in some scripts


class UserError(ValueError):
    """An error that the user can fix; it is printed without a traceback."""


class WrongValueError(UserError):
    """A value that cannot be used: its name, the value, and what to give instead."""

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(name, value, wanted)
        self.name, self.value, self.wanted = name, value, wanted

    def __str__(self) -> str:
        return f"{self.name} = {abbreviate(self.value)}: give {self.wanted}"


# Errors from reading an archive of arrays if the file is damaged, truncated or of another kind.
DAMAGED = (
    ArithmeticError,
    AttributeError,
    BadZipFile,
    EOFError,
    LookupError,
    MemoryError,  # a header may claim any shape
    NotImplementedError,
    OSError,
    TokenError,  # from a truncated header
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    zlib.error,
)


def check_int(name: str, value: object, least: int = 1, most: int | None = None) -> int:
    """Return an integer within its limits; 1e5 is accepted, True is not.

    >>> check_int("runs", 1e5)
    100000
    """
    found = _to_int(value)
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
    """Return a number within its limits: ``above`` and ``below`` exclude them, ``infinite`` admits inf.

    >>> check_number("epsilon", 1, 0, above=True, infinite=True)
    1.0
    """
    found = _to_float(value)
    fits = least <= found <= most and not (above and found == least) and not (below and found == most)
    if not fits or (math.isinf(found) and not (infinite and found > 0.0)):
        raise WrongValueError(name, value, describe_range(least, most, above, below) + (", or inf" if infinite else ""))
    return found


def check_flag(name: str, value: object) -> bool:
    """Return True or False; also those of numpy, but no other value that is true or false."""
    if value is True or value is False or type(value).__name__ == "bool":
        return bool(value)
    raise WrongValueError(name, value, "True or False")


def check_line(name: str, value: object) -> str:
    """Return a text that is not blank and fits on one line; control characters never reach a terminal."""
    if not isinstance(value, str) or not value.strip():
        raise WrongValueError(name, value, "a text")
    if any(unicodedata.category(letter) in UNSEEN and letter not in JOINERS for letter in value):
        raise WrongValueError(name, value, "a text on one line, without control characters")
    return value


def suggest_nearest(word: object, known: Iterable[str]) -> str:
    """Return the end of an error about an unknown word: the nearest known one, or all of them."""
    listed = list(known)
    close = difflib.get_close_matches(str(word).lower(), {each.lower(): each for each in listed}, n=1)
    if close:
        return f"; did you mean {next(each for each in listed if each.lower() == close[0])!r}?"
    return f"; known are {', '.join(listed)}" if listed else "; there are none"


def abbreviate(value: object) -> str:
    """Return the representation of a value, shortened to fit in a line."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()  # a numpy scalar as a plain number
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python does not print integers of thousands of digits
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


def _to_int(value: Any) -> int | None:
    """Return a value of any type as an integer; None if it is not one."""
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


def _to_float(value: object) -> float:
    """Return a value as a float; NaN if it is not a number, or too large."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def describe_range(least: float, most: float, above: bool, below: bool) -> str:
    """Describe the numbers that are accepted."""
    if math.isfinite(least) and math.isfinite(most) and not (above or below):
        return f"a number in [{least:g}, {most:g}]"
    low = f"{'above' if above else 'of at least'} {least:g}" if math.isfinite(least) else ""
    high = f"{'below' if below else 'of at most'} {most:g}" if math.isfinite(most) else ""
    return " ".join(
        ["a", "number" if low or high else "finite number", " and ".join(filter(None, (low, high)))]
    ).rstrip()
