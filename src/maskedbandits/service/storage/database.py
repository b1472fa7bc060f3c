"""One connection to a database, whichever it is: who may use it, and statements in transactions."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Protocol

from maskedbandits.errors import UserError
from maskedbandits.service.storage.errors import StoreUnavailable

Row = tuple[Any, ...]
Rows = tuple[str, list[Row]]  # some rows of a table


MARKS = 900  # parameters that any version of SQLite takes at once


def marks(values: Sequence[Any]) -> str:
    """Return question marks for a list of parameters."""
    return ", ".join("?" * len(values))


class Statements(Protocol):
    """What can be done within a transaction; a question mark stands for a parameter."""

    def rows(self, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return all rows that a statement gives."""

    def changed(self, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Return how many rows a statement has changed."""

    def insert(self, table: str, rows: Sequence[Row], otherwise: str = "") -> None:
        """Insert rows with all their columns; ``otherwise`` says what to do with those that are there."""

    def each(self, statement: str, many: Iterable[Sequence[Any]]) -> None:
        """Execute a statement for each of many rows of parameters."""


class Database(ABC):
    """A connection that threads share by taking turns."""

    FOR_CHANGE: ClassVar[str]  # ends a SELECT whose rows nobody else may change until the transaction ends

    def __init__(self, name: str) -> None:
        self.name = name  # fit to be shown: no secrets in it
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._closed = False

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Statements]:
        """Read: each statement sees what is committed when it begins."""

    @abstractmethod
    def _writing(self, *, alone: bool = False) -> AbstractContextManager[Statements]:
        """Do everything or nothing, durably; ``alone``: others who ask for that wait."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, whatever state it is in."""

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for one's turn, if the connection is this process's and open."""
        if os.getpid() != self._process:  # before the lock, which a fork may have copied closed
            raise UserError(f"{self.name}: opened by another process: open it in this one, too")
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"{self.name}: closed: open it again")
            yield

    def close(self) -> None:
        """Close it; everything is written already."""
        if os.getpid() != self._process:  # a fork's copy: the connection is its parent's
            return
        with self._lock:
            self._closed = True
            self._disconnect()
