"""The application over a real store and a hall that is not; a test module asks for it with ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hall import FakeHall
from web import SMALL, Served

from maskedbandits.service.stores import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{tmp_path}/bandits.db?durable=no", create=True) as opened:
        yield opened


@pytest.fixture
def hall(store: Store) -> FakeHall:
    return FakeHall(store)


@pytest.fixture
def served(hall: FakeHall) -> Iterator[Served]:
    """The application, open to this machine, with one experiment."""
    with Served(hall) as service:
        assert service.post("/v1/experiments", SMALL).status == 201
        yield service
