"""The contract of a store: the log of every experiment and what stands beside it, in one of two databases.

A store is one connection. Any thread may call it (they take turns), a fork may not. Whatever returns has been done
durably and as a whole; what cannot be done now raises ``StoreUnavailable``, and may be tried again. The numbers of
events have no gaps, and become visible in their order: a writer locks its experiment until that is visible, so that a
reader who asks for what comes after the last number it has seen misses nothing.

What both databases do alike stands here, in SQL that both understand. ``append`` and ``visits``, which are called all
the time, each does in its own way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

from maskedbandits.errors import UserError, WrongValueError
from maskedbandits.service.storage import changes, commits, schema
from maskedbandits.service.storage.counters import Counts
from maskedbandits.service.storage.database import MARKS, Rows, Statements, marks
from maskedbandits.service.storage.errors import Conflict, StoreUnavailable
from maskedbandits.service.storage.keys import Keys
from maskedbandits.service.storage.models import (
    DECISION,
    DUPLICATE,
    LAST_MINUTE,
    LATE,
    UNKNOWN,
    ArmRow,
    Change,
    EventRow,
    ExperimentRow,
    KeyRow,
    NewArm,
    NewReport,
    SnapshotRow,
    Standing,
    Visit,
)
from maskedbandits.service.storage.notes import Notes
from maskedbandits.service.storage.texts import short

__all__ = [
    "DUPLICATE",
    "LATE",
    "UNKNOWN",
    "ArmRow",
    "Change",
    "EventRow",
    "ExperimentRow",
    "KeyRow",
    "NewArm",
    "NewReport",
    "SnapshotRow",
    "Store",
    "StoreUnavailable",
    "Visit",
]

SNAPSHOTS = 3  # of an experiment and a kernel are kept


class Store(Counts, Keys, Notes):
    """The logs of all experiments, and what stands beside them."""

    DIALECT: str  # the database's name in schema.py
    NOW: str  # what its clock shows, if it has one of its own
    key_file: Path  # where the secret is that is not in it, unless the environment says otherwise

    @abstractmethod
    def append(self, reports: Sequence[NewReport]) -> list[int]:
        """Append reports in one durable transaction, and return the number in its log of each.

        No number: ``DUPLICATE``, a report of the same decision stands there; ``LATE``, its id may have been forgotten;
        ``UNKNOWN``, there is no such experiment, or it is archived.
        """

    def written(self, reports: Sequence[NewReport], before: Mapping[int, int]) -> list[int] | None:
        """Return what an append has answered whose answer was lost; None: it has not been done, and never will be.

        Events up to ``before`` are older than it. Whoever has begun it holds the lock that is awaited here.
        """
        with self._writing() as do:
            return commits.answers(do, self._locked(do, {report.experiment for report in reports}), reports, before)

    @abstractmethod
    def visits(self, visits: Sequence[Visit]) -> list[bytes]:
        """Return the token that each visitor keeps: the given one, or an earlier one that has not expired."""

    @abstractmethod
    def everything(self) -> AbstractContextManager[Iterator[Rows]]:
        """Read all tables as they are at one moment, over a connection of its own, some rows at a time."""

    @abstractmethod
    def fill(self, everything: Iterable[Rows]) -> None:
        """Write all tables of a store that is empty, in one transaction."""

    def _refuse_unless_empty(self, do: Statements) -> None:
        """Refuse to fill what holds something, and make room for the version."""
        for table in schema.TABLES:
            if table != "meta" and do.rows(f"SELECT 1 FROM {table} LIMIT 1"):  # noqa: S608 - our own names
                raise UserError(f"{self.name}: it is not empty: restore into a new store")
        do.changed("DELETE FROM meta")

    def ping(self) -> None:
        """Ask whether it is there."""
        with self._reading() as do:
            do.rows("SELECT value FROM meta WHERE key = ?", (schema.VERSION_KEY,))

    def version(self) -> int:
        """Return the version of its tables."""
        return schema.version_of(self.meta(schema.VERSION_KEY), self.name)

    def upgrade(self, rewrite: Callable[[Statements, int], None]) -> tuple[int, int]:
        """Bring the tables of an older version to this one, whole or not at all; return both.

        ``rewrite`` is given the tables as they are after that, and the version that they had.
        """
        with self._writing(alone=True) as do:
            version = int(do.rows("SELECT value FROM meta WHERE key = ?", (schema.VERSION_KEY,))[0][0])
            if version > schema.VERSION:
                schema.refuse_others(version, self.name)
            for statement in schema.steps(version, self.DIALECT):
                do.changed(statement)
            rewrite(do, version)
            do.changed("UPDATE meta SET value = ? WHERE key = ?", (str(schema.VERSION), schema.VERSION_KEY))
        return version, schema.VERSION

    def create_experiment(
        self, name: str, config: str, arms: Sequence[NewArm], default_arm: int, hour: int
    ) -> ExperimentRow:
        """Create an experiment; the first event of its log says how."""
        with self._writing(alone=True) as do:
            if do.rows("SELECT 1 FROM experiment WHERE name = ?", (short("experiment name", name),)):
                raise Conflict(f"an experiment is called {name!r} already: give another name")
            last = do.rows("SELECT max(id) FROM experiment")[0][0] or 0
            row = ExperimentRow(last + 1, name, "running", config, 0, 0, default_arm, hour, 0)
            return changes.created(do, row, arms)

    def experiments(self) -> list[ExperimentRow]:
        """Return all experiments, the oldest first."""
        with self._reading() as do:
            return self._all(do)

    def arms(self, experiment: int) -> list[ArmRow]:
        """Return all arms of an experiment by their places; retired ones, too."""
        with self._reading() as do:
            return changes.arms(do, experiment)

    def change(
        self, experiment: int, change: Change | Sequence[Change], check: changes.Check | None = None
    ) -> ExperimentRow:
        """Change an experiment, once or in several ways at once, and append the event that says so of each.

        ``check`` sees the experiment and its arms as they are after the change, while nobody else can change them;
        what it refuses has not happened.
        """
        with self._writing() as do:
            found = do.rows(f"{changes.SELECT} WHERE id = ?{self.FOR_CHANGE}", (experiment,))
            if not found:
                raise UserError(f"there is no experiment {experiment}")
            row = ExperimentRow(*found[0])
            for each in (change,) if isinstance(change, Change) else change:
                row = changes.changed(do, row, changes.arms(do, experiment), each)
            if check is not None:
                check(row, changes.arms(do, experiment))
            return row

    def events(self, experiment: int, after: int, limit: int) -> list[EventRow]:
        """Return the next events of a log after a number, in order; at most so many."""
        with self._reading() as do:
            return list(map(EventRow._make, do.rows(_EVENTS, (experiment, after, limit))))

    def heads(self) -> dict[int, int]:
        """Return the last number of every log, by experiment."""
        return self.standing().heads

    def standing(self) -> Standing:
        """Return how far the logs have come, what is forgotten, and the time by which all who share the store go."""
        asked = f"SELECT id, seq, forgotten, now FROM (SELECT {self.NOW} AS now) AS clock LEFT JOIN experiment ON 1 = 1"  # noqa: S608 - our own words
        with self._reading() as do:
            found = do.rows(asked)
        logs = [row for row in found if row[0] is not None]
        forgotten = [row[2] for row in logs if row[2] <= LAST_MINUTE]  # a later one is damage
        return Standing({row[0]: row[1] for row in logs}, max(forgotten, default=0), found[0][3])

    def reported(self, experiment: int, since_minute: int, seq: int) -> list[tuple[int, int, int]]:
        """Return how many reports up to a number expire in each minute from this one on: arm, minute, count."""
        with self._reading() as do:
            found = do.rows(_REPORTED, (experiment, since_minute, seq))
        return [(arm, minute, count) for arm, minute, count in found]

    def asked(self, experiment: int, since_minute: int, seq: int) -> list[tuple[bytes, int]]:
        """Return the questions of reports up to a number that expire from this minute on, and the minute of each."""
        with self._reading() as do:
            found = do.rows(_ASKED, (experiment, since_minute, seq))
        return [(question, minute) for question, minute in found]

    def save_snapshot(self, experiment: int, seq: int, kernel: str, body: bytes, sha256: str) -> None:
        """Keep a state; older ones of the same kernel go, but for the last three."""
        short("kernel", kernel)
        with self._writing() as do:
            do.changed(
                "INSERT INTO snapshot (experiment, kernel, seq, body, sha256) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (experiment, kernel, seq) DO UPDATE SET body = excluded.body, sha256 = excluded.sha256",
                (experiment, kernel, seq, body, sha256),
            )
            kept = do.rows(_SNAPSHOTS, (experiment, kernel))
            for old, _ in kept[SNAPSHOTS:]:
                do.changed(
                    "DELETE FROM snapshot WHERE experiment = ? AND kernel = ? AND seq = ?", (experiment, kernel, old)
                )

    def snapshots(self, experiment: int, kernel: str) -> list[tuple[int, str]]:
        """Return the snapshots that are kept, the newest first: number of the last event, digest."""
        with self._reading() as do:
            return [(seq, sha256) for seq, sha256 in do.rows(_SNAPSHOTS, (experiment, kernel))]

    def snapshot(self, experiment: int, kernel: str, at_most: int | None = None) -> SnapshotRow | None:
        """Return the newest snapshot, or the newest up to an event."""
        with self._reading() as do:
            found = do.rows(
                "SELECT seq, kernel, body, sha256 FROM snapshot WHERE experiment = ? AND kernel = ? AND seq <= ? "
                "ORDER BY seq DESC LIMIT 1",
                (experiment, kernel, LAST if at_most is None else at_most),
            )
        return SnapshotRow(*found[0]) if found else None

    def forget(self, minute: int) -> None:
        """Forget what has expired by this minute: ids of decisions, and visitors; sum up counts of the day before.

        From the first step on, reports that expire by then are late for good, whatever a clock says later: so the
        others may take their time, and what is left undone is done the next time.
        """
        with self._writing(alone=True) as do:
            found = [row.id for row in self._all(do, self.FOR_CHANGE)]
            do.changed("UPDATE experiment SET forgotten = ? WHERE forgotten < ?", (minute, minute))
        for experiment in found:
            while self._forget_some(experiment, minute) == MARKS:
                pass  # others write in between
        with self._writing() as do:
            do.changed("DELETE FROM visitor WHERE expires <= ?", (minute,))
        self._sum_up(minute)

    def _forget_some(self, experiment: int, minute: int) -> int:
        """Forget some ids of decisions; return how many."""
        with self._reading() as do:
            old = [seq for (seq,) in do.rows(_EXPIRED, (experiment, minute, MARKS))]
        if old:
            dropped = f"{_DROP_IDS} WHERE experiment = ? AND seq IN ({marks(old)})"
            with self._writing(alone=True) as do:
                do.changed(dropped, (experiment, *old))
        return len(old)

    def _all(self, do: Statements, end: str = "") -> list[ExperimentRow]:
        return [ExperimentRow(*row) for row in do.rows(f"{changes.SELECT} ORDER BY id{end}")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def check_ids(reports: Sequence[NewReport]) -> None:
    """Refuse ids that no token has: their length is what tells one from the next."""
    wrong = next((report.decision for report in reports if len(report.decision) != DECISION), None)
    if wrong is not None:
        raise WrongValueError("decision", wrong, f"{DECISION} bytes")


LAST = 2**62  # no event has a higher number
_EVENTS = (
    "SELECT seq, kind, arm, bit, epsilon, probability, flags, expires, hour, detail, config, question FROM event "
    "WHERE experiment = ? AND seq > ? ORDER BY seq LIMIT ?"
)
_DROP_IDS = "UPDATE event SET decision = NULL, expires = NULL"
_EXPIRED = "SELECT seq FROM event WHERE experiment = ? AND expires <= ? LIMIT ?"
_REPORTED = (
    "SELECT arm, expires, count(*) FROM event WHERE experiment = ? AND expires >= ? AND seq <= ? AND arm IS NOT NULL "
    "GROUP BY arm, expires"
)
_ASKED = (
    "SELECT question, expires FROM event WHERE experiment = ? AND expires >= ? AND seq <= ? AND question IS NOT NULL"
)
_SNAPSHOTS = "SELECT seq, sha256 FROM snapshot WHERE experiment = ? AND kernel = ? ORDER BY seq DESC"
