"""The store: the logs of all experiments and their snapshots, in SQL that every backend understands.

Counters and keys are in files of their own. The operations that each database does its own way are in ``base.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from maskedbandits.errors import UserError
from maskedbandits.service.storage import changes, schema
from maskedbandits.service.storage.audit import AdminRequest, Audit
from maskedbandits.service.storage.base import MAX_PARAMETERS, Row, Transaction, placeholders
from maskedbandits.service.storage.counters import Counters
from maskedbandits.service.storage.deletion import Deletion
from maskedbandits.service.storage.errors import Conflict, ExperimentDeleted
from maskedbandits.service.storage.idempotency import Idempotency
from maskedbandits.service.storage.keys import Keys
from maskedbandits.service.storage.layouts import ID_COLUMNS, IDS, Layout, find_layout
from maskedbandits.service.storage.listing import Listing, find_last_id
from maskedbandits.service.storage.models import (
    DUPLICATE,
    LATE,
    MAX_MINUTE,
    UNKNOWN,
    ArmRow,
    Change,
    EventRow,
    ExperimentRow,
    NewArmRow,
    NewReport,
    StoreStatus,
    check_name,
    check_text,
)
from maskedbandits.service.storage.retention import Retention

IDS_AT_ONCE = 1_000  # that are forgotten in a transaction

_Key = tuple[int, bytes]  # experiment, decision
_Stored = dict[_Key, tuple[int, NewReport]]  # sequence number and report, by decision


class Store(Audit, Counters, Deletion, Idempotency, Keys, Listing, Retention):
    """The logs of all experiments, their counters, keys and snapshots."""

    def recover_append(self, reports: Sequence[NewReport], before: Mapping[int, int]) -> list[int] | None:
        """Return the answers of an append whose reply was lost, or None if it was not committed.

        Events up to ``before`` are older than the append. This waits for the lock that an unfinished append holds, so
        one that is not committed by now never will be.
        """

        def recover(layout: Layout) -> list[int] | None:
            with self._begin_write() as tx:
                forgotten = self._lock_experiments(tx, {report.experiment for report in reports})
                return _recover_answers(tx, layout, forgotten, reports, before)

        return self._in_layout(recover)

    def _refuse_unless_empty(self, tx: Transaction) -> None:
        """Refuse to fill a store that holds something, and remove its version, which is filled in, too."""
        for table in schema.TABLES:
            if table != "meta" and tx.query(f"SELECT 1 FROM {table} LIMIT 1"):  # noqa: S608 - our own names
                raise UserError(f"{self.name}: not empty: restore into a new store")
        meta = [(key, value) for key, value in tx.query("SELECT key, value FROM meta")]
        if find_layout(meta, self.name) is not Layout.CURRENT:  # earlier processes may write to it
            raise UserError(f"{self.name}: its tables have an earlier version: run maskedbandits upgrade first")
        tx.execute("DELETE FROM meta")

    def ping(self) -> None:
        """Check that the database answers."""
        with self._begin_read() as tx:
            tx.query("SELECT value FROM meta WHERE key = ?", (schema.VERSION_KEY,))

    # Metadata: texts by key, such as the version of the tables

    def read_meta(self, key: str) -> str | None:
        """Return the text stored under a key."""
        with self._begin_read() as tx:
            found = tx.query("SELECT value FROM meta WHERE key = ?", (key,))
        return found[0][0] if found else None

    def set_meta(self, key: str, value: str) -> None:
        """Store a text under a key."""
        if key == schema.VERSION_KEY:
            raise UserError(f"the key {key!r} is reserved for the version of the tables: give another key")
        with self._begin_write() as tx:
            tx.execute(
                "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                (check_name("key", key), check_text("value", value)),
            )

    def set_default_meta(self, key: str, value: str) -> str:
        """Store a text under a key unless it has one; return the stored text."""
        with self._begin_write() as tx:
            tx.execute("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO NOTHING", (key, value))
            return str(tx.query("SELECT value FROM meta WHERE key = ?", (key,))[0][0])

    def drop_meta(self, key: str) -> None:
        """Remove the text under a key."""
        with self._begin_write() as tx:
            tx.execute("DELETE FROM meta WHERE key = ?", (key,))

    # Experiments

    def create_experiment(
        self,
        name: str,
        config: str,
        arms: Sequence[NewArmRow],
        default_arm: int,
        hour: int,
        admin: AdminRequest | None = None,
    ) -> ExperimentRow:
        """Create an experiment; the first event of its log records how, and the audit trail who."""
        with self._begin_write(exclusive=True) as tx:
            if admin is not None:
                admin.begin(tx)
            if tx.query("SELECT 1 FROM experiment WHERE name = ?", (check_name("experiment name", name),)):
                raise Conflict(f"the experiment {name!r} already exists: give another name", "name_taken")
            row = ExperimentRow(find_last_id(tx) + 1, name, "running", config, 0, 0, default_arm, hour, 0)
            row = changes.create_experiment(tx, row, arms)
            if admin is not None:
                admin.finish(tx, None, row, changes.list_arms(tx, row.id))
            return row

    def list_experiments(self) -> list[ExperimentRow]:
        """Return all experiments, the oldest first."""
        with self._begin_read() as tx:
            return [ExperimentRow(*row) for row in tx.query(f"{changes.SELECT_EXPERIMENT} ORDER BY id")]

    def list_arms(self, experiment: int) -> list[ArmRow]:
        """Return all arms of an experiment by index, including retired ones."""
        with self._begin_read() as tx:
            return changes.list_arms(tx, experiment)

    def change(
        self,
        experiment: int,
        change: Change | Sequence[Change],
        check: changes.Check | None = None,
        admin: AdminRequest | None = None,
    ) -> ExperimentRow:
        """Change an experiment in one or several ways at once, and append an event for each.

        ``check`` gets the experiment and its arms after the change, while they are locked. If it raises, nothing
        changes.
        """
        with self._begin_write(exclusive=admin is not None) as tx:
            if admin is not None:
                admin.begin(tx)
            found = tx.query(f"{changes.SELECT_EXPERIMENT} WHERE id = ?{self.FOR_UPDATE}", (experiment,))
            if not found:
                raise ExperimentDeleted(experiment)
            before = row = ExperimentRow(*found[0])
            if admin is not None:
                admin.check_version(row)
            for each in (change,) if isinstance(change, Change) else change:
                row = changes.apply_change(tx, row, changes.list_arms(tx, experiment), each)
            if check is not None:
                check(row, changes.list_arms(tx, experiment))
            if admin is not None:
                admin.finish(tx, before.config_version, row, changes.list_arms(tx, experiment))
            return row

    # Logs

    def read_events(self, experiment: int, after: int, limit: int) -> list[EventRow]:
        """Return up to ``limit`` events of a log after a sequence number, in order."""

        def read(layout: Layout) -> list[EventRow]:
            with self._begin_read() as tx:
                rows = tx.query(_EVENTS, (experiment, after, limit))
                last = rows[-1][0] if rows else after
                ids = tx.query(_EXPIRES[layout], (experiment, after, last)) if rows else []
            if ids:
                expires: dict[int, int] = dict(ids)
                rows = [(*row[:_EXPIRES_AT], expires.get(row[0]), *row[_EXPIRES_AT + 1 :]) for row in rows]
            return list(map(EventRow._make, rows))

        return self._in_layout(read)

    def read_heads(self) -> dict[int, int]:
        """Return the last sequence number of each log, by experiment, including archived ones."""
        with self._begin_read() as tx:
            return dict(tx.query("SELECT id, seq FROM experiment"))

    def read_status(self) -> StoreStatus:
        """Return the heads of logs that can grow, their last forgotten minute, and the time of the store's clock."""
        select = (
            f"SELECT id, seq, forgotten, now FROM (SELECT {self.NOW} AS now) AS clock "  # noqa: S608 - our own words
            "LEFT JOIN experiment ON experiment.status <> 'archived'"
        )
        with self._begin_read() as tx:
            rows = tx.query(select)
        logs = [row for row in rows if row[0] is not None]
        forgotten = [row[2] for row in logs if row[2] <= MAX_MINUTE]  # a later one is damage
        return StoreStatus({row[0]: row[1] for row in logs}, max(forgotten, default=0), rows[0][3])

    def count_reports(self, experiment: int, since_minute: int, seq: int) -> list[tuple[int, int, int]]:
        """Return the reports up to a sequence number that expire from a minute on: arm, minute, count."""
        rows = self._query_ids(_REPORTS, (experiment, since_minute, seq))
        return [(arm, minute, count) for arm, minute, count in rows]

    def read_questions(self, experiment: int, since_minute: int, seq: int) -> list[tuple[bytes, int]]:
        """Return question and minute of the reports up to a sequence number that expire from a minute on."""
        rows = self._query_ids(_QUESTIONS, (experiment, since_minute, seq))
        return [(question, minute) for question, minute in rows]

    def _query_ids(self, statements: Mapping[Layout, str], parameters: Sequence[Any]) -> list[Row]:
        """Return all rows of a query of ids of reports."""

        def query(layout: Layout) -> list[Row]:
            with self._begin_read() as tx:
                return tx.query(statements[layout], parameters)

        return self._in_layout(query)

    def forget(self, minute: int) -> None:
        """Delete decision ids and visitors that have expired by a minute, and compact the counters of earlier days.

        The first step makes reports that expire by then late for good, whatever a clock says later. So the other steps
        may take their time, and the next call does what an interrupted one has left. Archived experiments take no
        reports: they are left alone once their counters are compacted, since there may be thousands.
        """
        with self._begin_write(exclusive=True) as tx:
            tx.query(f"SELECT id FROM experiment WHERE {_HAS_TIME} ORDER BY id{self.FOR_UPDATE}")  # noqa: S608 - our own words
            tx.execute(f"UPDATE experiment SET forgotten = ? WHERE forgotten < ? AND {_HAS_TIME}", (minute, minute))  # noqa: S608
        self._in_layout(lambda layout: self._forget_ids(layout, minute))
        with self._begin_write() as tx:
            tx.execute("DELETE FROM visitor WHERE expires <= ?", (minute,))
        self._compact_counters(minute)

    def _forget_ids(self, layout: Layout, minute: int) -> None:
        """Delete expired ids, a few at a time: other processes write in between."""
        if layout is not Layout.SHARED:
            while self._forget_some(_EXPIRED, _DELETE_ID, (minute,)) == IDS_AT_ONCE:
                pass
        if layout is not Layout.CURRENT:
            for experiment in sorted(self.read_heads()):
                while self._forget_some(_OLD_EXPIRED[layout], _EMPTY_ID[layout], (experiment, minute)) == IDS_AT_ONCE:
                    pass

    def _forget_some(self, select: str, forget: str, parameters: Sequence[int]) -> int:
        """Forget a limited number of ids; return how many."""
        with self._begin_read() as tx:
            old = tx.query(select, (*parameters, IDS_AT_ONCE))
        if old:
            with self._begin_write(exclusive=True) as tx:
                tx.execute_many(forget, old)
        return len(old)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


