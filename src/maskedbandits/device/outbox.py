"""What a device has promised to report and has not brought yet: a row for each decision, in a file beside the ledger.

A row holds the token, the server, when there is something to do next, the delay drawn for it, and when it is of no use
any more. Never the reward, and not the masked bit either, which is the ledger's.

    WAITING ──(due: the reward is waited for no longer)──▶ DRAWN ──(due: it leaves; again, later)──▶ DONE ──▶ no row

Every step names the state and the time that it starts from: of two processes one takes it, the other finds it taken.

Times are the device's clock. Is it set back, every row's times are, too, so that what is left to wait stays as it was;
for that the file holds when it was last looked at. A clock that is set ahead is believed: reports leave too early, and
they do so whatever is in them.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..privacy.ledger import LedgerError
from ..privacy.ledger.file import connected, undo
from ..privacy.ledger.trouble import Damage, told

APPLICATION, VERSION = 0x4D424F42, 1  # "MBOB"
WAITING, DRAWN, DONE = 0, 1, 2
DAMAGED = "damaged, or no outbox, so no report is made: put it aside; what it promised stays unreported"
UNSTEADY = 5.0  # seconds that a clock may differ between two looks at it without having been set
TABLES = (
    "CREATE TABLE reports (token TEXT PRIMARY KEY NOT NULL, url TEXT NOT NULL, state INTEGER NOT NULL, "
    "due REAL NOT NULL, delay REAL NOT NULL, expires REAL NOT NULL, tries INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE device (seen REAL NOT NULL, secret BLOB NOT NULL)",
)
# What is drawn for another server waits for a device of that; to others it matters when it has expired.
READY = (
    "SELECT * FROM reports WHERE CASE WHEN state = ? AND url <> ? THEN expires ELSE due END <= ? ORDER BY due, token"
)
SOONEST = "SELECT MIN(CASE WHEN state = ? AND url <> ? THEN expires ELSE due END) FROM reports"


class Row(NamedTuple):
    """One promise."""

    token: str
    url: str
    state: int
    due: float
    delay: float  # seconds by which it leaves later than it is drawn
    expires: float
    tries: int = 0


class Outbox:
    """The rows, in a file that processes share, or in memory."""

    def __init__(self, path: Path | None) -> None:
        self._name = "outbox in memory" if path is None else str(path)
        self._process, self._lock, self._closed = os.getpid(), threading.Lock(), False
        with told(self._name, DAMAGED):
            if path is not None:
                os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))  # tokens are nobody else's business
            self._connection = connected(":memory:" if path is None else f"{path.as_uri()}?mode=rw")
        try:
            with self._transaction() as connection:
                _begin(connection, self._name)
                (self.secret,) = connection.execute("SELECT secret FROM device").fetchone()
        except BaseException:
            self._connection.close()
            raise

    def add(self, row: Row, at: float) -> bool:
        """Write a promise down; one that is there already stays as it is. Tell whether it is still to be kept."""
        with self._transaction() as connection:
            _notice(connection, at)
            connection.execute("INSERT OR IGNORE INTO reports VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            return _holds(connection, row.token)

    def holds(self, token: str) -> bool:
        """Tell whether a token's report is still to be brought."""
        with self._transaction("BEGIN") as connection:
            return _holds(connection, token)

    def ready(self, url: str, at: float) -> list[Row]:
        """Return the rows with which a device of this server has something to do, longest due first."""
        if self.soonest(url) is None:  # who has nothing to do writes nothing
            return []
        with self._transaction() as connection:
            _notice(connection, at)
            return [Row(*row) for row in connection.execute(READY, (DRAWN, url, at))]

    def soonest(self, url: str) -> float | None:
        """Return when a device of this server has something to do next; None if there is nothing."""
        with self._transaction("BEGIN") as connection:
            (soonest,) = connection.execute(SOONEST, (DRAWN, url)).fetchone()
        return None if soonest is None else float(soonest)

    def move(self, row: Row, state: int, due: float, tries: int = 0) -> Row | None:
        """Take a row a step further, and return it as it is then; None if somebody else has."""
        later = row._replace(state=state, due=due, tries=tries)
        with self._transaction() as connection:
            moved = connection.execute(
                "UPDATE reports SET state = ?, due = ?, tries = ? WHERE token = ? AND state = ? AND due = ?",
                (state, due, tries, row.token, row.state, row.due),
            )
            return later if moved.rowcount == 1 else None

    def drop(self, row: Row) -> None:
        """Forget a promise that is kept, or of no use any more."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM reports WHERE token = ?", (row.token,))

    def close(self) -> None:
        """Close the file; everything is written already."""
        if os.getpid() == self._process:
            with self._lock:
                self._closed = True
                self._connection.close()

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Write everything or nothing, while nobody else writes; on disk when it ends."""
        if os.getpid() != self._process:
            raise LedgerError(f"{self._name}: opened by another process: open it in this one, too")
        with self._lock, told(self._name, DAMAGED):
            if self._closed:
                raise LedgerError(f"{self._name}: closed: open it again")
            undo(self._connection)  # what a signal's exception kept from being undone
            try:
                self._connection.execute(begin)
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                undo(self._connection)
                raise


def _begin(connection: sqlite3.Connection, name: str) -> None:
    """Lay out an empty file; refuse what others wrote. An outbox that was never laid out has promised nothing."""
    marks = [connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
    if marks == [APPLICATION, VERSION]:
        return
    if marks[0] == APPLICATION:
        raise LedgerError(f"{name}: in format {marks[1]}, this version reads {VERSION}: use the version that wrote it")
    if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() != (0,):
        raise Damage
    for statement in (*TABLES, f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}"):
        connection.execute(statement)
    connection.execute("INSERT INTO device (seen, secret) VALUES (0, ?)", (os.urandom(32),))


def _holds(connection: sqlite3.Connection, token: str) -> bool:
    found = connection.execute("SELECT 1 FROM reports WHERE token = ? AND state < ?", (token, DONE)).fetchone()
    return found is not None


def _notice(connection: sqlite3.Connection, at: float) -> None:
    """Keep what is left to wait as it is when the clock was set back."""
    (seen,) = connection.execute("SELECT seen FROM device").fetchone()
    if abs(at - seen) <= UNSTEADY:
        return
    if at < seen:
        connection.execute("UPDATE reports SET due = due - ?, expires = expires - ?", (seen - at, seen - at))
    connection.execute("UPDATE device SET seen = ?", (at,))
