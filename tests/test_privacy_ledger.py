import contextlib
import enum
import math
import os
import re
import shutil
import sqlite3
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from scipy.stats import binom

import ledger_children as children
import naive_privacy_composition as naive
from maskedbandits.errors import UserError
from maskedbandits.privacy import ledger as module
from maskedbandits.privacy.ledger import Ledger, LedgerError, Overdraft
from maskedbandits.privacy.mechanism import mechanism_for
from naive_privacy_ledger import NaiveLedger
from twins import examples

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of a random name is made in it


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that outlives processes and is in memory where it can be: thousands of synchronised writes are slow."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest, folder: Path) -> Path | None:
    return None if request.param == "memory" else folder / "ledger"


@pytest.fixture
def file(folder: Path) -> Path:
    return folder / "ledger"


@contextlib.contextmanager
def refused(*words: str, kind: type[UserError] = LedgerError) -> Iterator[None]:
    """One line, with these words in it."""
    with pytest.raises(kind) as caught:
        yield
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


# What is spent


def test_ten_reports_of_a_tenth_fit_a_cap_of_one(place: Path | None) -> None:
    with Ledger(1, place) as ledger:
        for decision in range(10):
            ledger.reserve(decision, 0.1)
        assert (ledger.spent, ledger.remaining, ledger.reports) == (Fraction(1), Fraction(0), 10)
        with refused("'10'", "1 is spent", "another 0.1", "makes 1.1", "cap of 1", "raise the cap", kind=Overdraft):
            ledger.reserve(10, 0.1)
        assert (ledger.spent, ledger.reports) == (Fraction(1), 10)
        ledger.reserve("nothing", 0)  # pure noise costs nothing


def test_an_overdraft_is_refused_before_there_is_a_reward(place: Path | None) -> None:
    with Ledger(1, place) as ledger:
        ledger.reserve("a", 0.75)
        with refused("0.75 is spent", "another 0.5", kind=Overdraft):
            ledger.reserve("b", 0.5)
        with refused("'b' is not reserved", "before its reward is known"):
            ledger.report("b", 1)
        assert ledger.report("a", 1).bit in (0, 1)  # what is paid for is never refused


def test_to_reserve_again_costs_nothing_and_another_epsilon_is_refused(place: Path | None) -> None:
    with Ledger(1, place) as ledger:
        for epsilon in (0.5, "0.5", Fraction(1, 2), "1/2"):
            ledger.reserve("a", epsilon)
        assert ledger.spent == Fraction(1, 2)
        for epsilon in (0.25, 0.75):
            with refused("'a'", "reserved at epsilon = 0.5", f"not {epsilon}"):
                ledger.reserve("a", epsilon)
        assert ledger.spent == Fraction(1, 2)


def test_a_lower_cap_stops_what_is_new_and_not_what_is_paid(file: Path) -> None:
    with Ledger(2, file) as ledger:
        ledger.reserve("a", 2)
    with Ledger(1, file) as ledger:
        assert (ledger.spent, ledger.remaining) == (Fraction(2), Fraction(0))
        with refused("cap of 1", kind=Overdraft):
            ledger.reserve("b", 0.1)
        assert ledger.report("a", 1).epsilon == 2


def test_with_a_delta_more_reports_fit(place: Path | None) -> None:
    cap, delta = 4, 1e-6
    fit = max(n for n in range(100) if naive.delta_of_equals(Fraction(1, 10), n, cap) <= delta)
    with Ledger(cap, place, delta=delta) as ledger:
        paid = 0
        with contextlib.suppress(Overdraft):
            while True:
                ledger.reserve(paid, 0.1)
                paid += 1
                assert ledger.spent <= cap
        assert paid == fit > 60
        assert naive.delta_of_equals(Fraction(1, 10), paid, ledger.spent) <= delta
        ledger.reserve("nothing", 0)


