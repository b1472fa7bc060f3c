"""The memory that all workers of a service share: each writes its own part, and any of them reads all parts.

So any worker can answer for the whole service, and a restarted worker continues the counts of its predecessor. A part
is a row of numbers: first the condition of the worker, then the counters of ``metrics.py``. It begins as zeros.
"""

from __future__ import annotations

import mmap
from enum import IntEnum

CONDITIONS = (
    "state",  # a WorkerState
    "restarts",  # by the supervisor
    "store_lost_at",  # unix seconds, 0 while the store can be reached
    "log_failed_at",  # unix seconds, 0 while this worker follows the logs
    "log_read_at",  # unix seconds of the last time that all logs were read to their end
    "oldest_event_at",  # unix seconds of the oldest event of the store, 0 while it is unknown
    "retention_s",  # after which events are removed, 0: never
    "quarantined",  # experiments that cannot be read
    "compiling",  # experiments whose policy is being compiled
    "queued",  # reports that wait to be written
    "cpu_seconds",
    "resident_bytes",
    "open_files",
    "started_at",  # unix seconds
)
CONDITION_INDEX = {name: index for index, name in enumerate(CONDITIONS)}


class WorkerState(IntEnum):
    """The state of a worker. One that is absent has died, and its successor accepts no requests before it is ready."""

    STARTING = 0
    READY = 1
    ABSENT = 2


class WorkerMemory:
    """All parts, with ``size`` counters in each, and the part of one worker."""

    def __init__(self, size: int, shared: mmap.mmap | None = None, worker: int = 0, workers: int = 1) -> None:
        memory = shared if shared is not None else mmap.mmap(-1, count_bytes(size, workers))
        self.worker, self.workers = worker, workers
        self._width = len(CONDITIONS) + size
        self._all = memoryview(memory).cast("d")
        start = worker * self._width
        self.counters = self._all[start + len(CONDITIONS) : start + self._width]

    def sum_counter(self, index: int) -> float:
        """Return the sum of a counter over all workers."""
        return sum(self._all[len(CONDITIONS) + index :: self._width])

    def get(self, name: str, worker: int | None = None) -> float:
        """Return a condition of a worker, by default of this one."""
        return self._all[self._find(name, worker)]

    def get_all(self, name: str) -> list[float]:
        """Return a condition of every worker."""
        return list(self._all[CONDITION_INDEX[name] :: self._width])

    def set(self, name: str, value: float, worker: int | None = None) -> None:
        """Set a condition of a worker, by default of this one."""
        self._all[self._find(name, worker)] = value

    def get_state(self, worker: int) -> WorkerState:
        """Return the state of a worker."""
        return WorkerState(int(self.get("state", worker)))

    def _find(self, name: str, worker: int | None) -> int:
        return (self.worker if worker is None else worker) * self._width + CONDITION_INDEX[name]


def count_bytes(size: int, workers: int) -> int:
    """Return the bytes that all parts take."""
    return 8 * (len(CONDITIONS) + size) * workers


def map_memory(handle: int, size: int, workers: int) -> mmap.mmap:
    """Return the memory behind a file that all workers have open."""
    return mmap.mmap(handle, count_bytes(size, workers))
