"""The contract of a store backend: a connection, its transactions, and the operations each database does its own way.

To add a backend, subclass ``store.Store``, implement the abstract methods below, and register its URL in ``urls.py``.
``sqlite.py`` and ``postgres.py`` are the examples. ``tests/service/storage/test_contract.py`` tests every backend.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

from maskedbandits.errors import UserError
from maskedbandits.service.storage.errors import StoreUnavailable
from maskedbandits.service.storage.layouts import Layout
from maskedbandits.service.storage.models import NewReport, Visit

Row = tuple[Any, ...]
TableRows = tuple[str, list[Row]]  # a table's name, and some of its rows

MAX_PARAMETERS = 900  # of one statement: every version of SQLite accepts this many


def placeholders(values: Sequence[Any]) -> str:
    """Return a question mark for each parameter."""
    return ", ".join("?" * len(values))


class Transaction(Protocol):
    """Statements of one transaction, in SQL that both databases understand; question marks are parameters."""

    def query(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return all rows of a query."""

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Execute a statement and return the number of rows it changed."""

    def execute_many(self, statement: str, many: Iterable[Sequence[Any]]) -> None:
        """Execute a statement once for each row of parameters."""

    def insert(self, table: str, rows: Sequence[Row], on_conflict: str = "") -> None:
        """Insert rows with all columns of the table; ``on_conflict`` is the clause for rows that exist."""


class StoreBackend(ABC):
    """One connection to a database.

    Any thread may call it (threads take turns), a forked process may not. A method that returns has done its work
    durably and completely. Work that cannot be done now raises ``StoreUnavailable`` and may be tried again. Events of
    an experiment are numbered without gaps and become visible in that order: a writer locks its experiment until it has
    committed. So a reader that asks for the events after the last number it has seen misses none.
    """

    DIALECT: ClassVar[str]  # the database's name in schema.py
    FOR_UPDATE: ClassVar[str]  # ends a SELECT whose rows stay locked until the transaction ends
    NOW: ClassVar[str]  # an expression for the time of the database's clock, or NULL
    WAIT_BRIEFLY: ClassVar[Sequence[str]]  # statements after which a transaction does not wait long for locks
    FIND_ADDITIONS: ClassVar[str]  # a query that finds something if the tables have the additions of version 4
    COUNT_OLDER: ClassVar[str]  # a query for the number of connections of the release before this one, as far as known
    DROP_OLD_COLUMNS: ClassVar[Sequence[str]]  # statements that remove the empty columns of the ids that were moved
    key_file: Path  # where the service's secret is, unless the environment names another file

    def __init__(self, name: str) -> None:
        self.name = name  # for messages: without user and password
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._layout: Layout | None = None  # of the tables, as it was last seen

    @abstractmethod
    def append(self, reports: Sequence[NewReport]) -> list[int]:
        """Append reports in one durable transaction, and return the sequence number of each.

        A report that is not appended gets a code instead: ``DUPLICATE`` if its decision has a report, ``LATE`` if its
        id may have been forgotten, ``UNKNOWN`` if the experiment does not exist or is archived.
        """

    @abstractmethod
    def assign_tokens(self, visits: Sequence[Visit]) -> list[bytes]:
        """Return each visitor's token: an earlier one that has not expired, or else the given one."""

    @abstractmethod
    def dump(self) -> AbstractContextManager[Iterator[TableRows]]:
        """Read all tables at one moment over a separate connection, a few rows at a time."""

    @abstractmethod
    def fill(self, tables: Iterable[TableRows]) -> None:
        """Write all tables of an empty store in one transaction."""

    @abstractmethod
    def _begin_read(self) -> AbstractContextManager[Transaction]:
        """Begin to read; each statement sees what is committed when it starts."""

    @abstractmethod
    def _begin_write(self, *, exclusive: bool = False) -> AbstractContextManager[Transaction]:
        """Begin a durable transaction; exclusive ones wait for each other."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, whatever its state."""

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        """Wait for the connection; refuse one that is closed or belongs to another process."""
        if os.getpid() != self._process:  # before the lock, which may have been held when the process was forked
            raise UserError(f"{self.name}: opened by another process: open it again in this process")
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"{self.name}: closed: open it again")
            yield

    def close(self) -> None:
        """Close the connection. Everything is written already."""
        if os.getpid() != self._process:  # the connection belongs to the parent process
            return
        with self._lock:
            self._closed = True
            self._disconnect()