_EVENT_COLUMNS = ", ".join("NULL AS expires" if name == "expires" else name for name in EventRow._fields)
_HAS_TIME = (
    "(status <> 'archived' OR EXISTS (SELECT 1 FROM issued WHERE issued.experiment = experiment.id AND expires > 0))"
)
_EVENTS = f"SELECT {_EVENT_COLUMNS} FROM event WHERE experiment = ? AND seq > ? ORDER BY seq LIMIT ?"  # noqa: S608 - our own names
_EXPIRES_AT = EventRow._fields.index("expires")
_EXPIRES = {
    layout: f"SELECT seq, expires FROM {ids} AS ids WHERE experiment = ? AND seq > ? AND seq <= ?"  # noqa: S608 - our own names
    for layout, ids in IDS.items()
}
_JOINED = {
    layout: f"FROM {ids} AS ids JOIN event ON event.experiment = ids.experiment AND event.seq = ids.seq "
    "WHERE ids.experiment = ?"
    for layout, ids in IDS.items()
}
_REPORTS = {
    layout: f"SELECT event.arm, ids.expires, count(*) {joined} AND ids.expires >= ? AND ids.seq <= ? "
    "AND event.arm IS NOT NULL GROUP BY event.arm, ids.expires"
    for layout, joined in _JOINED.items()
}
_QUESTIONS = {
    layout: f"SELECT event.question, ids.expires {joined} AND ids.expires >= ? AND ids.seq <= ? "
    "AND event.question IS NOT NULL"
    for layout, joined in _JOINED.items()
}
_EXPIRED = "SELECT experiment, decision FROM report_id WHERE expires <= ? LIMIT ?"
_DELETE_ID = "DELETE FROM report_id WHERE experiment = ? AND decision = ?"
_OLD_EXPIRED = {
    Layout.SHARED: "SELECT experiment, seq FROM event WHERE experiment = ? AND expires <= ? LIMIT ?",
    Layout.MOVING: "SELECT experiment, seq FROM event WHERE experiment = ? AND old_expires <= ? LIMIT ?",
}
_EMPTY_ID = {
    Layout.SHARED: "UPDATE event SET decision = NULL, expires = NULL WHERE experiment = ? AND seq = ?",
    Layout.MOVING: "UPDATE event SET old_decision = NULL, old_expires = NULL WHERE experiment = ? AND seq = ?",
}
_REPORT_COLUMNS = ", ".join(f"{'ids' if name in ID_COLUMNS else 'event'}.{name}" for name in NewReport._fields)
_REPORTS_BY_ID = {
    layout: f"SELECT ids.seq, {_REPORT_COLUMNS} {joined} AND ids.decision IN" for layout, joined in _JOINED.items()
}


