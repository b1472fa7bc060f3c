"""Whatever is not excluded counts, and nothing is excluded that could matter."""

import ast
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from fork_server import ForkServer
from maskedbandits import fingerprint
from maskedbandits.fingerprint import CELLS, MACHINE_CODE, SNAPSHOTS, Use, package
from maskedbandits.fingerprint.package import HERE

USES = {"machine code": MACHINE_CODE, "cells": CELLS, "snapshots": SNAPSHOTS}
DECORATORS = {"compiled", "entry", "inner", "inlined", "dispatch"}
COMPILERS = {"numba", "llvmlite"}
HOLDS_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)  # expressions import nothing
SHOWN = {"experiments/dataframe.py", "experiments/progress_bar.py"}  # imported, and decide nothing
LOADED = """
import sys
print(*(module.__file__ for name, module in sorted(sys.modules.items()) if name.startswith("maskedbandits")))
"""

together = pytest.mark.xdist_group("imports of the package")  # each file is parsed once
every_use = pytest.mark.parametrize("use", USES.values(), ids=USES)


def is_excluded(path: Path, use: Use) -> bool:
    return any(HERE / name in (path, *path.parents) for name in use.excluded)


@cache
def imports(path: Path) -> set[str]:
    """All that a file imports when it runs, as far as it is written in it, with all packages around that."""
    found = set()
    todo: list[ast.AST] = [ast.parse(path.read_bytes())]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{each.name}" for each in node.names}
        todo += [child for child in ast.iter_child_nodes(node) if isinstance(child, HOLDS_STATEMENTS)]
    return {".".join(name.split(".")[:count]) for name in found for count in range(1, name.count(".") + 2)}


def file_of(name: str) -> Path | None:
    place = HERE.joinpath(*name.split(".")[1:])
    candidates = [place / "__init__.py", place.with_suffix(".py")] if name.startswith("maskedbandits") else []
    return next((each for each in candidates if each.is_file()), None)


def reached(roots: Iterable[Path]) -> set[Path]:
    """All files of the package that some files import, or that are imported by those, and so on."""
    found, todo = set[Path](), list(roots)
    while todo:
        path = todo.pop()
        if path not in found:
            found.add(path)
            todo += [file for name in imports(path) if (file := file_of(name)) is not None]
    return found


@every_use
def test_all_that_is_excluded_exists(use: Use) -> None:
    assert [name for name in use.excluded if not (HERE / name).exists()] == []
    assert len(set(use.excluded)) == len(use.excluded)


@every_use
def test_all_else_counts(use: Use) -> None:
    listed = set(package.list_files(use, HERE))
    for path in HERE.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
            assert (path in listed) != is_excluded(path, use), path


@every_use
def test_new_files_count_except_those_of_editors(use: Use, tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    before = fingerprint.hash_package(use, tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "rubbish.pyc").write_bytes(b"rubbish")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for name in (".new.py.swp", "#new.py#", "new.py~"):  # of editors
        (tmp_path / name).write_text("1")
    for name in use.excluded:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    assert fingerprint.hash_package(use, tmp_path) == before
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "new.py").write_text("1")
    after = fingerprint.hash_package(use, tmp_path)
    (tmp_path / "deep" / "new.py").write_text("2")
    other = fingerprint.hash_package(use, tmp_path)
    (tmp_path / "deep" / "new.py").rename(tmp_path / "deep" / "newer.py")
    assert len({before, after, other, fingerprint.hash_package(use, tmp_path)}) == 4


@together
def test_no_import_of_kernels_is_excluded() -> None:
    marked = {f"maskedbandits._numba.jit.{name}" for name in DECORATORS}
    kernels = [path for path in HERE.rglob("*.py") if imports(path) & (marked | COMPILERS)]
    kernels = [path for path in kernels if path.parent.name != "cli"]  # which asks the compiler for its version
    assert HERE / "policies" / "kernels.py" in kernels
    assert HERE / "_numba/internals.py" in kernels
    found = {*kernels, *reached(path for path in kernels)} - {HERE / "__init__.py"}
    assert {path for path in found if is_excluded(path, MACHINE_CODE)} == set()


@together
def test_no_import_of_cells_is_excluded_except_display() -> None:
    found = reached([HERE / "experiments" / "runner.py"])
    assert HERE / "_numba/internals.py" in found
    left_out = {path.relative_to(HERE).as_posix() for path in found if is_excluded(path, CELLS)}
    assert left_out <= SHOWN


@together
def test_no_import_of_snapshots_is_excluded() -> None:
    found = reached([HERE / "service" / "state.py"])
    assert HERE / "contextual" / "policy.py" in found
    assert {path for path in found if is_excluded(path, SNAPSHOTS)} == set()


@pytest.mark.parametrize(
    ("use", "modules"),
    [
        (MACHINE_CODE, ("policies", "policies.serialization", "features", "_numba.state")),
        (SNAPSHOTS, ("service.state",)),
    ],
    ids=["machine code", "snapshots"],
)
def test_no_loaded_module_is_excluded(use: Use, modules: tuple[str, ...], fork_server: ForkServer) -> None:
    """Some modules import others late."""
    script = "".join(f"import maskedbandits.{name}\n" for name in modules) + LOADED
    loaded = [Path(file) for file in fork_server.run("-c", script).stdout.split()]
    assert HERE / "policies" / "kernels.py" in loaded
    assert [path for path in loaded if is_excluded(path, use)] == []


@every_use
def test_versions_count(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint.package_key.__wrapped__(use)
    assert before == fingerprint.package_key(use)
    for module, name in ((np, "__version__"), (sys, "version")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, "0.0.1")
            assert fingerprint.package_key.__wrapped__(use) != before


def test_processor_and_compiler_settings_count_only_for_code(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba
    from llvmlite import binding

    before = {name: fingerprint.package_key(use) for name, use in USES.items()}
    for module, name, value in ((binding, "get_host_cpu_name", lambda: "abacus"), (numba.config, "BOUNDSCHECK", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, value)
            after = {name: fingerprint.package_key.__wrapped__(use) for name, use in USES.items()}
        assert {name for name in USES if after[name] != before[name]} == {"machine code", "snapshots"}


@pytest.mark.parametrize("content", [None, "unreadable"])
def test_sources_that_cannot_be_read_have_no_key(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "__init__.py").touch()

        def fail(path: Path) -> bytes:
            raise PermissionError(13, "denied", str(path))

        monkeypatch.setattr(Path, "read_bytes", fail)
    assert fingerprint.hash_package(CELLS, tmp_path) == ""
