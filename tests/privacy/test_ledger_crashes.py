"""Crashes, interrupts and concurrency of the ledger."""

import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import ledger_children as children
import pytest
from ledgers import refused

from helpers.boundaries import shorten_ledger_waits
from helpers.private import connection_of, replace_connection
from maskedbandits.privacy.ledger import Ledger, Overdraft
from maskedbandits.privacy.ledger import storage as file_module

pytest_plugins = ["ledger_fixtures"]

# Crashes


def test_crash_at_any_statement_leaves_sound_ledger(folder: Path) -> None:
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


def test_crash_after_draw_keeps_the_bit(file: Path) -> None:
    sent, end = children.call(children.crash_after_draw, str(file))
    assert (sent, end) == (None, -9)
    with Ledger(1, file) as ledger:
        drawn = ledger.recall("a")
        assert drawn is not None
        assert {ledger.report("a", value) for value in [0, 1] * 32} == {drawn}


def test_crash_before_sending_keeps_the_bits(file: Path) -> None:
    sent, end = children.call(children.crash_after_report, str(file))
    assert end == -9
    with Ledger(1, file) as ledger:
        assert [ledger.report(decision, decision % 2).bit for decision in range(64)] == sent


class Interrupted:
    """A connection on which the exception of a signal follows a statement, once."""

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
def test_interrupt_at_any_statement_leaves_nothing_open(
    after: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_ledger_waits(monkeypatch)
    with Ledger(1, file) as ledger, Ledger(1, file) as other:
        connection = connection_of(ledger)
        replace_connection(ledger, Interrupted(connection, after))
        with pytest.raises(KeyboardInterrupt):
            ledger.reserve("a", 0.5)
        assert not connection.in_transaction
        other.reserve("b", 0.25)
        ledger.reserve("a", 0.5)
        assert ledger.spent == other.spent == Fraction(3, 4)


def test_open_transaction_is_rolled_back(file: Path) -> None:
    with Ledger(1, file) as ledger:
        connection_of(ledger).execute("BEGIN IMMEDIATE")
        connection_of(ledger).execute("DELETE FROM spending")
        ledger.reserve("a", 0.5)
        connection_of(ledger).execute("BEGIN IMMEDIATE")
        connection_of(ledger).execute("DELETE FROM spending")
        assert ledger.spent == Fraction(1, 2)


def test_sqlite_errors_are_not_called_damage(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(1, file) as ledger:
        monkeypatch.setattr(file_module, "roll_back", lambda connection: None)
        connection_of(ledger).execute("BEGIN")
        with refused("within a transaction, so no report is made", "check the file"):
            ledger.reserve("a", 0.5)


# Many at once


def test_threads_reach_the_cap_and_never_exceed_it(location: Path | None) -> None:
    start = threading.Barrier(8)

    def work(who: int) -> tuple[int, list[int]]:
        start.wait()
        paid = 0
        for decision in range(20):
            with contextlib.suppress(Overdraft):
                ledger.reserve(f"{who}: {decision}", 0.1)
                paid += 1
        return paid, [ledger.report(f"common {decision}", who % 2).bit for decision in range(20)]

    with Ledger(10, location) as ledger, ThreadPoolExecutor(8) as pool:
        for decision in range(20):
            ledger.reserve(f"common {decision}", 0)
        results = list(pool.map(work, range(8)))
        assert sum(paid for paid, _ in results) == 100  # of 160 that were tried
        assert ledger.spent == 10
        assert all(bits == results[0][1] for _, bits in results)


def test_processes_reach_the_cap_and_never_exceed_it(file: Path) -> None:
    with Ledger(10, file) as ledger:
        for decision in range(20):
            ledger.reserve(f"common {decision}", 0)
        started = [children.start(children.spend_all, str(file), who, 10, 20) for who in range(3)]
        results = [children.finish(one) for one in started]
        assert [end for _, end in results] == [0, 0, 0]
        assert sum(sent[0] for sent, _ in results) == 100
        assert ledger.spent == 10
        assert all(sent[1] == results[0][0][1] for sent, _ in results)


def test_concurrent_creation_shares_one_file(folder: Path) -> None:
    for trial in range(3):
        path = folder / str(trial)
        started = [children.start(children.create, str(path), who) for who in range(4)]
        assert [children.finish(one) for one in started] == [("done", 0)] * 4
        with Ledger(1000, path) as ledger:
            assert ledger.spent == 4
        assert sorted(folder.iterdir()) == [folder / str(done) for done in range(trial + 1)]  # no drafts


def test_long_wait_for_lock_is_an_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_ledger_waits(monkeypatch)
    with Ledger(1, file) as ledger, contextlib.closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with refused("another process has been writing"):
            ledger.reserve("a", 0.5)
        other.execute("ROLLBACK")
        ledger.reserve("a", 0.5)
        assert ledger.spent == Fraction(1, 2)


@pytest.mark.parametrize("where", ["memory", "file"])
def test_forked_copy_is_refused(where: str, file: Path) -> None:
    path = None if where == "memory" else str(file)
    sent, end = children.call(children.use_after_fork, path)
    assert "opened by another process" in sent
    assert end == 0
