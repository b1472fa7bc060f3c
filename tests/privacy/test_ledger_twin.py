"""A ledger on disk, beside the obvious one."""

import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from ledgers import MEMORY
from naive_ledger import NaiveLedger

from maskedbandits.privacy.ledger import Ledger, LedgerError
from twins import examples

# Against the obvious


class Side(RuleBasedStateMachine):
    """A ledger on disk and the obvious one, side by side; opened again now and then."""

    decisions = st.sampled_from(["a", "b", "c", "d", "e", "f"])
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
        self.naive, self.ledger = NaiveLedger(Fraction(1)), Ledger(1, self.path)

    def outcome(self, work: Callable[[], Any]) -> tuple[Any, str | None]:
        try:
            return work(), None
        except LedgerError as error:
            return None, next(name for word, name in self.words.items() if word in str(error))

    @rule(decision=decisions, epsilon=epsilons)
    def reserve(self, decision: str, epsilon: Fraction) -> None:
        _, why = self.outcome(lambda: self.ledger.reserve(decision, epsilon))
        assert why == self.naive.reserve(decision, epsilon)

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
        self.ledger = Ledger(1, self.path)

    @invariant()
    def same(self) -> None:
        assert self.ledger.spent == self.naive.spent <= 1
        assert self.ledger.reports == len(self.naive.epsilons)

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()


def test_it_does_what_is_obvious() -> None:
    run_state_machine_as_test(Side, settings=examples(30))
