"""The time of sending reveals nothing: on a slow disk, beside slow replies, for any times of a service."""

import contextlib
import itertools
import random
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import timing
from device_fakes import START, Clock, Service, opened, pass_time, serving

from helpers.boundaries import set_delays
from helpers.private import (
    connection_of,
    end_attempts,
    next_due,
    outbox_of,
    sender_of,
    slow_down_writes,
    wake_flag,
    work_as_thread,
)
from maskedbandits.device import Device, Timing, reporter
from maskedbandits.device.outbox import DRAWN, PendingReport
from maskedbandits.errors import UserError

pytest_plugins = ["device_fixtures"]
DAY = 86_400.0
WRITE = 0.4  # seconds: four times fsync on a slow disk


def real(url: str, **options: Any) -> Device:
    """Return a device with the default limits."""
    return opened(url, **{"jitter": 900.0, "timing": None, **options})


@pytest.fixture
def slow_disk(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the clock with every write."""
    slow_down_writes(monkeypatch, lambda transaction: _slowly(transaction, clock))


def _slowly(transaction: Callable[..., Any], clock: Clock) -> Callable[..., Any]:
    @contextlib.contextmanager
    def wrapped(self: Any, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
        with transaction(self, begin) as connection:
            before = connection.total_changes
            yield connection
            if connection.total_changes != before:
                clock.at += WRITE

    return wrapped


def arrival_of(device: Device, service: Service, clock: Clock, after: float | None) -> float:
    """Return how long after a decision its report arrives, with a click after some seconds, or none."""
    decided = clock.at
    decision = device.decide()
    assert decision.participate, decision.why
    if after is not None:
        clock.at += after
        assert decision.report(1)
    many = len(service.arrivals)
    while len(service.arrivals) == many:
        due = next_due(device)
        assert due is not None
        clock.at = max(clock.at, due)
        device.send_due()
    return service.arrivals[-1].at - decided


def assert_same_times(
    measure: Callable[[float | None], list[float]], clock: Clock, monkeypatch: pytest.MonkeyPatch, last: float
) -> None:
    """Check equal times of sending without a reward, and with one at once, soon, and at the last moment."""
    seen = []
    for after in (None, 0.0, 10.0, last):
        set_delays(monkeypatch, random.Random(5).random)
        clock.at = START
        seen.append(measure(after))
    assert seen[0] == seen[1] == seen[2] == seen[3]


@pytest.mark.usefixtures("slow_disk")
@pytest.mark.parametrize("window", [1.0, 3600.0])
def test_slow_disk_sends_at_the_same_time_with_reward(
    window: float, url: str, service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.expires_after = service.report_after + window

    def measure(after: float | None) -> list[float]:
        with opened(url) as device:
            return [round(arrival_of(device, service, clock, after), 3) for _ in range(10)]

    assert_same_times(measure, clock, monkeypatch, 55.0)


@pytest.mark.usefixtures("slow_disk")
def test_thread_prepares_attempt_before_it_leaves(
    url: str, service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves at the drawn time, with a reward or without, whatever is written before."""
    service.report_after, service.expires_after = 60.0, 3660.0

    def measure(after: float | None) -> list[float]:
        with real(url) as device:
            return [round(scheduled(device, clock, after, monkeypatch), 3) for _ in range(10)]

    assert_same_times(measure, clock, monkeypatch, 59.0)


def scheduled(device: Device, clock: Clock, after: float | None, monkeypatch: pytest.MonkeyPatch) -> float:
    """Return how long after a decision the timer of its report is set; the thread's work is done here."""
    leaving: list[float] = []
    monkeypatch.setattr(sender_of(device), "schedule", lambda attempt, wait: leaving.append(clock.at + wait))
    decided = clock.at
    decision = device.decide()
    if after is not None:
        clock.at += after
        assert decision.report(1)
    while not leaving:
        clock.at = max(clock.at, next_due(device, reporter.CLAIM_LEAD_S) or 0.0)
        work_as_thread(device, clock.at, reporter.CLAIM_LEAD_S)
    assert clock.at < leaving[0]
    clock.at = decided + 2000
    device.send_due()  # the next try, which is answered
    return leaving[0] - decided


@pytest.mark.usefixtures("slow_disk")
def test_classifier_cannot_tell_clicks_from_timing(direct_url: str, service: Service, clock: Clock) -> None:
    """At the limits, on a slow disk, with real randomness; an error occurs once in 10^9 runs."""
    service.report_after, service.expires_after = 60.0, 3660.0
    visits = 150
    with real(direct_url) as device:
        times = {
            after: [arrival_of(device, service, clock, after) for _ in range(2 * visits)] for after in (None, 20.0)
        }
    assert all(120 <= time <= 1030 for each in times.values() for time in each)
    train = [(time, click) for click in (None, 20.0) for time in times[click][:visits]]
    threshold, sign = max(
        itertools.product(sorted(time for time, _ in train), (True, False)),
        key=lambda rule: sum(((time > rule[0]) == rule[1]) == (click is None) for time, click in train),
    )
    test = [(time, click) for click in (None, 20.0) for time in times[click][visits:]]
    right = sum(((time > threshold) == sign) == (click is None) for time, click in test)
    assert abs(right / len(test) - 0.5) < 6.1 * 0.5 / len(test) ** 0.5


def test_closing_takes_equal_writes_with_reward(url: str, clock: Clock, folder: Path) -> None:
    writes: list[list[str]] = []
    for reward in (1, None):
        with opened(url, path=folder / str(reward)) as device:
            decision = device.decide()
            if reward is not None:
                decision.report(reward)
            clock.at += 61
            made: list[str] = []
            assert device.ledger is not None
            for part in (device.ledger, outbox_of(device)):
                connection_of(part).set_trace_callback(lambda text, made=made: made.append(text.partition(" ")[0]))
            device.send_due()
            writes.append([each for each in made if each in ("REPLACE", "UPDATE", "INSERT", "DELETE", "COMMIT")])
    assert writes[0].count("REPLACE") == writes[1].count("REPLACE") == 1
    assert [each for each in writes[0] if each != "COMMIT"] == [each for each in writes[1] if each != "COMMIT"]


@pytest.mark.parametrize("background", [True, False])
def test_slow_reply_delays_no_other_report(background: bool) -> None:
    """The first reply is held back until the second report arrives."""
    service, second, waited = Service(), threading.Event(), []
    service.report_after = 0.0

    def answer_late(count: int) -> str:
        if count == 1:
            waited.append(second.wait(40))
        else:
            second.set()
        return ""

    service.fails = answer_late
    with serving(service) as address, opened(address, background=background, jitter=0.2, timeout=60) as device:
        for _ in range(2):
            device.decide()
        if not background:  # both are due, and leave with the same call
            for later in (10.0, 20.0):
                device.send_due(time.time() + later)
        while not second.wait(0.2) and not waited:
            pass
    assert waited == [True]


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({"report_at": START, "expires": START + DAY}, "less than 60 s after the decision"),
        ({"report_at": START + 54, "expires": START + DAY}, "less than 60 s after the decision"),
        ({"report_at": START + 60, "expires": START + 61}, "less than 3600 s"),
        ({"report_at": START + 60, "expires": START + 120}, "less than 3600 s"),
        ({"report_at": START + 60, "expires": START + 3659}, "less than 3600 s"),
        ({"report_at": START + 60, "expires": START + 30 * DAY + 6}, "more than 30 days"),
        ({"report_at": START + 60, "expires": START + 366 * DAY}, "more than 30 days"),
    ],
)
def test_device_declines_outside_its_limits(times: dict[str, Any], why: str, url: str, service: Service) -> None:
    service.decision = {**times, "jitter": 0, "timing": [0, 0, 0], "min_window": 0}  # which it does not read
    with real(url) as device:
        decision = device.decide()
        assert (decision.arm, decision.participate) == ("plain", False)
        assert why in decision.why
        assert device.ledger is not None
        assert device.ledger.reports == 0


