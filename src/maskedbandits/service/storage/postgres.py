"""The store in PostgreSQL: an append is one round trip, and a connection that is lost is made anew at the next call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from maskedbandits.errors import UserError
from maskedbandits.service.storage import postgres_connection, schema
from maskedbandits.service.storage.base import Store, check_ids
from maskedbandits.service.storage.database import Row, Rows, Statements
from maskedbandits.service.storage.errors import StoreUnavailable
from maskedbandits.service.storage.models import DECISION, NewReport, Visit
from maskedbandits.service.storage.postgres_connection import Connection

BEFORE = -1  # a minute in which nothing has expired


class PostgresStore(Store):
    """A store in a database that many processes, on many machines, may share."""

    DIALECT, FOR_CHANGE = "postgresql", " FOR NO KEY UPDATE"
    NOW = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"

    def __init__(self, url: str, *, create: bool = False, durable: bool = True) -> None:
        super().__init__(postgres_connection.shown(url))
        self._url, self._durable = url, durable
        self.key_file = Path("maskedbandits.key")  # of the folder that the service is started in
        self._use(postgres_connection.opened(url, self.name, create=create, durable=durable))

    def append(self, reports: Sequence[NewReport]) -> list[int]:
        """Append reports in one durable transaction, and return the number in its log of each."""
        if not reports:
            return []
        check_ids(reports)
        columns = [*zip(*reports, strict=True)]
        asked = columns.pop(NewReport._fields.index("question"))
        decisions = b"".join(columns.pop(NewReport._fields.index("decision")))
        locked = _array(sorted(set(columns[0])))
        is_plain = all(each is None for each in asked)  # to send so many times nothing would take longer
        questions = None if is_plain else list(asked)
        found = self._trip((self._lock_rows, (locked,)), (_APPEND, (decisions, *map(_array, columns), questions)))
        return [answer for (answer,) in found]

    def visits(self, visits: Sequence[Visit]) -> list[bytes]:
        """Return the token that each visitor keeps: the given one, or an earlier one that has not expired."""
        answers: dict[int, bytes] = {}
        for now, places in _rounds(visits):
            keys = [[visits[place].experiment for place in places], [visits[place].visitor for place in places]]
            instead = [visits[place].instead for place in places]
            found = self._trip((self._settings, ()), (_KEPT, (now, *keys, instead)))
            if any(token is None for (token,) in found):  # as on no reload: then something is written
                given = [visits[place].token for place in places], [visits[place].expires for place in places]
                nothing = [b""] * len(places)
                written = (_VISIT, (*keys, *given, now, *keys, instead)), (_KEPT, (BEFORE, *keys, nothing))
                found = self._trip((self._settings, ()), *written)
            answers.update(zip(places, (token for (token,) in found), strict=True))
        return [answers[place] for place in range(len(visits))]

    @contextmanager
    def everything(self) -> Iterator[Iterator[Rows]]:
        """Read all tables as they are at one moment, over a connection of its own, some rows at a time."""
        with (
            postgres_connection.told(self.name),
            closing(postgres_connection.connected(self._url, self.name, durable=False)) as connection,
        ):
            yield _everything(connection)

    def fill(self, everything: Iterable[Rows]) -> None:
        """Write all tables of a store that is empty, in one transaction."""
        with self._transaction(alone=True) as connection:
            self._refuse_unless_empty(_Cursor(connection))
            for table, rows in everything:
                into = f"COPY {table} ({', '.join(schema.columns(table))}) FROM STDIN"
                with connection.cursor() as cursor, cursor.copy(into.encode()) as copy:
                    for row in rows:
                        copy.write_row(row)

    @contextmanager
    def _reading(self) -> Iterator[Statements]:
        with self._lent() as connection, postgres_connection.told(self.name):
            yield _Cursor(connection)

    @contextmanager
    def _writing(self, *, alone: bool = False) -> Iterator[Statements]:
        with self._transaction(alone) as connection:
            yield _Cursor(connection)

    @contextmanager
    def _transaction(self, alone: bool) -> Iterator[Connection]:
        """Do everything or nothing, durably."""
        with self._lent() as connection:
            with postgres_connection.told(self.name):
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                connection.execute(self._settings)
                if alone:
                    connection.execute("SELECT 1 FROM meta WHERE key = %s FOR UPDATE", (schema.VERSION_KEY,))
                yield connection
            with postgres_connection.told(self.name, unknown=True):
                connection.execute("COMMIT")

    def _trip(self, *statements: tuple[bytes, Sequence[Any]]) -> list[Row]:
        """Execute statements in one transaction and one round trip, and return what the last one gives."""
        with self._lent() as connection:
            cursor = connection.cursor(binary=True)
            try:
                with connection.pipeline():  # its end commits
                    for statement, values in statements[:-1]:
                        connection.execute(statement, values)
                    cursor.execute(*statements[-1])
                return cursor.fetchall()
            except psycopg.Error as error:
                if not postgres_connection.passing(error):
                    raise
                # Known to have failed: the server said so before it had done the last statement.
                failed = error.sqlstate is not None and cursor.pgresult is None
                raise postgres_connection.gone(self.name, error, unknown=not failed) from error

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        """Lend the connection to one thread, made anew if it was lost; afterwards nothing is left open in it."""
        with self._turn():
            connection = self._connected()
            try:
                yield connection
            except BaseException as error:
                if _stale(error) or not _undone(connection):
                    self._disconnect()
                raise

    def _connected(self) -> Connection:
        if self._connection is not None:
            return self._connection
        try:
            with postgres_connection.told(self.name):
                connection = postgres_connection.connected(self._url, self.name, durable=self._durable)
                self._use(connection)
                schema.refuse_others(postgres_connection.version(connection, self.name), self.name)
        except UserError as refusal:  # another server, or another version, has come in its place
            self._disconnect()
            raise StoreUnavailable(str(refusal)) from refusal
        return connection

    def _use(self, connection: Connection) -> None:
        self._connection: Connection | None = connection
        local = postgres_connection.local_settings(connection, self._durable)
        self._settings = f"SELECT {local}".encode()
        self._lock_rows = f"SELECT {local}, {_LOCK}".encode()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None


class _Cursor:
    """Statements on a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(_marked(statement), parameters, binary=True).fetchall()

    def changed(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        return self._connection.execute(_marked(statement), parameters).rowcount

    def insert(self, table: str, rows: Sequence[Row], otherwise: str = "") -> None:
        if rows:
            columns = [list(column) for column in zip(*rows, strict=True)]
            self._connection.execute(f"{_insertion(table)} {otherwise}".encode(), columns)

    def each(self, statement: str, many: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_marked(statement), many)


@cache
def _marked(statement: str) -> bytes:
    """Return a statement with parameters marked as psycopg does."""
    return statement.replace("?", "%s").encode()


@cache
def _insertion(table: str) -> str:
    """Return what writes rows of a table that come by columns."""
    arrays = ", ".join(f"%s::{kind}[]" for kind in schema.types(table, "postgresql"))
    return f"INSERT INTO {table} ({', '.join(schema.columns(table))}) SELECT * FROM unnest({arrays})"  # noqa: S608 - our own names


def _array(column: Sequence[int | None]) -> str:
    """Return whole numbers as PostgreSQL writes an array: much faster than one by one."""
    return "{" + ",".join(map(str, column)).replace("None", "NULL") + "}"


def _rounds(visits: Sequence[Visit]) -> Iterator[tuple[int, list[int]]]:
    """Return places of visits in groups, each of one minute and with no visitor twice; the minute comes first."""
    seen: dict[tuple[int, bytes], int] = {}
    groups: dict[tuple[int, int], list[int]] = {}
    for place, visit in enumerate(visits):
        key = visit.experiment, visit.visitor
        seen[key] = seen.get(key, 0) + 1
        groups.setdefault((seen[key], visit.now), []).append(place)
    for (_, now), places in sorted(groups.items()):
        yield now, places


def _everything(connection: Connection) -> Iterator[Rows]:
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    for table in schema.TABLES:
        listed = ", ".join(schema.columns(table))
        with connection.cursor("everything", binary=True) as cursor:  # the server keeps what is not fetched yet
            cursor.execute(f"SELECT {listed} FROM {table}".encode())  # noqa: S608 - our own names
            while rows := cursor.fetchmany(schema.at_once(table)):
                yield table, rows


def _stale(error: BaseException) -> bool:
    """Tell whether the next connection may do better than this one."""
    return isinstance(error.__cause__, psycopg.Error) and error.__cause__.sqlstate in postgres_connection.STALE


def _undone(connection: Connection) -> bool:
    """Undo what was begun, if anything; tell whether the connection is still of use."""
    try:
        if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
            connection.execute("ROLLBACK")
    except psycopg.Error:
        return False
    return not connection.closed and connection.info.transaction_status == TransactionStatus.IDLE


_LOCK = """(
    SELECT count(*) FROM (SELECT 1 FROM experiment WHERE id = ANY(%s::bigint[]) ORDER BY id FOR NO KEY UPDATE) AS locked
)"""

# What each report is answered, by what stands there: unknown, late, a duplicate, or new. Of the same decision's reports
# in one batch, the first is new. The new ones of a log get the numbers that follow its last.
_APPEND = f"""
WITH given AS MATERIALIZED (
    SELECT g.*, log.seq AS last,
        CASE WHEN log.id IS NULL THEN -2 WHEN g.expires <= log.forgotten THEN -1 ELSE coalesce(
            (SELECT 0 FROM event WHERE event.experiment = g.experiment AND event.decision = g.decision LIMIT 1), 1
        ) END AS answer
    FROM (
        SELECT u.*, substring(%s::bytea FROM u.place::int * {DECISION} - {DECISION - 1} FOR {DECISION}) AS decision
        FROM unnest(
            %s::bigint[], %s::int[], %s::smallint[], %s::bigint[], %s::int[], %s::smallint[], %s::int[], %s::int[],
            %s::int[], %s::bytea[]
        ) WITH ORDINALITY
            AS u (experiment, arm, bit, epsilon, probability, flags, expires, hour, config, question, place)
    ) AS g LEFT JOIN experiment AS log ON log.id = g.experiment AND log.status <> 'archived'
), judged AS (
    SELECT *, answer = 1 AND row_number() OVER (PARTITION BY experiment, decision, answer ORDER BY place) = 1 AS fresh
    FROM given
), numbered AS MATERIALIZED (
    SELECT *, last + count(*) FILTER (WHERE fresh) OVER (PARTITION BY experiment ORDER BY place) AS seq FROM judged
), added AS (
    INSERT INTO event
        (experiment, seq, kind, arm, bit, epsilon, probability, flags, decision, expires, hour, config, question)
    SELECT experiment, seq, 'report', arm, bit, epsilon, probability, flags, decision, expires, hour, config, question
    FROM numbered WHERE fresh
), moved AS (
    UPDATE experiment SET seq = head.seq
    FROM (SELECT experiment, max(seq) AS seq FROM numbered WHERE fresh GROUP BY experiment) AS head
    WHERE experiment.id = head.experiment
)
SELECT CASE WHEN fresh THEN seq WHEN answer = 1 THEN 0 ELSE answer END FROM numbered ORDER BY place
""".encode()  # noqa: S608 - our own numbers

_KEPT = b"""
SELECT (
    SELECT token FROM visitor
    WHERE visitor.experiment = g.experiment AND visitor.visitor = g.visitor AND visitor.expires > %s
        AND visitor.token <> g.instead
) FROM unnest(%s::int[], %s::bytea[], %s::bytea[]) WITH ORDINALITY AS g (experiment, visitor, instead, place)
ORDER BY place
"""

# Rows that stay as they are get locked, too; in order, so that no two wait for each other.
_VISIT = b"""
INSERT INTO visitor (experiment, visitor, token, expires)
SELECT * FROM unnest(%s::int[], %s::bytea[], %s::bytea[], %s::int[]) AS g (experiment, visitor, token, expires)
ORDER BY experiment, visitor
ON CONFLICT (experiment, visitor) DO UPDATE SET token = excluded.token, expires = excluded.expires
WHERE visitor.expires <= %s OR (visitor.experiment, visitor.visitor, visitor.token) IN (
    SELECT * FROM unnest(%s::int[], %s::bytea[], %s::bytea[])
)
"""