# Appends whose commit was not acknowledged


def _recover_answers(
    tx: Transaction,
    layout: Layout,
    forgotten: Mapping[int, int],
    reports: Sequence[NewReport],
    before: Mapping[int, int],
) -> list[int] | None:
    """Return the answers of an append of these reports, or None if it was not committed.

    ``forgotten`` has the locked experiments, and ``before`` a sequence number of each log from before the append. An
    append is committed completely or not at all. So if a report is missing that it would have written, it was not
    committed, and the reports that are there are from other processes.
    """
    stored = _find_reports(tx, layout, forgotten, reports)
    on_time = [each for each in reports if each.expires > forgotten.get(each.experiment, each.expires)]
    if not stored or any((each.experiment, each.decision) not in stored for each in on_time):
        return None
    ours = _find_ours(reports, stored, before)
    return [_answer(each, index in ours, stored, forgotten) for index, each in enumerate(reports)]


def _find_reports(
    tx: Transaction, layout: Layout, experiments: Mapping[int, int], reports: Sequence[NewReport]
) -> _Stored:
    """Return the stored reports of the same decisions."""
    stored: _Stored = {}
    for experiment in experiments:
        decisions = list(dict.fromkeys(each.decision for each in reports if each.experiment == experiment))
        for start in range(0, len(decisions), MAX_PARAMETERS - 1):
            some = decisions[start : start + MAX_PARAMETERS - 1]
            for seq, *row in tx.query(f"{_REPORTS_BY_ID[layout]} ({placeholders(some)})", (experiment, *some)):
                report = NewReport(*row)
                stored[experiment, report.decision] = seq, report
    return stored