def test_jitter_at_the_limits_is_fifteen_minutes(url: str, service: Service, clock: Clock) -> None:
    service.report_after, service.expires_after = 60.0, 3660.0
    with real(url, cap=200) as device:
        for _ in range(200):
            assert device.decide().participate
        delays = [row.delay for row in outbox_of(device).find_ready(url, clock.at + 60)]
    assert len(delays) == 200
    assert all(60 <= each <= 960 for each in delays)
    assert max(delays) - min(delays) > 450  # by chance less once in 10^57 times


@pytest.mark.parametrize("jitter", [0, 30, 899])
def test_smaller_jitter_is_refused(jitter: float, url: str) -> None:
    with pytest.raises(UserError, match=f"jitter = {jitter}"):
        real(url, jitter=jitter)


@pytest.mark.parametrize("changes", [{"min_window": -1}, {"min_jitter": "no"}, {"max_attempts": 0}, {"max_expiry": 0}])
def test_invalid_limits_are_refused(changes: dict[str, Any], url: str) -> None:
    with pytest.raises(UserError, match=next(iter(changes))):
        real(url, timing=Timing(**changes))


def test_silent_server_learns_nothing_from_attempts(url: str, service: Service, clock: Clock) -> None:
    service.decision = {"epsilon": 1e-6}
    service.expires_after = 30 * DAY
    service.fails = lambda count: "before"
    with real(url) as device:
        assert device.decide().participate
        pass_time(device, clock, 366 * DAY)
    assert len(service.arrivals) == 20
    assert service.arrivals[-1].at - service.arrivals[0].at < 3 * DAY


