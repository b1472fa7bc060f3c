"""Upgrades of stores that older releases have written, alone and while processes use them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from older_stores import FIRST_HEADS, START, build_older, interrupt_upgrade, rewrite_nothing
from postgres import Cluster
from store_samples import HOUR, LATER, create_sample, refused, report, to_id

from helpers.private import connection_of, read_tables, write_tables
from maskedbandits.service.storage import Store, StoreUnavailable, open_store, schema
from maskedbandits.service.storage.backup import CopyCounts, backup, restore
from maskedbandits.service.storage.layouts import Layout
from maskedbandits.service.storage.models import DUPLICATE, LATE, EventRow, KeyRow, Visit

pytest_plugins = ["store_fixtures"]

KNOWN, FORGOTTEN = b"\xa0\xb1\xc2" + bytes([0] * 7 + [3]), b"\xa0\xb1\xc2" + bytes(8)  # ids in the store of version 3


def read_logs(store: Store) -> dict[int, list[EventRow]]:
    return {experiment: store.read_events(experiment, 0, 100_000) for experiment in store.read_heads()}


def count_pending(store: Store) -> list[Any]:
    """Return all that a service reads of the ids of reports."""
    return [
        sorted(read(experiment, since, seq))
        for read in (store.count_reports, store.read_questions)
        for experiment in (1, 2)
        for since in (0, START + 1500)
        for seq in (0, 9, 99)
    ]


def list_columns(store: Store) -> dict[str, set[str]]:
    """Return the columns of each table, without the empty ones that SQLite keeps."""
    dialect = {
        "sqlite": "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c "
        "WHERE t.type = 'table'",
        "postgresql": "SELECT table_name::text, column_name::text FROM information_schema.columns "
        "WHERE table_schema = current_schema()",
    }
    with read_tables(store) as tx:
        rows = tx.query(dialect[store.DIALECT])
    return {table: {column for each, column in rows if each == table} - EMPTY for table, _ in rows}


EMPTY = {"empty_old_decision", "empty_old_expires"}


@pytest.fixture
def shared_url(any_url: str) -> str:
    """A store that the release before this one has written."""
    build_older(any_url, 3)
    return any_url


# From version 3, online


def test_store_of_version_3_is_shared_at_once(shared_url: str) -> None:
    for _ in range(2):
        with open_store(shared_url) as store:
            assert store.read_version() == 3
            assert store.read_heads() == FIRST_HEADS
            assert store.list_keys() == [KeyRow("admin-1", "admin", bytes(range(32)), 500_000, None)]
            assert set(schema.TABLES) <= set(list_columns(store))


def test_older_process_can_use_a_shared_store(shared_url: str) -> None:
    """Its statements name these columns, and its index is the guard of both."""
    with open_store(shared_url) as store:
        fresh = report()
        assert store.append([fresh, report(decision=KNOWN), report(decision=FORGOTTEN, expires=START)]) == [
            *(17, DUPLICATE, LATE),
        ]
        with read_tables(store) as tx:
            assert tx.query("SELECT decision, expires FROM event WHERE experiment = 1 AND seq = 17") == [
                (fresh.decision, fresh.expires)
            ]
            assert not tx.query("SELECT 1 FROM report_id")
        with pytest.raises(Exception, match=r"(?i)unique"), write_tables(store) as tx:
            tx.execute(
                "INSERT INTO event (experiment, seq, kind, hour, decision, expires) VALUES (1, 18, 'report', 1, ?, 1)",
                (fresh.decision,),
            )


def test_upgrade_changes_no_answer(shared_url: str) -> None:
    """Of each layout: the logs, the counts of pending reports, and which reports are refused."""
    seen = []

    def look(store: Store) -> None:
        answers = store.append([report(decision=KNOWN), report(decision=FORGOTTEN, expires=START), report(7)])
        seen.append((read_logs(store), count_pending(store), answers))

    with open_store(shared_url) as running, open_store(shared_url) as other:
        look(running)
        interrupt_upgrade(other, "_move_ids")
        look(running)
        assert other.upgrade(rewrite_nothing) == (3, 4)
        look(running)
        assert other.upgrade(rewrite_nothing) == (4, 4)
    with open_store(shared_url) as store:
        look(store)
    assert seen[0][2] == [DUPLICATE, LATE, -2]
    assert seen[1:] == seen[:1] * 3


@pytest.mark.parametrize("step", ["_switch", "_move_ids", "_finish"])
def test_killed_upgrade_goes_on_where_it_stopped(shared_url: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskedbandits.service.storage.upgrade.IDS_AT_ONCE", 2)
    monkeypatch.setattr("maskedbandits.service.storage.store.IDS_AT_ONCE", 2)
    with open_store(shared_url) as store, open_store(shared_url) as running:
        before = read_logs(store)
        assert running.append([report(decision=to_id(1))]) == [17]
        interrupt_upgrade(store, step)
        assert running.append([report(decision=to_id(each)) for each in (1, 2)]) == [DUPLICATE, 18]
        assert running.append([report(decision=to_id(each)) for each in (2, 1)]) == [DUPLICATE, DUPLICATE]
        running.forget(START + 1440)
        assert store.upgrade(rewrite_nothing) == (3, 4)
        assert running.append([report(decision=to_id(each)) for each in (1, 2, 3)]) == [DUPLICATE, DUPLICATE, 19]
        after = read_logs(running)[1]
        assert [event._replace(expires=None) for event in after[:16]] == [
            event._replace(expires=None) for event in before[1]
        ]
        expiring = [event.expires for event in before[1] if event.expires and event.expires > START + 1440]
        assert [event.expires for event in after if event.expires] == [*expiring, LATER, LATER, LATER]


def test_upgraded_store_has_the_tables_of_a_new_one(shared_url: str, tmp_path: Path) -> None:
    with open_store(shared_url) as store:
        store.upgrade(rewrite_nothing)
        with open_store(f"sqlite:///{tmp_path}/new.db", create=True) as new:
            assert list_columns(store) == list_columns(new)
        with read_tables(store) as tx:
            assert tx.query("SELECT key, value FROM meta") == [("schema", "4")]
            if store.DIALECT == "sqlite":  # which keeps the columns, but not what was in them
                assert not tx.query("SELECT 1 FROM event WHERE empty_old_decision IS NOT NULL")


def test_process_of_the_older_release_writes_nothing_afterwards(shared_url: str) -> None:
    with open_store(shared_url) as store:
        store.upgrade(rewrite_nothing)
        for statement in (
            "INSERT INTO event (experiment, seq, kind, hour, decision, expires) VALUES (1, 17, 'report', 1, ?, 1)",
            "SELECT seq, expires FROM event WHERE decision = ?",
        ):
            with pytest.raises(StoreUnavailable, match=r"decision|expires"), write_tables(store) as tx:
                tx.execute(statement, (bytes(11),))
        assert store.read_heads() == FIRST_HEADS


def test_upgrade_waits_for_a_backup(any_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_older(any_url, 3)
    monkeypatch.setattr("maskedbandits.service.storage.upgrade.TABLE_TIMEOUT_S", 0.1)
    with open_store(any_url) as store:
        if store.DIALECT == "sqlite":  # its readers do not wait for writers
            return
        with store.dump() as tables:
            next(tables)
            with pytest.raises(StoreUnavailable, match="writing"):
                store.upgrade(rewrite_nothing)
            assert store.append([report()]) == [17]  # nobody waits behind the upgrade
            assert dict(row for table, rows in tables for row in rows if table == "meta") == {}
        assert store.upgrade(rewrite_nothing) == (3, 4)


def test_reports_are_counted_once_during_upgrade(shared_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that never restart send the same reports in another order, and forget, from start to end."""
    monkeypatch.setattr("maskedbandits.service.storage.upgrade.IDS_AT_ONCE", 3)
    done, given = threading.Event(), [dict[int, int](), dict[int, int]()]
    turns = [0, 0]

    def send(place: int) -> None:
        with open_store(shared_url) as store:
            while not done.is_set() or turns[place] % 40:
                turn = turns[place] % 40
                wanted = [(turn * 7 + each * (1 - 2 * place)) % 300 for each in range(10)]
                answers = store.append([report(decision=to_id(each), tag=each) for each in wanted])
                for each, answer in zip(wanted, answers, strict=True):
                    if answer != DUPLICATE:
                        assert each not in given[place]
                        given[place][each] = answer
                if turn % 10 == 0:
                    store.forget(START + turn)
                turns[place] += 1

    senders = [threading.Thread(target=send, args=(place,)) for place in (0, 1)]
    with open_store(shared_url) as store:
        for sender in senders:
            sender.start()
        try:
            wait_for(lambda: min(turns) > 5)
            assert store.upgrade(rewrite_nothing) == (3, 4)
            reached = max(turns)
            wait_for(lambda: min(turns) > reached + 5)
        finally:
            done.set()
            for sender in senders:
                sender.join()
        log = store.read_events(1, 16, 10_000)
        assert [event.seq for event in log] == list(range(17, 17 + len(log)))
        assert {event.epsilon: event.seq for event in log} == given[0] | given[1]
        assert len(log) == len(given[0]) + len(given[1])
        assert store.append([report(decision=KNOWN)]) == [DUPLICATE]


