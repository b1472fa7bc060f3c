"""Text that is safe to print: without control characters, and in letters that the encoding has.

Labels, titles and paths come from users and may contain anything. They pass through here before they are printed.
Stored text stays unchanged.
"""

from __future__ import annotations

import codecs
import io
import re
import sys
import unicodedata
from fractions import Fraction
from typing import TextIO

ERRORS = "maskedbandits._util.safe_text"  # the name of our error handler for characters that an encoding lacks

# Controls beyond ASCII's, line breaks, changes of a line's direction, and surrogates.
_BEYOND = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROLS = re.compile(f"[\x00-\x1f{_BEYOND}]")
_CONTROLS_IN_JSON = re.compile(f"[{_BEYOND}]")  # JSON escapes the others already

# Characters that this program prints, in letters that every encoding has.
_SPELLINGS = {
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
    r"""Return a text with every control character escaped: a line break as \n, an escape as \x1b."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def lines(text: str) -> str:
    """Return a text of several lines with control characters escaped in each."""
    return "\n".join(one_line(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n"))


def json_text(text: str) -> str:
    """Return a JSON document of the same meaning without control characters."""
    return _CONTROLS_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def percent(share: float | Fraction) -> str:
    """Return a share in per cent; a share below 1 is never shown as 100 %."""
    if 1 > share >= Fraction(99_999, 100_000):
        return "> 99.999 %"
    return f"{float(100 * share):.3f} %" if 1 > share >= Fraction(999, 1000) else f"{float(100 * share):.1f} %"


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> format_count(1, "report"), format_count(2000, "report")
    ('1 report', '2,000 reports')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def spell(text: str, encoding: str) -> str:
    """Return a text as an encoding can write it; tables need its length before they are laid out."""
    return text.encode(encoding, ERRORS).decode(encoding)


def format_line(text: str, stream: TextIO | None) -> str:
    """Return a line that a stream can write."""
    return spell(one_line(text), getattr(stream, "encoding", None) or "utf-8")


def allow_any_text() -> None:
    """Let standard output and error write any text, whatever their encoding."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    """Return a replacement for characters that an encoding lacks, and where to continue."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_in_ascii, error.object[error.start : error.end])), error.end


def _in_ascii(character: str) -> str:
    """Return a character in ASCII: our spelling, the letter without its accent, or an escape."""
    bare = unicodedata.normalize("NFD", character).encode("ascii", "ignore").decode()
    return _SPELLINGS.get(character) or bare or character.encode("ascii", "backslashreplace").decode()


codecs.register_error(ERRORS, _replace_characters)
