"""The time of a process: never earlier than it was, whatever somebody does to the machine's clock.

Processes that share a database with a clock of its own go by that: then it does not matter whose machine is fast.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Clock:
    """Tells the time of the machine; while that is behind what was told before, time goes on from there.

    A token that has expired stays expired, and an id that was forgotten does not become valid again, if the clock is
    set back. Once the machine's clock has caught up, it is followed again.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._lock = threading.Lock()
        self._told, self._at = 0.0, steady()
        self._ahead: float | None = None  # of the steady clock, where another than the machine's is gone by

    def now(self) -> float:
        """Return the unix time."""
        with self._lock:
            steady = self._steady()
            wall = self._wall() if self._ahead is None else steady + self._ahead
            self._told = max(wall, self._told + (steady - self._at))  # which rounding does not take back
            self._at = steady
            return self._told

    def go_by(self, time: float) -> None:
        """Go by another clock from now on, which shows this time, or showed it a moment ago.

        The first time this may lead back: so it is done before anything is decided.
        """
        with self._lock:
            steady = self._steady()
            if self._ahead is None:
                self._told, self._at = time, steady
            self._ahead = time - steady

    def not_before(self, time: float) -> None:
        """Be no earlier than a time from now on, whatever the machine's clock says."""
        with self._lock:
            steady = self._steady()
            self._told, self._at = max(self._told + (steady - self._at), time), steady

    def minute(self) -> int:
        """Return the unix time in whole minutes."""
        return int(self.now() // 60)

    def hour(self) -> int:
        """Return the unix time in whole hours."""
        return int(self.now() // 3600)