@pytest.mark.parametrize("version", [2, 3])
def test_upgrades_at_once_do_the_work_once(any_url: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskedbandits.service.storage.upgrade.IDS_AT_ONCE", 1)
    build_older(any_url, version)

    def upgrade(_: int) -> tuple[int, int]:
        with open_store(any_url, any_version=True) as store:
            return store.upgrade(rewrite_nothing)

    with ThreadPoolExecutor(3) as pool:
        assert {now for _, now in pool.map(upgrade, range(3))} == {4}
    with open_store(any_url) as store:
        assert store.read_heads() == FIRST_HEADS
        assert sum(event.expires is not None for event in store.read_events(1, 0, 99)) == 10


def test_ids_of_a_deleted_experiment_do_not_block_upgrade(shared_url: str) -> None:
    """Its events may still be there; its ids expire like all others."""
    with open_store(shared_url) as store:
        with write_tables(store) as tx:
            tx.execute("DELETE FROM experiment WHERE id = 2")
        assert store.upgrade(rewrite_nothing) == (3, 4)
        store.forget(LATER)
        with read_tables(store) as tx:
            assert not tx.query("SELECT 1 FROM report_id")


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(6_000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("nothing happened for a minute")


@pytest.mark.parametrize("layout", Layout)
def test_grown_log_is_read_by_its_indexes(postgres_server: Cluster, layout: Layout) -> None:
    place = postgres_server.place()
    build_older(place, 3)
    with open_store(place) as store:
        reach_layout(store, layout)
        postgres_server.execute("VACUUM ANALYZE")  # now the server knows that there is next to nothing

        def work() -> list[Any]:
            """Return the number of full scans ever."""
            for _ in range(10):
                batch = [report() for _ in range(100)]
                store.append(batch)
                store.recover_append(batch, {})
            connection_of(store).execute("SELECT pg_stat_force_next_flush()")
            return postgres_server.execute(
                "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE schemaname = %s "
                "AND relname IN ('event', 'report_id')",
                place.rpartition("%3D")[2],
            )

        assert work() == work()


def reach_layout(store: Store, layout: Layout) -> None:
    """Bring a store of version 3 to a later layout, without moving ids."""
    if layout is Layout.MOVING:
        interrupt_upgrade(store, "_move_ids")
    elif layout is Layout.CURRENT:
        store.upgrade(rewrite_nothing)


# Backups


@pytest.mark.parametrize("layout", Layout)
def test_backup_of_each_layout_is_of_this_version(shared_url: str, layout: Layout, tmp_path: Path) -> None:
    with open_store(shared_url) as store:
        reach_layout(store, layout)
        assert backup(store, tmp_path / "backup") == CopyCounts(2, 22)
        before = read_logs(store), count_pending(store)
    target = f"sqlite:///{tmp_path}/restored.db"
    assert restore(tmp_path / "backup", target) == CopyCounts(2, 22)
    with open_store(target) as restored:
        assert restored.read_version() == 4
        assert (read_logs(restored), count_pending(restored)) == before
        assert restored.append([report(decision=KNOWN), report()]) == [DUPLICATE, 17]


def test_backup_of_version_3_is_restored(any_url: str, tmp_path: Path) -> None:
    build_older(f"sqlite:///{tmp_path}/old.backup", 3)
    with open_store(f"sqlite:///{tmp_path}/old.backup", any_version=True) as older, write_tables(older) as tx:
        for index in ("event_decision", "event_expires", "visitor_expires", "experiment_name", "arm_name"):
            tx.execute(f"DROP INDEX {index}")  # a backup has none
        tx.execute("PRAGMA application_id = 1296192322")
    with open_store(any_url, create=True):
        pass
    assert restore(tmp_path / "old.backup", any_url) == CopyCounts(2, 22)
    with open_store(any_url) as store:
        assert store.read_version() == 4
        assert store.append([report(decision=KNOWN), report()]) == [DUPLICATE, 17]
        assert {experiment: len(log) for experiment, log in read_logs(store).items()} == {1: 17, 2: 6}


# From versions 1 and 2, offline


def test_failed_upgrade_changes_nothing(any_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build_older(any_url, 2)
    with refused("version 2", "run maskedbandits upgrade"):
        open_store(any_url)
    with open_store(any_url, any_version=True) as store:
        with monkeypatch.context() as patch:
            steps = schema.STEPS[2][store.DIALECT]
            patch.setitem(schema.STEPS, 2, {store.DIALECT: (*steps, "NONSENSE")})
            with pytest.raises(Exception, match="NONSENSE"):
                store.upgrade(rewrite_nothing)
        assert store.read_version() == 2
        assert store.upgrade(rewrite_nothing) == (2, 4)
        assert store.upgrade(rewrite_nothing) == (4, 4)
        assert store.read_heads() == FIRST_HEADS


def test_store_of_version_1_is_upgraded(any_url: str, tmp_path: Path) -> None:
    """The first version has no groups: old reports stay as they are, and new ones of both kinds follow."""
    build_older(any_url, 2)
    with open_store(any_url, any_version=True) as store:
        with write_tables(store) as tx:
            tx.execute("DELETE FROM event WHERE experiment = 2")
            tx.execute("DELETE FROM arm WHERE experiment = 2")
            tx.execute("DELETE FROM experiment WHERE id = 2")
            tx.execute("ALTER TABLE event DROP COLUMN question")
            tx.execute("ALTER TABLE event DROP COLUMN config")
            tx.execute("UPDATE meta SET value = '1' WHERE key = 'schema'")
        assert store.upgrade(rewrite_nothing) == (1, 4)
    with open_store(any_url) as store:
        assert create_sample(store, "another").id == 2
        plain, grouped = report()._replace(config=7), report()._replace(arm=None, probability=None, question=b"abc")
        assert store.append([plain, grouped, plain]) == [17, 18, DUPLICATE]
        first, second = store.read_events(1, 16, 10)
        assert (first.arm, first.config, first.question) == (1, 7, None)
        assert (second.arm, second.probability, second.question) == (None, None, b"abc")
        assert store.assign_tokens([Visit(1, bytes(16), b"token", LATER, 1)]) == [b"token"]
        store.revoke_key("admin-1", HOUR)
        assert backup(store, tmp_path / "backup") == CopyCounts(2, 19)
