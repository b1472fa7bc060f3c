"""The file of a ledger: SQLite rows with check sums, created whole or not at all.

The rows of a ledger: decisions, what was spent on them, and the terms; each with a check sum.

The file of a ledger: one SQLite database, made whole or not at all, and checked from first byte to last entry.
"""

import contextlib
import functools
import json
import operator
import os
import sqlite3
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from ...errors import UserError
from ..composition import as_delta
from ..exact import as_epsilon, as_number, as_text, plain
from .errors import WAIT, Damage, LedgerError
from .period import FOR_EVER, LONG_AGO, in_words, moment_at, now, still_counts
from .period import LONGEST as LONGEST_PERIOD

Decision = str | int
Counts = dict[Fraction, int]  # reports of each epsilon
Spending = dict[tuple[int, str], int]  # reports by the moment of their payment and their epsilon

LONGEST = 200  # characters of a decision's name
MOST_BITS = 256  # of an epsilon's denominator
FORGOTTEN = 2  # in place of a bit; NULL is a decision whose report is not drawn yet
ANSWERS = 3  # in place of a bit: this and more is an answer of several, the first of them

TABLES = {
    "decisions": "CREATE TABLE decisions (decision TEXT PRIMARY KEY NOT NULL, epsilon TEXT NOT NULL, bit INTEGER, "
    "seal TEXT NOT NULL) WITHOUT ROWID",
    "spending": "CREATE TABLE spending (moment INTEGER NOT NULL, epsilon TEXT NOT NULL, reports INTEGER NOT NULL, "
    "seal TEXT NOT NULL, PRIMARY KEY (moment, epsilon)) WITHOUT ROWID",
    "terms": "CREATE TABLE terms (cap TEXT NOT NULL, delta TEXT NOT NULL, period INTEGER NOT NULL, "
    "writes INTEGER NOT NULL, seal TEXT NOT NULL)",
}
TEXT = json.JSONEncoder(default=repr)


class Terms(NamedTuple):
    """What a ledger was made for, and how often it has been written to."""

    cap: Fraction
    delta: float
    period: int
    writes: int = 0

    def __str__(self) -> str:
        return f"cap = {self.limit} and delta = {self.delta:g}"

    @property
    def limit(self) -> str:
        """The cap, and for how long a payment counts."""
        return as_text(self.cap) + (f" per {in_words(self.period)}" if self.period else "")


class Entry(NamedTuple):
    """One decision as it is written down."""

    decision: str
    epsilon: str
    bit: int | None
    seal: str


def name_of(decision: Decision) -> str:
    """Return a decision's name as plain text; the number 7 and the text "7" are the same decision."""
    if isinstance(decision, str):
        name = str.__str__(decision)  # of an enumeration's or numpy's too: the text itself
        if 0 < len(name) <= LONGEST and name.isprintable():
            return name
    elif not isinstance(plain(decision), bool):
        with contextlib.suppress(TypeError):
            number = operator.index(decision)
            if number.bit_length() < 64:
                return str(number)
    raise UserError(f"a decision needs another name: 1 to {LONGEST} printable characters, or a number of 64 bits")


def written(epsilon: Fraction) -> str:
    """Return an epsilon as it is written down: exactly."""
    if epsilon.denominator.bit_length() > MOST_BITS:
        raise UserError(f"epsilon = {float(epsilon):g} has too many digits: round it")
    return str(epsilon)


@functools.lru_cache(maxsize=1 << 14)
def read_epsilon(epsilon: str) -> Fraction:
    """Return an epsilon that was written down; the same few are read at every reservation."""
    return as_epsilon(epsilon)


def seal_of(*fields: str | int | None) -> str:
    """Return a check sum of a row, as long for every row; a damaged row may also hold bytes."""
    return f"{zlib.crc32(TEXT.encode(fields).encode()):08x}"


def entry_of(connection: sqlite3.Connection, name: str) -> Entry | None:
    """Return what is written down of a decision."""
    row = connection.execute(
        "SELECT decision, epsilon, bit, seal FROM decisions WHERE decision = ?", (name,)
    ).fetchone()
    return None if row is None else sealed(Entry(*row))


def entries(connection: sqlite3.Connection) -> Iterator[Entry]:
    """Yield what is written down of every decision."""
    for row in connection.execute("SELECT decision, epsilon, bit, seal FROM decisions"):
        yield sealed(Entry(*row))


def sealed(entry: Entry) -> Entry:
    """Return an entry that is as it was written."""
    if entry.seal != seal_of(*entry[:-1]):
        raise Damage
    return entry


def reserved(connection: sqlite3.Connection, name: str) -> Entry:
    """Return the entry of a decision that must have been reserved."""
    entry = entry_of(connection, name)
    if entry is None:
        raise LedgerError(f"decision {name!r} is not reserved: reserve it before its reward is known")
    return entry