def _find_ours(reports: Sequence[NewReport], stored: _Stored, before: Mapping[int, int]) -> set[int]:
    """Return the indexes of the reports that were written together: equal, in their order, and without a gap.

    They were the newest when they were written, so they end with the highest number. An equal report that another
    process has sent at the same moment, and that is just before them or alone, is indistinguishable from one of them.
    Then both senders get "accepted", and the report is still counted once.
    """
    firsts: dict[_Key, int] = {}
    for index, report in enumerate(reports):
        firsts.setdefault((report.experiment, report.decision), index)
    newest: dict[int, int] = {}  # the number to expect next, by experiment, from the last report to the first
    for (experiment, _), (seq, _) in stored.items():
        newest[experiment] = max(newest.get(experiment, 0), seq)
    ours = set()
    for key, index in reversed(firsts.items()):
        seq, written = stored.get(key, (0, None))
        if seq == newest.get(key[0]) and seq > before.get(key[0], 0) and written == reports[index]:
            ours.add(index)
            newest[key[0]] -= 1
    return ours


def _answer(report: NewReport, is_ours: bool, stored: _Stored, forgotten: Mapping[int, int]) -> int:
    key = report.experiment, report.decision
    if key in stored:
        return stored[key][0] if is_ours else DUPLICATE
    return LATE if report.experiment in forgotten else UNKNOWN
