"""The clock of a process, which never goes back even if the machine's clock is set back.

Processes that share a database with its own clock follow that one, so differences between machines do not matter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Clock:
    """The machine's clock; while that is behind an earlier reading, time goes on steadily from the reading.

    So if the clock is set back, an expired token stays expired, and a forgotten id does not become valid again. Once
    the machine's clock has caught up, it is followed again.
    """

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._lock = threading.Lock()
        self._latest, self._at = 0.0, steady()
        self._offset: float | None = None  # from the steady clock, where another clock is followed

    def now(self) -> float:
        """Return the unix time."""
        with self._lock:
            steady = self._steady()
            wall = self._wall() if self._offset is None else steady + self._offset
            self._latest = max(wall, self._latest + (steady - self._at))  # rounding cannot make it go back
            self._at = steady
            return self._latest

    def follow(self, time: float) -> None:
        """Follow another clock, which shows this time now.

        The first call may set the time back, so it comes before the first decision.
        """
        with self._lock:
            steady = self._steady()
            if self._offset is None:
                self._latest, self._at = time, steady
            self._offset = time - steady

    def advance_to(self, time: float) -> None:
        """Advance to a time, if that is later than now."""
        with self._lock:
            steady = self._steady()
            self._latest, self._at = max(self._latest + (steady - self._at), time), steady

    def minute(self) -> int:
        """Return the unix time in whole minutes."""
        return int(self.now() // 60)

    def hour(self) -> int:
        """Return the unix time in whole hours."""
        return int(self.now() // 3600)
