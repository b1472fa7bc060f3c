"""Sends reports, each in a thread of its own: a slow answer holds up no other report."""

import threading
from collections.abc import Callable
from queue import SimpleQueue

from .reporter import Attempt

Outcome = tuple[Attempt, bool]
Post = Callable[[Attempt], bool]  # tells whether a report was answered for good


class Sender:
    """Makes attempts at once, or at their times."""

    def __init__(self, post: Post, notify: Callable[[], None]) -> None:
        """Send with ``post``; call ``notify`` after each attempt that was scheduled."""
        self._post, self._notify = post, notify
        self._lock = threading.Lock()
        self._scheduled: dict[threading.Timer, Attempt] = {}
        self._running: set[threading.Thread] = set()
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()

    def send(self, attempts: list[Attempt]) -> list[Outcome]:
        """Make attempts at once, all at the same time; return when the last is over."""
        if len(attempts) == 1:
            return [(attempts[0], self._post(attempts[0]))]
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        threads = [threading.Thread(target=self._put, args=(each, outcomes), daemon=True) for each in attempts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return _drain(outcomes)

    def schedule(self, attempt: Attempt, seconds: float) -> None:
        """Make an attempt after so many seconds, whatever else happens until then."""
        timer = threading.Timer(max(seconds, 0.0), self._start)
        timer.args = [timer]
        timer.daemon = True
        with self._lock:
            self._scheduled[timer] = attempt
        timer.start()

    def outcomes(self) -> list[Outcome]:
        """Return the scheduled attempts that are over since the last call."""
        return _drain(self._outcomes)

    def stop(self) -> list[Attempt]:
        """Cancel what is scheduled and wait for what is under way; return the attempts that were not made."""
        with self._lock:
            unmade, running = dict(self._scheduled), list(self._running)
            self._scheduled.clear()
        for timer in unmade:
            timer.cancel()
        for thread in running:
            thread.join()
        return list(unmade.values())

    def _start(self, timer: threading.Timer) -> None:
        with self._lock:
            attempt = self._scheduled.pop(timer, None)
            if attempt is None:
                return
            self._running.add(timer)
        try:
            self._put(attempt, self._outcomes)
        finally:
            with self._lock:
                self._running.discard(timer)
        self._notify()

    def _put(self, attempt: Attempt, outcomes: "SimpleQueue[Outcome]") -> None:
        outcomes.put((attempt, self._post(attempt)))


def _drain(outcomes: "SimpleQueue[Outcome]") -> list[Outcome]:
    """Return what is in a queue; it has one reader."""
    found = []
    while not outcomes.empty():
        found.append(outcomes.get())
    return found
