"""The application over a hall on a store of its own; a test module asks for it with ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from halls import quick_hall, storage_in
from web import SMALL, Served

from maskedbandits.service import follower
from maskedbandits.service.hall import Hall
from maskedbandits.service.stores import Store, open_store


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return storage_in(tmp_path)


@pytest.fixture
def store(storage: str) -> Iterator[Store]:
    """The store that the hall has open, too: what it writes can be looked at here."""
    with open_store(storage) as opened:
        yield opened


@pytest.fixture(scope="module")
def restless() -> Iterator[None]:
    """Halls look at the log as soon as there is news; in a service they rest first, so that more gathers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follower, "LEAST", 0.001)
        yield


@pytest.fixture
def hall(storage: str, restless: None) -> Hall:
    """A hall that has not started: whoever serves starts it."""
    return quick_hall(storage)


@pytest.fixture
def served(hall: Hall) -> Iterator[Served]:
    """The application, open to this machine, with one experiment."""
    with Served(hall) as service:
        assert service.post("/v1/experiments", SMALL).status == 201
        yield service
