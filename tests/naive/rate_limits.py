"""A token bucket that is obvious: a level that rises with time; nothing of the package is imported."""

from __future__ import annotations

from fractions import Fraction


class NaiveBucket:
    def __init__(self, rate: Fraction, burst: Fraction) -> None:
        self.rate, self.size = rate, rate * burst
        self.level, self.at = self.size, Fraction(0)

    def wait(self, now: Fraction, cost: int) -> Fraction:
        self.level = min(self.size, self.level + (now - self.at) * self.rate)
        self.at = now
        enough = min(Fraction(cost), self.size)  # what costs more than it holds needs it full
        if self.level < enough:
            return (enough - self.level) / self.rate
        self.level -= cost
        return Fraction(0)
