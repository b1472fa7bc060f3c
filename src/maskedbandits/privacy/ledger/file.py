"""The file of a ledger: one SQLite database, made whole or not at all, and checked from first byte to last entry."""

import contextlib
import os
import sqlite3
import threading
from collections import Counter
from pathlib import Path

from . import trouble
from .period import FOR_EVER, LONG_AGO, moment_at, now
from .rows import (
    TABLES,
    Terms,
    counted,
    date_anew,
    entries,
    spending_of,
    terms_of,
    write_again,
    write_terms,
    written,
)
from .trouble import Damage, LedgerError

APPLICATION, VERSION = 0x4D424C44, 2  # "MBLD"
_OF_PROCESS: dict[int, tuple[sqlite3.Connection, threading.Lock]] = {}  # by process: a fork copies its parent's
_OPENING = threading.Lock()


def in_memory(terms: Terms) -> sqlite3.Connection:
    """Open a ledger that is forgotten with its process."""
    connection = connected(":memory:")
    _begin(connection, terms)
    return connection


def of_process(terms: Terms) -> tuple[sqlite3.Connection, threading.Lock]:
    """Return the ledger in memory that this process has once, and the lock by which its users take turns."""
    with _OPENING:
        if os.getpid() not in _OF_PROCESS:
            _OF_PROCESS[os.getpid()] = in_memory(terms), threading.Lock()
        return _OF_PROCESS[os.getpid()]


def in_file(path: Path, terms: Terms, change: bool) -> sqlite3.Connection:
    """Open a ledger's file, created if there is none, check every entry, and change its terms if that is asked for."""
    if not path.exists():
        _create(path, terms)
    connection = connected(f"{path.as_uri()}?mode=rw")
    try:
        _check(connection, path)
        if change:
            _change(connection, terms)
    except BaseException:
        connection.close()
        raise
    return connection


def connected(uri: str) -> sqlite3.Connection:
    """Open a database; threads may share it if they take turns."""
    connection = sqlite3.connect(uri, uri=True, timeout=trouble.WAIT, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("synchronous = EXTRA", "secure_delete = ON", "trusted_schema = OFF", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _change(connection: sqlite3.Connection, terms: Terms) -> None:
    """Give a ledger other terms."""
    connection.execute("BEGIN IMMEDIATE")
    before = terms_of(connection)
    if terms.period != before.period:
        _change_period(connection, before.period, terms.period)
    write_again(connection, terms._replace(writes=before.writes))
    connection.execute("COMMIT")


def _change_period(connection: sqlite3.Connection, before: int, period: int) -> None:
    """Date payments so that none counts too short; of those long ago, only how long at least is known."""
    spending = spending_of(connection)
    if period == FOR_EVER:
        date_anew(connection, spending, lambda moment: LONG_AGO)
        return
    latest = moment_at(now(), (moment for moment, _ in spending))
    if before != FOR_EVER:
        latest -= 1 + before
    date_anew(connection, spending, lambda moment: latest if moment == LONG_AGO and period > before else moment)


def _begin(connection: sqlite3.Connection, terms: Terms) -> None:
    """Write an empty ledger."""
    marks = (f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}")
    for statement in ("BEGIN", *TABLES.values(), *marks):
        connection.execute(statement)
    write_terms(connection, terms)
    connection.execute("COMMIT")


def _create(path: Path, terms: Terms) -> None:
    """Let a new ledger appear whole or not at all, so that an empty file is always a damaged one."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # nobody else's business
        with contextlib.closing(connected(f"{draft.as_uri()}?mode=rw")) as connection:
            _begin(connection, terms)
        with contextlib.suppress(FileExistsError):  # another process was first: its ledger is used
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a ledger as this version writes it, from the first byte to the last entry."""
    journal = _asked(connection, "journal_mode = DELETE")
    connection.execute("BEGIN")  # all of it at one moment, whoever else is writing
    application, version = _asked(connection, "application_id"), _asked(connection, "user_version")
    if application == APPLICATION and version != VERSION:
        raise LedgerError(
            f"{path}: written in format {version}, this maskedbandits reads {VERSION}: use the version that wrote it"
        )
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
    if (application, journal, _asked(connection, "integrity_check"), tables) != (
        APPLICATION,
        "delete",
        "ok",
        TABLES,
    ):
        raise Damage
    decided = Counter(entry.epsilon for entry in entries(connection))
    if decided != {written(epsilon): reports for epsilon, reports in counted(spending_of(connection)).items()}:
        raise Damage
    terms_of(connection)
    connection.execute("COMMIT")


def _asked(connection: sqlite3.Connection, pragma: str) -> object:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def undo(connection: sqlite3.Connection) -> None:
    """Undo what was begun, if anything; what cannot be undone now is undone by the next who opens the file."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
