"""Snapshots of a store, reading many events at once, and the removal of events that a snapshot covers.

The column ``kernel`` of a snapshot says of which kind it is:

    fold-N       a state of fold version N, of which the newest three are kept
    base-N       the same, from which the log now begins: the events up to it are removed, or soon will be
    log-hash     the running hash of the log after an event, to check exports with; it is kept for ever
    others       states of releases before fold versions
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from maskedbandits.errors import UserError
from maskedbandits.service.storage.base import Row
from maskedbandits.service.storage.layouts import IDS, Layout
from maskedbandits.service.storage.models import EventRow, SnapshotHead, SnapshotRow, check_name
from maskedbandits.service.storage.upgrade import Upgrades

if TYPE_CHECKING:
    from maskedbandits.service.event_columns import EventColumns

MAX_SNAPSHOTS = 3  # of an experiment and a kind
MAX_SEQ = 2**62  # no event has a higher number
LOG_HASH = "log-hash"
BASE = "base-"  # and a fold version
PERMANENT = [name for name in EventRow._fields if name != "expires"]  # the columns of an event that never change
REMOVED_AT_ONCE = 2_000  # events, in one transaction


class Retention(Upgrades):
    """The snapshots of a store, and where its logs begin."""

    @property
    def may_remove_events(self) -> bool:
        """Whether all processes know that a log may begin later: those of version 3 did not."""
        return self._read_layout() is not Layout.SHARED

    @abstractmethod
    def read_columns(self, experiment: int, after: int, limit: int) -> EventColumns:
        """Return up to ``limit`` events of a log after a sequence number, in order, as columns."""

    def _read_rows(self, experiment: int, first: int, last: int) -> list[EventRow]:
        """Return the events of a log between two sequence numbers."""
        with self._begin_read() as tx:
            rows = tx.query(_ROWS, (experiment, first, last))
        return [EventRow(**dict(zip(PERMANENT, row, strict=True)), expires=None) for row in rows]

    def read_first(self, experiment: int) -> int | None:
        """Return the number of the oldest event that is there; None if there is none."""
        with self._begin_read() as tx:
            found = tx.query("SELECT seq FROM event WHERE experiment = ? ORDER BY seq LIMIT 1", (experiment,))
        return int(found[0][0]) if found else None

    def read_first_hour(self, experiment: int) -> int | None:
        """Return the hour of the oldest event that is there; None if there is none."""
        with self._begin_read() as tx:
            found = tx.query("SELECT hour FROM event WHERE experiment = ? ORDER BY seq LIMIT 1", (experiment,))
        return int(found[0][0]) if found else None

    def find_removable(self, cutoff: int) -> tuple[int | None, list[int]]:
        """Return the hour of the oldest event of all logs, and the experiments with something to remove.

        These have a first event from before an hour, or snapshots that a killed compaction left.
        """
        with self._begin_read() as tx:
            rows = tx.query(_FIRST_HOURS, (LOG_HASH,))
        due = [experiment for experiment, hour, is_left in rows if is_left or (hour is not None and hour < cutoff)]
        return min((hour for _, hour, _ in rows if hour is not None), default=None), due

    def save_snapshot(self, experiment: int, seq: int, kernel: str, body: bytes, sha256: str) -> None:
        """Store a snapshot, and delete all but the newest three of its kind; bases and hashes are kept.

        Nothing is stored of an experiment that was deleted.
        """
        check_name("kernel", kernel)
        with self._begin_write() as tx:
            tx.execute(
                "INSERT INTO snapshot (experiment, kernel, seq, body, sha256) SELECT ?, ?, ?, ?, ? "
                "WHERE EXISTS (SELECT 1 FROM experiment WHERE id = ?) "
                "ON CONFLICT (experiment, kernel, seq) DO UPDATE SET body = excluded.body, sha256 = excluded.sha256",
                (experiment, kernel, seq, body, sha256, experiment),
            )
            if kernel == LOG_HASH or kernel.startswith(BASE):
                return
            for old, _ in tx.query(_SNAPSHOTS, (experiment, kernel))[MAX_SNAPSHOTS:]:
                tx.execute(
                    "DELETE FROM snapshot WHERE experiment = ? AND kernel = ? AND seq = ?", (experiment, kernel, old)
                )

    def list_snapshots(self, experiment: int, kernel: str) -> list[tuple[int, str]]:
        """Return sequence number and digest of the stored snapshots of a kind, the newest first."""
        with self._begin_read() as tx:
            return [(seq, sha256) for seq, sha256 in tx.query(_SNAPSHOTS, (experiment, kernel))]

    def list_states(self, experiment: int) -> list[SnapshotHead]:
        """Return all snapshots that hold a state, the newest first."""
        with self._begin_read() as tx:
            return [SnapshotHead(*row) for row in tx.query(_STATES, (experiment, LOG_HASH))]

    def read_snapshot(self, experiment: int, kernel: str, at_most: int | None = None) -> SnapshotRow | None:
        """Return the newest snapshot of a kind, or the newest up to a sequence number."""
        with self._begin_read() as tx:
            found = tx.query(_SNAPSHOT, (experiment, kernel, MAX_SEQ if at_most is None else at_most))
        return SnapshotRow(*found[0]) if found else None

    def read_last_removable(self, experiment: int) -> int:
        """Return the last event up to which no id of a report is needed any more to refuse its repetition."""

        def read(layout: Layout) -> list[Row]:
            with self._begin_read() as tx:
                return tx.query(f"SELECT min(seq) FROM {IDS[layout]} AS ids WHERE experiment = ?", (experiment,))  # noqa: S608 - our own names

        found = self._in_layout(read)[0][0]
        return MAX_SEQ if found is None else int(found) - 1

    def remove_events(self, experiment: int, seq: int, limit: int = REMOVED_AT_ONCE) -> int:
        """Remove some of the events up to a base, the oldest first; return how many of them are left.

        The events and the number of the oldest one that is kept change in one transaction.
        """
        with self._begin_write() as tx:
            head = tx.query(f"SELECT seq, first_seq FROM experiment WHERE id = ?{self.FOR_UPDATE}", (experiment,))  # noqa: S608 - our own words
            if not head:  # deleted meanwhile
                return 0
            is_covered = tx.query(_COVERED, (experiment, f"{BASE}%", seq))
            if not is_covered or seq > head[0][0]:
                raise UserError(f"events up to {seq} are not removed: no snapshot begins after them")
            last = min(seq, head[0][1] + limit - 1)
            if last < head[0][1]:
                return 0
            tx.execute("DELETE FROM event WHERE experiment = ? AND seq <= ?", (experiment, last))
            tx.execute("UPDATE experiment SET first_seq = ? WHERE id = ?", (last + 1, experiment))
        return seq - int(last)

    def drop_snapshots_before(self, experiment: int, seq: int) -> None:
        """Delete all states of events before a base."""
        with self._begin_write() as tx:
            tx.execute(
                "DELETE FROM snapshot WHERE experiment = ? AND kernel <> ? AND (seq < ? OR (seq = ? AND kernel NOT "
                "LIKE ?))",
                (experiment, LOG_HASH, seq, seq, f"{BASE}%"),
            )

    def claim(self, key: str, owner: str, now: int, until: int) -> bool:
        """Claim a task for an owner until some time; tell whether no other owner has it now."""
        with self._begin_write(exclusive=True) as tx:
            found = tx.query("SELECT value FROM meta WHERE key = ?", (check_name("key", key),))
            holder, _, end = (found[0][0] if found else "").rpartition(" ")
            if holder not in ("", owner) and end.isdigit() and now < int(end):
                return False
            tx.execute(
                "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (key, f"{owner} {until}"),
            )
            return True


_ROWS = f"SELECT {', '.join(PERMANENT)} FROM event WHERE experiment = ? AND seq BETWEEN ? AND ? ORDER BY seq"  # noqa: S608 - our own names
_FIRST_HOURS = (
    "SELECT id, (SELECT hour FROM event WHERE event.experiment = experiment.id ORDER BY event.seq LIMIT 1), "
    "EXISTS (SELECT 1 FROM snapshot WHERE snapshot.experiment = experiment.id AND kernel <> ? "
    "AND snapshot.seq < first_seq - 1) FROM experiment ORDER BY id"
)
_SNAPSHOT = (
    f"SELECT {', '.join(SnapshotRow._fields)} FROM snapshot WHERE experiment = ? AND kernel = ? AND seq <= ? "  # noqa: S608 - our own names
    "ORDER BY seq DESC LIMIT 1"
)
_SNAPSHOTS = "SELECT seq, sha256 FROM snapshot WHERE experiment = ? AND kernel = ? ORDER BY seq DESC"
_STATES = "SELECT seq, kernel, sha256 FROM snapshot WHERE experiment = ? AND kernel <> ? ORDER BY seq DESC, kernel"
_COVERED = "SELECT 1 FROM snapshot WHERE experiment = ? AND kernel LIKE ? AND seq >= ? LIMIT 1"
