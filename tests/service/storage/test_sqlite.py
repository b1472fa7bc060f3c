"""The store in a SQLite file: locks, full disks, deleted files, and durability."""

from __future__ import annotations

import re
import shutil
import sqlite3
import stat
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
import store_children as children
from store_samples import create_sample, refused, report
from tracing import SYNCS, needs_strace, traced

from children import finished
from helpers.boundaries import shorten_store_waits
from helpers.private import connection_of
from maskedbandits.service.storage import Store, StoreUnavailable, Unreachable, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with an experiment."""
    with open_store(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        create_sample(store)
    return tmp_path / "store.db"


def open_sqlite(path: Path, options: str = "") -> Store:
    return open_store(f"sqlite:///{path}{options}")


def sound(path: Path) -> int:
    """Check a closed file, and return the last number of its log."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        (last,) = connection.execute("SELECT seq FROM experiment").fetchone()
        assert connection.execute("SELECT count(*), max(seq) FROM event").fetchone() == (last, last)
    return int(last)


def test_writer_times_out_behind_another_process(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_store_waits(monkeypatch)
    receiving, ready = children.PROCESSES.Pipe(duplex=False)
    waiting, release = children.PROCESSES.Pipe(duplex=False)
    with open_sqlite(path) as store:
        process = children.PROCESSES.Process(target=children.hold_a_lock, args=(str(path), ready, waiting))
        process.start()
        try:
            assert receiving.poll(children.LONGEST)
            with refused("another process has been writing for too long", kind=StoreUnavailable):
                store.append([report()])
            assert store.read_heads() == {1: 1}  # reading goes on
        finally:
            release.send(True)
            process.join(children.LONGEST)
            process.kill()
        assert store.append([report()]) == [2]


def test_locked_creation_is_unreachable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_store_waits(monkeypatch)
    url = f"sqlite:///{tmp_path}/new.db"
    with closing(sqlite3.connect(tmp_path / "new.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with refused("another process", kind=Unreachable):
            open_store(url, create=True)
    open_store(url, create=True).close()


def test_store_recovers_from_full_disk(path: Path) -> None:
    with children.processes(1) as pool:
        acknowledged, said, answers = pool.submit(children.fill_the_disk, str(path)).result(children.LONGEST)
    assert len(said) == 3
    for line in said:
        assert "make room" in line
    assert answers == [acknowledged + 1, acknowledged + 2, acknowledged + 3]
    assert sound(path) == answers[-1]


def test_file_size_limit_is_a_full_disk(path: Path) -> None:
    with open_sqlite(path) as store:
        connection_of(store).execute("PRAGMA max_page_count = 40")
        with refused("the disk is full: make room", kind=StoreUnavailable):
            store.append([report() for _ in range(5000)])
        assert store.read_heads() == {1: 1}
        connection_of(store).execute("PRAGMA max_page_count = 100000")
        assert store.append([report() for _ in range(5000)])[-1] == 5001
    assert sound(path) == 5001


def test_deleted_file_is_not_written(path: Path) -> None:
    away = path.with_name("away.db")
    with open_sqlite(path) as store:
        path.rename(away)
        for work in (store.read_heads, store.ping, lambda: store.append([report()])):
            with refused("deleted or replaced while in use", kind=StoreUnavailable):
                work()
        away.rename(path)
        assert store.append([report()]) == [2]
        path.unlink()
        path.write_bytes(b"another file")
        with refused("deleted or replaced while in use", kind=StoreUnavailable):
            store.append([report()])


def test_read_only_file_is_rejected(path: Path) -> None:
    with tempfile.TemporaryDirectory() as name, children.processes(1) as pool:
        folder, copy = Path(name), Path(name) / "store.db"  # not readable by others
        shutil.copy(path, copy)
        copy.chmod(0o444)
        folder.chmod(0o555)
        complaint = pool.submit(children.open_as_nobody, str(copy)).result(children.LONGEST)
        assert complaint == f"{copy}: read-only: make the file and its folder writable"
        folder.chmod(0o000)
        complaint = pool.submit(children.open_as_nobody, str(copy)).result(children.LONGEST)
        assert complaint == f"{copy}: Permission denied: check the path and its permissions"
        folder.chmod(0o755)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty: create the store first"),
        (b"no database, but long enough to be taken for one" * 100, "damaged, or not a store"),
    ],
)
def test_other_files_are_rejected(path: Path, content: bytes, words: str) -> None:
    path.write_bytes(content)
    with refused(str(path), words):
        open_sqlite(path)
    assert path.read_bytes()[:9] == content[:9] or content == b""


def test_database_of_other_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE meta (key TEXT, value TEXT)")
    before = path.read_bytes()
    for create in (False, True):
        with refused("not a store: give another file"):
            open_store(f"sqlite:///{path}", create=create)
    assert path.read_bytes() == before


def test_url_paths_are_relative_or_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url, name in [
        ("sqlite:///relative.db", "relative.db"),
        (f"sqlite:///{tmp_path}/absolute.db", "absolute.db"),
        ("sqlite:///with%20space%3F%25.db", "with space?%.db"),
        ("sqlite:///ünï#.db?durable=no", "ünï#.db"),
    ]:
        open_store(url, create=True).close()
        assert (tmp_path / name).is_file()
        open_store(url).close()
    with refused("no such file"):
        open_store("sqlite:///missing.db")
    with refused("No such file or directory"):
        open_store("sqlite:///missing/store.db", create=True)
    assert not list(tmp_path.glob("missing*"))


@pytest.mark.parametrize(
    "url", ["bandits.db", "sqlite:bandits.db", "sqlite://bandits.db", "sqlite://", "sqlite:///", "mysql://a", "", "://"]
)
def test_invalid_urls_are_rejected(url: str) -> None:
    with refused("storage: ", "sqlite:///"):
        open_store(url)


def test_url_options_are_checked(tmp_path: Path) -> None:
    with refused("no option 'durabel'", "durable=no"):
        open_store(f"sqlite:///{tmp_path}/a.db?durabel=no", create=True)
    with refused("durable=yes, or durable=no"):
        open_store(f"sqlite:///{tmp_path}/a.db?durable=maybe", create=True)
    assert not list(tmp_path.iterdir())


def test_store_file_is_private(path: Path) -> None:
    with open_sqlite(path) as store:
        store.add_signing_key(b"secret")
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_store_is_durable_unless_url_says_no(path: Path) -> None:
    for options, level in [("", 2), ("?durable=yes", 2), ("?durable=no", 0)]:
        with open_sqlite(path, options) as store:
            connection = connection_of(store)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (level,)


def test_forgotten_ids_are_overwritten(path: Path) -> None:
    marks = [bytes([1, 2, 3]) + number.to_bytes(2, "big") + b"SECRET" for number in range(400)]
    with open_sqlite(path) as store:
        store.append([report(decision=mark, expires=100) for mark in marks])
    assert sum(mark in path.read_bytes() for mark in marks) == 400
    with open_sqlite(path) as store:
        store.forget(100)
    assert sum(mark in path.read_bytes() for mark in marks) == 0


ACKNOWLEDGING = """
import os, sys
from store_samples import report
from maskedbandits.service.storage import open_store
from maskedbandits.service.storage.models import Visit
with open_store(sys.argv[1]) as store:
    os.write(1, b"begin\\n")
    for turn in range(40):
        if turn % 4 == 3:
            store.assign_tokens([Visit(1, os.urandom(16), b"token", 9, 1)])
        else:
            store.append([report() for _ in range(1 + 30 * (turn % 2))])
        os.write(1, b"acknowledged\\n")
"""


@needs_strace
@pytest.mark.parametrize(("options", "synced"), [("", 40), ("?durable=no", 0)])
def test_log_is_synced_before_acknowledgement(path: Path, options: str, synced: int) -> None:
    trace = path.with_name("trace")
    command = traced(trace, ["write", "pwrite64", *SYNCS])
    child = [sys.executable, "-c", ACKNOWLEDGING, f"sqlite:///{path}{options}"]
    done = finished([*command, *child], environment={"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert synced == sum(map(on_disk, trace.read_text().split("begin")[1].split("acknowledged")[:-1]))


def on_disk(calls: str) -> bool:
    """Tell whether, in these calls to the system, whatever was written to the log was then synchronised."""
    writes = [found.start() for found in re.finditer(r"pwrite64\(\d+<[^>]*-wal>", calls)]
    syncs = [found.start() for found in re.finditer(r"(fsync|fdatasync)\(\d+<[^>]*-wal>\)\s+= 0", calls)]
    assert writes
    return bool(syncs) and max(syncs) > max(writes)
