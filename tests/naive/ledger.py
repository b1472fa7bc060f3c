"""A ledger that is obvious: dictionaries and a sum; nothing of the package is imported."""

import math
from fractions import Fraction


class NaiveLedger:
    """Says what a ledger must do: None, or in one word why not."""

    def __init__(self, cap: Fraction, per: int | None = None) -> None:
        self.cap = cap
        self.per = per
        self.clock = 0.0
        self.epsilons: dict[str, Fraction] = {}
        self.seconds: dict[str, int] = {}  # in which each was paid for, as the ledger believes
        self.bits: dict[str, int | None] = {}  # None: forgotten

    @property
    def now(self) -> int:
        """The second that it is: not one before the latest payment."""
        return max([math.floor(self.clock), *self.seconds.values()])

    @property
    def spent(self) -> Fraction:
        """What was paid in any second that was not over a whole period ago."""
        return sum((self.epsilons[name] for name in self.epsilons if self.recent(name)), Fraction(0))

    def recent(self, name: str) -> bool:
        return self.per is None or self.now - self.seconds[name] <= self.per

    @property
    def total(self) -> Fraction:
        return sum(self.epsilons.values(), Fraction(0))

    def reserve(self, decision: str, epsilon: Fraction) -> str | None:
        if decision in self.epsilons:
            return None if self.epsilons[decision] == epsilon else "reserved"
        if self.spent + epsilon > self.cap:
            return "overdraft"
        self.epsilons[decision], self.seconds[decision] = epsilon, self.now
        return None

    def report(self, decision: str) -> str | None:
        if decision not in self.epsilons:
            return "unreserved"
        return "settled" if decision in self.bits and self.bits[decision] is None else None

    def settle(self, decision: str) -> str | None:
        if decision not in self.epsilons:
            return "unreserved"
        if decision not in self.bits:
            return "undrawn"
        self.bits[decision] = None
        return None
