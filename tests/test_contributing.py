"""Pages, docstrings and the table of typical changes name files that exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "maskedbandits"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
NAMED = re.compile(r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|js|json|toml|txt|md))?)(?:::\w+)?`")
# Written by a command, or placeholders of a page.
ABSENT = re.compile(r"^(results|dist|\.peers)/|NAME")


def rows() -> list[tuple[str, list[str]]]:
    """Return each typical change and the paths that its row names."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("## Code map") : text.index("Paths are below")]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return [(change, re.findall(r"`([\w./]+)`", place)) for change, place in cells[1:]]


@cache
def files() -> frozenset[str]:
    """Return every path of the repository, with folders."""
    folders = ("bench", "client", "docs", "examples", "experiments", "packaging", "scripts", "src", "tests")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if "node_modules" not in path.parts]
    return frozenset(f"/{path.relative_to(ROOT).as_posix()}" for path in [*paths, *ROOT.glob("*")])


def exists(name: str) -> bool:
    """Tell whether a path of the repository ends with a name."""
    return any(path.endswith(f"/{name.rstrip('/')}") for path in files())


@pytest.mark.parametrize(("change", "paths"), rows(), ids=[change for change, _ in rows()])
def test_typical_change_names_files_that_exist(change: str, paths: list[str]) -> None:
    assert any("/" in path for path in paths), change
    for path in paths:
        known = (PACKAGE / path).exists() or (ROOT / path).exists()
        assert known or ("/" not in path and exists(path)) or path in ("auto",), f"{change}: {path}"


@pytest.mark.parametrize("page", [*PAGES, *PACKAGE.rglob("*.py")], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_text_names_files_that_exist(page: Path) -> None:
    named = {name for name in NAMED.findall(page.read_text(encoding="utf-8")) if not ABSENT.search(name)}
    assert [name for name in sorted(named) if not exists(name)] == []
