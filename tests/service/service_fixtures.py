"""Fixtures of an application over a registry with a store; test modules list it in ``pytest_plugins``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from registries import build_registry, storage_in
from web import SMALL, Served

from maskedbandits.service import log_reader
from maskedbandits.service.dashboard import broadcast
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.storage import Store, open_store


@pytest.fixture
def storage(tmp_path: Path) -> str:
    return storage_in(tmp_path)


@pytest.fixture
def store(storage: str) -> Iterator[Store]:
    """The store of the registry, to look at what it writes."""
    with open_store(storage) as opened:
        yield opened


@pytest.fixture(scope="module")
def restless() -> Iterator[None]:
    """Let registries read the log at once; a service pauses first, to read more in one go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_reader, "MIN_PAUSE_S", 0.001)
        yield


@pytest.fixture
def quick_broadcasts(monkeypatch: pytest.MonkeyPatch, restless: None) -> None:
    """Let streams have a state every 20 ms."""
    monkeypatch.setattr(broadcast, "INTERVAL_S", 0.02)


@pytest.fixture
def registry(storage: str, restless: None) -> ExperimentRegistry:
    """A registry that has not started; ``Served`` starts it."""
    return build_registry(storage)


@pytest.fixture
def served(registry: ExperimentRegistry) -> Iterator[Served]:
    """The application, open to this machine, with one experiment."""
    with Served(registry) as service:
        assert service.post("/v1/experiments", SMALL).status == 201
        yield service
