"""What keeps a ledger from doing what is asked, told in one line."""

import contextlib
import sqlite3
from collections.abc import Iterator

from ...errors import UserError

WAIT = 10.0  # seconds for another process to finish writing
DAMAGED = "damaged, or not a ledger, so no report is made: restore it; a new one would forget what was spent"
REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full, so no report is made: make room and try again",
    sqlite3.SQLITE_BUSY: f"another process has been writing for {WAIT:g} s, so no report is made: try again",
    sqlite3.SQLITE_READONLY: "read-only, so no report is made: make the file and its folder writable",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened, so no report is made: check the path and its permissions",
}
NO_DATABASE = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


class LedgerError(UserError):
    """The ledger cannot do what is asked; nothing was spent and no report was made."""


class OtherTerms(LedgerError):  # noqa: N818 - as below
    """The ledger was made for less than is asked, or for another delta or period: those are told."""

    def __init__(self, message: str, delta: float, period: int) -> None:
        super().__init__(message)
        self.delta, self.period = delta, period


class Overdraft(LedgerError):  # noqa: N818 - the word is an error already
    """A report would pass the cap."""


class Damage(Exception):  # noqa: N818 - as above
    """An entry is not as it was written."""


@contextlib.contextmanager
def told(name: str, damaged: str = DAMAGED) -> Iterator[None]:
    """Tell in one line what the disk or the database did not do."""
    try:
        yield
    except (Damage, UnicodeDecodeError) as error:  # SQLite's message may quote what is damaged
        raise LedgerError(f"{name}: {damaged}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF  # none if a text cannot be decoded
        otherwise = f"{error}, so no report is made: check the file and its disk"
        reason = damaged if code in NO_DATABASE else REASONS.get(code, otherwise)  # & 0xFF: the main code
        raise LedgerError(f"{name}: {reason}") from error
    except OSError as error:
        raise LedgerError(f"{name}: {error.strerror}, so no report is made: check the path") from error
