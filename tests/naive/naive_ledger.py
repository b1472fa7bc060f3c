"""A ledger that is obvious: two dictionaries and a sum; nothing of the package is imported."""

from fractions import Fraction


class NaiveLedger:
    """Says what a ledger must do: None, or in one word why not."""

    def __init__(self, cap: Fraction) -> None:
        self.cap = cap
        self.epsilons: dict[str, Fraction] = {}
        self.bits: dict[str, int | None] = {}  # None: forgotten

    @property
    def spent(self) -> Fraction:
        return sum(self.epsilons.values(), Fraction(0))

    def reserve(self, decision: str, epsilon: Fraction) -> str | None:
        if decision in self.epsilons:
            return None if self.epsilons[decision] == epsilon else "reserved"
        if self.spent + epsilon > self.cap:
            return "overdraft"
        self.epsilons[decision] = epsilon
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
