"""Wrong and corrected clocks, and raised caps: no promise is lost, and no cap exceeded."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from device_fakes import START, Clock, Service, opened, pass_time
from hypothesis import given
from hypothesis import strategies as st

from helpers.boundaries import set_ledger_clock
from maskedbandits.device.http import HttpReply
from maskedbandits.device.protocol import OfferReader
from maskedbandits.privacy.ledger import Ledger

pytest_plugins = ["device_fixtures"]
DAY = 86_400.0
Look = Callable[[], object]


@pytest.fixture(autouse=True)
def _ledger_s_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    set_ledger_clock(monkeypatch, clock)


@pytest.fixture
def wrong(service: Service, clock: Clock) -> Callable[[float, Look], None]:
    """Shift the device's clock for a while; the server's stays right."""

    def off(seconds: float, work: Look) -> None:
        clock.at += seconds
        service.clock = lambda: clock.at - seconds
        work()
        clock.at -= seconds
        service.clock = clock.time

    return off


@pytest.mark.parametrize("seconds", [-600.0, -2 * DAY, -START])
def test_clock_behind_may_be_corrected(
    seconds: float, url: str, service: Service, clock: Clock, wrong: Callable[[float, Look], None]
) -> None:
    with opened(url) as device:
        decision = device.decide()
        wrong(seconds, device.send_due)
        pass_time(device, clock, 55)
        assert decision.report(1)  # it is not too late
        assert not service.arrivals
        pass_time(device, clock, 40)
    assert len(service.taken) == 1


@pytest.mark.parametrize("seconds", [2 * DAY, 3 * 365 * DAY])
@pytest.mark.parametrize("network", ["up", "down"])
def test_clock_ahead_may_be_corrected(
    seconds: float, network: str, url: str, service: Service, clock: Clock, wrong: Callable[[float, Look], None]
) -> None:
    def look() -> None:
        for _ in range(60):
            device.send_due()
            clock.at += 60

    with opened(url) as device:
        device.decide().report(1)
        service.fails = lambda _: "" if network == "up" else "before"
        wrong(seconds, look)
        service.fails = lambda _: ""
        device.send_due()  # as it does once a minute at least
        pass_time(device, clock, 3700)
    assert len(service.taken) == 1


def test_clock_may_be_corrected_in_two_steps(url: str, service: Service, clock: Clock) -> None:
    with opened(url) as device:
        device.decide().report(1)
        for step in (-2 * DAY, DAY, DAY):
            clock.at += step
            device.send_due()
        pass_time(device, clock, 100)
    assert len(service.taken) == 1


@pytest.mark.parametrize(("cap", "per"), [(20, None), (10, "30 days")])
def test_other_terms_send_promises_and_pay_nothing(
    cap: int, per: str | None, url: str, service: Service, clock: Clock, folder: Path
) -> None:
    path = folder / "ledger"
    with opened(url, path=path, cap=10) as device:
        assert device.decide(visitor="ann").participate
    with opened(url, path=path, cap=cap, per=per) as device:
        known = device.decide(visitor="ann")
        assert known.participate  # paid for before
        assert known.report(1)
        refused = device.decide()
        assert not refused.participate
        assert "has cap = 10 and delta = 0, not cap" in refused.why
        assert service.questions[-1] == {"participate": False}
        pass_time(device, clock, 200)
    assert len(service.taken) == 1
    with Ledger(10, path) as ledger:
        assert ledger.remaining == 9


@pytest.mark.parametrize("cap", [1, 2, 4])
def test_device_clock_ahead_does_not_renew_cap(cap: int, url: str, service: Service, clock: Clock) -> None:
    service.clock = lambda: START
    taken = 0
    with opened(url, cap=cap, per="30 days") as device:
        for _ in range(5):
            taken += device.decide().participate
            clock.at += 31 * DAY
    assert taken == cap


@pytest.mark.parametrize("jumps", [(-400, 31, 62), (31, 62, 93), (0, -31, 31)])
def test_server_clock_ahead_does_not_renew_cap(
    jumps: tuple[int, ...], url: str, service: Service, clock: Clock
) -> None:
    with opened(url, cap=1, per="30 days") as device:
        parts = []
        for days in jumps:
            service.clock = lambda days=days: clock.at + days * DAY  # type: ignore[misc]
            parts.append(device.decide().participate)
    assert parts == [True, False, False]


@pytest.mark.parametrize(("epsilon", "cap", "fit"), [(4.1, 8.2, 2), (0.1, 0.3, 3), (2.3, 6.899999, 2)])
def test_last_report_that_fits_is_made(
    epsilon: float, cap: float, fit: int, url: str, service: Service, clock: Clock
) -> None:
    service.decision = {"epsilon": epsilon}
    with opened(url, cap=cap, max_epsilon=16) as device:
        assert [device.decide().participate for _ in range(fit)] == [True] * fit
        service.decision = {}
        assert not device.decide().participate


def test_server_clock_a_year_ahead_is_refused(url: str, service: Service, clock: Clock) -> None:
    """A payment of that day would never expire."""
    with opened(url, cap=1, per="1 day") as device:
        service.clock = lambda: clock.at + 400 * DAY
        assert device.decide().why == "the server's clock is more than a year ahead"
        service.clock = clock.time
        assert device.decide().participate


def test_clock_set_back_before_promise_moves_nothing(url: str, service: Service, clock: Clock) -> None:
    """A correction applies to promises from before it, and to no later one."""
    with opened(url) as device:
        device.decide().report(1)
        clock.at -= 3600
        device.send_due()
        while not service.taken:
            pass_time(device, clock, 1)
        device.decide().report(1)
        clock.at += 3600  # nobody looked for an hour
        pass_time(device, clock, 100)
    assert len(service.taken) == 2


@pytest.mark.parametrize("date", ["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2100 00:00:00 GMT", "soon"])
def test_proxy_that_rewrites_date_changes_nothing(date: str, url: str, service: Service, clock: Clock) -> None:
    service.date = date
    service.clock = lambda: clock.at + 7200  # hours from the device's clock, which only `now` shows
    with opened(url) as device:
        assert device.decide().participate
        pass_time(device, clock, 59)
        assert not service.arrivals
        pass_time(device, clock, 60)
    assert len(service.taken) == 1


@given(
    now=st.none() | st.floats(allow_nan=False) | st.integers(-(10**400), 10**400) | st.text() | st.booleans(),
    report_at=st.floats(START - 9999, START + 9999),
    expires=st.floats(START, START + 40 * DAY),
    is_handed=st.booleans(),
)
def test_false_time_of_server_hurries_no_report(now: Any, report_at: float, expires: float, is_handed: bool) -> None:
    reader = OfferReader("headline", Fraction(1))
    times = {"now": now, "report_at": report_at, "expires": expires, "token": "t" * 20, "participate": True}
    content = {"arm": "plain", "epsilon": 1, "experiment": "headline", **times}
    if is_handed:
        offer = reader.read_handed(content, "http://127.0.0.1:9", START)
    else:
        offer = reader.read_reply(HttpReply(200, content), None, START)
    if not offer.why:
        assert offer.report_in >= 60
        assert offer.report_in < offer.expires_in <= 30 * DAY + 5


@pytest.mark.parametrize("ahead", [-400 * DAY, -31 * DAY, 31 * DAY, 365 * DAY])
def test_false_time_of_server_renews_no_cap(ahead: float, url: str, service: Service, clock: Clock) -> None:
    with opened(url, cap=1, per="30 days") as device:
        assert device.decide().participate
        service.clock = lambda: clock.at + ahead
        assert not device.decide().participate


def test_older_service_without_time_is_understood(url: str, service: Service, clock: Clock) -> None:
    service.decision = {"now": None}
    with opened(url) as device:
        assert device.decide().participate
        pass_time(device, clock, 120)
    assert len(service.taken) == 1