def test_to_reserve_after_ten_thousand_reports_takes_no_longer_than_a_blink() -> None:
    with Ledger(2250, delta=1e-6) as ledger:
        for epsilon, reports in (("1/10", 3333), ("1/2", 3333), ("1", 3333)):
            row = (epsilon, reports, module._seal(epsilon, reports))
            ledger._connection.execute("INSERT INTO spending VALUES (?, ?, ?)", row)
            rows = [
                (f"{epsilon}: {i}", epsilon, None, module._seal(f"{epsilon}: {i}", epsilon, None))
                for i in range(reports)
            ]
            ledger._connection.executemany("INSERT INTO decisions VALUES (?, ?, ?, ?)", rows)
        taken = []
        for decision in range(5):
            start = time.perf_counter()
            ledger.reserve(decision, 0.5)
            taken.append(time.perf_counter() - start)
        assert ledger.reports == 10_004
        assert ledger.spent < 2250 < 5300 < 0.1 * 3333 + 0.5 * 3338 + 3333  # the sum would have been refused
        assert min(taken) < 0.1


def test_spending_is_read_once_to_reserve() -> None:
    statements: list[str] = []
    with Ledger(10**6) as ledger:
        for decision in range(300):
            ledger.reserve(decision, f"0.{decision + 1000}")
        ledger._connection.set_trace_callback(statements.append)
        ledger.reserve("one more", 0.5)
        ledger._connection.set_trace_callback(None)
    assert sum("FROM spending" in statement for statement in statements) == 1


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_an_overdraft_of_unwieldy_numbers_is_told_in_decimals(delta: float) -> None:
    told = ""
    with Ledger(2, delta=delta) as ledger:
        try:
            for decision in range(300):
                ledger.reserve(decision, Fraction((1 << 249) | 1, (1 << 254) + 2 * decision + 1))
        except Overdraft as error:
            told = str(error)
        assert ledger.reports > 60
        found = re.search(r": (\S+) is spent, another (\S+) makes (\S+), above the cap of 2: ", told)
        assert found is not None
        spent, asked, total = map(Fraction, found.groups())
        assert 0 <= spent - ledger.spent < Fraction(1, 10**9)
        assert (asked, total > 2) == (Fraction(1, 32), True)
    assert len(told) < 150


# What it was made for


def test_a_higher_cap_or_another_delta_is_refused(file: Path) -> None:
    with Ledger(1, file, delta=1e-6) as ledger:
        ledger.reserve("a", 0.5)
    for cap, delta in ((2, 1e-6), ("1.0000001", 1e-6), (1, 0), (1, 1e-5), (0.5, 0.5)):
        with refused("made for cap = 1 and delta = 1e-06", f"not cap = {cap} and delta = {delta:g}", "change=True"):
            Ledger(cap, file, delta=delta)
    with Ledger(1, file, delta=1e-6) as ledger:
        assert ledger.reports == 1


def test_a_lower_cap_is_not_kept_unless_that_is_asked_for(file: Path) -> None:
    Ledger(2, file).close()
    Ledger(1, file).close()
    Ledger(2, file).close()
    Ledger(1, file, change=True).close()
    with refused("made for cap = 1"):
        Ledger(2, file)


def test_terms_are_changed_where_that_is_asked_for(file: Path) -> None:
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


def test_terms_that_are_changed_while_in_use(file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 1)
        Ledger(2, file, change=True).close()
        assert ledger.report("a", 1).bit in (0, 1)
        with refused("cap of 1", kind=Overdraft):  # it keeps to its own
            ledger.reserve("b", 0.5)
        Ledger("0.5", file, change=True).close()
        with refused("made for cap = 0.5 and delta = 0, not cap = 1"):
            ledger.report("a", 1)


# What is reported


def test_a_retry_gets_the_same_bit(place: Path | None) -> None:
    with Ledger(1, place) as ledger:
        ledger.reserve("a", 0)  # a fair coin: 64 draws would not agree
        assert ledger.recall("a") is None
        first = ledger.report("a", 1)
        assert {ledger.report("a", value) for value in [0, 1, 0.5, 0.123] * 16} == {first}
        assert ledger.recall("a") == first
        assert first == mechanism_for(0).report(1)._replace(bit=first.bit)


