"""The one thread of a process that reads: it follows the log of every experiment and folds what is new.

There is no leader. Any process appends to the log, and each folds it, in order, into states of its own; one that comes
later starts from a snapshot, and one that dies leaves nothing behind but what it had not acknowledged. The store is
asked some times a second how far the logs have come: notices that databases send get lost behind poolers, and take
locks. An experiment that cannot be followed, as when memory runs out, is set aside and tried again every minute; the
others go on. So is one whose policy is new to this machine, until it is compiled. What can wait is done every second
(how many decisions were issued, how many reports refused) and every minute (snapshots; ids that have expired are
forgotten).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from maskedbandits.contextual import Contextual
from maskedbandits.errors import UserError
from maskedbandits.service.clock import Clock
from maskedbandits.service.config import Terms, fault_beside, fault_of
from maskedbandits.service.experiment import Live
from maskedbandits.service.group_experiment import GroupsLive
from maskedbandits.service.pending import Pending
from maskedbandits.service.server import logging
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.server.warmup import Warming, needed_by
from maskedbandits.service.state import Fold, kernel
from maskedbandits.service.storage import Store, StoreUnavailable
from maskedbandits.service.storage.models import ExperimentRow, StoreStatus

LEAST = 0.02  # seconds between two looks at the log when this process has just written
SECOND, MINUTE = 1.0, 60.0
AT_ONCE = 5_000  # events


class Aside(NamedTuple):
    """An experiment that is not followed now: its name, what this process has issued, and when it is tried again."""

    name: str
    pending: Pending | None
    until: float
    has_failed: bool = True  # or its policy is being compiled


class Follower:
    """Follows the logs; ``lives`` are the experiments, by their names."""

    def __init__(
        self, open_store: Callable[[], Store], process: str, clock: Clock, settings: Settings, warming: Warming
    ) -> None:
        self.process, self.clock, self.settings, self.warming = process, clock, settings, warming
        self.lives: dict[str, Live] = {}
        self.trouble: Exception | None = None  # why it does not follow now
        self.looks = 0  # at the logs, from beginning to end
        self.by_id: dict[int, Live] = {}
        self.aside: dict[int, Aside] = {}  # experiments that cannot be followed now
        self._refused: dict[tuple[int, str, int], int] = {}
        self._refusing = threading.Lock()
        self._open_store = open_store
        self._store: Store | None = None
        self._news, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="maskedbandits-follower", daemon=True)
        self._next_second = self._next_minute = 0.0

    def start(self) -> None:
        """Read everything that there is, then go on following."""
        self._follow()
        if self._stopping.is_set():
            self.store.close()
        else:
            self._thread.start()

    def stop(self) -> None:
        """Write down what others and the next start should know, and end."""
        self._stopping.set()
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Look at the log soon: something was written."""
        self._news.set()

    def seq_of(self, experiment: int) -> int:
        """Return up to which number the log of an experiment has been read."""
        live = self.by_id.get(experiment)
        return 0 if live is None else live.fold.seq

    def refuse(self, experiment: int, reason: str) -> None:
        """Count a report that was refused; nothing else is kept of it."""
        key = experiment, reason, self.clock.minute() // 60 * 60  # the store has no finer time than an hour
        with self._refusing:
            self._refused[key] = self._refused.get(key, 0) + 1

    @property
    def store(self) -> Store:
        """The connection of this thread."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._news.wait(self.settings.poll)
            time.sleep(LEAST)
            self._news.clear()
            self.looks += self._try(self._follow)
        self._try(self._at_the_end)
        if self._store is not None:
            self._store.close()

    def _try(self, work: Callable[[], None]) -> bool:
        """Do something with the store, and tell whether that was possible; trouble is said once, and passes."""
        try:
            work()
        except StoreUnavailable as gone:
            self._say(gone, "store is gone")
        except Exception as error:  # whatever it is, the others who decide must not stop
            self._say(error, "following the log failed")
        else:
            self.trouble = None
            return True
        return False

    def _say(self, error: Exception, what: str) -> None:
        if self.trouble is None:
            logging.event(what, reason=str(error), kind=logging.kind_of(error))
        self.trouble = error
        self._stopping.wait(SECOND)

    def _follow(self) -> None:
        """Fold what is new, and do what is due."""
        standing = self.store.read_status()
        self._set_clock(standing)
        for experiment, seq in standing.heads.items():
            live, aside = self.by_id.get(experiment), self.aside.get(experiment)
            if aside is not None and time.monotonic() < aside.until:
                continue
            if live is None and self._stopping.is_set():  # a long log would be read for nobody
                continue
            if live is None or seq > live.fold.seq:
                try:
                    self._enter(experiment) if live is None else self._catch_up(live)
                except StoreUnavailable:
                    raise
                except Exception as error:  # of this experiment alone
                    self._set_aside(experiment, error)
        if self._stopping.is_set():  # what is to be written at the end comes then
            return
        now = time.monotonic()
        if now >= self._next_second:
            self._next_second = now + SECOND
            self._each_second()
        if now >= self._next_minute:
            self._next_minute = now + MINUTE
            self._each_minute()

    def _set_clock(self, standing: StoreStatus) -> None:
        """Go by the store's clock; and never be behind what any process has forgotten.

        A report whose id may have been forgotten is late for good, or it could be counted twice. So where another
        process is ahead, tokens by an earlier time would be late before they have been used.
        """
        if standing.now is not None:
            self.clock.go_by(standing.now)
        self.clock.not_before(60.0 * standing.forgotten)

    def _set_aside(self, experiment: int, error: Exception) -> None:
        """Go on without an experiment; half of what was new may be folded, so that it has to be entered anew."""
        live, before = self.by_id.pop(experiment, None), self.aside.get(experiment)
        name = self._row(experiment).name if live is None else live.name
        self.lives.pop(name, None)
        pending = live.pending if live is not None else None if before is None else before.pending
        self.aside[experiment] = Aside(name, pending, time.monotonic() + MINUTE)
        if before is None or not before.has_failed:
            reason = {"reason": str(error)} if isinstance(error, UserError) else {}
            logging.fault("experiment is set aside", error, experiment=name, **reason)

    def _for_each(self, work: Callable[[Live], None]) -> None:
        """Do something for each experiment; one for which it fails is set aside."""
        for live in [*self.by_id.values()]:
            try:
                work(live)
            except StoreUnavailable:
                raise
            except Exception as error:  # of this experiment alone
                self._set_aside(live.id, error)

    def _row(self, experiment: int) -> ExperimentRow:
        return next(row for row in self.store.list_experiments() if row.id == experiment)

    def _enter(self, experiment: int) -> None:
        """Bring an experiment to life: from a snapshot, if there is a sound one, and what came after it."""
        row = self._row(experiment)
        if (fault := fault_of(row, self.store.list_arms(experiment))) is not None:
            raise UserError(fault)
        if not self.warming.has(needed_by(Terms.read(row.config))):  # interpreted, it would keep all others waiting
            self.aside[experiment] = Aside(row.name, self._kept_pending(experiment), time.monotonic() + SECOND, False)
            return
        fold = self._from_snapshot(experiment)
        while events := self.store.read_events(experiment, fold.seq, AT_ONCE):
            if self._stopping.is_set():
                return
            fold.take(events)
        row, arms = self._row(experiment), self.store.list_arms(experiment)  # an arm may have come meanwhile
        if (fault := fault_beside(row, arms, fold.either)) is not None:
            raise UserError(fault)
        kind = GroupsLive if isinstance(fold.either, Contextual) else Live
        live = kind(row, arms, fold, self.clock, self._kept_pending(experiment))
        live.read_reported(self.store)
        self._hear(live, 0)
        self.by_id[experiment] = self.lives[live.name] = live
        self.aside.pop(experiment, None)
        logging.event("experiment is live", experiment=live.name, seq=fold.seq)

    def _kept_pending(self, experiment: int) -> Pending | None:
        """Return what this process has counted of an experiment that was set aside; reports are read anew."""
        pending = self.aside[experiment].pending if experiment in self.aside else None
        if pending is not None:
            pending.forget_reports()
        return pending

    def _from_snapshot(self, experiment: int) -> Fold:
        kept = self.store.read_snapshot(experiment, kernel())
        if kept is None:
            return Fold()
        try:
            return Fold.from_snapshot(kept.body, kept.seq, kept.sha256)
        except UserError as fault:  # the log is the truth: a damaged snapshot costs time and nothing else
            logging.event("snapshot is not used", experiment=experiment, seq=kept.seq, reason=str(fault))
            return Fold()

    def _catch_up(self, live: Live) -> None:
        while events := self.store.read_events(live.id, live.fold.seq, AT_ONCE):
            changed = any(event.kind != "report" for event in events)
            if changed:  # names of new arms are known before they can be chosen
                live.stand(self._row(live.id), self.store.list_arms(live.id))
            live.take(events)
            if changed:
                live.stand(self._row(live.id), self.store.list_arms(live.id))

    def _each_second(self) -> None:
        self._tell_issued()
        self._tell_refused()
        self._for_each(lambda live: self._hear(live, live.newest()))

    def _hear(self, live: Live, since: int) -> None:
        """Hear what other processes have issued that expires from a minute on; the policy awaits what is open of all.

        Every second that is what is new; what is older hardly ever changes, and is heard every minute.
        """
        since = max(since, self.clock.minute())
        live.pending.hear(self.store.list_issued(live.id, since, self.process), since)
        live.await_exactly()

    def _tell_issued(self) -> None:
        try:
            self._tell_issued_of([*self.by_id.values()])
        except StoreUnavailable:
            raise
        except Exception:  # of one experiment: which one, each tells by itself
            self._for_each(lambda live: self._tell_issued_of([live]))

    def _tell_issued_of(self, lives: Sequence[Live]) -> None:
        told: list[tuple[Live, list[tuple[int, int, int]]]] = []
        try:
            for live in lives:
                told.append((live, live.pending.to_tell()))
            rows = [(live.id, *row) for live, each in told for row in each]
            if rows:
                self.store.set_issued(self.process, rows)
        except BaseException:
            for live, each in told:
                live.pending.not_told(each)
            raise
        for live, each in told:
            live.pending.told(each)

    def _tell_refused(self) -> None:
        with self._refusing:
            rows, self._refused = self._refused, {}
        try:
            if rows:
                self.store.count_refused([(*key, count) for key, count in rows.items()])
        except BaseException:
            with self._refusing:
                for key, count in rows.items():
                    self._refused[key] = self._refused.get(key, 0) + count
            raise

    def _each_minute(self) -> None:
        minute = self.clock.minute()
        self.store.forget(minute)

        def tend(live: Live) -> None:
            live.pending.forget(minute)
            self._hear(live, 0)
            self._write_snapshot(live, self.settings.snapshot_every)

        self._for_each(tend)

    def _write_snapshot(self, live: Live, every: int) -> None:
        """Write a snapshot, unless some process has written one not many events ago."""
        kept = self.store.list_snapshots(live.id, kernel())
        if live.fold.seq - max((seq for seq, _ in kept), default=0) < every:
            return
        try:
            seq, body, digest = live.fold.snapshot()
        except MemoryError as error:  # the next start takes longer, and that is all
            logging.fault("snapshot is not written", error, experiment=live.name)
        else:
            self.store.save_snapshot(live.id, seq, kernel(), body, digest)

    def _at_the_end(self) -> None:
        self._follow()
        self._tell_issued()
        self._tell_refused()
        self._for_each(lambda live: self._write_snapshot(live, 1))
