"""Fixtures for devices: a clock, a service and its address; request them with ``pytest_plugins``."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from device_fakes import Clock, Service, direct, serving

from helpers.boundaries import set_device_clock

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of a random name is made in it


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that outlives processes, in memory if possible: thousands of synchronised writes are slow."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as name:
        yield Path(name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    set_device_clock(monkeypatch, made)
    return made


@pytest.fixture
def service(clock: Clock) -> Service:
    return Service(clock.time)


@pytest.fixture
def url(service: Service) -> Iterator[str]:
    with serving(service) as address:
        yield address


@pytest.fixture
def direct_url(service: Service) -> Iterator[str]:
    """An address whose requests are answered by a call, for tests of many visits."""
    with direct(service) as address:
        yield address
