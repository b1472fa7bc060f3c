"""What keeps a store from doing what is asked: it passes by itself, or somebody must act."""

from __future__ import annotations

from maskedbandits.errors import UserError

WAIT = 10.0  # seconds for another process to finish writing


class StoreUnavailable(Exception):  # noqa: N818 - the word is an error already
    """The database cannot be reached, is locked for too long, or has no room: try again later.

    Nothing was done, unless ``unknown`` is true: then the connection was lost after the database had been told to
    commit, and perhaps it has. Reports may be appended again in any case, since a decision has one report.
    """

    def __init__(self, reason: str, *, unknown: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.unknown = reason, unknown


class Conflict(UserError):  # noqa: N818 - as above
    """What cannot be done as things stand: the name is taken, the arm retired already, or the experiment archived."""


class Unreachable(StoreUnavailable, UserError):  # noqa: N818 - as above
    """A store that cannot be opened now: whoever waits may try again, whoever sits at the keyboard is told why."""


def one_line(error: BaseException) -> str:
    """Return the first line of what a database says."""
    return " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