def remembered(entry: Entry) -> int:
    """Return the bit of a decision whose report is drawn."""
    if entry.bit is not None and entry.bit >= ANSWERS:
        raise LedgerError(f"decision {entry.decision!r} was answered with one of several answers, not with a bit")
    if entry.bit not in (0, 1):
        raise LedgerError(f"decision {entry.decision!r} is settled: its report was received and is forgotten")
    return entry.bit


def remembered_answer(entry: Entry, answers: int) -> int:
    """Return the answer of a decision whose answer is drawn."""
    if entry.bit == FORGOTTEN:
        raise LedgerError(f"decision {entry.decision!r} is settled: its report was received and is forgotten")
    if entry.bit is None or not ANSWERS <= entry.bit < ANSWERS + answers:
        raise LedgerError(f"decision {entry.decision!r} was not answered with one of {answers} answers before")
    return entry.bit - ANSWERS


def write_entry(connection: sqlite3.Connection, name: str, epsilon: str, bit: int | None) -> None:
    """Write a decision down."""
    row = (name, epsilon, bit, seal_of(name, epsilon, bit))
    connection.execute("REPLACE INTO decisions (decision, epsilon, bit, seal) VALUES (?, ?, ?, ?)", row)


def write_spending(connection: sqlite3.Connection, moment: int, epsilon: str, reports: int) -> None:
    """Write down how many reports of an epsilon were paid for at a moment."""
    row = (moment, epsilon, reports, seal_of(moment, epsilon, reports))
    connection.execute("REPLACE INTO spending (moment, epsilon, reports, seal) VALUES (?, ?, ?, ?)", row)


def date_anew(connection: sqlite3.Connection, spending: Spending, anew: Callable[[int], int]) -> None:
    """Give payments other moments."""
    dated: Counter[tuple[int, str]] = Counter()
    for (moment, epsilon), reports in spending.items():
        dated[anew(moment), epsilon] += reports
    if dated != spending:
        connection.execute("DELETE FROM spending")
        for (moment, epsilon), reports in dated.items():
            write_spending(connection, moment, epsilon, reports)


def spending_of(connection: sqlite3.Connection) -> Spending:
    """Return what is paid for: as many reports as there are decisions."""
    spending: Spending = {}
    for moment, epsilon, reports, seal in connection.execute("SELECT moment, epsilon, reports, seal FROM spending"):
        if seal != seal_of(moment, epsilon, reports) or not (_at_least(1, reports) and _at_least(LONG_AGO, moment)):
            raise Damage
        spending[moment, epsilon] = reports
    if (sum(spending.values()),) != connection.execute("SELECT COUNT(*) FROM decisions").fetchone():
        raise Damage
    return spending


def _at_least(least: int, value: object) -> bool:
    """Tell whether a damaged row has a whole number where it should."""
    return isinstance(value, int) and value >= least


def counted(spending: Spending, period: int = FOR_EVER, at: int = 0) -> Counts:
    """Return how many reports of each epsilon still count at a time; for ever: all."""
    found: Counts = Counter()
    for (moment, epsilon), reports in spending.items():
        try:
            number = read_epsilon(epsilon)
        except ValueError as error:
            raise Damage from error
        if still_counts(moment, period, at):
            found[number] += reports
    return found


def terms_of(connection: sqlite3.Connection) -> Terms:
    """Return what the ledger was made for."""
    rows = connection.execute("SELECT cap, delta, period, writes, seal FROM terms").fetchall()
    if len(rows) != 1:
        raise Damage
    *fields, seal = rows[0]
    if seal != seal_of(*fields):
        raise Damage
    cap, delta, period, writes = fields
    if not _at_least(FOR_EVER, period) or period > LONGEST_PERIOD:
        raise Damage
    try:
        return Terms(as_number("cap", cap), as_delta(delta), period, int(writes))
    except ValueError as error:
        raise Damage from error


def write_terms(connection: sqlite3.Connection, terms: Terms) -> None:
    """Write the terms down, in place of earlier ones."""
    fields = (str(terms.cap), repr(terms.delta), terms.period, terms.writes)
    connection.execute("DELETE FROM terms")
    statement = "INSERT INTO terms (cap, delta, period, writes, seal) VALUES (?, ?, ?, ?, ?)"
    connection.execute(statement, (*fields, seal_of(*fields)))


def write_again(connection: sqlite3.Connection, terms: Terms) -> Terms:
    """Count one more write, by which an older copy is known."""
    later = terms._replace(writes=terms.writes + 1)
    write_terms(connection, later)
    return later


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
    connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None, check_same_thread=False)
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
