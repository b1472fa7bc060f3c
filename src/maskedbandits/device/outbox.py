"""What a device has promised to report and has not brought yet: a row for each decision, in a file beside the ledger.

A row holds the token, the server, when there is something to do next, the delay drawn for it, and when it is of no use
any more. Never the reward, and not the masked bit either, which is the ledger's. Where there are groups it holds the
question as well, which is public, and never the group: so only a device of its experiment, which knows its group, has
something to do with it. It also holds the pseudonym of its visitor, if there is one.

    WAITING ──(due: the reward is waited for no longer)──▶ DRAWN ──(due: it leaves; again, later)──▶ DONE ──▶ no row

Every step names the state and the time that it starts from: of two processes one takes it, the other finds it taken.

Times are the device's clock. Is it set back, every row's times are, too, so that what is left to wait stays as it was;
is it put right, so are they. For that the file holds when it was last looked at, and how far back it was set. A clock
that is set ahead is believed: reports leave too early, and they do so whatever is in them. But no row goes because of
what the clock says: it may be wrong, and the server will say what is too late.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..privacy.ledger import LedgerError
from ..privacy.ledger.errors import Damage, told
from ..privacy.ledger.storage import connected, undo

APPLICATION, VERSION = 0x4D424F42, 4  # "MBOB"
WAITING, DRAWN, DONE = 0, 1, 2
DAMAGED = "damaged, or no outbox, so no report is made: put it aside; what it promised stays unreported"
KEPT = 367 * 86_400  # seconds after its end that a row is kept where no device of its server is seen any more
UNSTEADY = 5.0  # seconds that a clock may differ between two looks at it without having been set
SUDDEN = 300.0  # seconds from one look to the next that are many: perhaps a clock was put right
TABLES = (
    "CREATE TABLE reports (token TEXT PRIMARY KEY NOT NULL, url TEXT NOT NULL, state INTEGER NOT NULL, "
    "due REAL NOT NULL, delay REAL NOT NULL, expires REAL NOT NULL, tries INTEGER NOT NULL, "
    "experiment TEXT NOT NULL DEFAULT '', asked TEXT NOT NULL DEFAULT '', late INTEGER NOT NULL DEFAULT 0, "
    "visitor TEXT NOT NULL DEFAULT '') WITHOUT ROWID",
    "CREATE TABLE device (seen REAL NOT NULL, secret BLOB NOT NULL, back REAL NOT NULL DEFAULT 0)",
)
MORE = {  # what a file of an older format lacks
    1: [f"ALTER TABLE reports ADD COLUMN {name} TEXT NOT NULL DEFAULT ''" for name in ("experiment", "asked")],
    2: [
        "ALTER TABLE reports ADD COLUMN late INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE device ADD COLUMN back REAL NOT NULL DEFAULT 0",
    ],
    3: ["ALTER TABLE reports ADD COLUMN visitor TEXT NOT NULL DEFAULT ''"],
}
# What is drawn for another server, or asked by another experiment, waits for a device of that; to others it matters
# long after it has expired. A first attempt is prepared up to :lead seconds before it leaves.
WHEN = (
    f"CASE WHEN url <> :url AND (state = {DRAWN} OR asked <> '') OR asked <> '' AND experiment <> :experiment "
    f"THEN expires + {KEPT} WHEN state = {DRAWN} AND tries = 0 THEN due - MIN(:lead, delay / 2) ELSE due END"
)
READY = f"SELECT * FROM reports WHERE {WHEN} <= :at ORDER BY due, token"  # noqa: S608 -- our own words
SOONEST = f"SELECT MIN({WHEN}) FROM reports"  # noqa: S608


class Row(NamedTuple):
    """One promise."""

    token: str
    url: str
    state: int
    due: float
    delay: float  # seconds from the first due time, at which the bit is fixed, to the first attempt
    expires: float
    tries: int = 0
    experiment: str = ""  # where there are groups
    asked: str = ""  # likewise: the question, as ``asked.py`` writes it
    late: int = 0  # tries after it has expired
    visitor: str = ""  # the pseudonym that the server was given, if any


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
            connection.execute("INSERT OR IGNORE INTO reports VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            return _holds(connection, row.token)

    def holds(self, token: str) -> bool:
        """Tell whether a token's report is still to be brought."""
        with self._transaction("BEGIN") as connection:
            return _holds(connection, token)

    def is_open(self, url: str, visitor: str) -> bool:
        """Tell whether a decision of this visitor can still be rewarded."""
        wanted = (url, visitor, WAITING)
        with self._transaction("BEGIN") as connection:
            found = connection.execute("SELECT 1 FROM reports WHERE url = ? AND visitor = ? AND state = ?", wanted)
            return found.fetchone() is not None

    def asked(self, token: str) -> str:
        """Return the question of a token; nothing if there are no groups."""
        with self._transaction("BEGIN") as connection:
            found = connection.execute("SELECT asked FROM reports WHERE token = ?", (token,)).fetchone()
        return "" if found is None else str(found[0])

    def ready(self, url: str, at: float, experiment: str = "", lead: float = 0.0) -> list[Row]:
        """Return the rows with which a device of this server has something to do, longest due first.

        With an experiment, it is one that knows its group there. With a lead, first attempts come earlier by so many
        seconds.
        """
        if self.soonest(url, experiment) is None:  # who has nothing to do writes nothing
            return []
        with self._transaction() as connection:
            _notice(connection, at)
            given = {"url": url, "experiment": experiment, "at": at, "lead": lead}
            return [Row(*row) for row in connection.execute(READY, given)]

    def soonest(self, url: str, experiment: str = "", lead: float = 0.0) -> float | None:
        """Return when a device of this server has something to do next; None if there is nothing."""
        given = {"url": url, "experiment": experiment, "lead": lead}
        with self._transaction("BEGIN") as connection:
            (soonest,) = connection.execute(SOONEST, given).fetchone()
        return None if soonest is None else float(soonest)

    def move(self, row: Row, state: int, due: float, tries: int = 0, late: int = 0) -> Row | None:
        """Take a row a step further, and return it as it is then; None if somebody else has."""
        later = row._replace(state=state, due=due, tries=tries, late=late)
        with self._transaction() as connection:
            moved = connection.execute(
                "UPDATE reports SET state = ?, due = ?, tries = ?, late = ? WHERE token = ? AND state = ? AND due = ?",
                (state, due, tries, late, row.token, row.state, row.due),
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
    if marks[0] == APPLICATION and marks[1] in MORE:
        more = [statement for version in range(marks[1], VERSION) for statement in MORE[version]]
        for statement in (*more, f"PRAGMA user_version = {VERSION}"):
            connection.execute(statement)
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
    """Keep what is left to wait as it is when the clock was set back, and when that is put right again."""
    seen, back = connection.execute("SELECT seen, back FROM device").fetchone()
    jump = at - seen
    if back and connection.execute("SELECT COUNT(*) FROM reports").fetchone() == (0,):
        back = 0.0
        connection.execute("UPDATE device SET back = 0")
    if abs(jump) <= UNSTEADY:
        return
    moved = 0.0  # set ahead, or nobody looked for so long: who could tell
    if jump < 0:
        moved = jump
    elif jump >= max(back - UNSTEADY, SUDDEN):
        moved = back
    if moved:
        connection.execute("UPDATE reports SET due = due + ?, expires = expires + ?", (moved, moved))
    connection.execute("UPDATE device SET seen = ?, back = ?", (at, back - moved))
