"""The store in a file: SQLite, in write-ahead mode, with every transaction on disk before it is answered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from maskedbandits.service.storage import sqlite_files
from maskedbandits.service.storage.base import Store, check_ids
from maskedbandits.service.storage.database import Row, Rows, Statements
from maskedbandits.service.storage.errors import StoreUnavailable
from maskedbandits.service.storage.models import DUPLICATE, LATE, UNKNOWN, NewReport, Visit


class SqliteStore(Store):
    """A store in a file, which several processes may have open."""

    DIALECT, FOR_CHANGE = "sqlite", ""  # whoever writes is alone anyway
    NOW = "NULL"  # all who share a file are on one machine, and have its clock

    def __init__(self, path: Path, *, create: bool = False, durable: bool = True) -> None:
        super().__init__(str(path))
        self._path = path.absolute()
        self.key_file = path.with_name(f"{path.name}.key")
        self._connection = sqlite_files.opened(self._path, create=create, durable=durable)
        self._file = sqlite_files.identity(self._path)

    def append(self, reports: Sequence[NewReport]) -> list[int]:
        """Append reports in one durable transaction, and return the number in its log of each."""
        check_ids(reports)
        with self._writing() as do:
            logs = {each: _log(do, each) for each in {report.experiment for report in reports}}
            answers = [_appended(do, logs[report.experiment], report) for report in reports]
            for experiment, log in logs.items():
                if log is not None:
                    do.changed("UPDATE experiment SET seq = ? WHERE id = ?", (log[0], experiment))
        return answers

    def visits(self, visits: Sequence[Visit]) -> list[bytes]:
        """Return the token that each visitor keeps: the given one, or an earlier one that has not expired."""
        with self._reading() as do:
            kept = [token for visit in visits if (token := _kept(do, visit)) is not None]
        if len(kept) == len(visits):  # as on any reload: nothing is written
            return kept
        with self._writing() as do:
            return [_visited(do, visit) for visit in visits]

    @contextmanager
    def everything(self) -> Iterator[Iterator[Rows]]:
        """Read all tables as they are at one moment, over a connection of its own, some rows at a time."""
        with sqlite_files.told(self.name), closing(sqlite_files.connected(self._path, "ro")) as connection:
            yield sqlite_files.everything(connection)

    def fill(self, everything: Iterable[Rows]) -> None:
        """Write all tables of a store that is empty, in one transaction."""
        with self._writing() as do:
            self._refuse_unless_empty(do)
            for table, rows in everything:
                do.insert(table, rows)

    @contextmanager
    def _reading(self) -> Iterator[Statements]:
        with self._lent() as connection:
            yield _Cursor(connection)

    @contextmanager
    def _writing(self, *, alone: bool = False) -> Iterator[Statements]:
        with self._lent() as connection:
            try:  # before it begins: a signal's exception may come right after
                connection.execute("BEGIN IMMEDIATE")
                yield _Cursor(connection)
                with sqlite_files.told(self.name, unknown=True):
                    connection.execute("COMMIT")
            except BaseException:
                sqlite_files.undo(connection)
                raise

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection to one thread, if it is still the file's."""
        with self._turn(), sqlite_files.told(self.name):
            if sqlite_files.identity(self._path) != self._file:  # SQLite would go on writing to one that is deleted
                raise StoreUnavailable(f"{self.name}: deleted or replaced while in use: put it back, or start again")
            sqlite_files.undo(self._connection)  # what a signal's exception kept from being undone
            yield self._connection

    def _disconnect(self) -> None:
        self._connection.close()


class _Cursor:
    """Statements on a connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(statement, parameters).fetchall()

    def changed(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        return self._connection.execute(statement, parameters).rowcount

    def insert(self, table: str, rows: Sequence[Row], otherwise: str = "") -> None:
        self._connection.executemany(f"{sqlite_files.insertion(table)} {otherwise}", rows)

    def each(self, statement: str, many: Iterable[Sequence[Any]]) -> None:
        self._connection.executemany(statement, many)


def _log(do: Statements, experiment: int) -> list[int] | None:
    """Return the last number of a log and what is forgotten; None if nothing may be appended."""
    found = do.rows("SELECT seq, forgotten FROM experiment WHERE id = ? AND status <> 'archived'", (experiment,))
    return list(found[0]) if found else None


def _appended(do: Statements, log: list[int] | None, report: NewReport) -> int:
    """Append a report, if it may be, and move the last number on."""
    if log is None:
        return UNKNOWN
    if report.expires <= log[1]:
        return LATE
    if not do.changed(_APPEND, (*report, log[0] + 1)):
        return DUPLICATE
    log[0] += 1
    return log[0]


def _kept(do: Statements, visit: Visit) -> bytes | None:
    """Return the token that a visitor has, unless it has expired or is of no more use."""
    found = do.rows(
        "SELECT token FROM visitor WHERE experiment = ? AND visitor = ? AND expires > ? AND token <> ?",
        (visit.experiment, visit.visitor, visit.now, visit.instead),
    )
    return found[0][0] if found else None


def _visited(do: Statements, visit: Visit) -> bytes:
    """Return the token that a visitor keeps."""
    kept = _kept(do, visit)
    if kept is not None:
        return kept
    do.changed(
        "INSERT INTO visitor (experiment, visitor, token, expires) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (experiment, visitor) DO UPDATE SET token = excluded.token, expires = excluded.expires",
        visit[:4],
    )
    return visit.token


# A number that is taken already is no duplicate, but damage: so the conflict is named.
_APPEND = (
    "INSERT INTO event "
    "(experiment, arm, bit, epsilon, probability, flags, decision, expires, hour, config, question, seq, kind) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'report') "
    "ON CONFLICT (experiment, decision) WHERE decision IS NOT NULL DO NOTHING"
)
