"""What a device has spent of its privacy: a cap that no report may pass, and one report for each decision.

A decision is reserved *before* its reward is known, and paid for then: whether it is refused cannot depend on the
reward. Its report is drawn once, written down, and only then handed out. A retry gets the same bit again, whatever
happened in between: 25 fresh reports of one bit at epsilon = 1 would give it away with 99.3 %.

    reserve(decision, epsilon)  ──▶  the reward becomes known  ──▶  report(decision, reward)  ──▶  settle(decision)
    paid, or ``Overdraft``                                          drawn once, remembered         bit forgotten

Without a delta the epsilons add up (exactly: ten reports of 0.1 fit a cap of 1); with one, they compose as in
``composition``, and must be set without looking at the reports. Nothing is paid back: that a reward never came may say
something about it.

On disk it is one SQLite file. Its journal is a file beside it while something is written, and is then deleted (a
write-ahead log would be faster, but the end of a damaged one is dropped in silence, and with it what was spent). Its
folder is synchronised as well (``EXTRA``), lest a power cut bring the journal back and undo a draw. Every row carries
a check sum, as SQLite would not notice a changed digit. The file counts its writes: an older copy, put back while it is
open, is known by its smaller number. It holds its cap and its delta, lest a slip in a program raise them. What is never
written, not even for a moment, is the reward.
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
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from maskedbandits.errors import UserError
from maskedbandits.privacy.composition import added, as_delta, total_epsilon
from maskedbandits.privacy.exact import Number, as_epsilon, as_number, as_sum, as_text
from maskedbandits.privacy.mechanism import Report, mechanism_for

Decision = str | int
Counts = dict[Fraction, int]  # reports of each epsilon

LONGEST = 200  # characters of a decision's name
MOST_BITS = 256  # of an epsilon's denominator
WAIT = 10.0  # seconds for another process to finish writing
APPLICATION, VERSION = 0x4D424C44, 1  # "MBLD"
FORGOTTEN = 2  # in place of a bit; NULL is a decision whose report is not drawn yet

TABLES = {
    "decisions": "CREATE TABLE decisions (decision TEXT PRIMARY KEY NOT NULL, epsilon TEXT NOT NULL, bit INTEGER, "
    "seal TEXT NOT NULL) WITHOUT ROWID",
    "spending": "CREATE TABLE spending (epsilon TEXT PRIMARY KEY NOT NULL, reports INTEGER NOT NULL, "
    "seal TEXT NOT NULL) WITHOUT ROWID",
    "terms": "CREATE TABLE terms (cap TEXT NOT NULL, delta TEXT NOT NULL, writes INTEGER NOT NULL, seal TEXT NOT NULL)",
}
TEXT = json.JSONEncoder(default=repr)
DAMAGED = "damaged, or not a ledger, so no report is made: restore it; a new one would forget what was spent"
REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full, so no report is made: make room and try again",
    sqlite3.SQLITE_BUSY: f"another process has been writing for {WAIT:g} s, so no report is made: try again",
    sqlite3.SQLITE_READONLY: "read-only, so no report is made: make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened, so no report is made: check the path and its permissions",
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
}


class LedgerError(UserError):
    """The ledger cannot do what is asked; nothing was spent and no report was made."""


class Overdraft(LedgerError):  # noqa: N818 - the word is an error already
    """A report would pass the cap."""


class Damage(Exception):  # noqa: N818 - as above
    """An entry is not as it was written."""


class Terms(NamedTuple):
    """What a ledger was made for, and how often it has been written to."""

    cap: Fraction
    delta: float
    writes: int = 0

    def __str__(self) -> str:
        return f"cap = {as_text(self.cap)} and delta = {self.delta:g}"


class Entry(NamedTuple):
    """One decision as it is written down."""

    decision: str
    epsilon: str
    bit: int | None
    seal: str


class Ledger:
    """What a device may still report: in memory, or in a file that outlives crashes and is shared by processes.

    >>> ledger = Ledger(cap=1)
    >>> ledger.reserve("headline 7", epsilon=0.5)
    >>> ledger.report("headline 7", 1) == ledger.report("headline 7", 0)  # a retry
    True
    >>> ledger.remaining
    Fraction(1, 2)
    """

    def __init__(
        self,
        cap: Number,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: float = 0.0,
        change: bool = False,
    ) -> None:
        """Open a ledger; a file keeps the cap and the delta that it was made with, unless change is asked for."""
        self.cap, self.delta = as_number("cap", cap), as_delta(delta)
        if self.cap < 0:
            raise UserError(f"cap = {as_text(self.cap)} is negative: give 0 or more")
        self.path = None if path is None else Path(path).absolute()
        self._process, self._lock, self._closed = os.getpid(), threading.Lock(), False
        self._name = "ledger in memory" if self.path is None else str(self.path)
        self._seen = 0  # writes
        terms = Terms(self.cap, self.delta)
        with _told(self._name):
            self._connection = _in_memory(terms) if self.path is None else _in_file(self.path, terms, change)
            self._file = self._identity()
        try:
            with self._reading():
                pass  # its terms may be others
        except BaseException:
            self._connection.close()
            raise

    def reserve(self, decision: Decision, epsilon: Number) -> None:
        """Pay for the report of a decision whose reward is not known yet; to repeat it costs nothing."""
        name, asked = _name_of(decision), _written(as_epsilon(epsilon))
        with self._transaction() as connection:
            entry = _entry(connection, name)
            if entry is None:
                counts = _counts(connection)
                reports = counts.get(Fraction(asked), 0) + 1
                self._refuse_overdraft(name, counts, {**counts, Fraction(asked): reports})
                _write(connection, name, asked, None)
                _pay(connection, asked, reports)
            elif entry.epsilon != asked:
                before, now = as_text(Fraction(entry.epsilon)), as_text(Fraction(asked))
                raise LedgerError(f"decision {name!r} is reserved at epsilon = {before}, not {now}: keep to the first")

    def report(self, decision: Decision, value: float) -> Report:
        """Return the report of a reserved decision: drawn from the value the first time, the same ever after."""
        name = _name_of(decision)
        with self._transaction() as connection:
            entry = _reserved(connection, name)
            mechanism = mechanism_for(Fraction(entry.epsilon))
            bit = mechanism.bit(value)  # a retry's is thrown away
            if entry.bit is None:
                _write(connection, name, entry.epsilon, bit)
            else:
                bit = _remembered(entry)
        return mechanism.as_report(bit)

    def recall(self, decision: Decision) -> Report | None:
        """Return the report of a reserved decision if it has been drawn: for a retry that lost the value."""
        name = _name_of(decision)
        with self._reading() as connection:
            entry = _reserved(connection, name)
        if entry.bit is None:
            return None
        return mechanism_for(Fraction(entry.epsilon)).as_report(_remembered(entry))

    def settle(self, decision: Decision) -> None:
        """Forget the bit of a report that has been received; what it cost stays spent."""
        name = _name_of(decision)
        with self._transaction() as connection:
            entry = _reserved(connection, name)
            if entry.bit is None:
                raise LedgerError(f"decision {name!r} has no report yet: nothing can have been received")
            _write(connection, name, entry.epsilon, FORGOTTEN)

    @property
    def spent(self) -> Fraction:
        """The epsilon of everything reserved so far, together, at this ledger's delta."""
        with self._reading() as connection:
            counts = _counts(connection)
        return total_epsilon(counts, self.delta)

    @property
    def remaining(self) -> Fraction:
        """What is left of the cap; with a delta, more than one report of it may fit."""
        return max(self.cap - self.spent, Fraction(0))

    @property
    def reports(self) -> int:
        """How many reports have been paid for."""
        with self._reading() as connection:
            return sum(_counts(connection).values())

    def close(self) -> None:
        """Close the file; everything is written already."""
        if os.getpid() != self._process:  # a fork's copy: the file is its parent's
            return
        with self._lock:
            self._closed = True
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Ledger, {self._name}, cap={as_text(self.cap)}, delta={self.delta:g}>"

    def _refuse_overdraft(self, name: str, counts: Counts, more: Counts) -> None:
        if added(more) <= self.cap:  # saves the work: a total is never above the sum
            return
        total = total_epsilon(more, self.delta)
        if total > self.cap:
            spent, asked = total_epsilon(counts, self.delta), added(more) - added(counts)
            raise Overdraft(
                f"decision {name!r}: {as_sum(spent)} is spent, another {as_sum(asked)} makes {as_sum(total)}, above "
                f"the cap of {as_text(self.cap)}: leave it unreported, or raise the cap"
            )

    @contextlib.contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        """Write everything or nothing, while nobody else writes; on disk when it ends."""
        with self._lent() as connection:
            try:  # before it begins: a signal's exception may come right after
                connection.execute(begin)
                terms, before = self._noticed(connection), connection.total_changes
                yield connection
                if connection.total_changes != before:
                    terms = _written_again(connection, terms)
                connection.execute("COMMIT")
                self._seen = terms.writes
            except BaseException:
                _undo(connection)
                raise

    def _reading(self) -> contextlib.AbstractContextManager[sqlite3.Connection]:
        """Read everything as it was at one moment, and keep nobody from writing until then."""
        return self._transaction("BEGIN")

    @contextlib.contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection to one thread, if it is still this process's and still the file's."""
        if os.getpid() != self._process:  # before the lock, which a fork may have copied closed
            raise LedgerError(f"{self._name}: opened by another process: open it in this one, too")
        with self._lock, _told(self._name):
            if self._closed:
                raise LedgerError(f"{self._name}: closed: open it again")
            if self._identity() != self._file:
                raise LedgerError(f"{self._name}: replaced while in use, so no report is made: open it again")
            _undo(self._connection)  # what a signal's exception kept from being undone
            yield self._connection

    def _noticed(self, connection: sqlite3.Connection) -> Terms:
        """Return the file's terms; refuse a file that is older than it was, or made for less than is asked now."""
        terms = _terms(connection)
        if terms.writes < self._seen:
            raise LedgerError(f"{self._name}: older than it was, so no report is made: put the newest copy back")
        if self.cap > terms.cap or self.delta != terms.delta:
            raise LedgerError(
                f"{self._name}: made for {terms}, not {Terms(self.cap, self.delta)}: keep to its own, or to a lower "
                "cap, or open it once with change=True"
            )
        self._seen = terms.writes
        return terms

    def _identity(self) -> tuple[int, int] | None:
        """Tell one file from another of the same name."""
        if self.path is None:
            return None
        found = self.path.stat()
        return found.st_dev, found.st_ino