def test_a_retry_gets_the_same_bit_from_another_ledger_on_the_same_file(file: Path) -> None:
    with Ledger(1, file) as ledger:
        for decision in range(64):
            ledger.reserve(decision, 0)
        bits = [ledger.report(decision, 1).bit for decision in range(64)]
    with Ledger(1, file) as ledger:
        assert [ledger.report(decision, 0).bit for decision in range(64)] == bits


def test_reports_are_the_mechanism_s() -> None:
    trials, low = 1000, 1e-7
    with Ledger(10**4) as ledger:
        for value, epsilon in ((1, 2), (0.25, 2)):
            truth = math.exp(epsilon) / (1 + math.exp(epsilon))
            mean = value * truth + (1 - value) * (1 - truth)
            ones = 0
            for trial in range(trials):
                ledger.reserve(f"{value}: {trial}", epsilon)
                ones += ledger.report(f"{value}: {trial}", value).bit
            assert binom.ppf(low, trials, mean) <= ones <= binom.isf(low, trials, mean)


def test_a_value_that_is_none_is_refused_and_nothing_is_drawn(place: Path | None) -> None:
    with Ledger(1, place) as ledger:
        ledger.reserve("a", 0.5)
        for value in (-0.1, 1.1, math.nan, "1", None):
            with pytest.raises(UserError, match="value"):
                ledger.report("a", value)  # type: ignore[arg-type]
        assert ledger.recall("a") is None
        assert ledger.report("a", 1).bit in (0, 1)


def test_a_settled_report_is_forgotten_and_stays_spent(file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 0.5)
        with refused("'a' has no report yet"):
            ledger.settle("a")
        bit = ledger.report("a", 1).bit
        seal = module._seal("a", "1/2", bit).encode()
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
def test_what_is_not_reserved_is_refused(use: str) -> None:
    with Ledger(1) as ledger, refused("'a' is not reserved", "reserve it"):
        getattr(ledger, use)("a", *([1] if use == "report" else []))


def test_the_reward_is_never_written(file: Path) -> None:
    value = 0.123456789
    statements: list[str] = []
    with Ledger(100, file) as ledger:
        ledger._connection.set_trace_callback(statements.append)  # with the values that are filled in
        for decision in range(50):
            ledger.reserve(decision, 1)
            ledger.report(decision, value)
        ledger.settle(0)
        ledger._connection.set_trace_callback(None)
    assert any(statement.startswith("REPLACE INTO decisions") for statement in statements)
    assert not any("0.123" in statement for statement in statements)
    written = file.read_bytes()
    assert b"0.123" not in written
    assert struct.pack(">d", value) not in written
    assert struct.pack("<d", value) not in written


def test_what_is_written_depends_on_the_bit_alone(folder: Path) -> None:
    written: dict[int, set[bytes]] = {0: set(), 1: set()}
    for trial in range(60):  # at epsilon = 0 both bits come with both values
        path = folder / str(trial)
        with Ledger(1, path) as ledger:
            ledger.reserve("a", 0)
            bit = ledger.report("a", trial % 2).bit
        written[bit].add(path.read_bytes())
    assert len(written[0]) == len(written[1]) == 1
    assert len(written[0].pop()) == len(written[1].pop())


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


# Crashes


