"""Retention: the removal of events that are old, and that a verified snapshot covers.

Nothing is removed before its snapshot has been proved. The events are read and folded, from the snapshot before them
or from the first event. Every snapshot on the way must agree. The new one, the *base*, is stored and read again. From
then on, the log begins with it. Events are removed in small transactions, so that others can write in between. A
process that is killed loses nothing: the next one goes on with the same base.

The log is cut where a block of its running hash ends (``log_hash.py``): between two hours, or after a number of events
that is a multiple of 256. Events with ids that devices may still repeat stay.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maskedbandits.errors import UserError
from maskedbandits.service import snapshots
from maskedbandits.service.clock import Clock
from maskedbandits.service.config import StoredConfig, find_fault
from maskedbandits.service.event_columns import EventColumns
from maskedbandits.service.log_hash import BLOCK
from maskedbandits.service.recovery import BASE_KERNEL, DamagedError, load_oldest, load_snapshot, read_all
from maskedbandits.service.replay import BAD, Claim, Walk, list_claims
from maskedbandits.service.server import logging
from maskedbandits.service.server.warmup import CodeLoader, Names, list_code
from maskedbandits.service.snapshots import OtherFoldError
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store, StoreUnavailable
from maskedbandits.service.storage.models import ExperimentRow, SnapshotHead
from maskedbandits.service.storage.retention import BASE, LOG_HASH

HOURS_PER_DAY = 24
FIRST_WAIT_S, WAIT_S = 60.0, 3600.0
CLAIM, CLAIM_S, RENEW_S = "compaction", 600, 60.0

Tick = Callable[[], None]
Load = Callable[[Names], None]


class StoppedError(Exception):
    """The process stops, or another one has the work now; the next one goes on."""


@dataclass(frozen=True)
class CompactionResult:
    """The effect of a compaction on an experiment."""

    name: str
    removed: int  # events
    first_seq: int  # the oldest event that is kept


def get_cutoff(now: float, days: float) -> int:
    """Return the first hour whose events are kept."""
    return int(now // 3600 - HOURS_PER_DAY * days)


def compact(
    store: Store, row: ExperimentRow, cutoff: int, tick: Tick = lambda: None, load: Load = lambda names: None
) -> CompactionResult:
    """Remove the events of an experiment from before an hour.

    Parameters
    ----------
    store
        The store; others may write to it meanwhile.
    row
        The experiment.
    cutoff
        The first hour, since 1970, whose events are kept.
    tick
        Called between two transactions; it may wait, or raise.
    load
        Called with the names of the code that the policy needs, before events are folded.

    Returns
    -------
    CompactionResult
        How many events were removed, and where the log begins.

    Raises
    ------
    UserError
        If the log or a snapshot is damaged. Then nothing is removed.

    """
    if not store.may_remove_events:
        raise UserError(f"{store.name}: processes of the release before may use it: run maskedbandits upgrade first")
    first = kept = store.read_first(row.id) or row.first_seq  # rows may have been deleted by hand
    unfinished = find_base(store, row, first)
    if unfinished is not None:
        kept = _remove_up_to(store, row, unfinished, tick)
    oldest = store.read_first_hour(row.id)
    if oldest is not None and oldest < cutoff:
        if (fault := find_fault(row, store.list_arms(row.id))) is not None:
            raise DamagedError(fault)
        load(list_code(StoredConfig.decode(row.config)))
        if (base := build_base(store, row, cutoff, tick)) is not None:
            kept = _remove_up_to(store, row, base, tick)
    return CompactionResult(row.name, kept - first, kept)


def _remove_up_to(store: Store, row: ExperimentRow, base: SnapshotHead, tick: Tick) -> int:
    """Remove all events up to a base, and return the first that is kept."""
    load_snapshot(store, row.id, base)  # it will be all that is left
    while store.remove_events(row.id, base.seq):
        tick()
    store.drop_snapshots_before(row.id, base.seq)
    return base.seq + 1


def find_base(store: Store, row: ExperimentRow, first: int) -> SnapshotHead | None:
    """Return a base of a compaction that was interrupted: some of its events, or of earlier snapshots, are there."""
    states = store.list_states(row.id)
    for base in (head for head in states if head.kernel.startswith(BASE)):
        if not (base.seq >= first or any(head.seq < base.seq for head in states)):
            return None
        try:
            load_snapshot(store, row.id, base)
        except OtherFoldError:  # of a later release, which goes on with it
            continue
        return base
    return None


def build_base(store: Store, row: ExperimentRow, cutoff: int, tick: Tick) -> SnapshotHead | None:
    """Store a verified snapshot after the last event that is old; return None if none is."""
    walk = Walk(store, row, load_oldest(store, row))
    end = find_block_end(store, row, min(row.seq, store.read_last_removable(row.id)))
    start, first = walk.state.seq, store.read_first(row.id) or row.seq + 1
    if start >= first and (
        start > end or any((part.hour >= cutoff).any() for part in read_all(store, row, first - 1, start))
    ):
        return None  # a snapshot that is no base covers events that are young, or that may be repeated
    claims = [claim for claim in list_claims(store, row.id) if claim.seq > start]
    for events in read_all(store, row, start, end):
        young = np.flatnonzero(events.hour >= cutoff)
        _walk_past(walk, events.slice(0, int(young[0]) if young.size else events.size), claims)
        tick()
        if young.size:
            break
    if walk.state.seq < first:
        return None
    return save_base(store, row, walk.others[-1] if walk.others else walk.state)  # what processes went on from


def find_block_end(store: Store, row: ExperimentRow, seq: int) -> int:
    """Return the last event up to another after which a block of the running hash ends.

    A cut anywhere else would change the hash of all events after it. If nothing follows the event, the block ends:
    the next event comes in a later hour, because this one is old.
    """
    start = seq // BLOCK * BLOCK
    if seq == start:
        return seq
    events = store.read_columns(row.id, start, seq - start + 1)
    if not events.size or events.seq[-1] <= seq:
        return seq
    ends = np.flatnonzero(events.hour[1:] != events.hour[:-1])
    return int(events.seq[ends[-1]]) if ends.size else start


def _walk_past(walk: Walk, events: EventColumns, claims: list[Claim]) -> None:
    """Apply events, and check the claims about them."""
    start = walk.state.seq
    stops = sorted({claim.seq for claim in claims if start < claim.seq <= start + events.size} | {start + events.size})
    for stop in stops:
        walk.apply(events.slice(walk.state.seq - start, stop - start))
        for claim in claims:
            if claim.seq == stop and walk.judge(claim) in BAD:
                what = f"the {claim.source} at event {stop} contradicts the log, so no event is removed"
                raise DamagedError(f"{walk.row.name}: {what}: run maskedbandits replay, and report the fault")


def save_base(store: Store, row: ExperimentRow, state: ExperimentState) -> SnapshotHead:
    """Store a state as the new beginning of its log, and read it again."""
    contents, digest = state.describe()
    contents.log_hash.end_block()
    value = contents.log_hash.value
    if not contents.log_hash.start:
        store.save_snapshot(row.id, state.seq, LOG_HASH, b"", value)
    store.save_snapshot(row.id, state.seq, BASE_KERNEL, snapshots.encode(contents), digest)
    head = SnapshotHead(state.seq, BASE_KERNEL, digest)
    again = load_snapshot(store, row.id, head)
    if (again.compute_digest()[1], again.log_hash.value, again.terms) != (digest, value, contents.terms):
        raise UserError(f"{row.name}: the snapshot at event {state.seq} was not stored as it is: no event is removed")
    return head


class Turn:
    """The right to compact a store, which one process has at a time; it must be renewed."""

    def __init__(self, store: Store, owner: str, now: Callable[[], float]) -> None:
        self._store, self._owner, self._now = store, owner, now
        self._renew_at = 0.0  # by the monotonic clock

    def take(self) -> bool:
        """Take the turn for the next minutes; tell whether no other process has it."""
        self._renew_at = time.monotonic() + RENEW_S
        now = int(self._now())
        return self._store.claim(CLAIM, self._owner, now, now + CLAIM_S)

    def renew(self) -> None:
        """Keep the turn; raise an error if another process has it by now."""
        if time.monotonic() >= self._renew_at and not self.take():
            raise StoppedError

    def end(self) -> None:
        """Let others have the turn."""
        self._store.claim(CLAIM, self._owner, int(self._now()), 0)


class Compactor:
    """Removes old events in a thread, in one process of the service at a time."""

    def __init__(
        self, open_store: Callable[[], Store], process: str, clock: Clock, days: float, code_loader: CodeLoader
    ) -> None:
        self._open_store, self._process, self._clock, self.days = open_store, process, clock, days
        self._code_loader = code_loader
        self.oldest_at = 0.0  # unix seconds of the oldest event of the store; 0 if it is unknown, or there is none
        self._outage = logging.Outage("old events cannot be removed", "old events can be removed again")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maskedbandits-compactor", daemon=True)

    @property
    def is_running(self) -> bool:
        """Whether the thread is there."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread, unless events are kept for ever."""
        if self.days:
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread; an unfinished removal goes on in the next process."""
        self._stopping.set()
        if self.is_running:
            self._thread.join()

    def _run(self) -> None:
        wait = FIRST_WAIT_S  # a start has more urgent work
        while not self._stopping.wait(wait):
            wait = WAIT_S if self.run_once() else FIRST_WAIT_S

    def run_once(self) -> bool:
        """Do a round; tell whether the store allowed it. Its loss is logged once, until it passes."""
        try:
            with self._open_store() as store:
                if self.compact_all(store):
                    self._outage.end("compactor")
        except StoppedError:
            pass
        except StoreUnavailable as gone:  # its own connection may lack what the log reader's has, such as a right
            self._outage.begin("compactor", reason=gone.reason, kind=logging.kind_of(gone))
            return False
        except Exception as error:  # the next round may succeed
            logging.fault("old events are not removed", error)
        return True

    def compact_all(self, store: Store) -> bool:
        """Compact what is due, unless another process does it or one of the release before may run; tell whether."""
        cutoff = get_cutoff(self._clock.now(), self.days)
        due = self._find_due(store, cutoff)
        turn = Turn(store, self._process, self._clock.now)
        if not due or not store.may_remove_events:
            return True
        if not turn.take():
            return False
        pace = Pace(lambda: self._check(turn))
        try:
            for row in map(store.find_experiment, due):
                self._check(turn)
                if row is not None:
                    self._compact_one(store, row, cutoff, pace)
        except StoppedError:
            turn.end()
            raise
        turn.end()
        self._find_due(store, cutoff)
        return True

    def _find_due(self, store: Store, cutoff: int) -> list[int]:
        """Return the experiments with something to remove, and note how old the oldest event is."""
        oldest, due = store.find_removable(cutoff)
        self.oldest_at = 0.0 if oldest is None else 3600.0 * oldest
        return due

    def _compact_one(self, store: Store, row: ExperimentRow, cutoff: int, pace: Pace) -> None:
        try:
            done = compact(store, row, cutoff, pace.tick, self._load)
        except (StoppedError, StoreUnavailable):
            raise
        except Exception as fault:  # of this experiment alone
            reason = {"reason": str(fault)} if isinstance(fault, UserError) else {}
            logging.fault("old events are not removed", fault, experiment=row.name, **reason)
            return
        if done.removed:
            logging.event("old events are removed", experiment=row.name, removed=done.removed, first_seq=done.first_seq)

    def _load(self, names: Names) -> None:
        """Wait for machine code, without which a fold takes a thousand times as long."""
        if not self._code_loader.wait(names):
            raise StoppedError

    def _check(self, turn: Turn) -> None:
        if self._stopping.is_set():
            raise StoppedError
        turn.renew()


class Pace:
    """Waits as long as the work between two ticks took, so that decisions get the processor as well."""

    def __init__(self, check: Tick) -> None:
        self._check, self._since = check, time.monotonic()

    def tick(self) -> None:
        """Wait, after checking whether to go on."""
        self._check()
        time.sleep(min(1.0, time.monotonic() - self._since))
        self._since = time.monotonic()
