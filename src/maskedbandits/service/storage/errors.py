"""Errors of a store. Each backend translates the errors of its database into these."""

from __future__ import annotations

from maskedbandits.errors import UserError

LOCK_TIMEOUT_S = 10.0  # how long to wait for another process that writes


class StoreUnavailable(Exception):  # noqa: N818 - the word is an error already
    """The database cannot be reached, is locked for too long, or is full: try again later.

    Nothing was written unless ``may_be_committed`` is true. In that case the connection was lost during the commit.
    Reports may be appended again in both cases, because a decision has one report.
    """

    def __init__(self, reason: str, *, may_be_committed: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.may_be_committed = reason, may_be_committed


class Busy(StoreUnavailable):
    """Other transactions hold the locks for too long; nothing was written."""


class LayoutChanged(StoreUnavailable):
    """An upgrade has changed the tables since this process looked at them, or they are damaged; nothing was written."""


class Conflict(UserError):  # noqa: N818 - as above
    """The store's content forbids the request: a name is taken, an arm retired, or an experiment archived.

    The code is one of ``service/problems.py``.
    """

    def __init__(self, reason: str, code: str = "conflict") -> None:
        super().__init__(reason)
        self.code = code


class ExperimentDeleted(UserError):  # noqa: N818 - as above
    """No experiment has this number any more: it was deleted meanwhile."""

    def __init__(self, experiment: int) -> None:
        super().__init__(f"no experiment has the number {experiment}")


class Unreachable(StoreUnavailable, UserError):  # noqa: N818 - as above
    """The store cannot be opened now. A service tries again; a command prints the reason."""


def first_line(error: BaseException) -> str:
    """Return the first line of a database's message."""
    return " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
