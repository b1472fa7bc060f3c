"""A check of an exported file against the log, also after its events were removed.

The store keeps the running hash of a log (``log_hash.py``) at the end of each export, and wherever retention has cut
the log. It can compute the hash at later events. A file is confirmed up to the last event at which its hash is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from maskedbandits.errors import UserError
from maskedbandits.service.config import DAMAGE
from maskedbandits.service.evaluation.export import EXPECTED, read_export
from maskedbandits.service.evaluation.log import BASE_EVENT
from maskedbandits.service.event_columns import EventColumns
from maskedbandits.service.log_hash import LogHash, read_detail
from maskedbandits.service.recovery import hash_log, load_oldest
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import EventRow, ExperimentRow
from maskedbandits.service.storage.retention import LOG_HASH

EVENTS_AT_ONCE = 5_000


class ExportCheck(NamedTuple):
    """The result of a check: the file has events first to last, and is confirmed up to one of them."""

    first: int
    last: int
    confirmed: int


class _KnownHashes:
    """The hashes of a log that its store has or can compute."""

    def __init__(self, store: Store, row: ExperimentRow) -> None:
        self._store, self._row = store, row
        self.stored = dict(store.list_snapshots(row.id, LOG_HASH))
        self._computed = load_oldest(store, row).log_hash

    def get(self, seq: int) -> str | None:
        """Return the hash after an event, if it is known; events must be asked for in order."""
        if self._computed.start == 0 and self._computed.seq <= seq <= self._row.seq:
            self._computed = hash_log(self._store, self._row, seq, self._computed)
            if self._computed.seq == seq:
                return self._computed.value
        return self.stored.get(seq)


def check_export(store: Store, row: ExperimentRow, file: Path) -> ExportCheck:
    """Compare an exported file with the log.

    Parameters
    ----------
    store
        The store of the service.
    row
        The experiment that the file is from.
    file
        A file written by `maskedbandits export`.

    Returns
    -------
    ExportCheck
        The events in the file, and the last one that is confirmed.

    Raises
    ------
    UserError
        If the file differs from the log, or nothing is known about its events.

    """
    known = _KnownHashes(store, row)
    events = iter(read_export(file, is_exact=True))
    first = next(events, None)
    if first is None:
        raise UserError(f"{file}: has no events: {EXPECTED}")
    log_hash = _begin(file, first, known)
    start, confirmed = log_hash.seq, log_hash.seq
    rest: Iterable[EventRow] = events if first.kind == BASE_EVENT else _prepend(first, events)
    rest = iter(rest)
    stops = sorted(seq for seq in known.stored if seq > start)
    while some := list(islice(rest, _count_up_to(stops, log_hash.seq))):
        _add(file, log_hash, some)
        value = known.get(log_hash.seq) if log_hash.seq in stops else None
        if value is not None:
            confirmed = _compare(file, row, log_hash, value)
    if log_hash.seq > row.seq:
        raise UserError(f"{file}: has event {log_hash.seq}, and the log of {row.name} ends at {row.seq}: {EXPECTED}")
    if (value := known.get(log_hash.seq)) is not None:
        confirmed = _compare(file, row, log_hash, value)
    if confirmed == start and log_hash.seq > start:
        what = f"no hash of the log up to event {log_hash.seq} or before is known"
        raise UserError(f"{file}: cannot be checked, because {what}: check an export that ends later")
    return ExportCheck(start + 1, log_hash.seq, confirmed)


def _begin(file: Path, first: EventRow, known: _KnownHashes) -> LogHash:
    """Return the hash before the first event of a file."""
    if first.kind != BASE_EVENT:
        return LogHash()
    try:
        value = str(read_detail(first.detail)["hash"])
        log_hash = LogHash(0, first.seq, bytes.fromhex(value))
    except DAMAGE:
        raise UserError(f"{file}: its first row lacks the hash of the log: {EXPECTED}") from None
    if known.stored.get(first.seq) != value:
        raise UserError(f"{file}: differs from the log: its first row is not the beginning that the log had")
    return log_hash


def _prepend(first: EventRow, events: Iterable[EventRow]) -> Iterable[EventRow]:
    yield first
    yield from events


def _count_up_to(stops: list[int], seq: int) -> int:
    """Return how many events to read at once, so that none of the stops is passed."""
    return min(EVENTS_AT_ONCE, next((stop - seq for stop in stops if stop > seq), EVENTS_AT_ONCE))


def _add(file: Path, log_hash: LogHash, events: list[EventRow]) -> None:
    for number, event in enumerate(events, log_hash.seq + 1):
        if event.seq != number:
            raise UserError(f"{file}: differs from the log: event {number} is missing, or not in order")
    try:
        log_hash.add(EventColumns.from_rows(events))
    except DAMAGE:
        what = f"one of the events {events[0].seq} to {events[-1].seq} is not possible"
        raise UserError(f"{file}: differs from the log: {what}") from None


def _compare(file: Path, row: ExperimentRow, log_hash: LogHash, value: str) -> int:
    if log_hash.value != value:
        raise UserError(
            f"{file}: differs from the log of {row.name} at event {log_hash.seq} or before: do not rely on it"
        )
    return log_hash.seq
