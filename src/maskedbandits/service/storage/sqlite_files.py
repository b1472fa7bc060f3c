"""Files of SQLite: how a store's is made, opened and read, and what keeps it from being used, told in one line."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from maskedbandits.errors import UserError
from maskedbandits.service.storage import errors, schema
from maskedbandits.service.storage.database import Rows, marks
from maskedbandits.service.storage.errors import StoreUnavailable, Unreachable, one_line

STORE, BACKUP = 0x4D425356, 0x4D425342  # "MBSV" and "MBSB": what a file is for, in its header
PAUSE = 0.01  # seconds
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
SETTINGS = (
    "fullfsync = ON",  # where a disk needs to be told twice (macOS)
    "secure_delete = ON",  # ids that are forgotten are overwritten
    "journal_size_limit = 67108864",  # a write-ahead log that a long read has let grow shrinks again
    "trusted_schema = OFF",
)
BUSY = "another process has been writing for too long: try again"
PASSING = {  # by themselves
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_FULL: "the disk is full: make room",
    sqlite3.SQLITE_IOERR: "the disk does not do what it should: make room, or look at its state",
}
LASTING = {
    sqlite3.SQLITE_READONLY: "read-only: make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check its path and its permissions",
    sqlite3.SQLITE_PERM: "cannot be opened: check its path and its permissions",
    sqlite3.SQLITE_NOTADB: "damaged, or not a store: restore a backup",
    sqlite3.SQLITE_CORRUPT: "damaged: restore a backup",
}


def opened(path: Path, *, create: bool, durable: bool) -> sqlite3.Connection:
    """Open the file of a store; make one where there is none, if that is asked for."""
    try:
        if create:  # nobody else can read it
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        elif not path.exists():
            raise UserError(f"{path}: there is no such file: check the path, or create the store first")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: check the path and its permissions") from error
    with _told_at_opening(path):
        connection = connected(path, "rw", durable=durable)
        try:
            if create and _empty(connection):
                _write_ahead(connection)
                _make_tables(connection)
            _check(connection, path)  # before anything is changed: it may be another program's
            _write_ahead(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def connected(path: Path, mode: str, *, durable: bool = True) -> sqlite3.Connection:
    """Connect to a file; threads may share the connection if they take turns."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, timeout=errors.WAIT, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = text
    try:
        for setting in (*SETTINGS, f"synchronous = {'FULL' if durable else 'OFF'}"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def text(stored: bytes) -> str:
    """Return a text; one that is not UTF-8 is damaged, and gets a first letter with which nothing reads it as JSON."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return UNREADABLE + stored.decode(errors="replace")


def identity(path: Path) -> tuple[int, int] | None:
    """Tell one file from another of the same name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def undo(connection: sqlite3.Connection) -> None:
    """Undo what was begun, if anything; what cannot be undone now is undone by the next who opens the file."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def everything(connection: sqlite3.Connection) -> Iterator[Rows]:
    """Return all tables as they are at one moment, some rows at a time."""
    connection.execute("BEGIN")
    for table in schema.TABLES:
        listed = ", ".join(schema.columns(table))
        cursor = connection.execute(f"SELECT {listed} FROM {table}")  # noqa: S608 - our own names
        while rows := cursor.fetchmany(schema.at_once(table)):
            yield table, rows


def insertion(table: str) -> str:
    """Return what writes a row of a table."""
    names = schema.columns(table)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks(names)})"  # noqa: S608 - our own names


def asked(connection: sqlite3.Connection, pragma: str) -> object:
    """Return what SQLite answers."""
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


@contextmanager
def told(name: str, *, unknown: bool = False) -> Iterator[None]:
    """Tell in one line what the disk or the database did not do."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
        if isinstance(error, (sqlite3.ProgrammingError, sqlite3.IntegrityError)):
            raise  # a fault of ours
        raise StoreUnavailable(f"{name}: {_reason(error)}", unknown=unknown) from error


@contextmanager
def _told_at_opening(path: Path) -> Iterator[None]:
    """Tell apart what passes by itself from what somebody must put right."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        kind = Unreachable if _code(error) in PASSING else UserError
        raise kind(f"{path}: {_reason(error)}") from error


def _code(error: sqlite3.Error) -> int:
    """Return the main code of an error."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _reason(error: sqlite3.Error) -> str:
    return (PASSING | LASTING).get(_code(error), one_line(error))


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turn to write-ahead mode, for good; SQLite does not wait by itself while others are about to do the same."""
    until = time.monotonic() + errors.WAIT
    while True:
        try:
            if asked(connection, "journal_mode") == "wal" or asked(connection, "journal_mode = WAL") == "wal":
                return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(PAUSE)
        if time.monotonic() > until:
            raise Unreachable("its file system knows no write-ahead log: put it on a local disk")


def _make_tables(connection: sqlite3.Connection) -> None:
    """Make all tables."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        if _empty(connection):  # else another process was first
            connection.execute(f"PRAGMA application_id = {STORE}")
            for statement in schema.statements("sqlite"):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        undo(connection)
        raise


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is no store."""
    mark = asked(connection, "application_id")
    if mark == BACKUP:
        raise UserError(f"{path}: a backup: restore it into a store with maskedbandits restore")
    if mark != STORE:
        what = "empty: create the store first" if _empty(connection) else "not a store: give another file"
        raise UserError(f"{path}: {what}")


def _empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT 1 FROM sqlite_master").fetchall()
