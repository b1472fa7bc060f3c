"""Counters of a store: decisions issued and reports refused, which have no rows of their own.

Counts of the last day are stored by the minute. Older ones are compacted, by whole hours, into one row with minute 0
and an empty process name.
"""

from __future__ import annotations

from collections.abc import Sequence

from maskedbandits.service.storage.base import MAX_PARAMETERS, StoreBackend, Transaction, placeholders
from maskedbandits.service.storage.models import MINUTES_PER_DAY, check_name

MINUTES_PER_HOUR = 60


def last_compacted_minute(forgotten: int) -> int:
    """Return the last minute whose counts are compacted once everything up to ``forgotten`` is forgotten."""
    return forgotten // MINUTES_PER_HOUR * MINUTES_PER_HOUR - MINUTES_PER_DAY


class Counters(StoreBackend):
    """The counters of a store."""

    def set_issued(self, process: str, rows: Sequence[tuple[int, int, int, int]]) -> None:
        """Set how many decisions this process has issued: experiment, arm, minute of expiry, total.

        Compacted minutes stay as they are, because they would be counted twice.
        """
        check_name("process", process)
        newest = {row[:3]: row[3] for row in rows}
        with self._begin_write() as tx:
            forgotten = self._lock_experiments(tx, {experiment for experiment, _, _ in newest})
            issued = [
                (experiment, arm, process, minute, count)
                for (experiment, arm, minute), count in sorted(newest.items())
                if experiment in forgotten and minute > last_compacted_minute(forgotten[experiment])
            ]
            tx.insert("issued", issued, _REPLACE_ISSUED)

    def list_issued(self, experiment: int, since_minute: int, besides: str = "") -> list[tuple[int, str, int, int]]:
        """Return the decisions that expire from a minute on: arm, process, minute, count.

        Those of the process ``besides`` are left out.
        """
        with self._begin_read() as tx:
            rows = tx.query(
                "SELECT arm, process, expires, count FROM issued WHERE experiment = ? AND expires >= ? "
                "AND process <> ? ORDER BY expires, arm",
                (experiment, max(1, since_minute), besides),
            )
        return [(arm, process, minute, count) for arm, process, minute, count in rows]

    def sum_issued(self, experiment: int) -> dict[int, int]:
        """Return the number of decisions ever issued for each arm."""
        with self._begin_read() as tx:
            rows = tx.query(
                "SELECT arm, CAST(sum(count) AS BIGINT) FROM issued WHERE experiment = ? GROUP BY arm ORDER BY arm",
                (experiment,),
            )
        return dict(rows)

    def count_refused(self, rows: Sequence[tuple[int, str, int, int]]) -> None:
        """Add refused reports: experiment (0 is none), reason, minute, how many more; leave out deleted experiments."""
        more: dict[tuple[int, str, int], int] = {}
        for experiment, reason, minute, count in rows:
            key = experiment, check_name("reason", reason), minute
            more[key] = more.get(key, 0) + count
        with self._begin_write() as tx:
            tx.execute_many(_ADD_REFUSED_OF, [(*key, count, key[0], key[0]) for key, count in sorted(more.items())])

    def sum_refused(self, experiment: int) -> dict[str, int]:
        """Return the number of reports ever refused, by reason."""
        with self._begin_read() as tx:
            rows = tx.query(
                "SELECT reason, CAST(sum(count) AS BIGINT) FROM refused WHERE experiment = ? GROUP BY reason",
                (experiment,),
            )
        return dict(sorted((reason, count) for reason, count in rows))

    def _lock_experiments(self, tx: Transaction, experiments: set[int]) -> dict[int, int]:
        """Lock experiments in the order of their ids, and return the last forgotten minute of each."""
        ordered = sorted(experiments)
        forgotten: dict[int, int] = {}
        for start in range(0, len(ordered), MAX_PARAMETERS):
            some = ordered[start : start + MAX_PARAMETERS]
            lock = f"SELECT id, forgotten FROM experiment WHERE id IN ({placeholders(some)}) ORDER BY id"  # noqa: S608 - placeholders alone
            forgotten.update(tx.query(lock + self.FOR_UPDATE, some))
        return forgotten

    def _compact_counters(self, minute: int) -> None:
        """Compact the counts that are older than a day."""
        until = last_compacted_minute(minute)
        with self._begin_read() as tx:
            with_old_counts = {row[0] for row in tx.query(_WITH_OLD_ISSUED, (until,))}
            has_old_refused = bool(tx.query(_OLD_REFUSED, (until,)))
        if with_old_counts:
            self._compact_issued(with_old_counts, until)
        if has_old_refused:
            self._compact_refused(until)

    def _compact_issued(self, experiments: set[int], until: int) -> None:
        with self._begin_write(exclusive=True) as tx:
            for experiment, forgotten in self._lock_experiments(tx, experiments).items():
                compacted = experiment, min(until, last_compacted_minute(forgotten))
                tx.execute(_SUM_ISSUED, compacted)
                tx.execute("DELETE FROM issued WHERE experiment = ? AND expires > 0 AND expires <= ?", compacted)

    def _compact_refused(self, until: int) -> None:
        with self._begin_write(exclusive=True) as tx:  # delete the rows just summed up: others may come meanwhile
            old = tx.query(_OLD_REFUSED + self.FOR_UPDATE, (until,))
            sums: dict[tuple[int, str], int] = {}
            for experiment, reason, _, count in old:
                sums[experiment, reason] = sums.get((experiment, reason), 0) + count
            tx.insert("refused", [(*key, 0, count) for key, count in sorted(sums.items())], _ADD_REFUSED)
            compacted = [(experiment, reason, minute) for experiment, reason, minute, _ in old]
            tx.execute_many("DELETE FROM refused WHERE experiment = ? AND reason = ? AND minute = ?", compacted)


_REPLACE_ISSUED = "ON CONFLICT (experiment, arm, process, expires) DO UPDATE SET count = excluded.count"
_ADD_REFUSED = "ON CONFLICT (experiment, reason, minute) DO UPDATE SET count = refused.count + excluded.count"
_ADD_REFUSED_OF = (  # of an experiment that exists
    "INSERT INTO refused (experiment, reason, minute, count) SELECT ?, ?, ?, ? "  # noqa: S608 - our own words
    "WHERE ? = 0 OR EXISTS (SELECT 1 FROM experiment WHERE id = ?) " + _ADD_REFUSED
)
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
