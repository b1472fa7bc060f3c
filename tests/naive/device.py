"""A device that is obvious: what is left to wait, counted down; nothing of the package is imported.

Its chances are all 1/2: a report waits the gap and half of the spread, and a try that failed is followed by the next
after 3/4 of the pause, which doubles from 30 seconds to six hours. Its limits are those of tests.
"""

from dataclasses import dataclass


@dataclass
class Promise:
    """One report to come; times are seconds that are left from now."""

    until_closed: float
    delay: float
    until_expired: float
    value: float | None = None  # once it is fixed, what is masked and sent
    until_sent: float | None = None  # once it is closed
    tries: int = 0
    late: int = 0  # tries after the end


class NaiveDevice:
    """Says whether it takes part, and what it sends at which look."""

    def __init__(self, cap: int, jitter: float) -> None:
        self.left, self.jitter = cap, jitter  # every report costs 1
        self.last: float | None = None  # when it was looked at
        self.behind = 0.0  # seconds by which the clock was set back
        self.promises: dict[str, Promise] = {}
        self.kept: set[str] = set()

    def pass_to(self, at: float) -> None:
        """Let time pass; a clock that is set back passes none, and it may be put right at a jump."""
        passed = 0.0 if self.last is None else at - self.last
        self.last = at
        if not self.promises:
            self.behind = 0.0
        if passed < 0:
            self.behind -= passed
            passed = 0.0
        elif passed >= 300 and passed >= self.behind - 5:
            passed -= self.behind
            self.behind = 0.0
        for promise in self.promises.values():
            promise.until_closed -= passed
            promise.until_expired -= passed
            if promise.until_sent is not None:
                promise.until_sent -= passed

    def decide(self, token: str, report_in: float, expires_in: float, at: float) -> bool:
        if token in self.promises:
            return True
        if token in self.kept or not self.left:
            return False
        self.pass_to(at)
        self.left -= 1
        spread = min(self.jitter, (expires_in - report_in) / 4)
        delay = min(60.0, spread / 2) + spread / 2
        self.promises[token] = Promise(report_in, delay, expires_in)
        return True

    def report(self, token: str, reward: float) -> bool:
        promise = self.promises.get(token)
        if promise is None or promise.value is not None:
            return False
        promise.value = reward
        return True

    def look(self, at: float, answered: bool) -> list[tuple[str, float]]:
        """Return what it sends now: tokens and the values that are masked."""
        if self.promises:
            self.pass_to(at)
        sent = []
        for token, promise in list(self.promises.items()):
            if promise.late >= 10 or promise.tries >= 20:
                del self.promises[token]
                self.kept.add(token)
            elif promise.until_sent is not None and promise.until_sent <= 0:
                assert promise.value is not None
                sent.append((token, promise.value))
                pause = 0.75 * min(30.0 * 2**promise.tries, 21_600.0)
                promise.until_sent = max(pause, 15.0)  # an attempt may take 10 s
                promise.tries += 1
                promise.late += promise.until_expired <= 0
                if answered:
                    del self.promises[token]
                    self.kept.add(token)
            elif promise.until_sent is None and promise.until_closed <= 0:
                promise.value = promise.value or 0.0
                scheduled = promise.until_closed + promise.delay
                is_off = scheduled < min(30.0, promise.delay / 2)
                promise.until_sent = promise.delay if is_off else scheduled
        return sent
