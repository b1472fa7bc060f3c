"""Fixtures for ledgers; request them with ``pytest_plugins``."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledgers import MEMORY


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that outlives processes, in memory if possible: thousands of synchronised writes are slow."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(params=["memory", "file"])
def location(request: pytest.FixtureRequest, folder: Path) -> Path | None:
    return None if request.param == "memory" else folder / "ledger"


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "ledger"
