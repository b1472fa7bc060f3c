"""A cap that renews: what counts when, with wrong clocks, restarts, crashes and changed terms."""

import contextlib
import math
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import ledger_children as children
import pytest
from ledgers import Clock, read_rows, refused

from helpers.boundaries import set_ledger_clock
from maskedbandits.errors import UserError
from maskedbandits.privacy.ledger import Ledger, LedgerError, Overdraft, period

pytest_plugins = ["ledger_fixtures"]

DAY = 86_400
START = period.EARLIEST_TIME_S + 1000 * DAY


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(START)
    set_ledger_clock(monkeypatch, clock)
    return clock


def is_refused(ledger: Ledger, decision: str, epsilon: float) -> bool:
    try:
        ledger.reserve(decision, epsilon)
    except Overdraft:
        return True
    return False


def test_payment_counts_for_exactly_one_period(location: Path | None, clock: Clock) -> None:
    with Ledger(1, location, per="30 days") as ledger:
        clock.at = START + 0.9  # at the end of a second
        ledger.reserve("a", 0.75)
        for seconds in (0, 1, DAY, 30 * DAY, 30 * DAY + 0.95):
            clock.at = START + seconds
            assert (ledger.spent, ledger.remaining) == (Fraction(3, 4), Fraction(1, 4))
            assert is_refused(ledger, "b", 0.5)
        clock.at = START + 30 * DAY + 1
        assert (ledger.spent, ledger.total, ledger.reports) == (Fraction(0), Fraction(3, 4), 1)
        ledger.reserve("b", 0.5)
        assert (ledger.spent, ledger.total, ledger.reports) == (Fraction(1, 2), Fraction(5, 4), 2)


def test_two_caps_never_fit_at_a_boundary(clock: Clock) -> None:
    with Ledger(1, per="10 days") as ledger:
        for day in range(100):
            clock.at = START + day * DAY
            for part in range(4):
                with contextlib.suppress(Overdraft):
                    ledger.reserve(f"{day}: {part}", 0.3)
            assert ledger.spent <= 1
        # three on the first day, three on the eleventh or the one after it, as a payment counts to the end of a second
        assert ledger.total == Fraction(3, 10) * ledger.reports
        assert ledger.reports == 3 * 10


def test_n_periods_allow_n_caps_in_total(clock: Clock) -> None:
    with Ledger(1, per="1 day") as ledger:
        for number in range(7):
            clock.at = START + number * (DAY + 1)
            ledger.reserve(number, 1)
            assert (ledger.spent, ledger.total) == (Fraction(1), Fraction(number + 1))


def test_clock_set_back_returns_nothing(file: Path, clock: Clock) -> None:
    with Ledger(1, file, per="30 days") as ledger:
        ledger.reserve("a", 1)
    for at in (START - 1000 * DAY + 1, START - 29 * DAY, START):
        clock.at = at
        with Ledger(1, file, per="30 days") as ledger:
            assert is_refused(ledger, "b", 0.1)
    clock.at = START + 30 * DAY + 1
    with Ledger(1, file, per="30 days") as ledger:
        ledger.reserve("b", 1)
        clock.at = START  # when "a" counted, and "b" still does
        assert ledger.spent == 1
        assert is_refused(ledger, "c", 0.1)


def test_clock_set_ahead_borrows_from_later(file: Path, clock: Clock) -> None:
    with Ledger(1, file, per="30 days") as ledger:
        ledger.reserve("a", 1)
        clock.at = START + 365 * DAY
        ledger.reserve("b", 1)
        for day in (1, 40, 364, 394):  # mended, and until the borrowed time has come and passed
            clock.at = START + day * DAY
            assert is_refused(ledger, f"day {day}", 0.1)
        clock.at = START + 395 * DAY + 1
        ledger.reserve("c", 1)
        assert ledger.total == 3


def test_unset_clock_makes_no_report(location: Path | None, clock: Clock) -> None:
    with Ledger(1, location, per="30 days") as ledger:
        clock.at = 12.0
        with refused("the clock says 1970", "no report is made", "set it"):
            ledger.reserve("a", 0.1)
        clock.at = START
        assert ledger.reports == 0
    with Ledger(1) as ledger:  # asks no clock
        clock.at = 12.0
        ledger.reserve("a", 0.1)
        assert ledger.spent == Fraction(1, 10)


def test_delta_composes_what_counts(clock: Clock) -> None:
    with Ledger(4, delta=1e-6, per="1 day") as ledger, Ledger(4, delta=1e-6) as other:
        fit = 0
        while not is_refused(other, str(fit), 0.1):
            fit += 1
        for day in range(3):
            clock.at = START + day * (DAY + 1)
            for number in range(fit):
                ledger.reserve(f"{day}: {number}", 0.1)
            assert is_refused(ledger, f"{day}: more", 0.1)
            assert ledger.spent == other.spent


def test_old_payment_times_are_erased(file: Path, clock: Clock) -> None:
    with Ledger(1, file, per="1 day") as ledger:
        for number in range(5):
            clock.at = START + number * 1000
            ledger.reserve(number, 0.1)
        assert len(read_rows(file, "SELECT * FROM spending")) == 5
        clock.at = START + 10 * DAY
        ledger.reserve("later", 0.1)
        rows = read_rows(file, "SELECT moment, epsilon, reports FROM spending ORDER BY moment")
        assert rows == [(0, "1/10", 5), (START + 10 * DAY + 1, "1/10", 1)]
    other = file.with_name("other")
    with Ledger(1, other) as ledger:
        ledger.reserve("a", 0.5)
        assert read_rows(other, "SELECT moment FROM spending") == [(0,)]


