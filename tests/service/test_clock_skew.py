"""Processes with different clocks: no decision becomes late too early, and no report counts twice."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from postgres import Cluster
from registries import config, open_registry, report_of, storage_in, until

from maskedbandits.service.clock import Clock
from maskedbandits.service.schemas import ExperimentConfig
from maskedbandits.service.storage import open_store
from maskedbandits.service.storage.models import DUPLICATE, LATE

pytest_plugins = ["postgres_fixtures", "service_fixtures"]

SKEWS = [7500.0, 3 * 366 * 86_400.0]  # seconds: two hours, and a clock that was never right
LIFE = 120


def with_short_tokens() -> ExperimentConfig:
    return config(report_after=1, expires_after=LIFE)


def fast_by(seconds: float) -> Clock:
    return Clock(lambda: time.time() + seconds)


@pytest.mark.parametrize("skew", SKEWS)
def test_shared_file_uses_fastest_clock(tmp_path: Path, restless: None, skew: float) -> None:
    async def use() -> None:
        async with open_registry(storage, simulation=True) as registry:
            live = await registry.create(with_short_tokens())
            before = report_of(live, live.decide()[0], 1)
            assert await registry.log_writer.append([before]) == [2]
            async with open_registry(storage, fast_by(skew), simulation=True):
                pass
            await until(lambda: registry.clock.now() > time.time() + skew / 2)
            row = report_of(live, live.decide()[0], 1)
            assert await registry.log_writer.append([row]) == [3]
            assert await registry.log_writer.append([row, before]) == [DUPLICATE, LATE]  # its id may be forgotten

    storage = storage_in(tmp_path)
    asyncio.run(use())


@pytest.mark.parametrize("skew", [*SKEWS, -300.0])
def test_shared_server_provides_clock(postgres_server: Cluster, restless: None, skew: float) -> None:
    async def use() -> None:
        async with open_registry(storage, simulation=True) as registry:
            live = await registry.create(with_short_tokens())
            before = report_of(live, live.decide()[0], 1)
            clock = fast_by(skew)
            clock.now()  # as an answer that it is starting does
            async with open_registry(storage, clock, simulation=True) as other:
                assert abs(other.clock.now() - registry.clock.now()) < abs(skew) / 2
                same = other.get_by_id(live.id)
                assert same is not None
                rows = [before, report_of(live, live.decide()[0], 1), report_of(same, same.decide()[0], 1)]
                assert await other.log_writer.append(rows) == [2, 3, 4]
            assert await registry.log_writer.append(rows) == [DUPLICATE] * 3

    storage = postgres_server.place()
    open_store(storage, create=True).close()
    asyncio.run(use())