def test_a_crash_at_any_statement_leaves_a_sound_ledger(folder: Path) -> None:
    number = 0
    ends: list[int | None] = []
    while not ends or ends[-1] == -9:
        number += 1
        path = folder / str(number)
        sent, end = children.call(children.crash_at_statement, str(path), number)
        ends.append(end)
        with Ledger(1, path) as ledger:
            if sent is None:  # killed while reserving: nothing is spent, or all of it
                assert ledger.spent in (0, Fraction(1, 2))
            else:
                assert ledger.spent == Fraction(1, 2)
            ledger.reserve("a", 0.5)
            assert ledger.spent == Fraction(1, 2)
            drawn = ledger.recall("a")
            if sent in (0, 1):  # the bit left the process
                assert drawn is not None
                assert drawn.bit == sent
            report = ledger.report("a", 0)
            assert drawn in (None, report)
            assert ledger.report("a", 1) == report
    assert ends[-1] == 0
    assert number > 8  # two transactions, each with its BEGIN and COMMIT


def test_a_crash_between_the_draw_and_its_return_keeps_the_bit(file: Path) -> None:
    sent, end = children.call(children.crash_after_draw, str(file))
    assert (sent, end) == (None, -9)
    with Ledger(1, file) as ledger:
        drawn = ledger.recall("a")
        assert drawn is not None
        assert {ledger.report("a", value) for value in [0, 1] * 32} == {drawn}


def test_a_crash_before_sending_keeps_the_bits(file: Path) -> None:
    sent, end = children.call(children.crash_after_report, str(file))
    assert end == -9
    with Ledger(1, file) as ledger:
        assert [ledger.report(decision, decision % 2).bit for decision in range(64)] == sent


class Interrupted:
    """A connection on which a signal's exception comes right after a statement, once."""

    def __init__(self, connection: sqlite3.Connection, after: str) -> None:
        self.connection, self.after = connection, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        done = self.connection.execute(statement, *values)
        if statement.startswith(self.after):
            self.after = "nothing"
            raise KeyboardInterrupt
        return done


