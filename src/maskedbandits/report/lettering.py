"""Somebody's own words in a figure: no formula, no character without a glyph, no longer than there is room."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.legend import Legend
from matplotlib.text import Text

from maskedbandits._util import safe_text

FAMILY = "DejaVu Sans"  # comes with matplotlib: figures look the same on every machine
NO_GLYPH = "□"
LONGEST = 300  # characters that are looked at: more fit in no figure


@cache
def glyphs() -> frozenset[int]:
    """Return the characters that both of our weights can draw."""
    fonts = (get_font(findfont(FontProperties(family=FAMILY, weight=weight))) for weight in ("normal", "bold"))
    return frozenset.intersection(*(frozenset(font.get_charmap()) for font in fonts))


def drawable(text: str) -> str:
    """Return a text in characters that our font has; what others only modify is left out."""
    return "".join(_drawn(character) for character in safe_text.one_line(text[:LONGEST]))


def _drawn(character: str) -> str:
    if ord(character) in glyphs():
        return character
    return "" if unicodedata.category(character) in ("Mn", "Me", "Cf") else NO_GLYPH


def inches(text: str, font: FontProperties) -> float:
    """Return how wide a text is that our font can draw."""
    face = get_font(findfont(font))
    face.set_size(font.get_size_in_points(), 72)
    face.set_text(text)
    return face.get_width_height()[0] / 64 / 72  # it counts in 64ths of a point


def fitted(text: str, width: float, font: FontProperties) -> str:
    """Return a text as a figure can show it in so many inches: what does not fit ends in three dots."""
    text = drawable(text)
    whole = inches(text, font)
    if whole <= width:
        return text
    kept = text[: int(len(text) * width / whole) + 1]
    while kept and inches(f"{kept}…", font) > width:
        kept = kept[:-1]
    return f"{kept}…"


def told_apart(names: Sequence[str]) -> list[str]:
    """Return names of which no two are alike: those that are get their number."""
    return [f"({place}) {name}" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]


def write(legend: Legend, title: str, names: Sequence[str]) -> None:
    """Put words into a legend as they are: a dollar starts no formula, an underscore hides no entry."""
    for text, words in zip([legend.get_title(), *legend.get_texts()], [title, *names], strict=True):
        literal(text, words)


def literal(text: Text, words: str) -> None:
    """Let a text show these words and nothing else."""
    text.set_parse_math(False)
    text.set_text(words)