def test_paid_decision_can_be_reported_later(clock: Clock) -> None:
    with Ledger(1, per="1 day") as ledger:
        ledger.reserve("a", 1)
        clock.at = START + 3 * DAY
        report = ledger.report("a", 1)
        assert ledger.report("a", 0) == report
        ledger.reserve("a", 1)  # once for each decision, however long ago
        assert (ledger.spent, ledger.total) == (Fraction(0), Fraction(1))


# What it was made for


def test_file_keeps_its_period(file: Path) -> None:
    Ledger(1, file, per="30 days").close()
    for per in (None, "29 days", "31 days"):
        with refused("has cap = 1 per 30 days and delta = 0", "change=True"):
            Ledger(1, file, per=per)
    with Ledger(1, file, per=timedelta(days=30)) as ledger:
        assert "cap=1 per 30 days" in repr(ledger)
        with refused("above the cap of 1 per 30 days", kind=Overdraft):
            ledger.reserve("a", 2)


def test_later_period_counts_everything_as_spent_now(file: Path, clock: Clock) -> None:
    with Ledger(1, file) as ledger:
        ledger.reserve("a", 1)
    with Ledger(1, file, per="1 day", change=True) as ledger:
        assert ledger.spent == 1
        clock.at = START + DAY
        assert is_refused(ledger, "b", 0.1)
        clock.at = START + DAY + 1
        ledger.reserve("b", 1)
    with Ledger(1, file, change=True) as ledger:
        assert ledger.spent == ledger.total == 2
        assert is_refused(ledger, "c", 0.1)


def test_longer_period_counts_recent_payments(file: Path, clock: Clock) -> None:
    with Ledger(1, file, per="1 day") as ledger:
        ledger.reserve("a", 0.5)
        clock.at = START + 2 * DAY
        ledger.reserve("b", 0.25)  # and when "a" was paid for is forgotten
    with Ledger(1, file, per="3 days", change=True) as ledger:
        assert ledger.spent == Fraction(3, 4)
        clock.at = START + 4 * DAY - 1  # "a" was paid a day ago at least when the terms were changed
        assert ledger.spent == Fraction(3, 4)
        clock.at = START + 4 * DAY
        assert ledger.spent == Fraction(1, 4)
    with Ledger(1, file, per="1 hour", change=True) as ledger:
        assert (ledger.spent, ledger.total) == (Fraction(0), Fraction(3, 4))


@pytest.mark.parametrize(
    ("per", "seconds"),
    [
        ("30 days", 30 * DAY),
        (" 1 day ", DAY),
        ("2weeks", 14 * DAY),
        ("90 seconds", 90),
        ("5 minute", 300),
        (timedelta(hours=12), DAY // 2),
        (None, 0),
    ],
)
def test_periods_are_parsed_and_formatted(per: Any, seconds: int) -> None:
    assert period.parse_period(per) == seconds
    if seconds:
        assert (
            period.parse_period(period.format_period(seconds) if period.format_period(seconds)[0].isdigit() else per)
            == seconds
        )


NO_PERIODS: list[Any] = ["", "30", "days", "-1 days", "1.5 days", "1 month", "0 days", "999999999999 weeks", 30, 30.0]
NO_PERIODS += [timedelta(0), timedelta(days=-1), timedelta(seconds=1.5), timedelta.max, True, "1 day\n2 days", b"1 day"]


@pytest.mark.parametrize("per", NO_PERIODS, ids=repr)
def test_invalid_period_is_refused(per: Any) -> None:
    with refused("per = ", "not a period", "such as '30 days'", kind=UserError):
        Ledger(1, per=per)


# Crashes


def test_crash_at_any_statement_keeps_dated_payments(folder: Path) -> None:
    number, ends = 0, list[int | None]()
    while not ends or ends[-1] == -9:
        number += 1
        path = folder / str(number)
        sent, end = children.call(children.crash_when_renewed, str(path), number)
        ends.append(end)
        with Ledger(1, path, per="1 second") as ledger:
            assert ledger.total in ((1, 2) if sent is None else (2,))
            assert ledger.reports == ledger.total
            assert ledger.spent <= 1
    assert ends[-1] == 0
    assert number > 8  # one transaction that forgets the time of a payment and makes another


def test_second_clock_prevents_early_renewal(clock: Clock) -> None:
    right = clock.at
    with Ledger(2, per="30 days") as ledger:
        for decision in range(2):
            ledger.reserve(decision, 1, elsewhere=right)
            clock.at += 31 * 86_400
        with pytest.raises(Overdraft):
            ledger.reserve("third", 1, elsewhere=right)
        ledger.reserve("third", 1)  # with the own clock alone it has been two months


@pytest.mark.parametrize("elsewhere", [math.nan, math.inf, -math.inf, -1.0, 1e300, 253_402_300_799.0, "x"])
def test_invalid_second_clock_pays_nothing(elsewhere: Any, clock: Clock) -> None:
    """A payment dated so far ahead would never expire."""
    with Ledger(1, per="1 day") as ledger:
        with pytest.raises(LedgerError, match="is not a time"):
            ledger.reserve("first", 1, elsewhere=elsewhere)
        ledger.reserve("second", 1, elsewhere=clock.at + 60)
        clock.at += 2 * 86_400
        ledger.reserve("third", 1)