@contextlib.contextmanager
def _told(name: str) -> Iterator[None]:
    """Tell in one line what the disk or the database did not do."""
    try:
        yield
    except (Damage, UnicodeDecodeError) as error:  # SQLite's message may quote what is damaged
        raise LedgerError(f"{name}: {DAMAGED}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)  # none if a text cannot be decoded
        reason = REASONS.get(
            code & 0xFF, f"{error}, so no report is made: check the file and its disk"
        )  # & 0xFF: the main code
        raise LedgerError(f"{name}: {reason}") from error
    except OSError as error:
        raise LedgerError(f"{name}: {error.strerror}, so no report is made: check the path") from error


def _undo(connection: sqlite3.Connection) -> None:
    """Undo what was begun, if anything; what cannot be undone now is undone by the next who opens the file."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _name_of(decision: Decision) -> str:
    """Return a decision's name as plain text; the number 7 and the text "7" are the same decision."""
    if isinstance(decision, str):
        name = str.__str__(decision)  # of an enumeration's or numpy's too: the text itself
        if 0 < len(name) <= LONGEST and name.isprintable():
            return name
    elif not isinstance(decision, (bool, np.bool_)):
        with contextlib.suppress(TypeError):
            number = operator.index(decision)
            if number.bit_length() < 64:
                return str(number)
    raise UserError(f"a decision needs another name: 1 to {LONGEST} printable characters, or a number of 64 bits")


def _written(epsilon: Fraction) -> str:
    """Return an epsilon as it is written down: exactly."""
    if epsilon.denominator.bit_length() > MOST_BITS:
        raise UserError(f"epsilon = {float(epsilon):g} has too many digits: round it")
    return str(epsilon)


@functools.lru_cache(maxsize=1 << 14)
def _read(epsilon: str) -> Fraction:
    """Return an epsilon that was written down; the same few are read at every reservation."""
    return as_epsilon(epsilon)


def _seal(*fields: str | int | None) -> str:
    """Return a check sum of a row, as long for every row; a damaged row may also hold bytes."""
    return f"{zlib.crc32(TEXT.encode(fields).encode()):08x}"


def _entry(connection: sqlite3.Connection, name: str) -> Entry | None:
    """Return what is written down of a decision."""
    row = connection.execute(
        "SELECT decision, epsilon, bit, seal FROM decisions WHERE decision = ?", (name,)
    ).fetchone()
    return None if row is None else _sealed(Entry(*row))


def _sealed(entry: Entry) -> Entry:
    """Return an entry that is as it was written."""
    if entry.seal != _seal(*entry[:-1]):
        raise Damage
    return entry


def _reserved(connection: sqlite3.Connection, name: str) -> Entry:
    """Return the entry of a decision that must have been reserved."""
    entry = _entry(connection, name)
    if entry is None:
        raise LedgerError(f"decision {name!r} is not reserved: reserve it before its reward is known")
    return entry


def _remembered(entry: Entry) -> int:
    """Return the bit of a decision whose report is drawn."""
    if entry.bit not in (0, 1):
        raise LedgerError(f"decision {entry.decision!r} is settled: its report was received and is forgotten")
    return entry.bit


def _write(connection: sqlite3.Connection, name: str, epsilon: str, bit: int | None) -> None:
    """Write a decision down."""
    row = (name, epsilon, bit, _seal(name, epsilon, bit))
    connection.execute("REPLACE INTO decisions (decision, epsilon, bit, seal) VALUES (?, ?, ?, ?)", row)


def _pay(connection: sqlite3.Connection, epsilon: str, reports: int) -> None:
    """Write down how many reports of an epsilon there are."""
    row = (epsilon, reports, _seal(epsilon, reports))
    connection.execute("REPLACE INTO spending (epsilon, reports, seal) VALUES (?, ?, ?)", row)


def _counts(connection: sqlite3.Connection) -> Counts:
    """Return how many reports of each epsilon are paid for: as many as there are decisions."""
    counts = {}
    for epsilon, reports, seal in connection.execute("SELECT epsilon, reports, seal FROM spending"):
        if seal != _seal(epsilon, reports) or reports < 1:
            raise Damage
        try:
            counts[_read(epsilon)] = int(reports)
        except ValueError as error:
            raise Damage from error
    if (sum(counts.values()),) != connection.execute("SELECT COUNT(*) FROM decisions").fetchone():
        raise Damage
    return counts


def _terms(connection: sqlite3.Connection) -> Terms:
    """Return what the ledger was made for."""
    rows = connection.execute("SELECT cap, delta, writes, seal FROM terms").fetchall()
    if len(rows) != 1:
        raise Damage
    cap, delta, writes, seal = rows[0]
    if seal != _seal(cap, delta, writes):
        raise Damage
    try:
        return Terms(as_number("cap", cap), as_delta(delta), int(writes))
    except ValueError as error:
        raise Damage from error


def _agree(connection: sqlite3.Connection, terms: Terms) -> None:
    """Write the terms down, in place of earlier ones."""
    fields = (str(terms.cap), repr(terms.delta), terms.writes)
    connection.execute("DELETE FROM terms")
    connection.execute("INSERT INTO terms (cap, delta, writes, seal) VALUES (?, ?, ?, ?)", (*fields, _seal(*fields)))


def _written_again(connection: sqlite3.Connection, terms: Terms) -> Terms:
    """Count one more write, by which an older copy is known."""
    later = terms._replace(writes=terms.writes + 1)
    _agree(connection, later)
    return later


def _in_memory(terms: Terms) -> sqlite3.Connection:
    connection = _connected(":memory:")
    _begin(connection, terms)
    return connection


def _in_file(path: Path, terms: Terms, change: bool) -> sqlite3.Connection:
    """Open a ledger's file, created if there is none, check every entry, and change its terms if that is asked for."""
    if not path.exists():
        _create(path, terms)
    connection = _connected(f"{path.as_uri()}?mode=rw")
    try:
        _check(connection, path)
        if change:
            _change(connection, terms)
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(uri: str) -> sqlite3.Connection:
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
    _written_again(connection, terms._replace(writes=_terms(connection).writes))
    connection.execute("COMMIT")


def _begin(connection: sqlite3.Connection, terms: Terms) -> None:
    """Write an empty ledger."""
    marks = (f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}")
    for statement in ("BEGIN", *TABLES.values(), *marks):
        connection.execute(statement)
    _agree(connection, terms)
    connection.execute("COMMIT")


def _create(path: Path, terms: Terms) -> None:
    """Let a new ledger appear whole or not at all, so that an empty file is always a damaged one."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # nobody else's business
        with contextlib.closing(_connected(f"{draft.as_uri()}?mode=rw")) as connection:
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
        raise LedgerError(f"{path}: written in format {version}, this version reads {VERSION}: update maskedbandits")
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
    if (application, journal, _asked(connection, "integrity_check"), tables) != (APPLICATION, "delete", "ok", TABLES):
        raise Damage
    entries = (_sealed(Entry(*row)) for row in connection.execute("SELECT decision, epsilon, bit, seal FROM decisions"))
    if Counter(entry.epsilon for entry in entries) != {
        _written(epsilon): n for epsilon, n in _counts(connection).items()
    }:
        raise Damage
    _terms(connection)
    connection.execute("COMMIT")


def _asked(connection: sqlite3.Connection, pragma: str) -> object:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]
