"""Streams take no lock in the store, and go on when the clock is set back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres import Cluster
from registries import config, open_registry, storage_in
from streaming import reading

from maskedbandits.service.app import App
from maskedbandits.service.clock import Clock
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import open_store

pytest_plugins = ["service_fixtures", "postgres_fixtures"]
pytestmark = pytest.mark.usefixtures("quick_broadcasts")

LIVE = "/v1/experiments/headline/live"
READERS = 5
COUNTED = "INSERT INTO refused (experiment, reason, minute, count) SELECT id, 'late', 0, 7 FROM experiment"


@asynccontextmanager
async def open_app(storage: str, clock: Clock | None = None) -> AsyncIterator[App]:
    async with open_registry(storage, clock) as registry:
        await registry.create(config())
        app = App(Settings())
        await app.open(registry)
        yield app
        await app.close()


@contextmanager
def locked_file(storage: str) -> Iterator[Any]:
    """Another connection in a write transaction, which blocks other writers."""
    path = storage.removeprefix("sqlite:///").partition("?")[0]
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


@contextmanager
def locked_server(storage: str) -> Iterator[Any]:
    """Another connection with a lock on all tables that allows ACCESS SHARE alone."""
    with psycopg.connect(storage) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
        tables = ", ".join(sorted(table for (table,) in rows))
        connection.execute(f"LOCK TABLE {tables} IN EXCLUSIVE MODE".encode())
        yield connection


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_streams_do_not_block_writers(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Streams open and go on while another connection writes, and it commits while they are open."""
    if kind == "sqlite":
        storage, locked = storage_in(tmp_path), locked_file
    else:
        server: Cluster = request.getfixturevalue("postgres_server")
        storage, locked = server.place(), locked_server
        open_store(storage, create=True).close()

    async def use() -> None:
        async with open_app(storage) as app, AsyncExitStack() as stack:
            with locked(storage) as connection:
                readers = [await stack.enter_async_context(reading(app, LIVE)) for _ in range(READERS)]
                for reader in readers:
                    times = {(await reader.event("state"))["at"] for _ in range(2)}
                    while len(times) < 3:  # they go on
                        state = await reader.event("state")
                        times.add(state["at"])
                    assert state["sums"]["late"] == 0
                connection.execute(COUNTED)
                connection.execute("COMMIT")
                for reader in readers:
                    while (await reader.event("state"))["sums"]["late"] != 7:
                        pass

    asyncio.run(use())


def test_history_is_monotone_when_clock_is_set_back(tmp_path: Path) -> None:
    wall = [1_700_000_000.0]

    async def use() -> None:
        async with open_app(storage_in(tmp_path), Clock(lambda: wall[0])) as app, reading(app, LIVE) as reader:
            before = (await reader.event("state"))["point"]["at"][0]
            wall[0] -= 3600
            while (await reader.event("state"))["point"]["at"][0] <= before:
                pass
            async with reading(app, LIVE) as later:
                times = (await later.event("history"))["at"]
                assert times == sorted(times)
                assert times[0] >= before

    asyncio.run(use())
