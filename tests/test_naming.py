"""Words that no longer occur in names: see the vocabulary in CONTRIBUTING.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import maskedbandits

PACKAGE = Path(maskedbandits.__file__).parent

# Each word with the one to use instead.
FORMER_WORDS = {
    "concerns": "alerts",
    "deciding": "routes_decisions",
    "making": "factory",
    "scans": "pending_scores",
    "watching": "broadcast",
}


def list_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module defines: functions, classes, parameters, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def split_words(name: str) -> set[str]:
    """Return the words of a name in lower case.

    >>> sorted(split_words("_openHall2")), sorted(split_words("MAX_BODY_BYTES"))
    (['hall', 'open'], ['body', 'bytes', 'max'])
    """
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@pytest.mark.parametrize("word", FORMER_WORDS)
def test_former_words_occur_in_no_name(word: str) -> None:
    assert [place for place, words in NAMES if word in words] == [], f"use {FORMER_WORDS[word]!r}"


NAMES = [
    (f"{path.relative_to(PACKAGE).as_posix()}: {name}", split_words(name))
    for path in sorted(PACKAGE.rglob("*.py"))
    for name in {path.stem, *list_names(ast.parse(path.read_text(encoding="utf-8")))}
]
