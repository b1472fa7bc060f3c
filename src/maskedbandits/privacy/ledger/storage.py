"""The file of a ledger: one SQLite database with a checksum in every row.

The file is created completely or not at all, and verified from the first byte to the last entry when it is opened. It
has a row for each decision, the number of payments by moment and epsilon, and the terms of the ledger.
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
from ..composition import check_delta
from ..exact import as_epsilon, as_number, as_text, to_python
from .errors import LOCK_TIMEOUT_S, DamagedFile, LedgerError
from .period import FOR_EVER, LONG_AGO, MAX_PERIOD_S, date_payment, format_period, read_clock, still_counts

DecisionName = str | int
Counts = dict[Fraction, int]  # number of reports by epsilon
Spending = dict[tuple[int, str], int]  # number of reports by moment of payment and epsilon

MAX_NAME_LENGTH = 200  # characters
MAX_DENOMINATOR_BITS = 256  # of an epsilon
FORGOTTEN = 2  # replaces a bit; NULL is a report not drawn yet
FIRST_ANSWER_CODE = 3  # replaces a bit: an answer of several is stored as this plus its number

TABLES = {
    "decisions": "CREATE TABLE decisions (decision TEXT PRIMARY KEY NOT NULL, epsilon TEXT NOT NULL, bit INTEGER, "
    "seal TEXT NOT NULL) WITHOUT ROWID",
    "spending": "CREATE TABLE spending (moment INTEGER NOT NULL, epsilon TEXT NOT NULL, reports INTEGER NOT NULL, "
    "seal TEXT NOT NULL, PRIMARY KEY (moment, epsilon)) WITHOUT ROWID",
    "terms": "CREATE TABLE terms (cap TEXT NOT NULL, delta TEXT NOT NULL, period INTEGER NOT NULL, "
    "writes INTEGER NOT NULL, seal TEXT NOT NULL)",
}
TEXT = json.JSONEncoder(default=repr)
APPLICATION_ID, FORMAT_VERSION = 0x4D424C44, 2  # "MBLD"
_SHARED: dict[int, tuple[sqlite3.Connection, threading.Lock]] = {}  # by process id: a fork copies its parent's
_OPENING = threading.Lock()


class LedgerTerms(NamedTuple):
    """The cap, delta and period of a ledger, and its number of writes."""

    cap: Fraction
    delta: float
    period: int
    writes: int = 0

    def __str__(self) -> str:
        return f"cap = {self.limit} and delta = {self.delta:g}"

    @property
    def limit(self) -> str:
        """The cap and its period, as text."""
        return as_text(self.cap) + (f" per {format_period(self.period)}" if self.period else "")


class LedgerEntry(NamedTuple):
    """The row of a decision."""

    decision: str
    epsilon: str
    bit: int | None
    seal: str


def check_decision_name(decision: DecisionName) -> str:
    """Return the name of a decision as text; the number 7 and the text "7" are the same."""
    if isinstance(decision, str):
        name = str.__str__(decision)  # the plain text, also of an enumeration or numpy
        if 0 < len(name) <= MAX_NAME_LENGTH and name.isprintable():
            return name
    elif not isinstance(to_python(decision), bool):
        with contextlib.suppress(TypeError):
            number = operator.index(decision)
            if number.bit_length() < 64:
                return str(number)
    raise UserError(
        f"invalid name of a decision: give 1 to {MAX_NAME_LENGTH} printable characters, or a whole number of 64 bits"
    )


def encode_epsilon(epsilon: Fraction) -> str:
    """Return the exact text of an epsilon."""
    if epsilon.denominator.bit_length() > MAX_DENOMINATOR_BITS:
        raise UserError(f"epsilon = {float(epsilon):g} has too many digits: round it")
    return str(epsilon)


@functools.lru_cache(maxsize=1 << 14)
def decode_epsilon(epsilon: str) -> Fraction:
    """Return the epsilon of a text. Cached, because every reservation reads the same few."""
    return as_epsilon(epsilon)


def compute_checksum(*fields: str | int | None) -> str:
    """Return a checksum of fixed length for a row. A damaged row may also have bytes."""
    return f"{zlib.crc32(TEXT.encode(fields).encode()):08x}"


def find_entry(connection: sqlite3.Connection, name: str) -> LedgerEntry | None:
    """Return the entry of a decision, None if there is none."""
    row = connection.execute(
        "SELECT decision, epsilon, bit, seal FROM decisions WHERE decision = ?", (name,)
    ).fetchone()
    return None if row is None else verify_entry(LedgerEntry(*row))


def read_entries(connection: sqlite3.Connection) -> Iterator[LedgerEntry]:
    """Yield all entries."""
    for row in connection.execute("SELECT decision, epsilon, bit, seal FROM decisions"):
        yield verify_entry(LedgerEntry(*row))


def verify_entry(entry: LedgerEntry) -> LedgerEntry:
    """Return an entry if its checksum is right."""
    if entry.seal != compute_checksum(*entry[:-1]):
        raise DamagedFile
    return entry


def require_entry(connection: sqlite3.Connection, name: str) -> LedgerEntry:
    """Return the entry of a decision that must have been reserved."""
    entry = find_entry(connection, name)
    if entry is None:
        raise LedgerError(f"decision {name!r} is not reserved: reserve it before its reward is known")
    return entry


def stored_bit(entry: LedgerEntry) -> int:
    """Return the bit of an entry whose report is drawn."""
    if entry.bit is not None and entry.bit >= FIRST_ANSWER_CODE:
        raise LedgerError(
            f"decision {entry.decision!r} has an answer of one of several, not a bit: call answer() for it"
        )
    if entry.bit not in (0, 1):
        raise LedgerError(f"decision {entry.decision!r} is settled: its report was received and deleted")
    return entry.bit


def stored_answer(entry: LedgerEntry, answers: int) -> int:
    """Return the answer of an entry whose answer is drawn."""
    if entry.bit == FORGOTTEN:
        raise LedgerError(f"decision {entry.decision!r} is settled: its report was received and deleted")
    if entry.bit is None or not FIRST_ANSWER_CODE <= entry.bit < FIRST_ANSWER_CODE + answers:
        raise LedgerError(
            f"decision {entry.decision!r} has no report of one of {answers} answers: retry the first report unchanged"
        )
    return entry.bit - FIRST_ANSWER_CODE


def write_entry(connection: sqlite3.Connection, name: str, epsilon: str, bit: int | None) -> None:
    """Write the entry of a decision."""
    row = (name, epsilon, bit, compute_checksum(name, epsilon, bit))
    connection.execute("REPLACE INTO decisions (decision, epsilon, bit, seal) VALUES (?, ?, ?, ?)", row)


def write_payment(connection: sqlite3.Connection, moment: int, epsilon: str, reports: int) -> None:
    """Write how many reports of an epsilon were paid for at a moment."""
    row = (moment, epsilon, reports, compute_checksum(moment, epsilon, reports))
    connection.execute("REPLACE INTO spending (moment, epsilon, reports, seal) VALUES (?, ?, ?, ?)", row)


def redate_payments(connection: sqlite3.Connection, spending: Spending, redate: Callable[[int], int]) -> None:
    """Change the moments of payments."""
    redated: Counter[tuple[int, str]] = Counter()
    for (moment, epsilon), reports in spending.items():
        redated[redate(moment), epsilon] += reports
    if redated != spending:
        connection.execute("DELETE FROM spending")
        for (moment, epsilon), reports in redated.items():
            write_payment(connection, moment, epsilon, reports)


def read_spending(connection: sqlite3.Connection) -> Spending:
    """Return all payments: as many reports as there are decisions."""
    spending: Spending = {}
    for moment, epsilon, reports, seal in connection.execute("SELECT moment, epsilon, reports, seal FROM spending"):
        if seal != compute_checksum(moment, epsilon, reports) or not (
            _at_least(1, reports) and _at_least(LONG_AGO, moment)
        ):
            raise DamagedFile
        spending[moment, epsilon] = reports
    if (sum(spending.values()),) != connection.execute("SELECT COUNT(*) FROM decisions").fetchone():
        raise DamagedFile
    return spending


def _at_least(least: int, value: object) -> bool:
    """Tell whether a value from a row that may be damaged is a whole number of at least this."""
    return isinstance(value, int) and value >= least


def count_reports(spending: Spending, period: int = FOR_EVER, at: int = 0) -> Counts:
    """Return the number of reports of each epsilon that still count; with FOR_EVER, all."""
    counts: Counts = Counter()
    for (moment, epsilon), reports in spending.items():
        try:
            number = decode_epsilon(epsilon)
        except ValueError as error:
            raise DamagedFile from error
        if still_counts(moment, period, at):
            counts[number] += reports
    return counts


def read_terms(connection: sqlite3.Connection) -> LedgerTerms:
    """Return the terms of the ledger."""
    rows = connection.execute("SELECT cap, delta, period, writes, seal FROM terms").fetchall()
    if len(rows) != 1:
        raise DamagedFile
    *fields, seal = rows[0]
    if seal != compute_checksum(*fields):
        raise DamagedFile
    cap, delta, period, writes = fields
    if not _at_least(FOR_EVER, period) or period > MAX_PERIOD_S:
        raise DamagedFile
    try:
        return LedgerTerms(as_number("cap", cap), check_delta(delta), period, int(writes))
    except ValueError as error:
        raise DamagedFile from error


def write_terms(connection: sqlite3.Connection, terms: LedgerTerms) -> None:
    """Replace the terms."""
    fields = (str(terms.cap), repr(terms.delta), terms.period, terms.writes)
    connection.execute("DELETE FROM terms")
    statement = "INSERT INTO terms (cap, delta, period, writes, seal) VALUES (?, ?, ?, ?, ?)"
    connection.execute(statement, (*fields, compute_checksum(*fields)))


def count_write(connection: sqlite3.Connection, terms: LedgerTerms) -> LedgerTerms:
    """Increase the number of writes, which reveals an older copy of the file."""
    later = terms._replace(writes=terms.writes + 1)
    write_terms(connection, later)
    return later


def open_in_memory(terms: LedgerTerms) -> sqlite3.Connection:
    """Open a ledger that ends with its process."""
    connection = open_database(":memory:")
    _create_tables(connection, terms)
    return connection


def open_shared(terms: LedgerTerms) -> tuple[sqlite3.Connection, threading.Lock]:
    """Return the one ledger in memory that this process shares, and its lock."""
    with _OPENING:
        if os.getpid() not in _SHARED:
            _SHARED[os.getpid()] = open_in_memory(terms), threading.Lock()
        return _SHARED[os.getpid()]


def open_file(path: Path, terms: LedgerTerms, change: bool) -> sqlite3.Connection:
    """Open a file, created if needed, verify every entry, and change its terms if requested."""
    if not path.exists():
        _create(path, terms)
    connection = open_database(f"{path.as_uri()}?mode=rw")
    try:
        _verify_file(connection, path)
        if change:
            _change_terms(connection, terms)
    except BaseException:
        connection.close()
        raise
    return connection


def open_database(uri: str) -> sqlite3.Connection:
    """Open a database that threads may share if they take turns."""
    connection = sqlite3.connect(uri, uri=True, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("synchronous = EXTRA", "secure_delete = ON", "trusted_schema = OFF", "temp_store = MEMORY"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def _change_terms(connection: sqlite3.Connection, terms: LedgerTerms) -> None:
    """Replace the terms of a ledger and redate its payments."""
    connection.execute("BEGIN IMMEDIATE")
    before = read_terms(connection)
    if terms.period != before.period:
        _change_period(connection, before.period, terms.period)
    count_write(connection, terms._replace(writes=before.writes))
    connection.execute("COMMIT")


def _change_period(connection: sqlite3.Connection, before: int, period: int) -> None:
    """Redate payments so that none counts too short. For those long ago only a minimal age is known."""
    spending = read_spending(connection)
    if period == FOR_EVER:
        redate_payments(connection, spending, lambda moment: LONG_AGO)
        return
    latest = date_payment(read_clock(), (moment for moment, _ in spending))
    if before != FOR_EVER:
        latest -= 1 + before
    redate_payments(connection, spending, lambda moment: latest if moment == LONG_AGO and period > before else moment)


def _create_tables(connection: sqlite3.Connection, terms: LedgerTerms) -> None:
    """Write an empty ledger."""
    marks = (f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {FORMAT_VERSION}")
    for statement in ("BEGIN", *TABLES.values(), *marks):
        connection.execute(statement)
    write_terms(connection, terms)
    connection.execute("COMMIT")


def _create(path: Path, terms: LedgerTerms) -> None:
    """Create a file completely or not at all, so that an empty file is always a damaged one."""
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # private
        with contextlib.closing(open_database(f"{draft.as_uri()}?mode=rw")) as connection:
            _create_tables(connection, terms)
        with contextlib.suppress(FileExistsError):  # another process was first: use its ledger
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _verify_file(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a ledger of this format, from the first byte to the last entry."""
    journal = _read_pragma(connection, "journal_mode = DELETE")
    connection.execute("BEGIN")  # one snapshot, even while others write
    application, version = _read_pragma(connection, "application_id"), _read_pragma(connection, "user_version")
    if application == APPLICATION_ID and version != FORMAT_VERSION:
        raise LedgerError(f"{path}: format {version} instead of {FORMAT_VERSION}: use the version that wrote it")
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master"))
    if (application, journal, _read_pragma(connection, "integrity_check"), tables) != (
        APPLICATION_ID,
        "delete",
        "ok",
        TABLES,
    ):
        raise DamagedFile
    counted = Counter(entry.epsilon for entry in read_entries(connection))
    if counted != {
        encode_epsilon(epsilon): reports for epsilon, reports in count_reports(read_spending(connection)).items()
    }:
        raise DamagedFile
    read_terms(connection)
    connection.execute("COMMIT")


def _read_pragma(connection: sqlite3.Connection, pragma: str) -> object:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back an open transaction. If that fails, the next process that opens the file does it."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
