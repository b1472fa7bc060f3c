"""The store in a SQLite file, in write-ahead mode, with every transaction on disk before it is answered."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maskedbandits.errors import UserError, translate_errors
from maskedbandits.service.storage import errors, schema
from maskedbandits.service.storage.base import Row, TableRows, Transaction, placeholders
from maskedbandits.service.storage.errors import LayoutChanged, StoreUnavailable, Unreachable, first_line
from maskedbandits.service.storage.layouts import (
    ADDED_TABLE,
    ID_COLUMNS,
    OLD_COLUMNS,
    Layout,
    find_layout,
    format_selects,
)
from maskedbandits.service.storage.models import (
    DUPLICATE,
    LATE,
    UNKNOWN,
    EventRow,
    NewReport,
    Visit,
    check_decision_ids,
)
from maskedbandits.service.storage.store import Store

if TYPE_CHECKING:
    from maskedbandits.service.event_columns import EventColumns

STORE_ID, BACKUP_ID = 0x4D425356, 0x4D425342  # "MBSV" and "MBSB": the application id in a file's header
POLL_S = 0.01
UNREADABLE = "\N{REPLACEMENT CHARACTER}"
SETTINGS = (
    "fullfsync = ON",  # macOS needs it to write through
    "secure_delete = ON",  # overwrite forgotten ids
    "journal_size_limit = 67108864",  # shrink a write-ahead log that has grown during a long read
    "trusted_schema = OFF",
)
BUSY = "another process has been writing for too long: try again"
NO_COLUMN = ("no such column", "has no column named")  # messages about statements for another layout
TRANSIENT = {  # reasons that may go away
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_FULL: "the disk is full: make room",
    sqlite3.SQLITE_IOERR: "the disk failed: make room, or check its state",
}
PERMANENT = {
    sqlite3.SQLITE_READONLY: "read-only: make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check its path and its permissions",
    sqlite3.SQLITE_PERM: "cannot be opened: check its path and its permissions",
    sqlite3.SQLITE_NOTADB: "damaged, or not a store: restore a backup",
    sqlite3.SQLITE_CORRUPT: "damaged: restore a backup",
}


class SqliteStore(Store):
    """A store in a file, which several processes on one machine may share."""

    DIALECT, FOR_UPDATE = "sqlite", ""  # SQLite has one writer at a time
    NOW = "NULL"  # processes that share a file share the machine's clock
    WAIT_BRIEFLY = ()
    FIND_ADDITIONS = f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{ADDED_TABLE}'"  # noqa: S608 - our own name
    COUNT_OLDER = "SELECT 0"  # a file does not know who has opened it
    # SQLite would write all rows again to drop a column. Other names make earlier statements fail, as without it.
    DROP_OLD_COLUMNS = tuple(f"ALTER TABLE event RENAME COLUMN {old} TO empty_{old}" for old in OLD_COLUMNS.values())

    def __init__(self, path: Path, *, create: bool = False, durable: bool = True) -> None:
        super().__init__(str(path))
        self._path = path.absolute()
        self.key_file = path.with_name(f"{path.name}.key")
        self._connection = open_file(self._path, create=create, durable=durable)
        self._file = _read_inode(self._path)

    def append(self, reports: Sequence[NewReport]) -> list[int]:
        """Append reports in one durable transaction, and return the sequence number of each."""
        check_decision_ids(reports)
        return self._in_layout(lambda layout: self._append(layout, reports))

    def _append(self, layout: Layout, reports: Sequence[NewReport]) -> list[int]:
        append = _APPENDERS[layout]
        with self._begin_write() as tx:
            logs = {each: _read_log(tx, each) for each in {report.experiment for report in reports}}
            answers = [_append_report(tx, logs[report.experiment], report, append) for report in reports]
            for experiment, log in logs.items():
                if log is not None:
                    tx.execute("UPDATE experiment SET seq = ? WHERE id = ?", (log[0], experiment))
        return answers

    def assign_tokens(self, visits: Sequence[Visit]) -> list[bytes]:
        """Return each visitor's token: an earlier one that has not expired, or else the given one."""
        with self._begin_read() as tx:
            found = [token for visit in visits if (token := _find_token(tx, visit)) is not None]
        if len(found) == len(visits):  # as after any reload of a page: write nothing
            return found
        with self._begin_write() as tx:
            return [_assign_token(tx, visit) for visit in visits]

    def read_columns(self, experiment: int, after: int, limit: int) -> EventColumns:
        """Return up to ``limit`` events of a log after a sequence number, in order, as columns.

        SQLite packs the columns of a usual report into one integer, since each value that it returns takes time.
        """
        from maskedbandits.service.storage import packed  # it imports numpy, which is slow

        first, last = after + 1, after + limit
        with self._begin_read() as tx:
            like = tx.query(packed.USUAL, (experiment, first, last))
            epsilon, hour = like[0] if like else (0, 0)
            rows = tx.query(packed.PACKED, (epsilon, hour, hour, hour, experiment, first, last))
        columns, unusual = packed.unpack_events(rows, first, epsilon, hour)
        if len(rows) < limit or unusual.size > limit // 8:  # the end, a gap, or other reports
            return columns.from_rows(self.read_events(experiment, after, limit))
        others: list[EventRow] = []
        for start, end in packed.list_runs(unusual):
            others += self._read_rows(experiment, first + start, first + end)
        return columns.replace(unusual, others)

    @contextmanager
    def dump(self) -> Iterator[Iterator[TableRows]]:
        """Read all tables at one moment over a separate connection, a few rows at a time."""
        with translate_sqlite_errors(self.name), closing(connect(self._path, "ro")) as connection:
            yield dump_tables(connection)

    def fill(self, tables: Iterable[TableRows]) -> None:
        """Write all tables of an empty store in one transaction."""
        with self._begin_write() as tx:
            self._refuse_unless_empty(tx)
            for table, rows in tables:
                tx.insert(table, rows)

    @contextmanager
    def _begin_read(self) -> Iterator[Transaction]:
        with self._lend_connection() as connection:
            yield SqliteTransaction(connection)

    @contextmanager
    def _begin_write(self, *, exclusive: bool = False) -> Iterator[Transaction]:
        with self._lend_connection() as connection:
            try:  # before it begins: a signal may raise right after
                connection.execute("BEGIN IMMEDIATE")
                yield SqliteTransaction(connection)
                with translate_sqlite_errors(self.name, may_be_committed=True):
                    connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise

    @contextmanager
    def _lend_connection(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection to one thread, if the path still leads to its file."""
        with self._take_turn(), translate_sqlite_errors(self.name):
            if _read_inode(self._path) != self._file:  # SQLite would go on writing to a deleted file
                raise StoreUnavailable(f"{self.name}: deleted or replaced while in use: restore it, or restart")
            roll_back(self._connection)  # a signal may have interrupted an earlier rollback
            yield self._connection

    def _disconnect(self) -> None:
        self._connection.close()


class SqliteTransaction:
    """Statements on a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query."""
        return self._connection.execute(statement, parameters).fetchall()

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement and return the number of rows it changed."""
        return self._connection.execute(statement, parameters).rowcount

    def execute_many(self, statement: str, many: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once for each row of parameters."""
        self._connection.executemany(statement, many)

    def insert(self, table: str, rows: Sequence[Row], on_conflict: str = "") -> None:
        """Insert rows with all columns of the table."""
        self._connection.executemany(f"{format_insert(table)} {on_conflict}", rows)


def _read_log(tx: Transaction, experiment: int) -> list[int] | None:
    """Return the last sequence number of a log and its last forgotten minute; None if it takes no reports."""
    found = tx.query("SELECT seq, forgotten FROM experiment WHERE id = ? AND status <> 'archived'", (experiment,))
    return list(found[0]) if found else None


def _append_report(tx: Transaction, log: list[int] | None, report: NewReport, append: _Append) -> int:
    """Append a report if its log takes it, and advance the log's last sequence number."""
    if log is None:
        return UNKNOWN
    if report.expires <= log[1]:
        return LATE
    if not append(tx, report, log[0] + 1):
        return DUPLICATE
    log[0] += 1
    return log[0]


def _find_token(tx: Transaction, visit: Visit) -> bytes | None:
    """Return a visitor's token, unless it has expired or is to be replaced."""
    found = tx.query(
        "SELECT token FROM visitor WHERE experiment = ? AND visitor = ? AND expires > ? AND token <> ?",
        (visit.experiment, visit.visitor, visit.now, visit.instead),
    )
    return found[0][0] if found else None


def _assign_token(tx: Transaction, visit: Visit) -> bytes:
    """Return a visitor's token after storing the new one if needed."""
    found = _find_token(tx, visit)
    if found is not None:
        return found
    tx.execute(
        "INSERT INTO visitor (experiment, visitor, token, expires) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (experiment, visitor) DO UPDATE SET token = excluded.token, expires = excluded.expires",
        visit[:4],
    )
    return visit.token


def _append_with_id(tx: Transaction, report: NewReport, seq: int) -> bool:
    """Append a report unless its decision has one; tell whether it was appended."""
    if not tx.execute(_ADD_ID, (report.experiment, report.decision, seq, report.expires)):
        return False
    tx.execute(_ADD_EVENT, (*_get_event_values(report), seq))
    return True


def _append_while_moving(tx: Transaction, report: NewReport, seq: int) -> bool:
    if tx.query("SELECT 1 FROM event WHERE experiment = ? AND old_decision = ?", (report.experiment, report.decision)):
        return False
    return _append_with_id(tx, report, seq)


def _append_shared(tx: Transaction, report: NewReport, seq: int) -> bool:
    return bool(tx.execute(_ADD_WHOLE_EVENT, (*report, seq)))


_Append = Callable[[Transaction, NewReport, int], bool]
_APPENDERS: dict[Layout, _Append] = {
    Layout.SHARED: _append_shared,
    Layout.MOVING: _append_while_moving,
    Layout.CURRENT: _append_with_id,
}


def _format_event_insert(columns: Sequence[str]) -> str:
    listed = ", ".join(columns)
    return f"INSERT INTO event ({listed}, seq, kind) VALUES ({placeholders(columns)}, ?, 'report')"  # noqa: S608 - our own names


# The conflict is named because a sequence number that is taken is not a duplicate report but damage.
_ADD_ID = (
    "INSERT INTO report_id (experiment, decision, seq, expires) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (experiment, decision) DO NOTHING"
)
_EVENT_COLUMNS = [name for name in NewReport._fields if name not in ID_COLUMNS]
_ADD_EVENT = _format_event_insert(_EVENT_COLUMNS)
_get_event_values = itemgetter(*map(NewReport._fields.index, _EVENT_COLUMNS))
_ADD_WHOLE_EVENT = (
    f"{_format_event_insert(NewReport._fields)} "
    "ON CONFLICT (experiment, decision) WHERE decision IS NOT NULL DO NOTHING"
)


# Files, which backups are, too


def open_file(path: Path, *, create: bool, durable: bool) -> sqlite3.Connection:
    """Open the file of a store; ``create`` makes one if there is none."""
    try:
        if create:  # readable by its owner alone
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        elif not path.exists():
            raise UserError(f"{path}: no such file: check the path, or create the store first")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: check the path and its permissions") from error
    with translate_errors(sqlite3.DatabaseError, lambda error: _explain_opening(path, error)):
        connection = connect(path, "rw", durable=durable)
        try:
            if create and _is_empty(connection):
                _set_write_ahead(connection)
                _create_tables(connection)
            _check_file(connection, path)  # before any change: the file may belong to another program
            _set_write_ahead(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def connect(path: Path, mode: str, *, durable: bool = True) -> sqlite3.Connection:
    """Connect to a file; threads may share the connection by taking turns."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        timeout=errors.LOCK_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = decode_text
    try:
        for setting in (*SETTINGS, f"synchronous = {'FULL' if durable else 'OFF'}"):
            connection.execute(f"PRAGMA {setting}")
    except BaseException:
        connection.close()
        raise
    return connection


def decode_text(stored: bytes) -> str:
    """Decode a text; damaged UTF-8 gets a first letter that makes it invalid as JSON."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return UNREADABLE + stored.decode(errors="replace")


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back an open transaction; if that fails now, the next process to open the file does it."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def dump_tables(connection: sqlite3.Connection) -> Iterator[TableRows]:
    """Yield all tables at one moment, a few rows at a time."""
    connection.execute("BEGIN")
    for table, select in list_selects(connection).items():
        cursor = connection.execute(select)
        while rows := cursor.fetchmany(schema.get_batch_size(table)):
            yield table, rows


def list_selects(connection: sqlite3.Connection) -> dict[str, str]:
    """Return for each table of a store or a backup the query for its rows as this version has them."""
    meta = connection.execute("SELECT key, value FROM meta").fetchall()
    layout = find_layout(meta, "the store")
    return format_selects(layout, has_additions=bool(connection.execute(SqliteStore.FIND_ADDITIONS).fetchall()))


def format_insert(table: str) -> str:
    """Return the statement that inserts a row of a table."""
    names = schema.list_columns(table)
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({placeholders(names)})"  # noqa: S608 - our own names


def translate_sqlite_errors(name: str, *, may_be_committed: bool = False) -> AbstractContextManager[None]:
    """Raise ``StoreUnavailable`` for errors of the disk or the database, and let bugs pass."""

    def explain(error: Exception) -> Exception | None:
        if isinstance(error, (sqlite3.ProgrammingError, sqlite3.IntegrityError)):
            return None
        kind = LayoutChanged if any(word in str(error) for word in NO_COLUMN) else StoreUnavailable
        return kind(f"{name}: {_get_reason(error)}", may_be_committed=may_be_committed)

    return translate_errors(sqlite3.DatabaseError, explain)


def _explain_opening(path: Path, error: Exception) -> Exception:
    """Tell errors that may go away from those that a person must fix."""
    kind = Unreachable if _get_code(error) in TRANSIENT else UserError
    return kind(f"{path}: {_get_reason(error)}")


def _get_code(error: Exception) -> int:
    """Return the primary code of an error."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF


def _get_reason(error: Exception) -> str:
    return (TRANSIENT | PERMANENT).get(_get_code(error), first_line(error))


def _read_inode(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _read_pragma(connection: sqlite3.Connection, pragma: str) -> object:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]


def _set_write_ahead(connection: sqlite3.Connection) -> None:
    """Set write-ahead mode for good; SQLite itself does not wait for others that do the same."""
    until = time.monotonic() + errors.LOCK_TIMEOUT_S
    while True:
        try:
            if _read_pragma(connection, "journal_mode") == "wal":
                return
            if _read_pragma(connection, "journal_mode = WAL") == "wal":
                return
        except sqlite3.OperationalError as error:
            if _get_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(POLL_S)
        if time.monotonic() > until:
            raise Unreachable("its file system does not support a write-ahead log: move it to a local disk")


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create all tables, unless another process was first."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        if _is_empty(connection):
            connection.execute(f"PRAGMA application_id = {STORE_ID}")
            for statement in schema.list_statements("sqlite"):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def _check_file(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file that is not a store."""
    found = _read_pragma(connection, "application_id")
    if found == BACKUP_ID:
        raise UserError(f"{path}: a backup: restore it into a store with maskedbandits restore")
    if found != STORE_ID:
        what = "empty: create the store first" if _is_empty(connection) else "not a store: give another file"
        raise UserError(f"{path}: {what}")


def _is_empty(connection: sqlite3.Connection) -> bool:
    return not connection.execute("SELECT 1 FROM sqlite_master").fetchall()
