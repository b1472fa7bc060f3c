"""Backups: the content of a store at one moment, in one SQLite file, from either database.

A backup is readable by its owner alone. The service's secret is not in it. It appears complete or not at all.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import NamedTuple

from maskedbandits.errors import UserError, translate_errors
from maskedbandits.service.storage import schema, sqlite
from maskedbandits.service.storage.base import TableRows
from maskedbandits.service.storage.layouts import SHARED_VERSION, refuse_other_version
from maskedbandits.service.storage.retention import LOG_HASH
from maskedbandits.service.storage.store import Store
from maskedbandits.service.storage.urls import open_store

MAGIC, APPLICATION_ID = b"SQLite format 3\0", slice(68, 72)  # in the header of a SQLite file
DAMAGED = "damaged: take another backup"


class CopyCounts(NamedTuple):
    """The numbers of copied experiments and events."""

    experiments: int
    events: int


def backup(store: Store, path: Path) -> CopyCounts:
    """Write the content of a store to a file; other processes may write meanwhile."""
    if path.exists() and _read_application_id(path) != sqlite.BACKUP_ID:
        raise UserError(f"{path}: an existing file that is not a backup: give another name")
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:  # its message names the draft
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with store.dump() as tables:
            counts = _write_tables(draft, path, tables)
        _sync(draft, os.O_RDWR)
        draft.replace(path)
        _sync(path.absolute().parent, os.O_RDONLY)
    finally:
        draft.unlink(missing_ok=True)
    return counts


def restore(path: Path, url: str) -> CopyCounts:
    """Write the content of a backup to an empty store, which is created if there is none."""
    if not path.is_file():
        raise UserError(f"{path}: no such file: check the path")
    if _read_application_id(path) != sqlite.BACKUP_ID:
        raise UserError(f"{path}: not a backup: give a file written by maskedbandits backup")
    with _translate_damage(path), closing(sqlite.connect(path.absolute(), "ro")) as connection:
        counts = _check_backup(connection, path)
        with open_store(url, create=True) as store:
            store.fill(sqlite.dump_tables(connection))
    return counts


def _read_application_id(path: Path) -> int:
    """Return the application id in a file's header; 0 if it is not a SQLite file."""
    with path.open("rb") as stream:
        header = stream.read(100)
    return int.from_bytes(header[APPLICATION_ID], "big") if header.startswith(MAGIC) else 0


def _write_tables(draft: Path, path: Path, tables: Iterable[TableRows]) -> CopyCounts:
    """Write a backup to its draft."""
    with closing(sqlite.connect(draft.absolute(), "rw", durable=False)) as connection:
        with sqlite.translate_sqlite_errors(str(path)):
            connection.execute("PRAGMA journal_mode = OFF")  # an incomplete draft is deleted
            connection.execute(f"PRAGMA application_id = {sqlite.BACKUP_ID}")
            connection.execute("BEGIN")
            for statement in schema.list_table_statements("sqlite"):
                connection.execute(statement)
        for table, rows in tables:  # the store translates its own errors
            with sqlite.translate_sqlite_errors(str(path)):
                connection.executemany(sqlite.format_insert(table), rows)
        with sqlite.translate_sqlite_errors(str(path)):
            connection.execute("COMMIT")
        return _check_backup(connection, path)


def _sync(path: Path, flags: int) -> None:
    """Write a file, or the names in a folder, through to the disk."""
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_backup(connection: sqlite3.Connection, path: Path) -> CopyCounts:
    """Refuse a backup that is damaged, has gaps in a log, or has another version."""
    with _translate_damage(path):
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            raise UserError(f"{path}: {DAMAGED}")
        _refuse_other_version(connection, path)
        selects = sqlite.list_selects(connection)
        for table, select in selects.items():
            wrong = f"SELECT 1 FROM ({select}) WHERE {schema.format_type_check(table)} LIMIT 1"  # noqa: S608 - our own names
            if connection.execute(wrong).fetchone():
                raise UserError(f"{path}: {DAMAGED}")
        gaps = connection.execute(_GAPS.format(experiments=selects["experiment"])).fetchall()
        uncovered = connection.execute(_UNCOVERED.format(experiments=selects["experiment"])).fetchall()
        experiments, events = connection.execute(_COUNTS).fetchone()
    if gaps:
        raise UserError(f"{path}: the log of {gaps[0][0]!r} has gaps: take another backup")
    if uncovered:
        what = f"events at the beginning of the log of {uncovered[0][0]!r} are missing, and no snapshot covers them"
        raise UserError(f"{path}: {what}: take another backup")
    return CopyCounts(experiments, events)


def _translate_damage(path: Path) -> AbstractContextManager[None]:
    """Raise ``UserError`` for a backup that cannot be read to its end."""
    return translate_errors(sqlite3.DatabaseError, lambda error: UserError(f"{path}: {DAMAGED}"))


def _refuse_other_version(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("SELECT value FROM meta WHERE key = ?", (schema.VERSION_KEY,)).fetchone()
    version = schema.parse_version(found[0] if found else None, str(path))
    if version < SHARED_VERSION:
        raise UserError(
            f"{path}: its tables have version {version}, this maskedbandits knows {schema.VERSION}: restore it with "
            "the version that wrote it, then run maskedbandits upgrade"
        )
    refuse_other_version(version, str(path))


_COUNTS = "SELECT (SELECT count(*) FROM experiment), (SELECT count(*) FROM event)"
_LOGS = """
FROM ({experiments}) AS experiment LEFT JOIN (
    SELECT experiment, count(*) AS count, min(seq) AS first, max(seq) AS last FROM event GROUP BY experiment
) AS log ON log.experiment = experiment.id
"""
_GAPS = f"""
SELECT name {_LOGS} WHERE log.count <> experiment.seq - log.first + 1 OR log.last <> experiment.seq
UNION ALL SELECT 'an experiment that is missing' FROM event WHERE experiment NOT IN (SELECT id FROM experiment)
LIMIT 1
"""  # noqa: S608 - our own names
_UNCOVERED = f"""
SELECT name {_LOGS} WHERE coalesce(log.first, experiment.seq + 1) > 1 AND NOT EXISTS (
    SELECT 1 FROM snapshot WHERE snapshot.experiment = experiment.id AND kernel <> '{LOG_HASH}'
        AND snapshot.seq >= coalesce(log.first, experiment.seq + 1) - 1
) LIMIT 1
"""  # noqa: S608 - our own names
