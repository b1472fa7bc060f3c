"""When reports leave, what is retried, and what is never drawn again."""

import itertools
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from device_fakes import START, Clock, Service, opened, pass_time, serving

from helpers.private import connection_of, next_due, stop_flag
from maskedbandits.device import Decision, Device, reporter
from maskedbandits.privacy import Ledger, Randomizer

pytest_plugins = ["device_fixtures"]


@pytest.fixture
def certain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mechanisms that always report the truth, to follow a reward."""
    monkeypatch.setattr(Randomizer, "bit", lambda self, value: int(value))


@pytest.mark.usefixtures("certain")
@pytest.mark.parametrize(("reward", "sent"), [(1, 1), (0, 0), (None, 0)])
def test_report_leaves_at_its_time_in_any_case(
    reward: float | None, sent: int, url: str, service: Service, clock: Clock
) -> None:
    with opened(url, jitter=20) as device:
        decision = device.decide()
        if reward is not None:
            assert decision.report(reward)
        pass_time(device, clock, 60)
        assert not service.arrivals
        pass_time(device, clock, 32)
        assert [arrival.bit for arrival in service.arrivals] == [sent]
        pass_time(device, clock, 90_000)
    assert len(service.arrivals) == 1


@pytest.mark.usefixtures("certain")
def test_first_reward_in_time_counts(
    url: str, service: Service, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(url) as device:
        twice, late = device.decide(), device.decide()
        assert twice.report(1)
        assert not twice.report(0)
        pass_time(device, clock, 60)
        assert not late.report(1)
        pass_time(device, clock, 60)
        assert not late.report(1)
    assert [service.taken[token] for token in service.issued] == [1, 0]
    assert not caplog.records  # which is no trouble


def test_reports_leave_alone_at_random_times(url: str, service: Service, clock: Clock) -> None:
    with opened(url, jitter=3000) as device:
        for _ in range(30):
            device.decide()
        pass_time(device, clock, 3200)
    assert len(service.taken) == len(service.arrivals) == 30
    assert len({arrival.at for arrival in service.arrivals}) > 15  # of 3,000 seconds


@pytest.mark.parametrize("when", ["before", "after"])
def test_retry_sends_the_same_bit(when: str, url: str, service: Service, clock: Clock) -> None:
    service.fails = lambda count: when if count % 4 else ""
    with opened(url) as device:
        for reward in (0, 1) * 10:
            device.decide().report(reward)
        pass_time(device, clock, 80_000)
    assert len(service.taken) == 20
    bits: dict[str, set[int]] = {}
    for arrival in service.arrivals:
        bits.setdefault(arrival.token, set()).add(arrival.bit)
    assert len(service.arrivals) > 50
    assert all(len(each) == 1 for each in bits.values())


def test_attempts_become_rare_and_end(url: str, service: Service, clock: Clock) -> None:
    """A silent server gets 20 requests within three days of the first."""
    service.fails = lambda count: "before"
    service.expires_after = 30 * 86_400.0
    with opened(url) as device:
        device.decide().report(1)
        pass_time(device, clock, 366 * 86_400)
        assert settled(device)
        times = [arrival.at - START for arrival in service.arrivals]
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert len(times) == 20
        assert max(times) - min(times) < 3 * 86_400
        assert 15 <= pauses[0] <= 30
        assert all(10_800 <= pause <= 21_600 for pause in pauses[10:])
        service.fails = lambda count: ""
        pass_time(device, clock, 90_000)
        assert len(service.arrivals) == 20


def test_few_attempts_follow_expiry(url: str, service: Service, clock: Clock) -> None:
    """The clock may be wrong, so there are some."""
    service.fails = lambda count: "before"
    with opened(url) as device:
        device.decide().report(1)
        clock.at += 90_000
        pass_time(device, clock, 366 * 86_400)
        assert settled(device)
    assert len(service.arrivals) == 10


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"status": "accepted"}),
        (200, {"status": "duplicate"}),
        (410, {"status": 410, "code": "late"}),
        (410, {"status": "late"}),  # of an older service
        (400, {"status": 400, "code": "forged"}),
        (400, {"status": 400, "code": "invalid"}),
        (403, {"status": 403, "code": "foreign"}),
    ],
    ids=str,
)
def test_final_replies_end_attempts(answer: tuple[int, Any], url: str, service: Service, clock: Clock) -> None:
    with opened(url) as device:
        device.decide()
        pass_time(device, clock, 59)
        service.answers = answer
        pass_time(device, clock, 60)
        requests = len(service.headers)
        pass_time(device, clock, 10_000)
        assert len(service.headers) == requests == 2
        assert settled(device)


@pytest.mark.parametrize(
    "answer",
    [
        (200, {"status": "fine"}),
        (200, {"status": []}),
        (200, {"status": None}),
        (200, b"<html>Log in to this network</html>"),
        (200, [1]),
        (307, {}),
        (401, {"error": "no key"}),
        (429, {"error": "too many"}),
        (503, {"error": "come back"}),
    ],
    ids=str,
)
def test_other_replies_are_retried(answer: tuple[int, Any], url: str, service: Service, clock: Clock) -> None:
    with opened(url) as device:
        device.decide()
        pass_time(device, clock, 59)
        service.answers = answer
        pass_time(device, clock, 600)
        assert 3 <= len(service.headers) <= 8
        service.answers = None
        pass_time(device, clock, 3600)
        assert len(service.taken) == 1
        assert settled(device)


def settled(device: Device) -> bool:
    """Tell whether nothing is left of any report except its payment."""
    assert device.ledger is not None
    bits = connection_of(device.ledger).execute("SELECT bit FROM decisions").fetchall()
    return next_due(device) is None and {bit for (bit,) in bits} == {2}


def test_received_or_late_report_leaves_nothing(url: str, service: Service, clock: Clock, tmp_path: Path) -> None:
    with opened(url, path=tmp_path / "ledger") as device:
        device.decide().report(1)
        device.decide()
        pass_time(device, clock, 100)
        assert settled(device)
        device.decide().report(1)
        device.decide()
        clock.at += 100_000  # off for more than a day
        pass_time(device, clock, 100)
        assert settled(device)
    assert (len(service.arrivals), len(service.taken)) == (4, 2)
    tokens = [token.encode() for token in service.issued]
    for file in tmp_path.iterdir():
        assert not [token for token in tokens if token in file.read_bytes()]


def test_device_that_was_off_waits_its_delay(url: str, service: Service, clock: Clock, tmp_path: Path) -> None:
    with opened(url, path=tmp_path / "ledger", jitter=1000) as device:
        for _ in range(20):
            device.decide().report(1)
    clock.at += 5000
    with opened(url, path=tmp_path / "ledger", jitter=1000) as device:
        device.send_due()
        assert not service.arrivals
        pass_time(device, clock, 1061)
    assert len(service.taken) == 20
    assert len({arrival.at for arrival in service.arrivals}) > 10


@pytest.mark.parametrize("back", [6, 3600, 86_400 * 365])
def test_clock_set_back_keeps_remaining_wait(
    back: float, url: str, service: Service, clock: Clock, tmp_path: Path
) -> None:
    with opened(url, path=tmp_path / "ledger", jitter=6) as device:
        device.decide().report(1)
        pass_time(device, clock, 50)
    clock.at -= back
    with opened(url, path=tmp_path / "ledger", jitter=6) as device:
        device.send_due()  # as it does once a minute at least
        pass_time(device, clock, 9)
        assert not service.arrivals
        pass_time(device, clock, 12)
        assert len(service.taken) == 1
        clock.at -= back  # while there is nothing to do
        device.decide()
        pass_time(device, clock, 59)
        assert len(service.taken) == 1
        pass_time(device, clock, 12)
        assert len(service.taken) == 2


def test_unset_clock_is_not_trusted(url: str, service: Service, clock: Clock) -> None:
    with opened(url, jitter=6) as device:
        device.decide().report(1)
        pass_time(device, clock, 50)
        clock.at -= START  # 1970
        device.send_due()
        assert device.decide().why == "the clock was never set"
        clock.at += START  # it asked a server for the time
        pass_time(device, clock, 9)
        assert not service.arrivals
        pass_time(device, clock, 12)
    assert len(service.taken) == 1


def test_clock_may_differ_from_server(service: Service, clock: Clock) -> None:
    service.clock = lambda: clock.at - 7 * 86_400  # the device is a week ahead
    with serving(service) as address, opened(address) as device:
        assert device.decide().participate
        pass_time(device, clock, 58)
        assert not service.arrivals
        pass_time(device, clock, 40)
    assert len(service.taken) == 1


def test_rows_of_another_server_wait(url: str, service: Service, clock: Clock, tmp_path: Path) -> None:
    other = Service(clock.time)
    with serving(other) as address:
        with opened(address, path=tmp_path / "ledger", key="for the other".replace(" ", "-")) as device:
            device.decide()
        with opened(url, path=tmp_path / "ledger", key="mine") as device:
            device.decide()
            pass_time(device, clock, 200)
        assert (len(service.taken), len(other.arrivals)) == (1, 0)
        assert all(headers["Authorization"] == "Bearer mine" for headers in service.headers)
        with opened(address, path=tmp_path / "ledger") as device:
            pass_time(device, clock, 200)
    assert (len(service.taken), len(other.taken)) == (1, 1)


def test_thread_sends_by_itself() -> None:
    service = Service()
    service.report_after = 0.1
    with serving(service) as address, opened(address, background=True, jitter=0.1) as device:
        decisions: list[Decision] = [device.decide() for _ in range(3)]
        assert all(decision.report(1) for decision in decisions)
        wait_for(lambda: len(service.taken) == 3)
        decisions = [device.decide() for _ in range(3)]  # while it sleeps
        wait_for(lambda: len(service.taken) == 6)
    assert not [thread for thread in threading.enumerate() if thread.name == "maskedbandits device"]


def wait_for(what: Any) -> None:
    for _ in range(12_000):
        if what():
            return
        time.sleep(0.01)
    pytest.fail("it never happened")


def test_closed_device_does_not_participate(url: str, service: Service, clock: Clock) -> None:
    device = opened(url)
    decision = device.decide()
    device.close()
    device.close()
    assert not decision.report(1)
    assert device.send_due() == 0
    again = device.decide()
    assert (again.arm, again.participate) == ("plain", False)


def test_closing_device_starts_nothing(url: str, service: Service, clock: Clock, tmp_path: Path) -> None:
    with opened(url, path=tmp_path / "ledger", jitter=0) as device:
        for _ in range(5):
            device.decide()
        clock.at += 60
        device.send_due()
        stop_flag(device).set()
        device.send_due()
        assert not service.arrivals
    with opened(url, path=tmp_path / "ledger") as device:
        pass_time(device, clock, 100)
    assert len(service.taken) == len(service.arrivals) == 5


def test_silent_server_does_not_block_close() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        with Device(address, "headline", cap=9, max_epsilon=1, timeout=0.2) as device:
            assert device.decide(fallback="x").arm == "x"


def test_bit_drawn_elsewhere_is_sent(url: str, service: Service, clock: Clock, tmp_path: Path) -> None:
    """The ledger's bit is sent, whichever process drew it."""
    path = tmp_path / "ledger"
    with opened(url, path=path) as device:
        for _ in range(40):
            device.decide().report(1)
    with Ledger(10_000, path) as ledger:
        names = [f"{reporter.decision_name(token)}" for token in service.issued]
        drawn = [ledger.report(name, 0).bit for name in names]
    with opened(url, path=path) as device:
        pass_time(device, clock, 200)
    assert [service.taken[token] for token in service.issued] == drawn
