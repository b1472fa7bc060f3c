"""Backups: everything that a store holds at one moment, in one file of SQLite, whichever database the store is in.

Nobody but its owner can read a backup. The secret of the service is not in it. It appears whole or not at all.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from maskedbandits.errors import UserError
from maskedbandits.service.storage import schema, sqlite_files
from maskedbandits.service.storage.base import Store
from maskedbandits.service.storage.database import Rows
from maskedbandits.service.storage.urls import open_store

MAGIC, MARK = b"SQLite format 3\0", slice(68, 72)  # of a file's header; where it says whose it is
DAMAGED = "damaged: take another backup"


class Copied(NamedTuple):
    """How much was copied."""

    experiments: int
    events: int


def backup(store: Store, path: Path) -> Copied:
    """Write everything that a store holds into a file, while others go on using it."""
    if path.exists() and _mark(path) != sqlite_files.BACKUP:
        raise UserError(f"{path}: it exists, and is no backup: give another name")
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:  # it names the draft, which nobody has asked for
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with store.everything() as everything:
            copied = _write(draft, path, everything)
        _synchronise(draft, os.O_RDWR)
        draft.replace(path)
        _synchronise(path.absolute().parent, os.O_RDONLY)
    finally:
        draft.unlink(missing_ok=True)
    return copied


def restore(path: Path, url: str) -> Copied:
    """Write everything that is in a backup into a store that is empty; it is made if there is none."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such file: check the path")
    if _mark(path) != sqlite_files.BACKUP:
        raise UserError(f"{path}: not a backup: give a file that maskedbandits backup has written")
    with _whole(path), closing(sqlite_files.connected(path.absolute(), "ro")) as connection:
        copied = _checked(connection, path)
        with open_store(url, create=True) as store:
            store.fill(sqlite_files.everything(connection))
    return copied


def _mark(path: Path) -> int:
    """Return what a file is for, by its header."""
    with path.open("rb") as stream:
        header = stream.read(100)
    return int.from_bytes(header[MARK], "big") if header.startswith(MAGIC) else 0


def _write(draft: Path, path: Path, everything: Iterable[Rows]) -> Copied:
    """Write a backup where nobody looks for it yet."""
    with closing(sqlite_files.connected(draft.absolute(), "rw", durable=False)) as connection:
        with sqlite_files.told(str(path)):
            connection.execute("PRAGMA journal_mode = OFF")  # if it is not whole, it is thrown away
            connection.execute(f"PRAGMA application_id = {sqlite_files.BACKUP}")
            connection.execute("BEGIN")
            for statement in schema.bare("sqlite"):
                connection.execute(statement)
        for table, rows in everything:  # the store's own trouble is told by the store
            with sqlite_files.told(str(path)):
                connection.executemany(sqlite_files.insertion(table), rows)
        with sqlite_files.told(str(path)):
            connection.execute("COMMIT")
        return _checked(connection, path)


def _synchronise(path: Path, flags: int) -> None:
    """Have a file, or the names in a folder, on disk."""
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _checked(connection: sqlite3.Connection, path: Path) -> Copied:
    """Refuse what is not as it was written, from the first byte to the last event, or of another version."""
    with _whole(path):
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise UserError(f"{path}: {DAMAGED}")
        _refuse_others(connection, path)
        for table in schema.TABLES:
            if connection.execute(f"SELECT 1 FROM {table} WHERE {schema.misfits(table)} LIMIT 1").fetchone():  # noqa: S608 - our own names
                raise UserError(f"{path}: {DAMAGED}")
        gaps = connection.execute(_GAPS).fetchall()
        experiments, events = connection.execute(_COUNTS).fetchone()
    if gaps:
        raise UserError(f"{path}: the log of {gaps[0][0]!r} has gaps: take another backup")
    return Copied(experiments, events)


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Tell of a backup that cannot be read to its end."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise UserError(f"{path}: {DAMAGED}") from error


def _refuse_others(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (schema.VERSION_KEY,)).fetchone()
    version = schema.version_of(found[0] if found else None, str(path))
    if version < schema.VERSION:
        raise UserError(
            f"{path}: its tables have version {version}, this maskedbandits knows {schema.VERSION}: restore it with "
            "the version that wrote it, then run maskedbandits upgrade"
        )
    schema.refuse_others(version, str(path))


_COUNTS = "SELECT (SELECT count(*) FROM experiment), (SELECT count(*) FROM event)"
_GAPS = """
SELECT name FROM experiment LEFT JOIN (
    SELECT experiment, count(*) AS count, min(seq) AS first, max(seq) AS last FROM event GROUP BY experiment
) AS log ON log.experiment = experiment.id
WHERE coalesce(log.count, 0) <> experiment.seq OR log.first <> 1 OR log.last <> experiment.seq
UNION ALL SELECT 'an experiment that is missing' FROM event WHERE experiment NOT IN (SELECT id FROM experiment)
LIMIT 1
"""
