"""Fixtures of a store of each backend, for modules that name them in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from maskedbandits.service.storage import Store, open_store

pytest_plugins = ["postgres_fixtures"]


@pytest.fixture(params=["sqlite", "postgresql"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL at which there is no store yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return str(request.getfixturevalue("postgres_server").place())


@pytest.fixture
def any_store(any_url: str) -> Iterator[Store]:
    with open_store(any_url, create=True) as opened:
        yield opened
