"""Errors of a ledger, each in one line."""

import sqlite3
from contextlib import AbstractContextManager

from ...errors import UserError, translate_errors

LOCK_TIMEOUT_S = 10.0  # for another process to finish writing
DAMAGED = "damaged, or not a ledger, so no report is made: restore it; a new file would lose the record of spending"
REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full, so no report is made: make room and try again",
    sqlite3.SQLITE_BUSY: f"another process has been writing for {LOCK_TIMEOUT_S:g} s, so no report is made: try again",
    sqlite3.SQLITE_READONLY: "read-only, so no report is made: make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened, so no report is made: check the path and its permissions",
}
DAMAGE_CODES = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


class LedgerError(UserError):
    """The ledger refuses a request. Nothing was spent and no report was made.

    Examples
    --------
    >>> from maskedbandits.privacy import Ledger
    >>> try:
    ...     Ledger(cap=1).report("headline 7", 1)
    ... except LedgerError as error:
    ...     print(error)
    decision 'headline 7' is not reserved: reserve it before its reward is known

    """


class TermsMismatch(LedgerError):  # noqa: N818 - reads as an error already
    """The ledger has a lower cap, or another delta or period, which the error carries."""

    def __init__(self, message: str, delta: float, period: int) -> None:
        super().__init__(message)
        self.delta, self.period = delta, period


class Overdraft(LedgerError):  # noqa: N818 - reads as an error already
    """A report would exceed the cap.

    Examples
    --------
    >>> from maskedbandits.privacy import Ledger
    >>> try:
    ...     Ledger(cap=1).reserve("headline 7", epsilon=2)
    ... except Overdraft as error:
    ...     print("not reported")
    not reported

    """


class DamagedFile(Exception):  # noqa: N818 - reads as an error already
    """An entry is not as it was written."""


def translate_ledger_errors(name: str, damaged: str = DAMAGED) -> AbstractContextManager[None]:
    """Describe errors of the disk or the database in one line."""
    kinds = (DamagedFile, UnicodeDecodeError, sqlite3.Error, OSError)
    return translate_errors(kinds, lambda error: LedgerError(f"{name}: {_explain(error, damaged)}"))


def _explain(error: Exception, damaged: str) -> str:
    if isinstance(error, (DamagedFile, UnicodeDecodeError)):  # SQLite's message may quote the damaged text
        return damaged
    if isinstance(error, OSError):
        return f"{error.strerror}, so no report is made: check the path"
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # missing if a text cannot be decoded
    otherwise = f"{error}, so no report is made: check the file and its disk"
    return damaged if code in DAMAGE_CODES else REASONS.get(code, otherwise)
