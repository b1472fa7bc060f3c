"""The store in PostgreSQL: an append is one round trip, and a lost connection is replaced at the next call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from maskedbandits.errors import UserError, translate_errors
from maskedbandits.service.storage import errors, schema
from maskedbandits.service.storage.base import Row, TableRows, Transaction
from maskedbandits.service.storage.errors import Busy, LayoutChanged, StoreUnavailable, Unreachable, first_line
from maskedbandits.service.storage.layouts import (
    ADDED_TABLE,
    ID_COLUMNS,
    IDS,
    OLD_COLUMNS,
    Layout,
    find_layout,
    format_selects,
    refuse_other_version,
)
from maskedbandits.service.storage.models import DECISION_ID_BYTES, EventRow, NewReport, Visit, check_decision_ids
from maskedbandits.service.storage.retention import PERMANENT
from maskedbandits.service.storage.store import Store

if TYPE_CHECKING:
    from maskedbandits.service.event_columns import EventColumns

Connection = psycopg.Connection[tuple[Any, ...]]

MIN_SERVER_VERSION = 13  # older ones get no fixes any more
CREATION_LOCK = 0x4D425356  # the number of the lock for which processes that create a store wait
LONG_AGO = -1  # a minute in which nothing has expired
# Unless the URL says otherwise, the loss of a server is noticed in half a minute.
CONNECTION_DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": f"maskedbandits/{schema.VERSION}",
}
# A new connection may help: read-only after a failover, lost plans or lost statements.
STALE = {"25006", "26000", "0A000"}
BUSY = {"55P03", "40P01"}  # no lock in time, or a deadlock
NO_COLUMN = "42703"  # a statement for another layout of the tables
TRANSIENT = {  # reasons that may be fixed while callers try again
    "42501": "not permitted: grant this user all rights on the tables",
    "42P01": "its tables are missing: restore a backup",
    "55P03": f"another process has been writing for more than {errors.LOCK_TIMEOUT_S:g} s: try again",
    "53100": "the server's disk is full: make room",
}


class PostgresStore(Store):
    """A store in a database that processes on several machines may share."""

    DIALECT, FOR_UPDATE = "postgresql", " FOR NO KEY UPDATE"
    NOW = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
    WAIT_BRIEFLY = ("SET LOCAL lock_timeout = '2s'",)  # after a second it cancels an automatic vacuum
    FIND_ADDITIONS = f"SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = '{ADDED_TABLE}'"  # noqa: S608 - our own name
    COUNT_OLDER = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'maskedbandits'"  # newer ones have a number behind it
    )
    DROP_OLD_COLUMNS = tuple(f"ALTER TABLE event DROP COLUMN {column}" for column in OLD_COLUMNS.values())

    def __init__(self, url: str, *, create: bool = False, durable: bool = True) -> None:
        super().__init__(hide_credentials(url))
        self._url, self._durable = url, durable
        self.key_file = Path("maskedbandits.key")  # in the folder that the service is started in
        self._use(open_connection(url, self.name, create=create, durable=durable))

    def append(self, reports: Sequence[NewReport]) -> list[int]:
        """Append reports in one durable transaction, and return the sequence number of each."""
        if not reports:
            return []
        check_decision_ids(reports)
        columns = dict(zip(NewReport._fields, zip(*reports, strict=True), strict=True))
        questions = columns.pop("question")
        decisions = b"".join(columns.pop("decision"))
        locked = _format_array(sorted(set(columns["experiment"])))
        has_questions = any(each is not None for each in questions)  # an array of NULLs would be slow to send
        arrays = (*map(_format_array, columns.values()), list(questions) if has_questions else None)
        rows = self._in_layout(
            lambda layout: self._run((self._lock_rows, (locked,)), (_APPEND[layout], (decisions, *arrays)))
        )
        return [answer for (answer,) in rows]

    def assign_tokens(self, visits: Sequence[Visit]) -> list[bytes]:
        """Return each visitor's token: an earlier one that has not expired, or else the given one."""
        tokens: dict[int, bytes] = {}
        for now, indexes in _group_visits(visits):
            keys = [[visits[index].experiment for index in indexes], [visits[index].visitor for index in indexes]]
            instead = [visits[index].instead for index in indexes]
            rows = self._run((self._settings, ()), (_FIND_TOKENS, (now, *keys, instead)))
            if any(token is None for (token,) in rows):  # as at a first visit: write
                new = [visits[index].token for index in indexes], [visits[index].expires for index in indexes]
                write = _ASSIGN_TOKENS, (*keys, *new, now, *keys, instead)
                read = _FIND_TOKENS, (LONG_AGO, *keys, [b""] * len(indexes))
                rows = self._run((self._settings, ()), write, read)
            tokens.update(zip(indexes, (token for (token,) in rows), strict=True))
        return [tokens[index] for index in range(len(visits))]

    def read_columns(self, experiment: int, after: int, limit: int) -> EventColumns:
        """Return up to ``limit`` events of a log after a sequence number, in order, as columns.

        The server returns one array for each column, which is read without an object for each value.
        """
        from maskedbandits.service.storage import packed  # it imports numpy, which is slow

        with self._lend_connection() as connection, translate_postgres_errors(self.name):
            result = connection.execute(_COLUMNS, (experiment, after, limit), binary=True).pgresult
            values = [None if result is None else result.get_value(0, index) for index in range(len(_READ))]
        if values[0] is None:
            return packed.EventColumns.from_rows([])
        numbers = {name: packed.read_array(value or b"") for name, value in zip(_READ, values, strict=True)}
        others = numbers.pop("other").nonzero()[0]
        columns = packed.EventColumns(**numbers, changes={}, questions={})
        if not others.size:
            return columns
        if others.size > columns.size // 8:
            return columns.from_rows(self.read_events(experiment, after, limit))
        with self._begin_read() as tx:
            rows = tx.query(_OTHERS, (experiment, columns.seq[others].tolist()))
        found = [EventRow(**dict(zip(PERMANENT, row, strict=True)), expires=None) for row in rows]
        return columns.replace(others, found)

    @contextmanager
    def dump(self) -> Iterator[Iterator[TableRows]]:
        """Read all tables at one moment over a separate connection, a few rows at a time."""
        with (
            translate_postgres_errors(self.name),
            closing(connect(self._url, self.name, durable=False)) as connection,
        ):
            yield _dump_tables(connection, self.name)

    def fill(self, tables: Iterable[TableRows]) -> None:
        """Write all tables of an empty store in one transaction."""
        with self._begin(exclusive=True) as connection:
            self._refuse_unless_empty(PostgresTransaction(connection))
            for table, rows in tables:
                into = f"COPY {table} ({', '.join(schema.list_columns(table))}) FROM STDIN"
                with connection.cursor() as cursor, cursor.copy(into.encode()) as copy:
                    for row in rows:
                        copy.write_row(row)

    @contextmanager
    def _begin_read(self) -> Iterator[Transaction]:
        with self._lend_connection() as connection, translate_postgres_errors(self.name):
            yield PostgresTransaction(connection)

    @contextmanager
    def _begin_write(self, *, exclusive: bool = False) -> Iterator[Transaction]:
        with self._begin(exclusive) as connection:
            yield PostgresTransaction(connection)

    @contextmanager
    def _begin(self, exclusive: bool) -> Iterator[Connection]:
        """Begin a durable transaction and commit it at the end."""
        with self._lend_connection() as connection:
            with translate_postgres_errors(self.name):
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                connection.execute(self._settings)
                if exclusive:
                    connection.execute("SELECT 1 FROM meta WHERE key = %s FOR UPDATE", (schema.VERSION_KEY,))
                yield connection
            with translate_postgres_errors(self.name, may_be_committed=True):
                connection.execute("COMMIT")

    def _run(self, *statements: tuple[bytes, Sequence[Any]]) -> list[Row]:
        """Run statements in one transaction and one round trip, and return the rows of the last one."""
        with self._lend_connection() as connection:
            cursor = connection.cursor(binary=True)
            try:
                with connection.pipeline():  # its end commits
                    for statement, values in statements[:-1]:
                        connection.execute(statement, values)
                    cursor.execute(*statements[-1])
                return cursor.fetchall()
            except psycopg.Error as error:
                # The server has reported an error before it executed the last statement.
                has_failed = error.sqlstate is not None and cursor.pgresult is None
                unavailable = _explain(self.name, error, may_be_committed=not has_failed)
                if unavailable is None:
                    raise
                raise unavailable from error

    @contextmanager
    def _lend_connection(self) -> Iterator[Connection]:
        """Lend a working connection to one thread, and leave no transaction open in it."""
        with self._take_turn():
            connection = self._connect()
            try:
                yield connection
            except BaseException as error:
                if _is_stale(error) or not _roll_back(connection):
                    self._disconnect()
                raise

    def _connect(self) -> Connection:
        if self._connection is not None:
            return self._connection
        try:
            with translate_postgres_errors(self.name):
                connection = connect(self._url, self.name, durable=self._durable)
                self._use(connection)
                refuse_other_version(_read_version(connection, self.name), self.name)
        except UserError as refusal:  # the server, or the version of its tables, has been replaced
            self._disconnect()
            raise StoreUnavailable(str(refusal)) from refusal
        return connection

    def _use(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        self._layout = None
        local = _format_settings(connection, self._durable)
        self._settings = f"SELECT {local}".encode()
        self._lock_rows = f"SELECT {local}, {_LOCK}".encode()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


class PostgresTransaction:
    """Statements on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query."""
        return self._connection.execute(_to_psycopg(statement), parameters, binary=True).fetchall()

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement and return the number of rows it changed."""
        return self._connection.execute(_to_psycopg(statement), parameters).rowcount

    def execute_many(self, statement: str, many: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once for each row of parameters."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_to_psycopg(statement), many)

    def insert(self, table: str, rows: Sequence[Row], on_conflict: str = "") -> None:
        """Insert rows with all columns of the table."""
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            self._connection.execute(f"{_format_insert(table)} {on_conflict}".encode(), columns)


@cache
def _to_psycopg(statement: str) -> bytes:
    """Return a statement with psycopg's placeholders."""
    return statement.replace("?", "%s").encode()


@cache
def _format_insert(table: str) -> str:
    """Return the statement that inserts rows of a table given as an array for each column."""
    arrays = ", ".join(f"%s::{kind}[]" for kind in schema.list_types(table, "postgresql"))
    return f"INSERT INTO {table} ({', '.join(schema.list_columns(table))}) SELECT * FROM unnest({arrays})"  # noqa: S608 - our own names


def _format_array(column: Sequence[int | None]) -> str:
    """Return integers as a literal of a PostgreSQL array, which is much faster than sending them one by one."""
    return "{" + ",".join(map(str, column)).replace("None", "NULL") + "}"


def _group_visits(visits: Sequence[Visit]) -> Iterator[tuple[int, list[int]]]:
    """Yield minutes with indexes of visits, such that no group has a visitor twice."""
    seen: dict[tuple[int, bytes], int] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    for index, visit in enumerate(visits):
        key = visit.experiment, visit.visitor
        seen[key] = seen.get(key, 0) + 1
        groups.setdefault((seen[key], visit.now), []).append(index)
    for (_, now), indexes in sorted(groups.items()):
        yield now, indexes


def _dump_tables(connection: Connection, name: str) -> Iterator[TableRows]:
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    connection.execute("LOCK TABLE event IN ACCESS SHARE MODE")  # an upgrade waits before it changes the columns
    meta = connection.execute("SELECT key, value FROM meta").fetchall()
    for table, select in format_selects(find_layout(meta, name)).items():
        with connection.cursor("dump", binary=True) as cursor:  # the server holds rows that are not fetched yet
            cursor.execute(select.encode())
            while rows := cursor.fetchmany(schema.get_batch_size(table)):
                yield table, rows


def _is_stale(error: BaseException) -> bool:
    """Tell whether a new connection may help."""
    return isinstance(error.__cause__, psycopg.Error) and error.__cause__.sqlstate in STALE


def _roll_back(connection: Connection) -> bool:
    """Roll back an open transaction; tell whether the connection still works."""
    try:
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        return False
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


_LOCK = """(
    SELECT count(*) FROM (SELECT 1 FROM experiment WHERE id = ANY(%s::bigint[]) ORDER BY id FOR NO KEY UPDATE) AS locked
)"""

_SENT = [name for name in NewReport._fields if name != "decision"]  # decisions come as one string of bytes
_SENT_TYPES = {
    column: kind
    for table in ("event", "report_id")
    for column, kind in zip(schema.list_columns(table), schema.list_types(table, "postgresql"), strict=True)
} | {"experiment": "BIGINT"}  # a token may name an experiment beyond the type of its column

# Each report's answer is -2 (unknown), -1 (late), 0 (duplicate) or its sequence number. Of several reports of one
# decision in a batch, the first is new. The new ones of a log get the numbers after its last.
_APPEND_IN = """
WITH given AS MATERIALIZED (
    SELECT g.*, log.seq AS last,
        CASE WHEN log.id IS NULL THEN -2 WHEN g.expires <= log.forgotten THEN -1 ELSE coalesce(
            (SELECT 0 FROM {ids} AS ids WHERE ids.experiment = g.experiment AND ids.decision = g.decision LIMIT 1), 1
        ) END AS answer
    FROM (
        SELECT u.*, substring(
            %s::bytea FROM u.ordinal::int * {length} - {length} + 1 FOR {length}
        ) AS decision
        FROM unnest({arrays}) WITH ORDINALITY AS u ({sent}, ordinal)
    ) AS g LEFT JOIN experiment AS log ON log.id = g.experiment AND log.status <> 'archived'
), judged AS (
    SELECT *, answer = 1 AND row_number() OVER (PARTITION BY experiment, decision, answer ORDER BY ordinal) = 1 AS fresh
    FROM given
), numbered AS MATERIALIZED (
    SELECT *, last + count(*) FILTER (WHERE fresh) OVER (PARTITION BY experiment ORDER BY ordinal) AS seq FROM judged
), added AS (
    INSERT INTO event (seq, kind, {columns}) SELECT seq, 'report', {columns} FROM numbered WHERE fresh
){add_ids}, moved AS (
    UPDATE experiment SET seq = head.seq
    FROM (SELECT experiment, max(seq) AS seq FROM numbered WHERE fresh GROUP BY experiment) AS head
    WHERE experiment.id = head.experiment
)
SELECT CASE WHEN fresh THEN seq WHEN answer = 1 THEN 0 ELSE answer END FROM numbered ORDER BY ordinal
"""
_ADD_IDS = """, identified AS (
    INSERT INTO report_id (experiment, decision, seq, expires)
    SELECT experiment, decision, seq, expires FROM numbered WHERE fresh
)"""


def _format_append(layout: Layout) -> bytes:
    is_shared = layout is Layout.SHARED
    return _APPEND_IN.format(
        ids=IDS[layout],
        length=DECISION_ID_BYTES,
        arrays=", ".join(f"%s::{_SENT_TYPES[name]}[]" for name in _SENT),
        sent=", ".join(_SENT),
        columns=", ".join(name for name in NewReport._fields if is_shared or name not in ID_COLUMNS),
        add_ids="" if is_shared else _ADD_IDS,
    ).encode()


_APPEND = {layout: _format_append(layout) for layout in Layout}

_NUMBERS = ("seq", "arm", "bit", "epsilon", "probability", "flags", "hour", "config")
_READ = (*_NUMBERS, "other")  # the columns of an event, and whether it has more than these
_COLUMNS = f"""
SELECT array_agg(seq), {", ".join(f"array_agg(coalesce({name}, -1)::bigint)" for name in _NUMBERS[1:])},
    array_agg((kind <> 'report' OR question IS NOT NULL)::int::bigint)
FROM (SELECT * FROM event WHERE experiment = %s AND seq > %s ORDER BY seq LIMIT %s) AS read
""".encode()  # noqa: S608 - our own names
_OTHERS = f"SELECT {', '.join(PERMANENT)} FROM event WHERE experiment = ? AND seq = ANY(?) ORDER BY seq"  # noqa: S608 - our own names

_FIND_TOKENS = b"""
SELECT (
    SELECT token FROM visitor
    WHERE visitor.experiment = g.experiment AND visitor.visitor = g.visitor AND visitor.expires > %s
        AND visitor.token <> g.instead
) FROM unnest(%s::int[], %s::bytea[], %s::bytea[]) WITH ORDINALITY AS g (experiment, visitor, instead, ordinal)
ORDER BY ordinal
"""

# Rows that stay as they are get locked, too, and in order, so that two processes never wait for each other.
_ASSIGN_TOKENS = b"""
INSERT INTO visitor (experiment, visitor, token, expires)
SELECT * FROM unnest(%s::int[], %s::bytea[], %s::bytea[], %s::int[]) AS g (experiment, visitor, token, expires)
ORDER BY experiment, visitor
ON CONFLICT (experiment, visitor) DO UPDATE SET token = excluded.token, expires = excluded.expires
WHERE visitor.expires <= %s OR (visitor.experiment, visitor.visitor, visitor.token) IN (
    SELECT * FROM unnest(%s::int[], %s::bytea[], %s::bytea[])
)
"""


# Connections


def hide_credentials(url: str) -> str:
    """Return a URL without user and password, for messages."""
    parts = _parse_url(url)
    return f"postgresql://{parts.get('host') or 'localhost'}/{parts.get('dbname') or ''}"


def open_connection(url: str, name: str, *, create: bool, durable: bool) -> Connection:
    """Connect to a store; ``create`` makes its tables if there are none."""
    try:
        with translate_postgres_errors(name):
            connection = connect(url, name, durable=durable)
            try:
                if create:
                    _create_tables(connection, name)
                _read_version(connection, name)
            except BaseException:
                connection.close()
                raise
    except StoreUnavailable as unavailable:
        raise Unreachable(unavailable.reason) from unavailable
    return connection


def connect(url: str, name: str, *, durable: bool) -> Connection:
    """Connect to a server after checking that it stores data durably."""
    given = _parse_url(url)
    others = {key: value for key, value in CONNECTION_DEFAULTS.items() if key not in given}
    connection = psycopg.connect(url, autocommit=True, client_encoding="utf8", **others)  # type: ignore[arg-type]
    try:
        _check_server(connection, name, durable)
    except BaseException:
        connection.close()
        raise
    return connection


def translate_postgres_errors(name: str, *, may_be_committed: bool = False) -> AbstractContextManager[None]:
    """Raise ``StoreUnavailable`` for errors that may go away, and let bugs pass."""
    return translate_errors(psycopg.Error, lambda error: _explain(name, error, may_be_committed=may_be_committed))


def _explain(name: str, error: Exception, *, may_be_committed: bool) -> StoreUnavailable | None:
    """Return the store's error for one of the database; None if it is a bug."""
    state: str = getattr(error, "sqlstate", None) or ""
    if state == NO_COLUMN:
        return LayoutChanged(f"{name}: {first_line(error)}")
    is_transient = isinstance(error, (psycopg.OperationalError, psycopg.InternalError))
    if not (is_transient or state in STALE or state in TRANSIENT):
        return None
    kind = Busy if state in BUSY else StoreUnavailable
    return kind(f"{name}: {TRANSIENT.get(state, first_line(error))}", may_be_committed=may_be_committed)


def _parse_url(url: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # its message quotes the URL, which may hold a password
        raise UserError(
            "storage: PostgreSQL cannot read this URL: percent-encode special characters in names and passwords"
        ) from None


def _format_settings(connection: Connection, durable: bool) -> str:
    """Return an expression that sets options for one transaction, so that a pooler's next client is not affected."""
    # A table that is empty when a statement is planned may be large when it runs: forbid plans that scan it.
    settings = {
        "lock_timeout": f"{errors.LOCK_TIMEOUT_S:g}s",
        "idle_in_transaction_session_timeout": f"{errors.LOCK_TIMEOUT_S:g}s",  # a process that hangs holds no lock
        "enable_seqscan": "off",
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
    }
    if durable and _read_setting(connection, "synchronous_commit") == "off":
        settings["synchronous_commit"] = "on"
    return ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())


def _read_setting(connection: Connection, name: str) -> str:
    found = connection.execute("SELECT current_setting(%s)", (name,)).fetchone()
    return str(found[0]) if found else ""


def _check_server(connection: Connection, name: str, durable: bool) -> None:
    """Refuse a server that may lose acknowledged reports or cannot store every text."""
    major = connection.info.server_version // 10_000
    if major < MIN_SERVER_VERSION:
        raise UserError(f"{name}: PostgreSQL {major} is too old: install {MIN_SERVER_VERSION} or newer")
    encoding = _read_setting(connection, "server_encoding")
    if encoding != "UTF8":
        raise UserError(f"{name}: its encoding is {encoding}: create it with UTF8")
    if durable and _read_setting(connection, "fsync") == "off":
        raise UserError(
            f"{name}: its server runs with fsync = off, so a power cut would lose acknowledged reports: turn it on, "
            "or add durable=no to the URL"
        )
    if _read_setting(connection, "default_transaction_isolation") != "read committed":
        connection.execute("SET default_transaction_isolation = 'read committed'")


def _create_tables(connection: Connection, name: str) -> None:
    """Create all tables unless they exist."""
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (CREATION_LOCK,))
            found = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY(%s)",
                (list(schema.TABLES),),
            ).fetchall()
            if not found:
                for statement in schema.list_statements("postgresql"):
                    connection.execute(statement.encode())
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName) as error:
        raise UserError(
            f"{name}: {first_line(error)}: give this user a schema with the right to create tables"
        ) from error


def _read_version(connection: Connection, name: str) -> int:
    """Return the version of a store's tables; refuse a database without them."""
    try:
        found = connection.execute("SELECT value FROM meta WHERE key = %s", (schema.VERSION_KEY,)).fetchall()
    except psycopg.errors.UndefinedTable:
        raise UserError(f"{name}: no tables of maskedbandits: create the store first") from None
    except psycopg.errors.InsufficientPrivilege as error:
        raise UserError(f"{name}: {first_line(error)}: grant this user all rights on the tables") from None
    except (psycopg.ProgrammingError, psycopg.DataError):  # other columns, or of other types
        found = []
    if not (found and str(found[0][0]).isdigit()):
        raise UserError(f"{name}: has tables of another program: give a separate database or schema")
    return int(found[0][0])
