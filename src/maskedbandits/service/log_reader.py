"""The log reader: the one thread of a process that reads the logs of all experiments and applies new events.

There is no leader. Any process appends to the logs, and each applies them, in order, to its own states. A new process
starts from a snapshot. One that dies loses only what it had not acknowledged. Archived experiments are not followed:
``archive.py`` opens one when somebody asks for it. The reader polls the store several times a second, with one query
for all experiments, because notifications of databases get lost behind poolers, and take locks. An experiment that
cannot be followed, as when memory runs out, is quarantined and tried again every minute, while the others go on. So is
one whose policy is new to this machine, until it is compiled. Some work is done every second (counts of decisions
issued and reports refused) or every minute (snapshots; deleting expired ids).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from maskedbandits.contextual import Contextual
from maskedbandits.errors import UserError
from maskedbandits.service import recovery
from maskedbandits.service.clock import Clock
from maskedbandits.service.compaction import Compactor
from maskedbandits.service.config import StoredConfig, find_fault, find_log_mismatch
from maskedbandits.service.experiment import LiveExperiment
from maskedbandits.service.group_experiment import GroupExperiment
from maskedbandits.service.pending import PendingReports
from maskedbandits.service.server import logging
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.server.warmup import CodeLoader, list_code
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store, StoreUnavailable
from maskedbandits.service.storage.models import ExperimentRow, SnapshotHead, StoreStatus

MIN_PAUSE_S = 0.02  # between two rounds when this process has just written
SECOND, MINUTE = 1.0, 60.0
EVENTS_AT_ONCE = 5_000
TURN, TURN_S = 10, 1e-4  # experiments, after which the thread that decides gets its turn
DELETIONS_AT_ONCE = 5  # batches of rows of one deleted experiment in a second


class Quarantined(NamedTuple):
    """An experiment that is not followed now: its name, the decisions it has issued, and when it is tried again."""

    name: str
    pending: PendingReports | None
    until: float
    has_failed: bool = True  # False: its policy is being compiled


class LogReader:
    """Follows the logs of all experiments."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        process: str,
        clock: Clock,
        settings: Settings,
        code_loader: CodeLoader,
        store_outage: logging.Outage | None = None,
    ) -> None:
        self.process, self.clock, self.settings, self.code_loader = process, clock, settings, code_loader
        self.by_name: dict[str, LiveExperiment] = {}
        self.by_id: dict[int, LiveExperiment] = {}
        self.quarantined: dict[int, Quarantined] = {}  # by id
        self.trouble: Exception | None = None  # why it does not follow now
        self.rounds = 0  # complete passes over all logs
        self.read_at = 0.0  # unix seconds of the last one
        self._store_outage = store_outage or logging.build_store_outage()
        self.log_outage = logging.Outage("following the log failed", "following the log goes on")
        self._refused: dict[tuple[int, str, int], int] = {}
        self.closed: set[int] = set()  # ids of experiments that were archived since the start
        self._maintained: dict[int, int] = {}  # by id: the last event when a snapshot was last due
        self._refused_lock = threading.Lock()
        self._open_store = open_store
        self._store: Store | None = None
        self._news, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="maskedbandits-log-reader", daemon=True)
        self._next_second = self._next_minute = 0.0
        self.compactor = Compactor(open_store, process, clock, settings.retention_days, code_loader)

    def start(self) -> None:
        """Read all logs, then follow them in a thread."""
        self._follow()
        if self._stopping.is_set():
            self.store.close()
        else:
            self._thread.start()
            self.compactor.start()

    def stop(self) -> None:
        """Write counts and snapshots, and stop."""
        self._stopping.set()
        self._news.set()
        self.compactor.stop()
        if self._thread.is_alive():
            self._thread.join()

    def close(self) -> None:
        """Close the connection of a reader that was never started."""
        if self._store is not None:
            self._store.close()

    def wake(self) -> None:
        """Read the logs soon, because something was written."""
        self._news.set()

    def last_seq(self, experiment_id: int) -> int:
        """Return the number of the last event that was read of an experiment."""
        experiment = self.by_id.get(experiment_id)
        return 0 if experiment is None else experiment.state.seq

    def count_refused(self, experiment_id: int, reason: str) -> None:
        """Count a report that was refused; nothing else is stored of it."""
        key = experiment_id, reason, self.clock.minute() // 60 * 60  # the store has no time finer than an hour
        with self._refused_lock:
            self._refused[key] = self._refused.get(key, 0) + 1

    @property
    def store(self) -> Store:
        """The connection of this thread."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    # The thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._news.wait(self.settings.poll)
            time.sleep(MIN_PAUSE_S)
            self._news.clear()
            self.rounds += self._try(self._follow)
        self._try(self._finish)
        if self._store is not None:
            self._store.close()

    def _try(self, work: Callable[[], None]) -> bool:
        """Do some work with the store, and tell whether it succeeded; trouble is logged once, until it passes."""
        try:
            work()
        except StoreUnavailable as gone:
            self._pause(gone, self._store_outage)
        except Exception as error:  # decisions must go on in any case
            self._pause(error, self.log_outage)
        else:
            self.trouble = None
            for outage in (self._store_outage, self.log_outage):
                outage.end("log reader")
            return True
        return False

    def _pause(self, error: Exception, outage: logging.Outage) -> None:
        outage.begin("log reader", reason=str(error), kind=logging.kind_of(error))
        self.trouble = error
        self._stopping.wait(SECOND)

    def _follow(self) -> None:
        """Apply new events, and do the work that is due."""
        status = self.store.read_status()
        self._set_clock(status)
        for experiment_id, seq in status.heads.items():
            self._follow_one(experiment_id, seq)
        for experiment_id in [each for each in (*self.by_id, *self.quarantined) if each not in status.heads]:
            self._close(experiment_id)
        self.read_at = time.time()
        if self._stopping.is_set():  # the last counts are written at the end
            return
        now = time.monotonic()
        if now >= self._next_second:
            self._next_second = now + SECOND
            self._do_each_second()
        if now >= self._next_minute:
            self._next_minute = now + MINUTE
            self._do_each_minute()

    def _follow_one(self, experiment_id: int, seq: int) -> None:
        """Open an experiment, or apply its new events; quarantine it if that fails."""
        experiment, quarantined = self.by_id.get(experiment_id), self.quarantined.get(experiment_id)
        if quarantined is not None and time.monotonic() < quarantined.until:
            return
        if experiment is None and self._stopping.is_set():  # a long log would be read for nothing
            return
        if experiment is not None and seq <= experiment.state.seq:
            return
        try:
            self._open(experiment_id) if experiment is None else self._catch_up(experiment)
        except StoreUnavailable:
            raise
        except Exception as error:  # of this experiment alone
            self._quarantine(experiment_id, error)

    def _close(self, experiment_id: int) -> None:
        """Stop following an experiment that is archived or deleted; write its last counts and state first."""
        experiment = self.by_id.get(experiment_id)
        try:
            if experiment is not None and self.store.find_experiment(experiment_id) is not None:
                self._catch_up(experiment)
                self._flush_issued_of([experiment])
                self._write_snapshot(experiment, 1)
        except StoreUnavailable:
            raise
        except Exception as error:  # of this experiment alone
            logging.fault("an archived experiment has no last snapshot", error, experiment=experiment_id)
        self.quarantined.pop(experiment_id, None)
        self._maintained.pop(experiment_id, None)
        self.closed.add(experiment_id)
        if experiment is not None:
            del self.by_id[experiment_id]
            self.by_name = {name: each for name, each in self.by_name.items() if each is not experiment}
            logging.event("experiment is not followed any more", experiment=experiment.name, seq=experiment.state.seq)

    def _set_clock(self, status: StoreStatus) -> None:
        """Follow the store's clock, and never be behind the last minute that any process has forgotten.

        A report whose id may have been forgotten is late for good, or it could be counted twice. So if another process
        is ahead, tokens by an earlier clock would be late before their use.
        """
        if status.now is not None:
            self.clock.follow(status.now)
        self.clock.advance_to(60.0 * status.forgotten)

    def _quarantine(self, experiment_id: int, error: Exception) -> None:
        """Go on without an experiment. Some new events may be applied already, so it has to be opened again."""
        experiment, before = self.by_id.pop(experiment_id, None), self.quarantined.get(experiment_id)
        name = self._find_name(experiment_id) if experiment is None else experiment.name
        self.by_name.pop(name, None)
        pending = experiment.pending if experiment is not None else None if before is None else before.pending
        self.quarantined[experiment_id] = Quarantined(name, pending, time.monotonic() + MINUTE)
        if before is None or not before.has_failed:
            reason = {"reason": str(error)} if isinstance(error, UserError) else {}
            logging.fault("experiment is set aside", error, experiment=name, **reason)

    def _find_name(self, experiment_id: int) -> str:
        row = self.store.find_experiment(experiment_id)
        return "" if row is None else row.name

    def _for_each(
        self, work: Callable[[LiveExperiment], None], experiments: Sequence[LiveExperiment] | None = None
    ) -> None:
        """Do some work for each experiment, or for some; quarantine those for which it fails."""
        for index, experiment in enumerate([*self.by_id.values()] if experiments is None else experiments):
            if index % TURN == TURN - 1:
                time.sleep(TURN_S)
            try:
                work(experiment)
            except StoreUnavailable:
                raise
            except Exception as error:  # of this experiment alone
                self._quarantine(experiment.id, error)

    # Experiments

    def _read_row(self, experiment_id: int) -> ExperimentRow:
        row = self.store.find_experiment(experiment_id)
        if row is None:
            raise UserError(f"experiment {experiment_id} was deleted")
        return row

    def _open(self, experiment_id: int) -> None:
        """Follow an experiment, unless its policy has to be compiled first."""
        row = self.read_sound_row(experiment_id)
        pending = self._restore_pending(experiment_id)
        if not self.code_loader.has(list_code(StoredConfig.decode(row.config))):  # it would be slow
            self.quarantined[experiment_id] = Quarantined(row.name, pending, time.monotonic() + SECOND, False)
            return
        experiment = self.load(experiment_id, pending)
        if experiment is None:
            return
        experiment.load_reported(self.store)
        self._merge_remote([experiment], lambda experiment: 0)
        self.by_id[experiment_id] = self.by_name[experiment.name] = experiment
        self.quarantined.pop(experiment_id, None)
        logging.event("experiment is live", experiment=experiment.name, seq=experiment.state.seq)

    def read_sound_row(self, experiment_id: int) -> ExperimentRow:
        """Return the row of an experiment; raise an error if its configuration is damaged."""
        row = self._read_row(experiment_id)
        if (fault := find_fault(row, self.store.list_arms(experiment_id))) is not None:
            raise UserError(fault)
        return row

    def load(self, experiment_id: int, pending: PendingReports | None = None) -> LiveExperiment | None:
        """Return an experiment from its last valid snapshot and the events after it; None if the service stops."""
        state = self._load_snapshot(self._read_row(experiment_id))
        while (events := self.store.read_columns(experiment_id, state.seq, recovery.EVENTS_AT_ONCE)).size:
            if self._stopping.is_set():
                return None
            if events.seq[0] != state.seq + 1 and recovery.has_lost_events(self.store, experiment_id, state.seq):
                state = self._load_snapshot(self._read_row(experiment_id))  # which is newer: it covers the lost ones
            else:
                state.apply_columns(events)
        row, arms = self._read_row(experiment_id), self.store.list_arms(experiment_id)  # an arm may be new
        if (fault := find_log_mismatch(row, arms, state.any_policy)) is not None:
            raise UserError(fault)
        kind = GroupExperiment if isinstance(state.any_policy, Contextual) else LiveExperiment
        return kind(row, arms, state, self.clock, pending)

    def load_archived(self, experiment_id: int) -> LiveExperiment | None:
        """Return an archived experiment, and write a snapshot of it unless there is one."""
        self.read_sound_row(experiment_id)
        experiment = self.load(experiment_id)
        if experiment is not None:
            self._write_snapshot(experiment, 1)
        return experiment

    def _restore_pending(self, experiment_id: int) -> PendingReports | None:
        """Return the counts of a quarantined experiment; its reports are counted again."""
        pending = self.quarantined[experiment_id].pending if experiment_id in self.quarantined else None
        if pending is not None:
            pending.forget_reports()
        return pending

    def _load_snapshot(self, row: ExperimentRow) -> ExperimentState:
        def log_fault(head: SnapshotHead, fault: UserError) -> None:  # if the events are there, it only costs time
            logging.event("snapshot is not used", experiment=row.id, seq=head.seq, reason=str(fault))

        return recovery.load_newest(self.store, row, log_fault)

    def _catch_up(self, experiment: LiveExperiment) -> None:
        while events := self.store.read_events(experiment.id, experiment.state.seq, EVENTS_AT_ONCE):
            has_changes = any(event.kind != "report" for event in events)
            if has_changes:  # names of new arms are needed before the arms can be chosen
                experiment.apply_row(self._read_row(experiment.id), self.store.list_arms(experiment.id))
            experiment.apply_events(events)
            if has_changes:
                experiment.apply_row(self._read_row(experiment.id), self.store.list_arms(experiment.id))

    # Work that is done now and then

    def _do_each_second(self) -> None:
        self._flush_issued()
        self._flush_refused()
        self._merge_remote([*self.by_id.values()], lambda experiment: experiment.recent_expiry())
        self._delete_some()

    def _delete_some(self) -> None:
        """Delete some rows of deleted experiments. A few batches at a time, so that nothing else waits."""
        minute = self.clock.minute()
        for experiment_id in self.store.list_deleted():
            for _ in range(DELETIONS_AT_ONCE):
                if self._stopping.is_set() or not self.store.delete_rows(experiment_id, minute):
                    break

    def _merge_remote(self, experiments: Sequence[LiveExperiment], find_since: Callable[[LiveExperiment], int]) -> None:
        """Read the decisions of other processes that expire from a minute on; policies then expect all open ones.

        Every second that is the recent ones. Older counts hardly ever change, and are read every minute.
        """
        since: dict[int, int] = {}
        now = self.clock.minute()

        def note(experiment: LiveExperiment) -> None:
            since[experiment.id] = max(find_since(experiment), now)

        def merge(experiment: LiveExperiment) -> None:
            if experiment.id in since:
                experiment.pending.merge_remote(rows.get(experiment.id, []), since[experiment.id])
                experiment.sync_pending()

        self._for_each(note, experiments)
        rows = self.store.list_issued_since(since, self.process)
        self._for_each(merge, experiments)

    def _flush_issued(self) -> None:
        try:
            self._flush_issued_of([*self.by_id.values()])
        except StoreUnavailable:
            raise
        except Exception:  # of one experiment: one at a time shows which
            self._for_each(lambda experiment: self._flush_issued_of([experiment]))

    def _flush_issued_of(self, experiments: Sequence[LiveExperiment]) -> None:
        taken: list[tuple[LiveExperiment, list[tuple[int, int, int]]]] = []
        try:
            for experiment in experiments:
                taken.append((experiment, experiment.pending.take_unflushed()))
            rows = [(experiment.id, *row) for experiment, each in taken for row in each]
            if rows:
                self.store.set_issued(self.process, rows)
        except BaseException:
            for experiment, each in taken:
                experiment.pending.restore_unflushed(each)
            raise
        for experiment, each in taken:
            experiment.pending.mark_flushed(each)

    def _flush_refused(self) -> None:
        with self._refused_lock:
            rows, self._refused = self._refused, {}
        try:
            if rows:
                self.store.count_refused([(*key, count) for key, count in rows.items()])
        except BaseException:
            with self._refused_lock:
                for key, count in rows.items():
                    self._refused[key] = self._refused.get(key, 0) + count
            raise

    def _do_each_minute(self) -> None:
        minute = self.clock.minute()
        self.store.forget(minute)
        self.store.forget_replies(minute)

        def maintain(experiment: LiveExperiment) -> None:
            experiment.note_settled(experiment.pending.forget(minute))
            if self._maintained.get(experiment.id) != experiment.state.seq:
                self._maintained[experiment.id] = experiment.state.seq
                self._write_snapshot(experiment, self.settings.snapshot_every)

        self._for_each(maintain)
        self._merge_remote([*self.by_id.values()], lambda experiment: 0)

    def _write_snapshot(self, experiment: LiveExperiment, every: int) -> None:
        """Write a snapshot, unless some process has written one less than ``every`` events ago."""
        stored = self.store.list_states(experiment.id)
        known = [head.seq for head in stored if head.kernel in (recovery.SNAPSHOT_KERNEL, recovery.BASE_KERNEL)]
        if experiment.state.seq - max(known, default=0) < every:
            return
        try:
            seq, body, digest = experiment.state.snapshot()
        except MemoryError as error:  # only the next start takes longer
            logging.fault("snapshot is not written", error, experiment=experiment.name)
        else:
            self.store.save_snapshot(experiment.id, seq, recovery.SNAPSHOT_KERNEL, body, digest)

    def _finish(self) -> None:
        self._follow()
        self._flush_issued()
        self._flush_refused()
        self._for_each(lambda experiment: self._write_snapshot(experiment, 1))
