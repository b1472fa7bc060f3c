"""Pending reports kept one by one: what policies/pending.py counts in a few numbers."""

import math


class Waiting:
    """Every pending decision as its number and its arm, and how many decisions of each arm are unanswered."""

    def __init__(self, arms: int, expire_after: int | None = None) -> None:
        self.arms = arms
        self.expire_after = expire_after
        self.decisions = 0
        self.pending: list[tuple[int, int]] = []
        self.unanswered = [0.0] * arms
        self.recent = [0.0] * arms
        self.tried_at = [0] * arms
        self.timed: list[int | None] = [None] * arms
        self.is_answered = [True] * arms  # whether a report came since the last decision
        self.delay: float | None = None
        self.prompt = 0.0

    def is_over(self, born: int) -> bool:
        """Whether a decision is so old that its report is given up on: short waits are exact, others in eighths."""
        if self.expire_after is None:
            return False
        if self.expire_after < 9:
            return self.decisions - born >= self.expire_after
        width = (self.expire_after + 7) // 8
        groups = (self.expire_after + width - 1) // width + 1
        return self.decisions // width - born // width >= groups

    def decide(self, arm: int) -> None:
        self.decisions += 1
        self.pending = [(born, each) for born, each in self.pending if not self.is_over(born)]
        self.cap()
        if self.expire_after != 0:
            if self.is_answered[arm]:
                expected = 64 + 4 * (-1 if self.delay is None else self.delay)
                is_alone = self.count(arm) == 0 or self.decisions - self.tried_at[arm] > expected
                self.timed[arm] = self.decisions if is_alone else None
            self.is_answered[arm] = False
            self.pending.append((self.decisions, arm))
            if self.decisions > 2 * self.tried_at[arm]:
                self.unanswered[arm] = min(self.unanswered[arm], 1)
            self.unanswered[arm] += 1
            self.recent[arm] = self.faded(arm) + 1
            self.tried_at[arm] = self.decisions

    def report(self, arm: int) -> None:
        self.is_answered[arm] = True
        born, self.timed[arm] = self.timed[arm], None
        if born is not None:
            took: float = self.decisions - born
            is_prompt = took <= 3
            if self.delay is None:
                self.delay, self.prompt = took, float(is_prompt)
            else:
                took = took if born == self.tried_at[arm] else min(took, 16 + 2 * self.delay)
                self.prompt = (7 * self.prompt + is_prompt) / 8
                self.delay = took if took >= self.delay else (7 * self.delay + took) / 8
        if self.drop(arm):
            left = max(self.unanswered[arm] - 1, 0)
            overdue = max(left - (self.faded(arm) if self.prompt < 0.3 else 0), 0)
            self.unanswered[arm] = left - overdue / 128

    def faded(self, arm: int) -> float:
        """Decisions of an arm, each weighing exp(-age / delay), with the delay as it was known at the time."""
        if self.delay is None:
            return self.recent[arm]
        return self.recent[arm] * math.exp(-(self.decisions - self.tried_at[arm]) / max(self.delay, 1))

    def lateness(self) -> float:
        return self.delay if self.delay is not None and self.prompt < 0.3 else 0.0

    def give_up(self, arm: int) -> None:
        self.drop(arm)
        self.cap()

    def drop(self, arm: int) -> bool:
        """Forget the oldest pending decision of an arm, if there is one."""
        for place, (_, each) in enumerate(self.pending):
            if each == arm:
                del self.pending[place]
                return True
        return False

    def cap(self) -> None:
        self.unanswered = [min(each, self.count(arm)) for arm, each in enumerate(self.unanswered)]

    def restart(self, arm: int | None = None) -> None:
        """Let no unanswered decision count, of one arm or of all."""
        for each in range(self.arms) if arm is None else [arm]:
            self.unanswered[each] = 0.0

    def count(self, arm: int) -> int:
        return [each for _, each in self.pending].count(arm)

    def counts(self) -> list[int]:
        return [self.count(arm) for arm in range(self.arms)]

    def still_open(self, arm: int, clock: int, late: float, patience: float) -> float:
        waited = max(clock - self.tried_at[arm], 0)
        most = 1 if waited > self.tried_at[arm] or waited > patience else math.inf
        return min(self.unanswered[arm] / (1 + max(waited - late, 0) / patience), most)
