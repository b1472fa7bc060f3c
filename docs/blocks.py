"""The parts of a page that its script writes, each between two marks that name the command."""

import re
from collections.abc import Mapping
from pathlib import Path

END = "<!-- end -->"


def begin(page: Path, which: str) -> str:
    """Return the mark before a block of a page; a page with one block need not name it."""
    return f"<!-- begin: {' '.join(['python -m docs.' + page.stem, *which.split()])} -->"


def read(page: Path, which: str = "") -> str:
    """Return what stands in a block."""
    _, after = page.read_text(encoding="utf-8").split(begin(page, which))
    return after.split(END, 1)[0].strip("\n")


def fill(page: Path, made: Mapping[str, str]) -> None:
    """Replace blocks of a page; the rest stays as it is."""
    text = page.read_text(encoding="utf-8")
    for which, block in made.items():
        before, rest = text.split(begin(page, which))
        _, after = rest.split(END, 1)
        text = f"{before}{begin(page, which)}\n{block}\n{END}{after}"
    page.write_text(text, encoding="utf-8")


def _all(page: Path) -> "re.Pattern[str]":
    return re.compile(rf"<!-- begin: python -m docs\.{page.stem} ?(.*?) -->\n.*?{END}", re.DOTALL)


def names(page: Path) -> list[str]:
    """Return what the blocks of a page are called."""
    return _all(page).findall(page.read_text(encoding="utf-8"))


def prose(page: Path) -> str:
    """Return a page without its blocks."""
    return _all(page).sub("", page.read_text(encoding="utf-8"))
