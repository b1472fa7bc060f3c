"""Pending reports of a device: a row for each decision, in a file beside the ledger.

A row has the token, the server, the time of the next action, the delay drawn for it, and its expiry. It never has the
reward, and not the masked bit either, which is in the ledger. With groups it also has the public query, never the
group, so only a device of the same experiment, which knows its group, can answer it. It also has the pseudonym of its
visitor, if there is one.

    WAITING ──(due: stop waiting for the reward)──▶ DRAWN ──(due: send; retry later)──▶ DONE ──▶ no row

Every step names the state and the time it starts from: one of two processes takes it, the other finds it taken.

Times are those of the device's clock. When the clock is set back, so are the times of all rows, and the remaining wait
stays the same. When the clock is corrected, so are the times. For that the file stores when it was last used, and how
far back the clock was set. A clock that is set ahead is trusted: reports leave too early, independently of their
content. No row is deleted because of the clock, which may be wrong: the server decides what is too late.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..privacy.ledger import LedgerError
from ..privacy.ledger.errors import DamagedFile, translate_ledger_errors
from ..privacy.ledger.storage import open_database, roll_back

APPLICATION, VERSION = 0x4D424F42, 4  # "MBOB"
WAITING, DRAWN, DONE = 0, 1, 2
DAMAGED = "damaged, or not an outbox, so no report is made: move it away; its pending reports are lost"
FOREIGN_RETENTION_S = 367 * 86_400  # after the expiry of a row whose server has no device here any more
CLOCK_TOLERANCE_S = 5.0  # difference of a clock that was not set
MIN_CORRECTION_S = 300.0  # a larger jump may be a corrected clock
TABLES = (
    "CREATE TABLE reports (token TEXT PRIMARY KEY NOT NULL, url TEXT NOT NULL, state INTEGER NOT NULL, "
    "due REAL NOT NULL, delay REAL NOT NULL, expires REAL NOT NULL, tries INTEGER NOT NULL, "
    "experiment TEXT NOT NULL DEFAULT '', asked TEXT NOT NULL DEFAULT '', late INTEGER NOT NULL DEFAULT 0, "
    "visitor TEXT NOT NULL DEFAULT '') WITHOUT ROWID",
    "CREATE TABLE device (seen REAL NOT NULL, secret BLOB NOT NULL, back REAL NOT NULL DEFAULT 0)",
)
MIGRATIONS = {  # statements by the format they upgrade
    1: [f"ALTER TABLE reports ADD COLUMN {name} TEXT NOT NULL DEFAULT ''" for name in ("experiment", "asked")],
    2: [
        "ALTER TABLE reports ADD COLUMN late INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE device ADD COLUMN back REAL NOT NULL DEFAULT 0",
    ],
    3: ["ALTER TABLE reports ADD COLUMN visitor TEXT NOT NULL DEFAULT ''"],
}
# Rows of another server or experiment wait for a device of that; others only delete them, long after their expiry.
# A first attempt is prepared up to :lead seconds before it leaves.
DUE_SQL = (
    f"CASE WHEN url <> :url AND (state = {DRAWN} OR asked <> '') OR asked <> '' AND experiment <> :experiment "
    f"THEN expires + {FOREIGN_RETENTION_S} "
    f"WHEN state = {DRAWN} AND tries = 0 THEN due - MIN(:lead, delay / 2) ELSE due END"
)
READY_SQL = f"SELECT * FROM reports WHERE {DUE_SQL} <= :at ORDER BY due, token"  # noqa: S608 -- constants
NEXT_DUE_SQL = f"SELECT MIN({DUE_SQL}) FROM reports"  # noqa: S608


class PendingReport(NamedTuple):
    """One promised report."""

    token: str
    url: str
    state: int
    due: float
    delay: float  # seconds from the first due time, at which the bit is drawn, to the first attempt
    expires: float
    tries: int = 0
    experiment: str = ""  # with groups
    query: str = ""  # with groups: the encoded query
    late: int = 0  # attempts after the expiry
    visitor: str = ""  # the pseudonym sent to the server, if any


class Outbox:
    """Pending reports, in a file shared by processes or in memory."""

    def __init__(self, path: Path | None) -> None:
        self._name = "outbox in memory" if path is None else str(path)
        self._process, self._lock, self._closed = os.getpid(), threading.Lock(), False
        with translate_ledger_errors(self._name, DAMAGED):
            if path is not None:
                os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))  # tokens are private
            self._connection = open_database(":memory:" if path is None else f"{path.as_uri()}?mode=rw")
        try:
            with self._transaction() as connection:
                _prepare_schema(connection, self._name)
                (self.secret,) = connection.execute("SELECT secret FROM device").fetchone()
        except BaseException:
            self._connection.close()
            raise

    def add(self, row: PendingReport, at: float) -> bool:
        """Add a promise unless it exists; tell whether its report is still pending."""
        with self._transaction() as connection:
            _adjust_to_clock(connection, at)
            connection.execute("INSERT OR IGNORE INTO reports VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            return _has_token(connection, row.token)

    def has_token(self, token: str) -> bool:
        """Tell whether the report of a token is still pending."""
        with self._transaction("BEGIN") as connection:
            return _has_token(connection, token)

    def has_open_decision(self, url: str, visitor: str) -> bool:
        """Tell whether a decision of this visitor can still be rewarded."""
        values = (url, visitor, WAITING)
        with self._transaction("BEGIN") as connection:
            found = connection.execute("SELECT 1 FROM reports WHERE url = ? AND visitor = ? AND state = ?", values)
            return found.fetchone() is not None

    def find_query(self, token: str) -> str:
        """Return the encoded query of a token; empty without groups."""
        with self._transaction("BEGIN") as connection:
            found = connection.execute("SELECT asked FROM reports WHERE token = ?", (token,)).fetchone()
        return "" if found is None else str(found[0])

    def find_ready(self, url: str, at: float, experiment: str = "", lead: float = 0.0) -> list[PendingReport]:
        """Return the rows on which a device of this server has to act, longest due first.

        With an experiment, the device knows its group there. With a lead, first attempts are returned that many seconds
        earlier.
        """
        if self.next_due(url, experiment) is None:  # write nothing if there is nothing to do
            return []
        with self._transaction() as connection:
            _adjust_to_clock(connection, at)
            values = {"url": url, "experiment": experiment, "at": at, "lead": lead}
            return [PendingReport(*row) for row in connection.execute(READY_SQL, values)]

    def next_due(self, url: str, experiment: str = "", lead: float = 0.0) -> float | None:
        """Return when a device of this server has to act next; None if never."""
        values = {"url": url, "experiment": experiment, "lead": lead}
        with self._transaction("BEGIN") as connection:
            (next_due,) = connection.execute(NEXT_DUE_SQL, values).fetchone()
        return None if next_due is None else float(next_due)

    def move(self, row: PendingReport, state: int, due: float, tries: int = 0, late: int = 0) -> PendingReport | None:
        """Advance a row by one step and return it; None if another process did."""
        updated = row._replace(state=state, due=due, tries=tries, late=late)
        with self._transaction() as connection:
            shift = connection.execute(
                "UPDATE reports SET state = ?, due = ?, tries = ?, late = ? WHERE token = ? AND state = ? AND due = ?",
                (state, due, tries, late, row.token, row.state, row.due),
            )
            return updated if shift.rowcount == 1 else None

    def drop(self, row: PendingReport) -> None:
        """Delete a row."""
        with self._transaction() as connection:
            connection.execute("DELETE FROM reports WHERE token = ?", (row.token,))

    def close(self) -> None:
        """Close the file."""
        if os.getpid() == self._process:
            with self._lock:
                self._closed = True
                self._connection.close()

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Commit all changes or none, with exclusive access, durable at the end."""
        if os.getpid() != self._process:
            raise LedgerError(f"{self._name}: opened by another process: open it again in this process")
        with self._lock, translate_ledger_errors(self._name, DAMAGED):
            if self._closed:
                raise LedgerError(f"{self._name}: closed: open it again")
            roll_back(self._connection)  # left open by the exception of a signal
            try:
                self._connection.execute(begin)
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                roll_back(self._connection)
                raise


