"""Backups from and to each backend, and tables of other versions."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from older_stores import rewrite_nothing
from postgres import Cluster
from store_samples import HOUR, LATER, create_sample, refused, report, to_id

from helpers.private import write_tables
from maskedbandits.service.storage import Store, StoreUnavailable, open_store, schema
from maskedbandits.service.storage.backup import CopyCounts, backup, restore
from maskedbandits.service.storage.base import TableRows
from maskedbandits.service.storage.models import Change, Visit

pytest_plugins = ["store_fixtures"]

ODD = "'; DROP TABLE event; -- % ? ü 滑 🦀 \\ \t \n \\N \\."  # with characters that are special to COPY


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A URL for another store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/restored.db"
    server: Cluster = request.getfixturevalue("postgres_server")
    return server.place()


@pytest.fixture
def backup_file(tmp_path: Path) -> Path:
    """A backup of a SQLite store."""
    with open_store(f"sqlite:///{tmp_path}/source.db?durable=no", create=True) as store:
        fill_tables(store)
        backup(store, tmp_path / "backup")
    return tmp_path / "backup"


def fill_tables(store: Store) -> Store:
    """Write rows to every table."""
    create_sample(store)
    create_sample(store, ODD)
    store.change(1, Change("arm", HOUR, name=ODD, payload='{"a": [null, "ü\\u0000"]}'))
    store.change(2, Change("status", HOUR, status="archived"))
    for batch in range(30):
        expires = 90 if batch < 10 else LATER
        store.append([report(1, to_id(1000 * batch + each), expires, tag=2**32 - 1 - each) for each in range(100)])
    store.save_snapshot(1, 7, ODD, bytes(range(256)) * 100, "digest")
    store.set_issued(ODD, [(1, 0, 80, 3), (1, 1, LATER, 4)])
    store.count_refused([(0, ODD, 5, 2), (1, "late", 6, 1)])
    store.assign_tokens([Visit(1, bytes(range(16)), bytes(range(64)), LATER, 1)])
    store.add_key(ODD, "admin", bytes(32), HOUR)
    store.add_key("old", "read", bytes(32), HOUR)
    store.revoke_key("old", HOUR + 1)
    store.add_signing_key(b"\0\xff" * 16)
    store.set_meta(ODD, ODD)
    with write_tables(store) as tx:  # these are filled by their owners
        tx.insert("audit", [(1, HOUR, ODD, None, ODD, None, 2**31 - 1, ODD)])
        tx.insert("idempotency", [(ODD, b"\0\xff", 201, ODD, LATER)])
    store.forget(100)
    return store


def read_content(store: Store) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {table: [] for table in schema.TABLES}
    with store.dump() as tables:
        for table, rows in tables:
            found[table] += rows
    return {table: sorted(rows, key=repr) for table, rows in found.items()}


def test_backup_restores_all_tables(any_store: Store, target: str, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    before = read_content(fill_tables(any_store))
    assert all(before.values())  # of every table
    assert backup(any_store, file) == CopyCounts(2, 3004)
    assert restore(file, target) == CopyCounts(2, 3004)
    with open_store(target) as restored:
        assert read_content(restored) == before
        assert restored.append([report(1, to_id(1000 * 20)), report(), report(2)]) == [0, 3003, -2]
        assert restored.append([report(1, to_id(1), expires=90)]) == [-1]  # still forgotten
        assert create_sample(restored, "another").id == 3
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_backup_is_consistent_while_others_write(any_url: str, any_store: Store, target: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        create_sample(any_store, name)
    stop = threading.Event()

    def write() -> None:
        with open_store(any_url) as store:
            while not stop.is_set():
                store.append([report(1), report(2), report(1)])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            for turn in range(5):
                while any_store.read_heads()[1] < 20 * turn and not writing.done():
                    pass
                backup(any_store, tmp_path / "backup")  # the earlier one is replaced
        finally:
            stop.set()
        writing.result()
    restore(tmp_path / "backup", target)
    with open_store(target) as restored:
        heads = restored.read_heads()
        assert heads[1] == 2 * heads[2] - 1  # whole transactions
        for experiment in (1, 2):
            log = restored.read_events(experiment, 0, 10**6)
            assert log == any_store.read_events(experiment, 0, len(log))


def test_failed_backup_leaves_earlier_backup(backup_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = backup_file.read_bytes()

    @contextmanager
    def dump() -> Iterator[Iterator[TableRows]]:
        yield failing()

    def failing() -> Iterator[TableRows]:
        yield "meta", [("schema", "1")]
        raise StoreUnavailable("the server has gone")

    with open_store(f"sqlite:///{backup_file.with_name('source.db')}") as store:
        monkeypatch.setattr(store, "dump", dump)
        with refused("the server has gone", kind=StoreUnavailable):
            backup(store, backup_file)
        with refused("the server has gone", kind=StoreUnavailable):
            backup(store, backup_file.with_name("new"))
    assert backup_file.read_bytes() == before
    assert not [path for path in backup_file.parent.iterdir() if path.name.startswith((".", "new"))]


def test_backup_is_readable_by_owner_only(backup_file: Path) -> None:
    assert stat.S_IMODE(backup_file.stat().st_mode) == 0o600


def test_backup_replaces_only_backups(backup_file: Path) -> None:
    source = backup_file.with_name("source.db")
    notes = backup_file.with_name("notes")
    notes.write_text("mine")
    with open_store(f"sqlite:///{source}") as store:
        for path in (source, notes):
            with refused(str(path), "not a backup: give another name"):
                backup(store, path)
        with pytest.raises(OSError, match="No such file") as caught:
            backup(store, backup_file.with_name("missing") / "backup")
        assert caught.value.filename == str(backup_file.with_name("missing") / "backup")
        assert store.read_heads() == {1: 3002, 2: 2}
    assert notes.read_text() == "mine"


def test_restore_needs_empty_store(backup_file: Path, any_store: Store, any_url: str) -> None:
    any_store.set_meta("a note", "does not matter")
    restore(backup_file, any_url)
    before = read_content(any_store)
    with refused("not empty: restore into a new store"):
        restore(backup_file, any_url)
    assert read_content(any_store) == before


@pytest.mark.parametrize("table", [table for table in schema.TABLES if table != "meta"])
def test_any_row_prevents_restore(backup_file: Path, tmp_path: Path, table: str) -> None:
    url = f"sqlite:///{tmp_path}/restored.db"
    restore(backup_file, url)
    with closing(sqlite3.connect(tmp_path / "restored.db", isolation_level=None)) as connection:
        for other in schema.TABLES:
            if other not in ("meta", table):
                connection.execute(f"DELETE FROM {other}")  # noqa: S608 - our own names
    with refused("not empty"):
        restore(backup_file, url)


def test_other_files_are_not_restored(backup_file: Path, target: str) -> None:
    source = backup_file.with_name("source.db")
    notes = backup_file.with_name("notes")
    notes.write_text("mine")
    for path in (source, notes):
        with refused(str(path), "not a backup"):
            restore(path, target)
    with refused("no such file"):
        restore(backup_file.with_name("missing"), target)
    with refused("a backup: restore it into a store"):
        open_store(f"sqlite:///{backup_file}")
    with refused("create the store first" if "postgresql" in target else "no such file"):
        open_store(target)  # nothing was made


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM event WHERE seq = 5", "has gaps"),
        ("DELETE FROM event WHERE experiment = 2", "no snapshot covers"),
        ("UPDATE event SET seq = 9000 WHERE seq = 5", "has gaps"),
        ("DELETE FROM experiment WHERE id = 2", "has gaps"),
        ("DROP TABLE visitor", "damaged"),
        ("DROP TABLE event", "damaged"),
        ("UPDATE meta SET value = '5' WHERE key = 'schema'", "install a newer one"),
        ("UPDATE meta SET value = '0' WHERE key = 'schema'", "with the version that wrote it"),
        ("DELETE FROM meta", "with the version that wrote it"),
    ],
)
def test_damaged_backup_is_rejected(backup_file: Path, target: str, change: str, words: str) -> None:
    with closing(sqlite3.connect(backup_file, isolation_level=None)) as connection:
        connection.execute(change)
    with refused(str(backup_file), words):
        restore(backup_file, target)


def test_truncated_backup_is_rejected(backup_file: Path, target: str) -> None:
    whole = backup_file.read_bytes()
    for broken in (whole[: len(whole) // 2], whole[:20_000] + bytes(8192) + whole[28_192:], whole[:100]):
        backup_file.write_bytes(broken)
        with refused(str(backup_file), "damaged"):
            restore(backup_file, target)


# Tables of other versions


def set_version(store: Store, version: int) -> None:
    with write_tables(store) as tx:
        tx.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(version),))


def test_newer_tables_are_rejected(any_url: str, any_store: Store) -> None:
    set_version(any_store, 5)
    with refused("version 5, this maskedbandits knows 4: install a newer one"):
        open_store(any_url)
    with open_store(any_url, any_version=True) as store, refused("install a newer one"):
        store.upgrade(rewrite_nothing)


def test_copied_sqlite_file_is_a_store(backup_file: Path) -> None:
    source = backup_file.with_name("source.db")
    shutil.copy(source, backup_file.with_name("copy.db"))
    with open_store(f"sqlite:///{backup_file.with_name('copy.db')}") as store:
        assert store.read_heads() == {1: 3002, 2: 2}
