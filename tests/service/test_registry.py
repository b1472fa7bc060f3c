"""The registry: decisions, reports and changes across processes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from registries import build_registry, config, open_registry, report_of, reported, storage_in, until

from helpers.boundaries import shorten_store_waits
from maskedbandits.errors import UserError
from maskedbandits.service import recovery
from maskedbandits.service.clock import Clock
from maskedbandits.service.event_columns import EventColumns
from maskedbandits.service.replay import replay
from maskedbandits.service.schemas import NewArm
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import StoreUnavailable, open_store
from maskedbandits.service.storage.models import DUPLICATE
from maskedbandits.service.storage.sqlite import SqliteStore


def replayed(storage: str) -> dict[str, str]:
    """The states of all experiments, folded from their first events."""
    with open_store(storage) as store:
        found = [replay(store, row, []) for row in store.list_experiments()]
    assert all(each.holds for each in found)
    return {each.name: each.digest for each in found}


def test_decisions_and_reports_reach_policy(tmp_path: Path) -> None:
    async def use() -> str:
        async with open_registry(storage) as registry:
            live = await registry.create(config())
            await reported(registry, live, 50)
            await until(lambda: live.state.seq == 51)
            view = await registry.view(live)
            assert view["observations"] == 50
            assert view["seq"] == 51
            await until(lambda: sum(live.pending.count_open(3, 0)) == 0)
            return str(view["digest"])

    storage = storage_in(tmp_path)
    digest = asyncio.run(use())
    assert replayed(storage) == {"headline": digest}


def test_shown_arm_is_not_pending(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config())
            for among in (None, (1, 2)):
                shown = live.show(among)
                assert shown.arm in (among or (0, 1, 2))
                live.cancel(shown)
            assert live.policy.pending.sum() == 0
            assert sum(live.pending.count_open(3, 0)) == 0

    asyncio.run(use())


def test_duplicate_within_batch_is_found(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config())
            row = report_of(live, live.decide()[0], 1)
            assert (await registry.log_writer.append([row, row]))[1] == DUPLICATE
            assert await registry.log_writer.append([row]) == [DUPLICATE]
            await until(lambda: live.state.seq == 2)
            assert live.policy.observations == 1

    asyncio.run(use())


def test_processes_share_state_and_pending_counts(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage) as one, open_registry(storage) as other:
            live = await one.create(config())
            await until(lambda: other.get("headline") is not None)
            twin = other.get("headline")
            assert twin is not None
            await asyncio.gather(reported(one, live, 40), reported(other, twin, 30))
            await until(lambda: live.state.seq == twin.state.seq == 71)
            assert live.state.compute_digest() == twin.state.compute_digest()
            live.decide(7)
            await until(lambda: sum(twin.policy.pending) == 7)  # flushed every second
            await until(lambda: twin.policy.pending.tolist() == live.policy.pending.tolist())

    storage = storage_in(tmp_path)
    asyncio.run(use())


def test_new_process_starts_from_snapshot_with_pending(tmp_path: Path) -> None:
    async def first() -> None:
        async with open_registry(storage) as registry:
            live = await registry.create(config())
            await reported(registry, live, 20)
            live.decide(5)
            await until(lambda: live.state.seq == 21)

    async def second() -> None:
        async with open_registry(storage) as registry:
            live = registry.get("headline")
            assert live is not None
            assert live.state.seq == 21
            assert sum(live.policy.pending) == 5

    storage = storage_in(tmp_path)
    asyncio.run(first())
    with open_store(storage) as store:
        from maskedbandits.service.recovery import SNAPSHOT_KERNEL

        assert [seq for seq, _ in store.list_snapshots(1, SNAPSHOT_KERNEL)] == [21]
        store.save_snapshot(1, 22, SNAPSHOT_KERNEL, b"damaged", "0" * 64)
    asyncio.run(second())


def test_arms_and_config_change_while_running(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage) as registry:
            live = await registry.create(config())
            await registry.add_arm(live, NewArm("late", {"colour": "red"}))
            assert {each.arm for each in live.decide(8)} == {0, 1, 2, 3}
            with pytest.raises(UserError, match="used by another arm"):
                await registry.add_arm(live, NewArm("late"))
            await registry.retire(live, "arm 1")
            assert 1 not in {each.arm for each in live.decide(50)}
            with pytest.raises(UserError, match="default arm"):
                await registry.retire(live, "arm 0")
            await registry.change(live, {"default_arm": "arm 2", "epsilon": 0.5, "status": "paused"})
            assert (live.status, live.row.default_arm, live.epsilon) == ("paused", 2, 500_000)
            await registry.retire(live, "arm 0")
            await registry.retire(live, "late")
            with pytest.raises(UserError, match="last open arm"):
                await registry.retire(live, "arm 2")
            with pytest.raises(UserError, match="policy"):
                await registry.change(live, {"floor": 1.0})

    storage = storage_in(tmp_path)
    asyncio.run(use())
    replayed(storage)


def test_concurrent_changes_are_merged(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config())
            changes: list[dict[str, Any]] = [{"epsilon": 0.5}, {"floor": 0.02}, {"default_arm": "arm 1"}]
            await asyncio.gather(*(registry.change(live, each) for each in changes))
            assert (live.config.epsilon, live.config.floor, live.row.default_arm) == (0.5, 0.02, 1)

    asyncio.run(use())


def test_concurrent_arms_leave_policy_its_share(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config(arms=2, floor=0.3))
            added = (registry.add_arm(live, NewArm(f"new {place}")) for place in range(5))
            results = await asyncio.gather(*added, registry.change(live, {"floor": 0.32}), return_exceptions=True)
            refused = [each for each in results if isinstance(each, UserError)]
            assert len(refused) == 4  # one arm of five is added, and then the floor still fits
            assert all("leave the policy some" in str(each) for each in refused)
            assert min(each.probability for each in live.decide(200)) > 0

    asyncio.run(use())


def test_arm_too_many_is_refused_before_writing(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config(arms=2, policy="sw-klucb-cf", parameters={"window": 3}))
            await registry.add_arm(live, NewArm("third"))
            await registry.retire(live, "third")
            with pytest.raises(UserError, match="window"):
                await registry.add_arm(live, NewArm("fourth"))
            assert registry.is_ready

    asyncio.run(use())


def test_reports_with_own_epsilon_are_weighted(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage) as registry:
            live = await registry.create(config(policy="auto"))
            rows = [report_of(live, each, 1, 250_000 * (1 + place % 4)) for place, each in enumerate(live.decide(40))]
            assert all(answer > 0 for answer in await registry.log_writer.append(rows))
            await until(lambda: live.state.seq == 41)

    storage = storage_in(tmp_path)
    asyncio.run(use())
    replayed(storage)


def test_cancelled_decision_is_not_pending(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config())
            live.cancel(live.decide()[0])
            assert live.policy.pending.sum() == 0
            assert sum(live.pending.count_open(3, 0)) == 0

    asyncio.run(use())


def test_visitor_keeps_token(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config())
            minute = registry.clock.minute() + 10
            kept = await asyncio.gather(*(registry.visit(live, b"v" * 16, b"token %d" % n, minute) for n in range(5)))
            assert len(set(kept)) == 1
            assert await registry.visit(live, b"w" * 16, b"another", minute) == b"another"

    asyncio.run(use())


def test_decisions_go_on_without_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from maskedbandits.service.storage import sqlite

    async def use() -> None:
        shorten_store_waits(monkeypatch, 0.1)
        async with open_registry(storage_in(tmp_path)) as registry:
            live = await registry.create(config())
            rows = [report_of(live, each, 1) for each in live.decide(2)]
            with monkeypatch.context() as patch:
                for name in ("append", "ping", "read_status"):
                    patch.setattr(sqlite.SqliteStore, name, _gone)
                with pytest.raises(StoreUnavailable):
                    await registry.log_writer.append(rows)
                assert not registry.is_ready
                with pytest.raises(StoreUnavailable):  # at once, without waiting
                    registry.log_writer.append(rows)
                assert live.decide(3)
            await until(lambda: registry.is_ready)
            assert all(answer > 0 for answer in await registry.log_writer.append(rows))

    asyncio.run(use())


def _gone(*_: object) -> None:
    raise StoreUnavailable("the disk is full")


def test_clock_set_back_revives_no_forgotten_id(tmp_path: Path) -> None:
    now = [1_800_000_000.0]

    async def use() -> None:
        async with open_registry(storage, Clock(lambda: now[0], lambda: 0.0), simulation=True) as registry:
            live = await registry.create(config(report_after=1, expires_after=60))
            row = report_of(live, live.decide()[0], 1)
            assert await registry.log_writer.append([row]) == [2]
            await registry.call_store(lambda store: store.forget(int(now[0] // 60) + 60))
            assert await registry.log_writer.append([row]) == [-1]

    async def later() -> None:
        now[0] -= 100_000
        async with open_registry(storage, Clock(lambda: now[0], lambda: 0.0)) as registry:
            assert registry.clock.now() >= 1_800_000_000 + 240

    storage = storage_in(tmp_path)
    asyncio.run(use())
    asyncio.run(later())


def test_refused_reports_are_counted(tmp_path: Path) -> None:
    async def use() -> None:
        async with open_registry(storage) as registry:
            live = await registry.create(config())
            for _ in range(3):
                registry.count_refused(live.id, "late")

    storage = storage_in(tmp_path)
    asyncio.run(use())
    with open_store(storage) as store:
        assert store.sum_refused(1) == {"late": 3}


def test_stop_interrupts_reading_a_long_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def use() -> None:
        async with open_registry(storage) as registry:
            live = await registry.create(config())
            await reported(registry, live, 20)

    storage = storage_in(tmp_path)
    asyncio.run(use())
    later = build_registry(storage)
    take, taken = ExperimentState.apply_columns, list[int]()

    def take_and_end(self: ExperimentState, events: EventColumns) -> None:
        taken.extend(events.seq)
        take(self, events)
        later.log_reader.stop()

    monkeypatch.setattr(ExperimentState, "apply_columns", take_and_end)
    monkeypatch.setattr(recovery, "EVENTS_AT_ONCE", 1)
    monkeypatch.setattr(SqliteStore, "list_states", lambda self, experiment: [])
    later.log_reader.start()
    assert len(taken) == 1
    assert not later.experiments()
