"""Ledgers on disk behave like a naive twin, also with a renewing cap under any clock."""

import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from ledgers import MEMORY, Clock

from helpers.boundaries import set_ledger_clock
from maskedbandits.privacy.ledger import Ledger, LedgerError, period
from naive.ledger import NaiveLedger
from trials import examples

CAP = Fraction(1)


class Side(RuleBasedStateMachine):
    """A ledger and its naive twin, side by side."""

    per: ClassVar[int | None] = None
    decisions = st.sampled_from([*"abcdefghijkl"])
    epsilons = st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(3, 10), Fraction(1, 3), Fraction(1)])
    words: ClassVar = {
        "is spent": "overdraft",
        "reserved at": "reserved",
        "not reserved": "unreserved",
        "settled": "settled",
        "no report yet": "undrawn",
    }

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)
        self.path = Path(self.folder.name) / "ledger"
        self.clock, self.patch = Clock(), pytest.MonkeyPatch()
        set_ledger_clock(self.patch, self.clock)
        self.naive, self.ledger = NaiveLedger(CAP, self.per), self.opened()
        self.naive.clock = self.clock.at
        self.paid: list[tuple[float, Fraction]] = []  # with what the clock said, or had said at an earlier payment

    def opened(self) -> Ledger:
        return Ledger(CAP, self.path, per=None if self.per is None else f"{self.per} seconds")

    def outcome(self, work: Callable[[], Any]) -> tuple[Any, str | None]:
        try:
            return work(), None
        except LedgerError as error:
            return None, next(name for word, name in self.words.items() if word in str(error))

    @rule(decision=decisions, epsilon=epsilons)
    def reserve(self, decision: str, epsilon: Fraction) -> None:
        before = self.ledger.reports
        _, why = self.outcome(lambda: self.ledger.reserve(decision, epsilon))
        assert why == self.naive.reserve(decision, epsilon)
        if self.ledger.reports > before:
            self.paid.append((max([self.clock.at, *(moment for moment, _ in self.paid)]), epsilon))

    @rule(decision=decisions, value=st.sampled_from([0, 1, 0.5]))
    def report(self, decision: str, value: float) -> None:
        report, why = self.outcome(lambda: self.ledger.report(decision, value))
        assert why == self.naive.report(decision)
        if report is not None:
            assert report.bit == self.naive.bits.setdefault(decision, report.bit)
            assert report.epsilon == self.naive.epsilons[decision]

    @rule(decision=decisions)
    def settle(self, decision: str) -> None:
        _, why = self.outcome(lambda: self.ledger.settle(decision))
        assert why == self.naive.settle(decision)

    @rule()
    def open_again(self) -> None:
        self.ledger.close()
        self.ledger = self.opened()

    @precondition(lambda self: self.per is not None)
    @rule(step=st.sampled_from([0.25, 1.0, 3.5, 9.75, 10.0, 10.5, 11.0, 100.0, -0.5, -10.0, -1000.0]))
    def set_the_clock(self, step: float) -> None:
        self.clock.at = max(self.clock.at + step, period.EARLIEST_TIME_S)
        self.naive.clock = self.clock.at

    @invariant()
    def same(self) -> None:
        assert self.ledger.spent == self.naive.spent <= CAP
        assert self.ledger.total == self.naive.total
        assert self.ledger.reports == len(self.naive.epsilons)

    @invariant()
    def no_stretch_of_a_period_costs_more_than_the_cap(self) -> None:
        length = float("inf") if self.per is None else self.per
        for start, _ in self.paid:
            assert sum(epsilon for moment, epsilon in self.paid if start <= moment < start + length) <= CAP

    def teardown(self) -> None:
        self.ledger.close()
        self.patch.undo()
        self.folder.cleanup()


class Renewing(Side):
    """The same with a renewing cap and an arbitrary clock."""

    per = 10


def test_ledger_matches_twin() -> None:
    run_state_machine_as_test(Side, settings=examples(12))


def test_renewing_ledger_matches_twin() -> None:
    run_state_machine_as_test(Renewing, settings=examples(12))
