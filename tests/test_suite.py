"""The test suite itself: processes share its work as the marks say, and tests talk to public behaviour."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PRIVATE = re.compile(r"_[a-zA-Z]\w*")
PUBLIC = {"_asdict", "_exit", "_fields", "_replace", "_repr_html_"}  # named tuples, os and notebooks
INTERNAL_PACKAGES = {"_numba", "_util", "_validation"}  # whose modules have tests of their own
PATCHES = {"setattr", "delattr", "getattr"}
MAX_WORDS = 4  # of an error that a test expects

# Tests that name private attributes, apart from the helper that all others use.
USES_PRIVATE_NAMES = {
    "contextual/test_question.py": "enumerates all words of 8 bits in place of 64",
    "experiments/test_backends.py": "forgets which code was compared, as a new process does",
    "experiments/test_named_policy.py": "forgets the policies that a test registered",
    "helpers/private.py": "is the one place for all others",
    "policies/detectors/test_glr.py": "counts the evaluations of a detector",
    "problems/test_replayed_times.py": "forgets interpreted loops after a test",
    "service/test_broadcast.py": "cancels a stream between two turns of the event loop",
    "service/test_damage.py": "counts the checks for waiting arms",
    "simulation/test_noise_kernels.py": "draws from a compiled kernel that has no public function",
    "test_cache.py": "tests the folder of machine code, which is internal as a whole",
}


@pytest.mark.xdist_group("suite")
def test_one_process_runs_all_tests_of_a_group(request: pytest.FixtureRequest) -> None:
    """Without groups (`--dist loadgroup`), each process starts its own browser and compiles the same policies."""
    is_shared = "PYTEST_XDIST_WORKER" in os.environ
    assert request.node.nodeid.endswith("@suite") == is_shared


def is_private(name: object) -> bool:
    return isinstance(name, str) and PRIVATE.fullmatch(name) is not None and name not in PUBLIC


def list_own_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a file defines itself."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self" | "cls")):
                yield name
            case _:
                pass


def list_named(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a file reads, imports from the package, or patches."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name):
                yield name
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] == "maskedbandits":
                yield from {each.name for each in names} - INTERNAL_PACKAGES
            case ast.Call(func=ast.Attribute(attr=function) | ast.Name(id=function), args=[_, ast.Constant(name), *_]):
                if function in PATCHES and isinstance(name, str):
                    yield name
            case _:
                pass


def list_foreign_private_names(text: str) -> set[str]:
    """Return the private names that a file uses and does not define."""
    tree = ast.parse(text)
    return set(filter(is_private, list_named(tree))) - set(list_own_names(tree))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("policy._state", {"_state"}),
        ("from maskedbandits.policies.policy import _given", {"_given"}),
        ("monkeypatch.setattr(ledger, '_connection', None)", {"_connection"}),
        ("self._state = 1; self._state", set()),
        ("from maskedbandits._numba import cache; os._exit(0); row._replace(x=1); policy.arms", set()),
    ],
)
def test_private_names_are_found(text: str, names: set[str]) -> None:
    assert list_foreign_private_names(text) == names


def test_tests_talk_to_public_behaviour() -> None:
    """Use `helpers/private.py`, or better a public function: then a rename of internals breaks no tests."""
    found = {
        path.relative_to(TESTS).as_posix(): names
        for path in sorted(TESTS.rglob("*.py"))
        if (names := list_foreign_private_names(path.read_text(encoding="utf-8")))
    }
    assert {path: names for path, names in found.items() if path not in USES_PRIVATE_NAMES} == {}
    assert sorted(found) == sorted(USES_PRIVATE_NAMES)  # without those that need no exception any more


def list_expected_errors(tree: ast.AST) -> Iterator[str]:
    """Yield the texts that calls give as ``match``."""
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg="match", value=ast.Constant(value=str(text))):
                yield text
            case _:
                pass


def test_errors_are_expected_by_key_words() -> None:
    """Then another wording of an error breaks no tests."""
    found = {
        f"{path.relative_to(TESTS)}: {text}"
        for path in sorted(TESTS.rglob("*.py"))
        for text in list_expected_errors(ast.parse(path.read_text(encoding="utf-8")))
        if len(text.split()) > MAX_WORDS
    }
    assert found == set()
