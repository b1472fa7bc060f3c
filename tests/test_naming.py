"""Words that no longer occur in names: see the vocabulary in CONTRIBUTING.md."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import maskedbandits

PACKAGE = Path(maskedbandits.__file__).parent
TESTS = Path(__file__).parent

# Each former word with the one to use instead.
FORMER_WORDS = {
    "anew": "again",
    "awaited": "pending",
    "concerns": "alerts",
    "deciding": "decisions",
    "fates": "outcomes",
    "hall": "registry",
    "learnt": "received",
    "lot": "seed",
    "lots": "rng",
    "making": "factory",
    "office": "admin routes",
    "remembered": "cached",
    "scans": "scores",
    "told": "given",
    "unsaid": "unflushed",
    "watching": "broadcast",
    "whoever": "anyone",
}
# Functions are verbs: each former name with an example of a better one.
FORMER_FUNCTIONS = {
    "asked": "list_parameters",
    "averaged": "average_groups",
    "checked": "check",
    "counted": "format_count",
    "drawn": "draw",
    "enumerated": "enumerate_words",
    "explained": "explain",
    "exported": "read_export",
    "folded": "wrap_text",
    "found": "resolve",
    "gathered": "read_settings",
    "given": "read_options",
    "heard": "handle_signals",
    "held": "get",
    "joined": "join",
    "kept": "load_stored",
    "known": "list_known",
    "left": "count_left",
    "listed": "list_names",
    "lost": "measure_regret",
    "made": "build_policy",
    "named": "find",
    "opened": "open_file",
    "picked": "dispatch",
    "played": "play",
    "prepared": "prepare_runs",
    "printed": "format_line",
    "said": "format_message",
    "sampled": "sample_means",
    "seen": "list_seen",
    "shown": "abbreviate",
    "spelled": "spell",
    "stand": "apply_config",
    "take_back": "cancel",
    "taken": "accept",
    "told": "describe",
    "traced": "trace",
    "upgraded": "upgrade",
    "whole": "check_int",
    "wrapped": "wrap",
    "written": "write",
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
    """Return the words of a name in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


@cache
def parse_modules(folder: Path) -> list[tuple[str, ast.Module]]:
    """Return the modules of a folder with their syntax trees."""
    paths = sorted(folder.rglob("*.py"))
    return [(path.relative_to(folder).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def test_names_are_split_into_words() -> None:
    assert split_words("_openHall2") == {"open", "hall"}
    assert split_words("MAX_BODY_BYTES") == {"max", "body", "bytes"}


@pytest.mark.parametrize("folder", [PACKAGE, TESTS], ids=["package", "tests"])
def test_former_words_occur_in_no_name(folder: Path) -> None:
    found = [
        f"{path}: {name}: use {FORMER_WORDS[word]!r}"
        for path, tree in parse_modules(folder)
        for name in {Path(path).stem, *list_names(tree)}
        for word in split_words(name) & FORMER_WORDS.keys()
    ]
    assert found == []


def test_functions_are_not_named_by_participles() -> None:
    found = [
        f"{path}: {node.name}: for instance {FORMER_FUNCTIONS[node.name.strip('_')]!r}"
        for path, tree in parse_modules(PACKAGE)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.strip("_") in FORMER_FUNCTIONS
    ]
    assert found == []


@pytest.mark.parametrize("former", [FORMER_WORDS, FORMER_FUNCTIONS], ids=["words", "functions"])
def test_former_names_are_sorted(former: dict[str, str]) -> None:
    assert list(former) == sorted(former)