def test_attempt_is_claimed_early_and_released(url: str, service: Service, clock: Clock) -> None:
    with real(url) as device:
        device.decide()
        clock.at += 60
        device.send_due()
        drawn = row_of(device)
        clock.at = drawn.due - reporter.CLAIM_LEAD_S
        work_as_thread(device, clock.at, reporter.CLAIM_LEAD_S)  # as the thread does
        claimed = row_of(device)
        assert (drawn.state, drawn.tries, claimed.tries) == (DRAWN, 0, 1)
        end_attempts(device)
        assert row_of(device) == drawn
        assert not service.arrivals
        clock.at = drawn.due
        wake_flag(device).clear()
        work_as_thread(device, clock.at, reporter.CLAIM_LEAD_S)  # leaves at once
        for _ in range(600):
            if wake_flag(device).wait(0.1):
                break
        work_as_thread(device, clock.at, reporter.CLAIM_LEAD_S)
        assert next_due(device) is None
    assert len(service.taken) == 1


def row_of(device: Device) -> PendingReport:
    [row] = connection_of(outbox_of(device)).execute("SELECT * FROM reports").fetchall()
    return PendingReport(*row)


def test_reload_keeps_times_of_first_decision(url: str, service: Service, clock: Clock) -> None:
    """On a reload less time is left than the limits allow, but the promise exists already."""
    service.report_after, service.expires_after = 60.0, 3660.0
    with real(url) as device:
        assert device.decide(visitor="ada").participate
        clock.at += 30
        again = device.decide(visitor="ada")
        assert again.participate
        assert again.report(1)


def test_devices_without_path_share_one_cap(url: str) -> None:
    devices = [real(url, cap=1) for _ in range(5)]
    assert [device.decide().participate for device in devices] == [True, False, False, False, False]
    for device in devices:
        device.close()
    with real(url, cap=1) as after:
        assert not after.decide().participate  # nor after the others are closed
    with real(url, cap=2) as more:
        assert "has cap = 1" in more.decide().why


def test_pseudonym_differs_between_services(url: str, service: Service, folder: Path, clock: Clock) -> None:
    other = Service(clock.time)
    with serving(other) as elsewhere:
        for address in (url, elsewhere):
            with real(address, path=folder / "ledger") as device:
                device.decide(visitor="ada")
    assert service.questions[0]["visitor"] != other.questions[0]["visitor"]


def test_benchmark_classifiers_find_a_signal() -> None:
    rng = random.Random(2)
    early = [(rng.uniform(0, 10), True) for _ in range(100)]
    late = [(rng.uniform(11, 20), False) for _ in range(100)]
    for learn in (timing.threshold, timing.bins):
        guess = learn(early + late)
        assert all(guess(time) == click for time, click in early + late)
    assert len(timing.play(4)) == 4


def test_documented_devices_have_a_path() -> None:
    root = Path(__file__).parents[2]
    pages = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "packaging").rglob("*.md")]
    examples = [
        found
        for page in pages
        for found in re.findall(r"(?<!new )\bDevice\((?:[^()]|\([^()]*\))*\)", page.read_text("utf-8"))
    ]
    assert len(examples) >= 3
    assert not [example for example in examples if "path=" not in example]
