"""The ledger: spending, terms and reports."""

import contextlib
import math
import re
import struct
from fractions import Fraction
from pathlib import Path

import pytest
from ledgers import refused
from scipy.stats import binom

from helpers.private import connection_of
from maskedbandits.errors import UserError
from maskedbandits.privacy import composition
from maskedbandits.privacy.ledger import Ledger, Overdraft, storage
from maskedbandits.privacy.randomized_response import mechanism_for
from naive import composition as naive

pytest_plugins = ["ledger_fixtures"]

# What is spent


def test_ten_reports_of_a_tenth_fit_a_cap_of_one(location: Path | None) -> None:
    with Ledger(1, location) as ledger:
        for decision in range(10):
            ledger.reserve(decision, 0.1)
        assert (ledger.spent, ledger.remaining, ledger.reports) == (Fraction(1), Fraction(0), 10)
        with refused("'10'", "1 is spent", "another 0.1", "makes 1.1", "cap of 1", "raise the cap", kind=Overdraft):
            ledger.reserve(10, 0.1)
        assert (ledger.spent, ledger.reports) == (Fraction(1), 10)
        ledger.reserve("nothing", 0)  # pure noise costs nothing


def test_overdraft_is_refused_before_the_reward(location: Path | None) -> None:
    with Ledger(1, location) as ledger:
        ledger.reserve("a", 0.75)
        with refused("0.75 is spent", "another 0.5", kind=Overdraft):
            ledger.reserve("b", 0.5)
        with refused("'b' is not reserved", "before its reward is known"):
            ledger.report("b", 1)
        assert ledger.report("a", 1).bit in (0, 1)  # what is paid for is never refused


def test_repeated_reservation_is_free(location: Path | None) -> None:
    with Ledger(1, location) as ledger:
        for epsilon in (0.5, "0.5", Fraction(1, 2), "1/2"):
            ledger.reserve("a", epsilon)
        assert ledger.spent == Fraction(1, 2)
        for epsilon in (0.25, 0.75):
            with refused("'a'", "reserved at epsilon = 0.5", f"not {epsilon}"):
                ledger.reserve("a", epsilon)
        assert ledger.spent == Fraction(1, 2)


def test_lower_cap_stops_new_reservations_only(file: Path) -> None:
    with Ledger(2, file) as ledger:
        ledger.reserve("a", 2)
    with Ledger(1, file) as ledger:
        assert (ledger.spent, ledger.remaining) == (Fraction(2), Fraction(0))
        with refused("cap of 1", kind=Overdraft):
            ledger.reserve("b", 0.1)
        assert ledger.report("a", 1).epsilon == 2


def test_delta_lets_more_reports_fit(location: Path | None) -> None:
    cap, delta = 4, 1e-6
    fit = max(n for n in range(100) if naive.delta_of_equals(Fraction(1, 10), n, cap) <= delta)
    with Ledger(cap, location, delta=delta) as ledger:
        paid = 0
        with contextlib.suppress(Overdraft):
            while True:
                ledger.reserve(paid, 0.1)
                paid += 1
                assert ledger.spent <= cap
        assert paid == fit > 60
        assert naive.delta_of_equals(Fraction(1, 10), paid, ledger.spent) <= delta
        ledger.reserve("nothing", 0)


def test_reservation_sums_many_reports_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added_up, compute_losses = [], composition.compute_losses

    def watched(counts: dict[Fraction, int]) -> composition.Losses:
        added_up.append(counts)
        return compute_losses(counts)

    monkeypatch.setattr(composition, "compute_losses", watched)
    with Ledger(2250, delta=1e-6) as ledger:
        for epsilon, reports in (("1/10", 3333), ("1/2", 3333), ("1", 3333)):
            row = (0, epsilon, reports, storage.compute_checksum(0, epsilon, reports))
            connection_of(ledger).execute("INSERT INTO spending VALUES (?, ?, ?, ?)", row)
            names = [f"{epsilon}: {number}" for number in range(reports)]
            decisions = [(name, epsilon, None, storage.compute_checksum(name, epsilon, None)) for name in names]
            connection_of(ledger).executemany("INSERT INTO decisions VALUES (?, ?, ?, ?)", decisions)
        ledger.reserve("one more", 0.5)
        assert len(added_up) == 1
        assert ledger.reports == 10_000
        assert ledger.spent < 2250 < 5300 < 0.1 * 3333 + 0.5 * 3334 + 3333  # the sum would have been refused


def test_reservation_reads_spending_once() -> None:
    statements: list[str] = []
    with Ledger(10**6) as ledger:
        for decision in range(60):
            ledger.reserve(decision, f"0.{decision + 1000}")
        connection_of(ledger).set_trace_callback(statements.append)
        ledger.reserve("one more", 0.5)
        connection_of(ledger).set_trace_callback(None)
    assert sum("FROM spending" in statement for statement in statements) == 1


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_overdraft_message_uses_decimals(delta: float) -> None:
    message = ""
    with Ledger(2, delta=delta) as ledger:
        try:
            for decision in range(300):
                ledger.reserve(decision, Fraction((1 << 251) | 1, (1 << 254) + 2 * decision + 1))
        except Overdraft as error:
            message = str(error)
        assert ledger.reports > 15
        found = re.search(r": (\S+) is spent, another (\S+) makes (\S+), above the cap of 2: ", message)
        assert found is not None
        spent, requested, total = map(Fraction, found.groups())
        assert 0 <= spent - ledger.spent < Fraction(1, 10**9)
        assert (requested, total > 2) == (Fraction(1, 8), True)
    assert len(message) < 150


# What it was made for