@pytest.mark.parametrize("after", ["BEGIN IMMEDIATE", "SELECT", "REPLACE INTO decisions", "COMMIT"])
def test_an_interrupt_at_any_statement_leaves_nothing_open(
    after: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT", 0.05)
    with Ledger(1, file) as ledger, Ledger(1, file) as other:
        connection = ledger._connection
        ledger._connection = Interrupted(connection, after)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve("a", 0.5)
        assert not connection.in_transaction
        other.reserve("b", 0.25)  # who waits in vain is told so
        ledger.reserve("a", 0.5)
        assert ledger.spent == other.spent == Fraction(3, 4)


def test_what_was_left_open_is_undone(file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger._connection.execute("BEGIN IMMEDIATE")
        ledger._connection.execute("DELETE FROM spending")
        ledger.reserve("a", 0.5)
        ledger._connection.execute("BEGIN IMMEDIATE")
        ledger._connection.execute("DELETE FROM spending")
        assert ledger.spent == Fraction(1, 2)


def test_what_sqlite_says_is_not_called_damage(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(1, file) as ledger:
        monkeypatch.setattr(module, "_undo", lambda connection: None)
        ledger._connection.execute("BEGIN")
        with refused("within a transaction, so no report is made", "check the file"):
            ledger.reserve("a", 0.5)


# Many at once


def test_eight_threads_reach_the_cap_and_never_pass_it(place: Path | None) -> None:
    start = threading.Barrier(8)

    def work(who: int) -> tuple[int, list[int]]:
        start.wait()
        paid = 0
        for decision in range(20):
            with contextlib.suppress(Overdraft):
                ledger.reserve(f"{who}: {decision}", 0.1)
                paid += 1
        return paid, [ledger.report(f"common {decision}", who % 2).bit for decision in range(20)]

    with Ledger(10, place) as ledger, ThreadPoolExecutor(8) as pool:
        for decision in range(20):
            ledger.reserve(f"common {decision}", 0)
        results = list(pool.map(work, range(8)))
        assert sum(paid for paid, _ in results) == 100  # of 160 that were tried
        assert ledger.spent == 10
        assert all(bits == results[0][1] for _, bits in results)


def test_processes_reach_the_cap_and_never_pass_it(file: Path) -> None:
    with Ledger(10, file) as ledger:
        for decision in range(20):
            ledger.reserve(f"common {decision}", 0)
        started = [children.start(children.spend_all, str(file), who, 10, 20) for who in range(3)]
        results = [children.finish(one) for one in started]
        assert [end for _, end in results] == [0, 0, 0]
        assert sum(sent[0] for sent, _ in results) == 100
        assert ledger.spent == 10
        assert all(sent[1] == results[0][0][1] for sent, _ in results)


def test_processes_that_create_it_at_once_share_it(folder: Path) -> None:
    for trial in range(3):
        path = folder / str(trial)
        started = [children.start(children.create, str(path), who) for who in range(4)]
        assert [children.finish(one) for one in started] == [("done", 0)] * 4
        with Ledger(1000, path) as ledger:
            assert ledger.spent == 4
        assert sorted(folder.iterdir()) == [folder / str(done) for done in range(trial + 1)]  # no drafts


def test_who_waits_too_long_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAIT", 0.05)
    with Ledger(1, file) as ledger, contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with refused("another process has been writing"):
            ledger.reserve("a", 0.5)
        other.execute("ROLLBACK")
        ledger.reserve("a", 0.5)
        assert ledger.spent == Fraction(1, 2)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_forked_copy_is_refused(where: str, file: Path) -> None:
    path = None if where == "memory" else str(file)
    sent, end = children.call(children.use_after_fork, path)
    assert "opened by another process: open it in this one, too" in sent
    assert end == 0


# What can go wrong with a file


def used(path: Path) -> Path:
    """A ledger of several pages, closed."""
    with Ledger(1000, path) as ledger:
        for decision in range(120):
            ledger.reserve(f"decision number {decision}", 0.5 if decision % 3 else 0.25)
        for decision in range(60):
            ledger.report(f"decision number {decision}", decision % 2)
        ledger.settle("decision number 0")
    return path


def content(path: Path) -> tuple[list[Any], Fraction]:
    with Ledger(1000, path) as ledger:
        return ledger._connection.execute("SELECT * FROM decisions").fetchall(), ledger.spent


def test_a_full_disk_spends_nothing_and_makes_no_report(file: Path) -> None:
    sent, end = children.call(children.fill_the_disk, str(file), 64 * 1024)
    assert end == 0
    paid, error, reports = sent
    assert 50 < paid == reports < 2000
    assert "so no report is made" in error
    assert "\n" not in error
    with Ledger(10**6, file) as ledger:
        assert ledger.spent == paid
        ledger.reserve("more", 1)
        assert ledger.report("more", 1).bit in (0, 1)


def test_a_full_database_is_told_as_a_full_disk(file: Path) -> None:
    used(file)
    before = content(file)
    with Ledger(1000, file) as ledger:
        ledger._connection.execute("PRAGMA max_page_count = 1")  # that is: no more than there are
        with refused("the disk is full", "make room"):
            for decision in range(200):
                ledger.reserve(f"{decision:0>200}", 0)
        reports = ledger.reports
        assert reports > 0
        spent = ledger.spent
        ledger.report("decision number 1", 1)  # needs no room
    assert (content(file)[1], spent) == (before[1], before[1])


def test_every_flipped_byte_is_refused_or_harmless(file: Path) -> None:
    used(file)
    whole, before = file.read_bytes(), content(file)
    noticed = 0
    places = [*range(100), *range(100, len(whole), 41)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        try:
            found = content(file)
        except LedgerError:
            noticed += 1
        else:
            assert found == before, place
    assert noticed > 100


def test_what_is_no_text_any_more_is_refused(file: Path) -> None:
    whole = used(file).read_bytes()
    for before, after in (
        (b"CREATE TABLE dec", b"CREATE \x8cABLE dec"),
        (b"decision number 77", b"decision number \xff7"),
    ):
        assert before in whole
        file.write_bytes(whole.replace(before, after))
        with refused("damaged, or not a ledger"):
            Ledger(1000, file)


def test_a_truncated_file_is_refused(file: Path) -> None:
    used(file)
    whole = file.read_bytes()
    for length in [0, 1, 50, 99, 100, 4095, 4096, 4097, *range(5000, len(whole), 1500), len(whole) - 1]:
        file.write_bytes(whole[:length])
        with refused("damaged, or not a ledger", "no report is made", str(file)):
            Ledger(1000, file)


DAMAGES = {
    "a bit": "UPDATE decisions SET bit = 1 - bit WHERE decision = 'decision number 1'",
    "an epsilon": "UPDATE decisions SET epsilon = '1/9' WHERE decision = 'decision number 1'",
    "a negative epsilon": "UPDATE spending SET epsilon = '-1/2' WHERE epsilon = '1/2'",
    "fewer reports": "UPDATE spending SET reports = 3 WHERE epsilon = '1/2'",
    "a missing decision": "DELETE FROM decisions WHERE decision = 'decision number 1'",
    "nothing spent": "DELETE FROM spending",
    "another column": "ALTER TABLE decisions ADD COLUMN value REAL",
    "no table": "DROP TABLE decisions",
    "another table": "CREATE TABLE values_seen (value REAL)",
    "a trigger": "CREATE TRIGGER t AFTER UPDATE ON decisions BEGIN DELETE FROM spending; END",
    "no terms": "DELETE FROM terms",
    "two terms": "INSERT INTO terms SELECT * FROM terms",
    "another cap": "UPDATE terms SET cap = '1001'",
    "another delta": "UPDATE terms SET delta = '0.5'",
    "fewer writes": "UPDATE terms SET writes = 0",
    "another program's": "PRAGMA application_id = 7",
    "no program's": "PRAGMA application_id = 0",
}


@pytest.mark.parametrize("statement", DAMAGES.values(), ids=DAMAGES)
def test_a_changed_file_is_refused(file: Path, statement: str) -> None:
    change(used(file), statement)
    with refused("damaged, or not a ledger", "no report is made", str(file)):
        Ledger(1000, file)


def test_forged_entries_are_refused(file: Path) -> None:
    for epsilon, reports in (("-1/2", 1), ("17", 1), ("much", 1), ("1/2", -1), ("1/2", 0)):
        with Ledger(1000, file):
            pass
        change(file, "INSERT INTO spending VALUES (?, ?, ?)", epsilon, reports, module._seal(epsilon, reports))
        if reports == 1:
            row = ("a", epsilon, None, module._seal("a", epsilon, None))
            change(file, "INSERT INTO decisions VALUES (?, ?, ?, ?)", *row)
        with refused("damaged, or not a ledger"):
            Ledger(1000, file)
        file.unlink()


def test_forged_terms_are_refused(file: Path) -> None:
    used(file)
    for terms in (("much", "0.0", 200), ("1000", "2", 200), ("1000", "0.0", "many")):
        change(file, "DELETE FROM terms")
        change(file, "INSERT INTO terms VALUES (?, ?, ?, ?)", *terms, module._seal(*terms))
        with refused("damaged, or not a ledger"):
            Ledger(1000, file)


UNDONE: dict[str, Callable[[Ledger], object]] = {
    "reserve": lambda ledger: ledger.reserve("b", 0.5),
    "report": lambda ledger: ledger.report("a", 1),
    "both": lambda ledger: (UNDONE["reserve"](ledger), UNDONE["report"](ledger)),
}


@pytest.mark.parametrize("work", UNDONE.values(), ids=UNDONE)
def test_an_older_copy_put_back_while_in_use_is_refused(work: Callable[[Ledger], object], file: Path) -> None:
    older, newest = file.with_name("older"), file.with_name("newest")
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 0)
        shutil.copyfile(file, older)
        work(ledger)
        shutil.copyfile(file, newest)
        shutil.copyfile(older, file)
        for use in (
            lambda: ledger.report("a", 1),
            lambda: ledger.recall("a"),
            lambda: ledger.reserve("c", 0.5),
            lambda: ledger.spent,
        ):
            for _ in range(2):  # it is not forgotten
                with refused("older than it was", "no report is made", "put the newest copy back"):
                    use()
        shutil.copyfile(newest, file)
        assert ledger.spent == Fraction(work is not UNDONE["report"], 2)


def test_what_another_process_wrote_is_seen_to_be_undone(file: Path) -> None:
    with Ledger(1, file) as ledger, Ledger(1, file) as other:
        older = file.read_bytes()
        other.reserve("a", 0.5)
        assert ledger.spent == Fraction(1, 2)  # seen by reading, not written
        file.write_bytes(older)
        with refused("older than it was"):
            ledger.reserve("a", 0.5)


@pytest.mark.parametrize("damage", ["nothing spent", "a missing decision"])
def test_rows_deleted_while_in_use_are_noticed(damage: str, file: Path) -> None:
    with Ledger(1000, used(file)) as ledger:
        change(file, DAMAGES[damage])
        for use in (
            lambda: ledger.reserve("another", 0.5),
            lambda: ledger.spent,
            lambda: ledger.reports,
        ):
            with refused("damaged, or not a ledger"):
                use()
        if damage == "a missing decision":  # it would be drawn twice
            with refused("damaged, or not a ledger"):
                ledger.reserve("decision number 1", 0.5)


def test_damage_in_use_is_told(file: Path) -> None:
    used(file)
    with Ledger(1000, file) as ledger:
        change(file, DAMAGES["a bit"])
        with refused("damaged, or not a ledger"):
            ledger.report("decision number 1", 1)
        change(file, DAMAGES["fewer reports"])
        with refused("damaged, or not a ledger"):
            ledger.reserve("another", 1)
        change(file, DAMAGES["no table"])
        with refused("no such table", "so no report is made"):
            ledger.report("decision number 2", 1)


def change(path: Path, statement: str, *values: str | int | None) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


def test_another_version_is_refused(file: Path) -> None:
    change(used(file), "PRAGMA user_version = 2")
    with refused("written in format 2", "this version reads 1", "update maskedbandits"):
        Ledger(1000, file)


def test_text_is_not_a_ledger(file: Path) -> None:
    file.write_text("decision,epsilon,bit\n" * 100)
    with refused("damaged, or not a ledger"):
        Ledger(1, file)


def test_a_folder_that_is_missing_or_in_the_way(folder: Path) -> None:
    with refused("No such file or directory", "check the path"):
        Ledger(1, folder / "missing" / "ledger")
    with refused("cannot be opened"):
        Ledger(1, folder)
    assert not list(folder.iterdir())


def test_a_file_that_may_only_be_read_makes_no_report(folder: Path, file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 0.5)
    file.chmod(0o444)
    folder.chmod(0o555)
    sent, end = children.call(children.as_nobody, str(file))
    folder.chmod(0o755)
    errors, spent, drawn = sent
    assert end == 0
    assert (spent, drawn) == (Fraction(1, 2), None)
    assert len(errors) == 2
    assert all("read-only, so no report is made" in error for error in errors)


def test_a_file_that_is_replaced_while_in_use_is_refused(file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 0.5)
        file.rename(file.with_name("elsewhere"))
        with refused("No such file", "no report is made"):
            ledger.report("a", 1)
        with Ledger(1, file) as other, refused("replaced while in use"):
            assert other.spent == 0
            ledger.report("a", 1)


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_nobody_else_may_read_a_new_file(file: Path) -> None:
    before = os.umask(0)
    try:
        with Ledger(1, file):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_memory_s_name_is_a_file_like_any_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in (":memory:", "what? 50 % #1"):
        with Ledger(1, name) as ledger:
            ledger.reserve("a", 0.5)
        with Ledger(1, name) as ledger:
            assert ledger.spent == Fraction(1, 2)
        assert (folder / name).exists()


def test_it_is_written_with_care(file: Path) -> None:
    with Ledger(1, file) as ledger:
        asked = {
            name: ledger._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "secure_delete")
        }
    assert asked == {"synchronous": 3, "journal_mode": "delete", "secure_delete": 1}


# What is refused


@pytest.mark.parametrize("cap", [-1, math.nan, math.inf, "much", None, True])
def test_what_is_no_cap_is_refused(cap: float) -> None:
    with pytest.raises(UserError, match="cap"):
        Ledger(cap)


@pytest.mark.parametrize("delta", [-1e-9, 1, math.nan, "small"])
def test_what_is_no_delta_is_refused(delta: float) -> None:
    with refused("delta", kind=UserError):
        Ledger(1, delta=delta)


NO_NAMES: list[Any] = ["", "a" * 201, "two\nlines", "\ud800", "nul\0", None, 1.0, True, 2**63, 10**5000, b"a"]
NO_NAMES += [np.True_, np.float64(1), np.array([1, 2]), np.array("a"), np.str_("two\nlines")]


@pytest.mark.parametrize("decision", NO_NAMES, ids=range(len(NO_NAMES)))
def test_what_is_no_decision_is_refused(decision: Any) -> None:
    with Ledger(1) as ledger, refused("needs another name", kind=UserError):
        ledger.reserve(decision, 0.5)


def test_names_of_decisions(place: Path | None) -> None:
    names: list[str | int] = [
        "a" * 200,
        "Überschrift ✓",
        " ",
        "a'; DROP TABLE decisions",
        -(2**63) + 1,
        2**63 - 1,
        "A",
        "a",
    ]
    with Ledger(100, place) as ledger:
        for name in names:
            ledger.reserve(name, 1)
            ledger.report(name, 1)
        assert ledger.reports == len(names)
        ledger.reserve(7, 1)
        ledger.reserve("7", 1)
        assert ledger.reports == len(names) + 1


class Page(enum.StrEnum):
    HOME = "home"


class Shelf(str, enum.Enum):  # noqa: UP042 - the older kind, whose text differs
    HOME = "home"


class Place(enum.IntEnum):
    SEVENTH = 7


class Odd(str):
    """Says of itself what it is not."""

    __slots__ = ()

    def __str__(self) -> str:
        return "odd"

    def __repr__(self) -> str:
        return "two\nlines"


@pytest.mark.parametrize(
    ("decision", "plain"),
    [
        (np.str_("home"), "home"),
        (Page.HOME, "home"),
        (Shelf.HOME, "home"),
        (Odd("home"), "home"),
        (np.int64(7), "7"),
        (np.uint8(7), "7"),
        (Place.SEVENTH, "7"),
    ],
)
def test_names_of_other_kinds_are_plain_text(decision: Any, plain: str, file: Path) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve(decision, 0.5)
        report = ledger.report(decision, 1)
    with Ledger(1, file) as ledger:
        assert ledger.recall(plain) == ledger.report(decision, 0) == report
        ledger.reserve(plain, 0.5)
        assert ledger.reports == 1


def test_an_epsilon_of_endless_digits_is_refused() -> None:
    with Ledger(1) as ledger, refused("too many digits", kind=UserError):
        ledger.reserve("a", Fraction(1, 3**1000))


@pytest.mark.parametrize("epsilon", [-0.1, math.nan, math.inf, 17])
def test_what_is_no_epsilon_is_refused(epsilon: float) -> None:
    with Ledger(100) as ledger:
        with pytest.raises(UserError, match="epsilon"):
            ledger.reserve("a", epsilon)
        assert ledger.reports == 0


def test_a_closed_ledger_says_so(place: Path | None) -> None:
    ledger = Ledger(1, place)
    ledger.close()
    ledger.close()
    with refused("closed: open it again"):
        ledger.reserve("a", 0.5)
    with refused("closed: open it again"):
        assert ledger.spent
    assert "cap=1" in repr(ledger)