def _prepare_schema(connection: sqlite3.Connection, name: str) -> None:
    """Create the tables of a new file, or upgrade an older one. Refuse the files of other programs."""
    found = [connection.execute(f"PRAGMA {mark}").fetchone()[0] for mark in ("application_id", "user_version")]
    if found == [APPLICATION, VERSION]:
        return
    if found[0] == APPLICATION and found[1] in MIGRATIONS:
        statements = [statement for version in range(found[1], VERSION) for statement in MIGRATIONS[version]]
        for statement in (*statements, f"PRAGMA user_version = {VERSION}"):
            connection.execute(statement)
        return
    if found[0] == APPLICATION:
        raise LedgerError(f"{name}: format {found[1]} instead of {VERSION}: use the version that wrote it")
    if connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone() != (0,):
        raise DamagedFile
    for statement in (*TABLES, f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}"):
        connection.execute(statement)
    connection.execute("INSERT INTO device (seen, secret) VALUES (0, ?)", (os.urandom(32),))


def _has_token(connection: sqlite3.Connection, token: str) -> bool:
    found = connection.execute("SELECT 1 FROM reports WHERE token = ? AND state < ?", (token, DONE)).fetchone()
    return found is not None


def _adjust_to_clock(connection: sqlite3.Connection, at: float) -> None:
    """Preserve the remaining waits when the clock is set back, and when it is corrected."""
    seen, back = connection.execute("SELECT seen, back FROM device").fetchone()
    jump = at - seen
    if back and connection.execute("SELECT COUNT(*) FROM reports").fetchone() == (0,):
        back = 0.0
        connection.execute("UPDATE device SET back = 0")
    if abs(jump) <= CLOCK_TOLERANCE_S:
        return
    shift = 0.0  # set ahead, or unused for so long
    if jump < 0:
        shift = jump
    elif jump >= max(back - CLOCK_TOLERANCE_S, MIN_CORRECTION_S):
        shift = back
    if shift:
        connection.execute("UPDATE reports SET due = due + ?, expires = expires + ?", (shift, shift))
    connection.execute("UPDATE device SET seen = ?, back = ?", (at, back - shift))
