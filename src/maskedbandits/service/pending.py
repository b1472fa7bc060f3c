"""Decisions that still await their report, counted by arm and by the minute in which they expire; there is no row each.

What awaits a report: issued and not yet expired, less reported. Each process counts what it issues and tells the others
through the store every second; what was reported stands in the log. A token that lives for long is counted in coarser
steps, of a 64th of its life, so that there are never many counters.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

STEPS = 64  # into which the life of a token is divided
WRAP = 1 << 24  # minutes are told modulo this in a token's id


def expiry_minute(issued: int, expires: int) -> int:
    """Return the minute by which a token has expired, a multiple of a 64th of its life: the same for all that ask.

    ``issued`` is the minute in which it was issued, perhaps modulo 2^24; ``expires`` is in seconds.
    """
    last = -(-expires // 60)
    life = (last - issued) % WRAP
    step = max(1, life // STEPS)
    return -(-last // step) * step


def missing(issued: Sequence[int], reported: Sequence[int], pending: Sequence[int]) -> list[int]:
    """Return for every arm how many decisions nobody has reported in time: issued, not reported, and not awaited.

    What was issued in the last second may not be counted yet: so there are never less than none.
    """
    return [max(0, sum(each)) for each in zip(issued, (-n for n in reported), (-n for n in pending), strict=True)]


class Pending:
    """Counts of one experiment, as one process knows them; threads may share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.issued: dict[tuple[int, int], int] = {}  # by this process, by arm and minute
        self.elsewhere: dict[tuple[int, int], int] = {}  # by other processes
        self.reported: dict[tuple[int, int], int] = {}
        self.untold: set[tuple[int, int]] = set()  # counts that the store does not know yet

    def issue(self, arm: int, minute: int, count: int = 1) -> None:
        """Count a decision, or -1 if it is taken back."""
        key = arm, minute
        with self._lock:
            self.issued[key] = self.issued.get(key, 0) + count
            self.untold.add(key)

    def report(self, arm: int, minute: int, count: int = 1) -> None:
        """Count reports."""
        key = arm, minute
        with self._lock:
            self.reported[key] = self.reported.get(key, 0) + count

    def hear(self, rows: Iterable[tuple[int, str, int, int]], process: str) -> None:
        """Hear what the store knows of other processes: arm, process, minute, count."""
        heard: dict[tuple[int, int], int] = {}
        for arm, who, minute, count in rows:
            if who != process:
                heard[arm, minute] = heard.get((arm, minute), 0) + count
        with self._lock:
            self.elsewhere = heard

    def to_tell(self) -> list[tuple[int, int, int]]:
        """Return counts that the store does not know yet, arm, minute, count; from now on it does."""
        with self._lock:
            keys, self.untold = self.untold, set()
            return [(*key, self.issued[key]) for key in sorted(keys) if key in self.issued]

    def not_told(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Take back that the store knows them."""
        with self._lock:
            self.untold.update((arm, minute) for arm, minute, _ in rows)

    def open(self, arms: int, minute: int) -> list[int]:
        """Return for every arm how many decisions still await their report."""
        found = [0] * arms
        with self._lock:
            for counts, sign in ((self.issued, 1), (self.elsewhere, 1), (self.reported, -1)):
                for (arm, expires), count in counts.items():
                    if expires > minute and arm < arms:
                        found[arm] += sign * count
        return [max(0, each) for each in found]

    def forget(self, minute: int) -> None:
        """Forget what expired before a minute; the store sums it up."""
        with self._lock:
            for counts in (self.issued, self.reported):
                for key in [key for key in counts if key[1] < minute and key not in self.untold]:
                    del counts[key]
