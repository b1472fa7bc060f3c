"""Text made fit for where it is shown: it gives no orders to a terminal, and any encoding can write it.

Labels, titles and paths are somebody's own, and may hold anything. What is shown of them goes through here; what is
stored stays as it was given.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
import unicodedata
from fractions import Fraction
from typing import TextIO

ERRORS = "maskedbandits._util.safe_text"  # the name of our way to write what an encoding does not have

# Controls beyond ASCII's, breaks of lines, what turns the direction of a line, and halves of characters.
_BEYOND = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_ORDERS = re.compile(f"[\x00-\x1f{_BEYOND}]")
_ORDERS_IN_JSON = re.compile(f"[{_BEYOND}]")  # the others are escaped there as it is

# What this program itself prints, in letters that every encoding has.
_SPELLED = {
    "ε": "eps",
    "∞": "inf",
    "±": "+-",
    "×": "x",
    "–": "-",
    "·": "-",
    "…": "...",
    "─": "-",
    "━": "-",
}


def one_line(text: str) -> str:
    r"""Return a text with every order to a terminal as its escape: a line break as \n, an escape as \x1b."""
    return _ORDERS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def lines(text: str) -> str:
    """Return a text of several lines, each as one line is shown."""
    return "\n".join(one_line(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n"))


def json_text(text: str) -> str:
    """Return a JSON document that means the same and gives no orders."""
    return _ORDERS_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def percent(share: float | Fraction) -> str:
    """Return a share in per cent, and never 100 % of what is less."""
    if 1 > share >= Fraction(99_999, 100_000):
        return "> 99.999 %"
    return f"{float(100 * share):.3f} %" if 1 > share >= Fraction(999, 1000) else f"{float(100 * share):.1f} %"


def counted(count: int, noun: str) -> str:
    """Return a number of things.

    >>> counted(1, "report"), counted(2000, "report")
    ('1 report', '2,000 reports')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def spelled(text: str, encoding: str) -> str:
    """Return a text as an encoding can write it; a table needs to know before it is laid out."""
    return text.encode(encoding, ERRORS).decode(encoding)


def printed(text: str, stream: TextIO | None) -> str:
    """Return a line as a stream can take it."""
    return spelled(one_line(text), getattr(stream, "encoding", None) or "utf-8")


def survive() -> None:
    """Let standard output and error write any text, whatever their encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)


def _written_otherwise(error: UnicodeError) -> tuple[str, int]:
    """Return what is written for characters that an encoding does not have, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_in_ascii, error.object[error.start : error.end])), error.end


def _in_ascii(character: str) -> str:
    """Return a character in ASCII: as we spell it, without its accent, or as its escape."""
    bare = unicodedata.normalize("NFD", character).encode("ascii", "ignore").decode()
    return _SPELLED.get(character) or bare or character.encode("ascii", "backslashreplace").decode()


codecs.register_error(ERRORS, _written_otherwise)
