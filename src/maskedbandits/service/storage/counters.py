"""Counts of a store: decisions that were issued, and reports that were refused; there is no row for each of them.

Counts of the last day are kept by the minute. What is older is summed up, by whole hours, into one row of minute 0
and no process.
"""

from __future__ import annotations

from collections.abc import Sequence

from maskedbandits.service.storage.database import MARKS, Database, Statements, marks
from maskedbandits.service.storage.models import DAY
from maskedbandits.service.storage.texts import short

HOUR = 60  # minutes


def summed_until(forgotten: int) -> int:
    """Return the last minute whose counts are summed up once everything up to `forgotten` is forgotten."""
    return forgotten // HOUR * HOUR - DAY


class Counts(Database):
    """The part of a store that counts."""

    def set_issued(self, process: str, rows: Sequence[tuple[int, int, int, int]]) -> None:
        """Write down how many decisions this process has made: experiment, arm, minute of expiry, and all in all.

        What is summed up already stays as it is: to count it again would count it twice.
        """
        short("process", process)
        newest = {row[:3]: row[3] for row in rows}
        with self._writing() as do:
            limits = self._locked(do, {experiment for experiment, _, _ in newest})
            counted = [
                (experiment, arm, process, minute, count)
                for (experiment, arm, minute), count in sorted(newest.items())
                if experiment in limits and minute > summed_until(limits[experiment])
            ]
            do.insert("issued", counted, _ISSUED_BEFORE)

    def issued(self, experiment: int, since_minute: int, besides: str = "") -> list[tuple[int, str, int, int]]:
        """Return how many decisions expire in each minute from this one on: arm, process, minute, count.

        Those of the process ``besides`` are left out.
        """
        with self._reading() as do:
            found = do.rows(
                "SELECT arm, process, expires, count FROM issued WHERE experiment = ? AND expires >= ? "
                "AND process <> ? ORDER BY expires, arm",
                (experiment, max(1, since_minute), besides),
            )
        return [(arm, process, minute, count) for arm, process, minute, count in found]

    def issued_total(self, experiment: int) -> dict[int, int]:
        """Return how many decisions were ever made for each arm."""
        with self._reading() as do:
            found = do.rows(
                "SELECT arm, CAST(sum(count) AS BIGINT) FROM issued WHERE experiment = ? GROUP BY arm ORDER BY arm",
                (experiment,),
            )
        return dict(found)

    def count_refused(self, rows: Sequence[tuple[int, str, int, int]]) -> None:
        """Count reports that were refused: experiment (0 is none), reason, minute, and how many more."""
        more: dict[tuple[int, str, int], int] = {}
        for experiment, reason, minute, count in rows:
            key = experiment, short("reason", reason), minute
            more[key] = more.get(key, 0) + count
        with self._writing() as do:
            do.insert("refused", [(*key, count) for key, count in sorted(more.items())], _REFUSED_BEFORE)

    def refused(self, experiment: int) -> dict[str, int]:
        """Return how many reports were ever refused, by reason."""
        with self._reading() as do:
            found = do.rows(
                "SELECT reason, CAST(sum(count) AS BIGINT) FROM refused WHERE experiment = ? GROUP BY reason",
                (experiment,),
            )
        return dict(sorted((reason, count) for reason, count in found))

    def _locked(self, do: Statements, experiments: set[int]) -> dict[int, int]:
        """Lock experiments, in the order of their ids, and return up to which minute each has forgotten."""
        ordered = sorted(experiments)
        found: dict[int, int] = {}
        for start in range(0, len(ordered), MARKS):
            some = ordered[start : start + MARKS]
            listed = f"SELECT id, forgotten FROM experiment WHERE id IN ({marks(some)}) ORDER BY id{self.FOR_CHANGE}"  # noqa: S608 - marks alone
            found.update(do.rows(listed, some))
        return found

    def _sum_up(self, minute: int) -> None:
        """Sum up the counts that are older than a day."""
        until = summed_until(minute)
        with self._reading() as do:
            issued = {row[0] for row in do.rows(_WITH_OLD_ISSUED, (until,))}
            refused = do.rows(_OLD_REFUSED, (until,))
        if issued:
            self._sum_issued(issued, until)
        if refused:
            self._sum_refused(until)

    def _sum_issued(self, experiments: set[int], until: int) -> None:
        with self._writing(alone=True) as do:
            for experiment, forgotten in self._locked(do, experiments).items():
                each = experiment, min(until, summed_until(forgotten))
                do.changed(_SUM_ISSUED, each)
                do.changed("DELETE FROM issued WHERE experiment = ? AND expires > 0 AND expires <= ?", each)

    def _sum_refused(self, until: int) -> None:
        with self._writing(alone=True) as do:  # just those rows go that were summed up: others may come meanwhile
            old = do.rows(_OLD_REFUSED + self.FOR_CHANGE, (until,))
            sums: dict[tuple[int, str], int] = {}
            for experiment, reason, _, count in old:
                sums[experiment, reason] = sums.get((experiment, reason), 0) + count
            do.insert("refused", [(*key, 0, count) for key, count in sorted(sums.items())], _REFUSED_BEFORE)
            gone = [(experiment, reason, minute) for experiment, reason, minute, _ in old]
            do.each("DELETE FROM refused WHERE experiment = ? AND reason = ? AND minute = ?", gone)


_ISSUED_BEFORE = "ON CONFLICT (experiment, arm, process, expires) DO UPDATE SET count = excluded.count"
_REFUSED_BEFORE = "ON CONFLICT (experiment, reason, minute) DO UPDATE SET count = refused.count + excluded.count"
_OLD_REFUSED = "SELECT experiment, reason, minute, count FROM refused WHERE minute > 0 AND minute <= ?"
_WITH_OLD_ISSUED = (
    "SELECT id FROM experiment WHERE EXISTS "
    "(SELECT 1 FROM issued WHERE experiment = experiment.id AND expires > 0 AND expires <= ?)"
)
_SUM_ISSUED = (
    "INSERT INTO issued (experiment, arm, process, expires, count) "
    "SELECT experiment, arm, '', 0, CAST(sum(count) AS BIGINT) FROM issued "
    "WHERE experiment = ? AND expires > 0 AND expires <= ? GROUP BY experiment, arm "
    "ON CONFLICT (experiment, arm, process, expires) DO UPDATE SET count = issued.count + excluded.count"
)
