"""Processes that remove old events from a log, most of which are killed, and a copy of all events to compare with.

Each process removes the events of earlier hours that nobody may repeat, as retention does. It gets the number of the
last event that has been copied, and removes none after it. It removes few events in a transaction and pauses after
each, so that many kills come in the midst of a removal.
"""

from __future__ import annotations

import multiprocessing
import random
import threading
import time
from functools import partial
from unittest.mock import patch

from services import WorldClock

from maskedbandits.service.compaction import compact, find_base, get_cutoff
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.models import EventRow, ExperimentRow

READ_AT_ONCE = 5_000  # events
REMOVED_AT_ONCE = 50  # events, in a transaction
PAUSE_S = 0.2  # the longest, after each transaction
LIFE_S = 4.0  # the longest of a process, which then is killed; on a busy machine that is too short, so it grows
REST_S = 0.2  # the longest until the next process


def find_experiment(store: Store) -> ExperimentRow:
    """Return the only experiment of a store."""
    (row,) = store.list_experiments()
    return row


class LogCopy:
    """A copy of all events of a log, also of those that are removed later."""

    def __init__(self) -> None:
        self.events: list[EventRow] = []  # without the expiry of their ids, which is dropped one day

    def read_on(self, store: Store, experiment: int) -> None:
        """Copy the events after the last one that was copied."""
        while events := store.read_events(experiment, self.events[-1].seq if self.events else 0, READ_AT_ONCE):
            self.events += [event._replace(expires=None) for event in events]


def remove_old_events(storage: str, last: int, cutoff: int) -> None:
    """Remove what is old among the events up to one, as the service and `maskedbandits compact` do."""
    with open_store(storage) as store:
        few = partial(store.remove_events, limit=REMOVED_AT_ONCE)
        with patch.object(store, "remove_events", few):
            row = find_experiment(store)._replace(seq=last)
            compact(store, row, cutoff, lambda: time.sleep(random.uniform(0.0, PAUSE_S)))


class Removal:
    """A thread that copies events, starts processes that remove old ones, and kills each that has not ended soon."""

    def __init__(self, storage: str, clock: WorldClock) -> None:
        self.copy = LogCopy()
        self.removed = 0  # events
        self.killed = self.interrupted = 0  # processes; of them, in the midst of a removal
        self.faults: list[str] = []
        self._storage, self._clock, self._rng = storage, clock, random.Random()
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(["maskedbandits.service.compaction"])  # it takes a second
        self._longest = LIFE_S
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def begin(self) -> None:
        """Begin; the experiment must exist."""
        self._thread.start()

    def end(self) -> None:
        """Stop at once, perhaps in the midst of a removal."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with open_store(self._storage) as store:
                while not self._ending.is_set():
                    self.copy.read_on(store, find_experiment(store).id)
                    self._run_process(store)
                    self._ending.wait(self._rng.uniform(0.0, REST_S))
        except Exception as error:  # it is printed with the results
            self.faults.append(f"the removal of events ended with {error!r}")

    def _run_process(self, store: Store) -> None:
        last, cutoff = self.copy.events[-1].seq, get_cutoff(self._clock.now(), 0.0)
        process = self._processes.Process(target=remove_old_events, args=(self._storage, last, cutoff))
        process.start()
        process.join(self._rng.uniform(0.0, self._longest))
        was_running = process.exitcode is None
        process.kill()
        process.join()
        row, before = find_experiment(store), self.removed
        self.removed = row.first_seq - 1
        self._longest = self._longest + 1.0 if was_running and self.removed == before else LIFE_S
        if was_running:
            self.killed += 1
            self.interrupted += find_base(store, row, row.first_seq) is not None
        elif process.exitcode:
            self.faults.append("a process that removes events failed: see its traceback above")