def test_higher_cap_or_other_delta_is_refused(file: Path) -> None:
    with Ledger(1, file, delta=1e-6) as ledger:
        ledger.reserve("a", 0.5)
    for cap, delta in ((2, 1e-6), ("1.0000001", 1e-6), (1, 0), (1, 1e-5), (0.5, 0.5)):
        with refused("has cap = 1 and delta = 1e-06", f"not cap = {cap} and delta = {delta:g}", "change=True"):
            Ledger(cap, file, delta=delta)
    with Ledger(1, file, delta=1e-6) as ledger:
        assert ledger.reports == 1


def test_lower_cap_is_not_stored_unless_asked(file: Path) -> None:
    Ledger(2, file).close()
    Ledger(1, file).close()
    Ledger(2, file).close()
    Ledger(1, file, change=True).close()
    with refused("has cap = 1"):
        Ledger(2, file)


def test_terms_change_on_request(file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 1)
        report = ledger.report("a", 1)
    with Ledger(3, file, delta=1e-6, change=True) as ledger:
        ledger.reserve("b", 1)
        assert ledger.report("a", 0) == report
    with Ledger(3, file, delta=1e-6) as ledger:
        assert ledger.reports == 2
    with Ledger(7, file.with_name("new"), change=True) as ledger:
        assert ledger.remaining == 7


def test_terms_may_change_while_in_use(file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 1)
        Ledger(2, file, change=True).close()
        assert ledger.report("a", 1).bit in (0, 1)
        with refused("cap of 1", kind=Overdraft):  # it keeps to its own
            ledger.reserve("b", 0.5)
        Ledger("0.5", file, change=True).close()
        with refused("has cap = 0.5 and delta = 0, not cap = 1"):
            ledger.report("a", 1)


# What is reported


def test_retry_gets_the_same_bit(location: Path | None) -> None:
    with Ledger(1, location) as ledger:
        ledger.reserve("a", 0)  # a fair coin: 64 draws would not agree
        assert ledger.recall("a") is None
        first = ledger.report("a", 1)
        assert {ledger.report("a", value) for value in [0, 1, 0.5, 0.123] * 16} == {first}
        assert ledger.recall("a") == first
        assert first == mechanism_for(0).report(1)._replace(bit=first.bit)


def test_retry_from_another_ledger_gets_the_same_bit(file: Path) -> None:
    with Ledger(1, file) as ledger:
        for decision in range(64):
            ledger.reserve(decision, 0)
        bits = [ledger.report(decision, 1).bit for decision in range(64)]
    with Ledger(1, file) as ledger:
        assert [ledger.report(decision, 0).bit for decision in range(64)] == bits


def test_reports_come_from_the_mechanism() -> None:
    trials, low = 400, 1e-7
    with Ledger(10**4) as ledger:
        for value, epsilon in ((1, 2), (0.25, 2)):
            truth = math.exp(epsilon) / (1 + math.exp(epsilon))
            mean = value * truth + (1 - value) * (1 - truth)
            ones = 0
            for trial in range(trials):
                ledger.reserve(f"{value}: {trial}", epsilon)
                ones += ledger.report(f"{value}: {trial}", value).bit
            assert binom.ppf(low, trials, mean) <= ones <= binom.isf(low, trials, mean)


def test_invalid_value_draws_nothing(location: Path | None) -> None:
    with Ledger(1, location) as ledger:
        ledger.reserve("a", 0.5)
        for value in (-0.1, 1.1, math.nan, "1", None):
            with pytest.raises(UserError, match="value"):
                ledger.report("a", value)  # type: ignore[arg-type]
        assert ledger.recall("a") is None
        assert ledger.report("a", 1).bit in (0, 1)


def test_settled_report_is_deleted_and_stays_spent(file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 0.5)
        with refused("'a' has no report yet"):
            ledger.settle("a")
        bit = ledger.report("a", 1).bit
        seal = storage.compute_checksum("a", "1/2", bit).encode()
        assert seal in file.read_bytes()
        ledger.settle("a")
        ledger.settle("a")
        assert seal not in file.read_bytes()  # overwritten, not only unlinked
        with refused("'a' is settled"):
            ledger.report("a", 1)
        with refused("'a' is settled"):
            ledger.recall("a")
        ledger.reserve("a", 0.5)
        assert ledger.spent == Fraction(1, 2)


@pytest.mark.parametrize("use", ["report", "recall", "settle"])
def test_unreserved_decision_is_refused(use: str) -> None:
    with Ledger(1) as ledger, refused("'a' is not reserved", "reserve it"):
        getattr(ledger, use)("a", *([1] if use == "report" else []))


def test_reward_is_never_written(file: Path) -> None:
    value = 0.123456789
    statements: list[str] = []
    with Ledger(100, file) as ledger:
        connection_of(ledger).set_trace_callback(statements.append)  # with the values that are filled in
        for decision in range(50):
            ledger.reserve(decision, 1)
            ledger.report(decision, value)
        ledger.settle(0)
        connection_of(ledger).set_trace_callback(None)
    assert any(statement.startswith("REPLACE INTO decisions") for statement in statements)
    assert not any("0.123" in statement for statement in statements)
    written = file.read_bytes()
    assert b"0.123" not in written
    assert struct.pack(">d", value) not in written
    assert struct.pack("<d", value) not in written


def test_written_bytes_depend_on_the_bit_alone(folder: Path) -> None:
    written: dict[int, set[bytes]] = {0: set(), 1: set()}
    for trial in range(60):  # at epsilon = 0 both bits come with both values
        path = folder / str(trial)
        with Ledger(1, path) as ledger:
            ledger.reserve("a", 0)
            bit = ledger.report("a", trial % 2).bit
        written[bit].add(path.read_bytes())
    assert len(written[0]) == len(written[1]) == 1
    assert len(written[0].pop()) == len(written[1].pop())
