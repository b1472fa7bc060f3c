"""Where a state begins: with the newest snapshot that is valid, or with the first event of the log.

Both need the events that follow. Older ones may have been removed (``compaction.py``), because a snapshot covers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from maskedbandits.errors import UserError
from maskedbandits.service.event_columns import REMOVED_MEANWHILE, EventColumns, find_gap
from maskedbandits.service.log_hash import LogHash
from maskedbandits.service.snapshots import FOLD_VERSION
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import ExperimentRow, SnapshotHead
from maskedbandits.service.storage.retention import BASE, LOG_HASH

EVENTS_AT_ONCE = 20_000
SNAPSHOT_KERNEL = f"fold-{FOLD_VERSION}"
BASE_KERNEL = f"{BASE}{FOLD_VERSION}"

OnFault = Callable[[SnapshotHead, UserError], None]


class DamagedError(UserError):
    """A log that cannot be replayed."""


class MissingSnapshotError(UserError):
    """A snapshot that another process has deleted meanwhile."""


def ignore_fault(head: SnapshotHead, fault: UserError) -> None:
    """Ignore that a snapshot cannot be used: the log is the truth."""


def load_snapshot(store: Store, experiment: int, head: SnapshotHead) -> ExperimentState:
    """Return the state in a snapshot; raise an error if it cannot be used."""
    row = store.read_snapshot(experiment, head.kernel, head.seq)
    if row is None or row.seq != head.seq:
        raise MissingSnapshotError("a snapshot has been replaced by newer ones: try again")
    return ExperimentState.from_snapshot(row.body, row.seq, row.sha256)


def load_newest(store: Store, row: ExperimentRow, on_fault: OnFault = ignore_fault) -> ExperimentState:
    """Return the state from which a process follows a log with the least work."""
    first = store.read_first(row.id)  # before the snapshots: events are removed after theirs is stored
    return _load_first_valid(store, row, first, store.list_states(row.id), on_fault)


def load_oldest(store: Store, row: ExperimentRow, on_fault: OnFault = ignore_fault) -> ExperimentState:
    """Return the state from which all events that are there follow: an empty one if the log is complete."""
    first = store.read_first(row.id)
    if first == 1:
        return ExperimentState()
    return _load_first_valid(store, row, first, store.list_states(row.id)[::-1], on_fault)


def _load_first_valid(
    store: Store, row: ExperimentRow, first: int | None, heads: list[SnapshotHead], on_fault: OnFault
) -> ExperimentState:
    """Return the first of some snapshots that can be used, or the state before the first event."""
    reasons = []
    least = row.seq if first is None else first - 1  # older snapshots are followed by a gap
    for head in heads:
        if head.seq < least:
            continue
        try:
            state = load_snapshot(store, row.id, head)
        except UserError as fault:
            on_fault(head, fault)
            reasons.append(str(fault))
        else:
            if state.log_hash.start and first == 1:  # of a release that had no hash
                state.log_hash = hash_log(store, row, state.seq)
            return state
    if least > 0:
        what = f"events 1 to {least} are not there, and no valid snapshot covers them"
        raise DamagedError(f"{row.name}: {what}: {reasons[0] if reasons else 'restore a backup'}")
    return ExperimentState()


def hash_log(store: Store, row: ExperimentRow, end: int, log_hash: LogHash | None = None) -> LogHash:
    """Return the running hash of a log up to an event."""
    found = LogHash() if log_hash is None else log_hash
    for events in read_all(store, row, found.seq, end):
        found.add(events)
    return found


def save_log_hash(store: Store, row: ExperimentRow) -> str | None:
    """Store the hash of a log, to check an export of it with later; return None if the hash is not known."""
    begin = load_oldest(store, row).log_hash
    if begin.start:
        return None
    value = hash_log(store, row, row.seq, begin).value
    store.save_snapshot(row.id, row.seq, LOG_HASH, b"", value)
    return value


def has_lost_events(store: Store, experiment: int, after: int) -> bool:
    """Tell whether the log now begins after the event that follows another one."""
    first = store.read_first(experiment)
    return first is not None and first > after + 1


def read_all(store: Store, row: ExperimentRow, after: int, end: int) -> Iterator[EventColumns]:
    """Yield the events of a log after one and up to another, as long as there are some."""
    while after < end:
        events = store.read_columns(row.id, after, min(EVENTS_AT_ONCE, end - after))
        if not events.size:
            return
        if (fault := find_gap(events, after)) is not None:
            if has_lost_events(store, row.id, after):
                raise UserError(f"{row.name}: {REMOVED_MEANWHILE}")
            raise DamagedError(f"{row.name}: {fault}")
        yield events
        after += events.size
