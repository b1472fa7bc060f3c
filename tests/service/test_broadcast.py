"""Streams of the dashboard: history, then states, to viewers with a role, with one query for all of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from registries import config, open_registry, reported, storage_in, until
from streaming import reading
from web import Client

from helpers.private import date_keys
from maskedbandits.service.app import App
from maskedbandits.service.auth import create_key, revoke_key
from maskedbandits.service.dashboard import broadcast, history
from maskedbandits.service.dashboard.broadcast import Broadcaster, ExperimentFeed
from maskedbandits.service.dashboard.history import ARM_NUMBERS, TOTALS, Point
from maskedbandits.service.dashboard.view import MAX_ARMS
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import StoreUnavailable, open_store

pytest_plugins = ["service_fixtures"]
pytestmark = pytest.mark.usefixtures("quick_broadcasts")

LIVE = "/v1/experiments/headline/live"


@asynccontextmanager
async def open_app(folder: Path, **terms: Any) -> AsyncIterator[tuple[App, ExperimentRegistry]]:
    async with open_registry(storage_in(folder)) as registry:
        await registry.create(config(**terms))
        app = App(Settings())
        await app.open(registry)
        yield app, registry
        await app.close()


def test_stream_sends_history_then_states(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_app(tmp_path) as (app, registry), reading(app, LIVE) as reader:
            kind, history = await reader.event()
            assert (kind, history["reports"], len(history["arms"])) == ("history", [0], 3)
            assert await reader.event() == ("you", {"may": ["admin", "backend", "device", "read"]})
            kind, first = await reader.event()
            assert (kind, first["sums"]["reports"]) == ("state", 0)
            await reported(registry, live_of(registry), 50)
            while (state := await reader.event("state"))["sums"]["decisions"] < 50 or state["sums"]["reports"] < 50:
                pass
            view = await registry.view(live_of(registry))
            assert [arm["estimate"] for arm in state["arms"]] == view["estimates"]
            assert [[arm["low"], arm["high"]] for arm in state["arms"]] == view["intervals"]
            assert sum(arm["share"] for arm in state["arms"]) == pytest.approx(1)
            assert state["point"]["reports"] == [50]
            assert (state["epsilon"], state["concerns"]) == (1.0, [])
            assert "it is true 73.1 % of the time" in state["meaning"]

    asyncio.run(use())


def live_of(registry: ExperimentRegistry) -> Any:
    live = registry.get("headline")
    assert live is not None
    return live


def test_later_viewer_gets_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "IDLE_INTERVAL_S", 0.0)

    async def use() -> None:
        async with open_app(tmp_path) as (app, registry):
            await reported(registry, live_of(registry), 20)
            seen = app.broadcaster.feeds
            await until(lambda: seen and any(p.get_total("reports") == 20 for p in seen[live_of(registry).id].points))
            async with reading(app, LIVE) as reader:
                assert 20 in (await reader.event("history"))["reports"]

    asyncio.run(use())


def test_history_event_is_built_once_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    whole = history.to_columns

    def columns(points: Sequence[Point], names: Sequence[str], most: int) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return whole(points, names, most)

    monkeypatch.setattr(broadcast, "to_columns", columns)
    monkeypatch.setattr(broadcast, "INTERVAL_S", 3600.0)  # there is one look

    async def use() -> None:
        async with open_app(tmp_path, arms=300) as (app, registry), AsyncExitStack() as stack:
            seen = await app.broadcaster.refresh(live_of(registry))
            for at in range(400):
                rows = [{"place": (at + 7 * each) % 300, **dict.fromkeys(ARM_NUMBERS, 0.5)} for each in range(MAX_ARMS)]
                seen.points.append(Point.build(float(at), dict.fromkeys(TOTALS, 0), rows))
            readers = [await stack.enter_async_context(reading(app, LIVE)) for _ in range(20)]
            state = [await reader.event("history") for reader in readers]
            assert len(state[0]["arms"]) == MAX_ARMS  # of 300
            assert all(each == state[0] for each in state)
            assert len(threads) == 2  # of the refresh, and of the history
            assert threading.get_ident() not in threads

    asyncio.run(use())


def test_store_is_queried_once_for_all_viewers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views: list[int] = []
    whole = ExperimentRegistry.view

    async def view(self: ExperimentRegistry, live: Any) -> dict[str, Any]:
        views.append(live.id)
        return await whole(self, live)

    monkeypatch.setattr(ExperimentRegistry, "view", view)

    async def use() -> None:
        async with open_app(tmp_path) as (app, _), AsyncExitStack() as stack:
            readers = [await stack.enter_async_context(reading(app, LIVE)) for _ in range(20)]
            for reader in readers:
                await reader.event("state")
            views.clear()
            for _ in range(5):
                rounds = [(await reader.event("state"))["at"] for reader in readers]
            assert len(rounds) == 20
            assert len(views) <= 10  # 100 events were read of it

    asyncio.run(use())


def test_revoked_key_ends_the_stream(tmp_path: Path) -> None:
    async def use() -> None:
        storage = storage_in(tmp_path)
        with open_store(storage) as store:
            key = create_key(store, "read", "grafana", 0)[1]
            async with open_registry(storage) as registry:
                await registry.create(config())
                app = App(Settings())
                await app.open(registry)
                async with reading(app, LIVE, key=key) as reader, reading(app, "/v1/live", key=key) as other:
                    assert await reader.event("you") == {"may": ["read"]}
                    revoke_key(store, "grafana", 0)
                    date_keys(app, -10.0)
                    await app.renew_keys()
                    await until(lambda: reader.ended and other.ended)
                assert (await Client(app, key).ask("GET", LIVE)).status == 401
                await app.close()

    asyncio.run(use())


def test_stream_needs_read_role(tmp_path: Path) -> None:
    async def use() -> None:
        storage = storage_in(tmp_path)
        with open_store(storage) as store:
            device = create_key(store, "device", "shop", 0)[1]
            async with open_registry(storage) as registry:
                app = App(Settings())
                await app.open(registry)
                for path in (LIVE, "/v1/live"):
                    assert (await Client(app).ask("GET", path)).status == 401
                    assert (await Client(app, device).ask("GET", path)).status == 403
                await app.close()

    asyncio.run(use())


def test_too_many_streams_are_rejected(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_app(tmp_path) as (app, _):
            app.streams.max_streams = 1
            async with reading(app, LIVE) as reader:
                await reader.event("state")
                reply = await Client(app).ask("GET", "/v1/live")
                assert (reply.status, reply.headers["retry-after"]) == (503, "5")
                assert "streams" in reply.error
            async with reading(app, "/v1/live") as reader:
                await reader.event("experiments")
            assert (await Client(app).ask("GET", "/v1/experiments/none/live")).status == 404

    asyncio.run(use())


def test_list_stream_has_every_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory() -> None:
        raise MemoryError

    async def use() -> None:
        async with open_app(tmp_path) as (app, registry), reading(app, "/v1/live") as reader:
            first = await reader.event("experiments")
            assert [(one["name"], one["status"], one["reports"]) for one in first["experiments"]] == [
                ("headline", "running", 0)
            ]
            await registry.create(config("second"))
            await registry.change(live_of(registry), {"status": "paused"})
            while len((state := await reader.event("experiments"))["experiments"]) < 2:
                pass
            while state["experiments"][0]["status"] != "paused":
                state = await reader.event("experiments")
            monkeypatch.setattr(live_of(registry), "sync_pending", no_memory)
            while state["experiments"][-1]["status"] != "aside":
                state = await reader.event("experiments")
            assert [one["name"] for one in state["experiments"]] == ["second", "headline"]

    asyncio.run(use())


def test_unavailable_store_is_announced_until_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use() -> None:
        async with open_app(tmp_path) as (app, _), reading(app, LIVE) as reader:
            await reader.event("state")
            with monkeypatch.context() as patch:

                async def gone(self: ExperimentRegistry, live: Any) -> dict[str, Any]:
                    raise StoreUnavailable("away")

                patch.setattr(ExperimentRegistry, "view", gone)
                assert "unreachable" in (await reader.event("trouble"))["text"]
            assert (await reader.event("trouble"))["text"] == ""
            await reader.event("state")

    asyncio.run(use())


def test_failed_refresh_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def use() -> None:
        async with open_app(tmp_path) as (app, _), reading(app, LIVE) as reader:
            await reader.event("state")
            with monkeypatch.context() as patch:
                patch.setattr(ExperimentFeed, "update", lambda *_: 1 / 0)
                await until(lambda: "experiment could not be viewed" in capsys.readouterr().err)
            await reader.event("state")

    asyncio.run(use())


def test_failing_experiment_does_not_block_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = ExperimentRegistry.view

    async def view(self: ExperimentRegistry, live: Any) -> dict[str, Any]:
        if live.row.name == "headline":
            raise ZeroDivisionError
        return await seen(self, live)

    async def use() -> None:
        monkeypatch.setattr(broadcast, "IDLE_INTERVAL_S", 0.02)
        monkeypatch.setattr(broadcast, "MAX_IDLE_REFRESHES", 1)
        monkeypatch.setattr(ExperimentRegistry, "view", view)
        async with open_app(tmp_path) as (app, registry):
            await registry.create(config("another"))
            number = registry.get("another").id  # type: ignore[union-attr]
            await until(lambda: "experiment could not be viewed" in capsys.readouterr().err)
            await until(lambda: number in app.broadcaster.feeds and app.broadcaster.feeds[number].event)

    asyncio.run(use())


def test_stream_sends_keepalives_and_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "KEEPALIVE_S", 0.05)
    monkeypatch.setattr(broadcast, "MAX_STREAM_S", 0.5)

    async def use() -> None:
        async with open_app(tmp_path) as (app, _), reading(app, "/v1/live") as reader:
            await until(lambda: reader.ended)
            assert b": still here\n\n" in reader.rest

    asyncio.run(use())


def test_shares_are_of_latest_decisions() -> None:
    seen = ExperimentFeed()
    assert seen.compute_shares([0, 0]) == ([None, None], 0)
    assert seen.compute_shares([60, 20]) == ([0.75, 0.25], 80)
    assert seen.compute_shares([60, 60]) == ([0.5, 0.5], 120)
    assert seen.compute_shares([60, 140, 0]) == ([0.3, 0.7, 0.0], 200)
    assert seen.compute_shares([60, 360, 0]) == ([0.0, 1.0, 0.0], 300)  # of those since the look at 120


def test_archived_feed_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broadcast, "IDLE_INTERVAL_S", 0.0)

    async def use() -> None:
        async with open_app(tmp_path) as (app, registry):
            watch: Broadcaster = app.broadcaster
            await until(lambda: live_of(registry).id in watch.feeds)
            await registry.change(live_of(registry), {"status": "archived"})
            await until(lambda: not watch.feeds)

    asyncio.run(use())


@pytest.mark.parametrize("later", range(4))
def test_stream_cancelled_during_a_round_ends(later: int) -> None:
    """However many turns of the loop lie between the two."""
    watch = Broadcaster(SimpleNamespace())  # type: ignore[arg-type]

    async def follow() -> None:
        async for _ in watch._stream_rounds(lambda: iter(()), lambda: frozenset({"read"})):
            pass

    async def use() -> None:
        following = asyncio.create_task(follow())
        for _ in range(5):
            await asyncio.sleep(0)
        turn, watch._round = watch._round, asyncio.Event()
        turn.set()
        for _ in range(later):
            await asyncio.sleep(0)
        following.cancel()
        assert await asyncio.wait([following], timeout=5) == ({following}, set())

    asyncio.run(use())
