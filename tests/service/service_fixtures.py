"""The application over a registry on a store of its own; a test module asks for it with ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from registries import quick_hall, storage_in
from web import SMALL, Served

from maskedbandits.service import log_reader
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.storage import Store, open_store


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return storage_in(tmp_path)


@pytest.fixture
def store(storage: str) -> Iterator[Store]:
    """The store that the registry has open, too: what it writes can be looked at here."""
    with open_store(storage) as opened:
        yield opened


@pytest.fixture(scope="module")
def restless() -> Iterator[None]:
    """Halls look at the log as soon as there is news; in a service they rest first, so that more gathers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "LEAST", 0.001)
        yield


@pytest.fixture
def registry(storage: str, restless: None) -> ExperimentRegistry:
    """A registry that has not started: whoever serves starts it."""
    return quick_hall(storage)


@pytest.fixture
def served(registry: ExperimentRegistry) -> Iterator[Served]:
    """The application, open to this machine, with one experiment."""
    with Served(registry) as service:
        assert service.post("/v1/experiments", SMALL).status == 201
        yield service
