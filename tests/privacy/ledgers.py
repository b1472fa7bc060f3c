"""Helpers for tests of the ledger."""

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from maskedbandits.errors import UserError
from maskedbandits.privacy.ledger import Ledger, LedgerError, period

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of a random name is made in it
DAMAGES = {
    "a bit": "UPDATE decisions SET bit = 1 - bit WHERE decision = 'decision number 1'",
    "an epsilon": "UPDATE decisions SET epsilon = '1/9' WHERE decision = 'decision number 1'",
    "a negative epsilon": "UPDATE spending SET epsilon = '-1/2' WHERE epsilon = '1/2'",
    "fewer reports": "UPDATE spending SET reports = 3 WHERE epsilon = '1/2'",
    "a missing decision": "DELETE FROM decisions WHERE decision = 'decision number 1'",
    "nothing spent": "DELETE FROM spending",
    "another column": "ALTER TABLE decisions ADD COLUMN value REAL",
    "no table": "DROP TABLE decisions",
    "another table": "CREATE TABLE values_seen (value REAL)",
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON decisions BEGIN DELETE FROM spending; END",
    "no terms": "DELETE FROM terms",
    "two terms": "INSERT INTO terms SELECT * FROM terms",
    "another cap": "UPDATE terms SET cap = '1001'",
    "another delta": "UPDATE terms SET delta = '0.5'",
    "a period": "UPDATE terms SET period = 60",
    "an earlier moment": "UPDATE spending SET moment = -1",
    "a moment": "UPDATE spending SET moment = 1",
    "fewer writes": "UPDATE terms SET writes = 0",
    "another program's": "PRAGMA application_id = 7",
    "no program's": "PRAGMA application_id = 0",
}


@contextlib.contextmanager
def refused(*words: str, kind: type[UserError] = LedgerError) -> Iterator[None]:
    """Check that an error is one line with these words."""
    with pytest.raises(kind) as caught:
        yield
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def used(path: Path) -> Path:
    """Return a closed ledger of several pages."""
    with Ledger(1000, path) as ledger:
        for decision in range(120):
            ledger.reserve(f"decision number {decision}", 0.5 if decision % 3 else 0.25)
        for decision in range(60):
            ledger.report(f"decision number {decision}", decision % 2)
        ledger.settle("decision number 0")
    return path


def read_rows(path: Path, query: str) -> list[Any]:
    """Return what a query finds in the file of a ledger."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        return file.execute(query).fetchall()


def content(path: Path) -> tuple[list[Any], Fraction]:
    with Ledger(1000, path) as ledger:
        return read_rows(path, "SELECT * FROM decisions"), ledger.spent


def change(path: Path, statement: str, *values: str | int | None) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


class Clock:
    """A clock that tests set, in place of Python's."""

    gmtime = staticmethod(time.gmtime)
    strftime = staticmethod(time.strftime)

    def __init__(self, at: float = period.EARLIEST_TIME_S) -> None:
        self.at = at

    def time(self) -> float:
        return self.at
