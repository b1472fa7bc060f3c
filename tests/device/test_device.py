"""What a device shows, and when it participates: decided before a reward can be known."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from device_fakes import Clock, Service, opened, pass_time, raw, serving

from maskedbandits.device import Device
from maskedbandits.device.http import MAX_REPLY_BYTES
from maskedbandits.errors import UserError

pytest_plugins = ["device_fixtures"]


def test_arm_is_shown_and_report_promised(url: str, service: Service) -> None:
    with opened(url, cap=3) as device:
        decision = device.decide()
        assert (decision.arm, decision.payload, decision.participate) == ("plain", {"text": "Hello"}, True)
        assert decision.epsilon == 1
        assert not decision.why
        assert device.ledger is not None
        assert device.ledger.spent == 1
    assert service.questions == [{}]
    assert not service.arrivals


def test_device_at_cap_shows_arms_without_reports(url: str, service: Service, clock: Clock) -> None:
    with opened(url, cap=2) as device:
        decisions = [device.decide() for _ in range(5)]
        assert [decision.participate for decision in decisions] == [True, True, False, False, False]
        assert {decision.arm for decision in decisions} == {"plain"}
        assert decisions[2].why == "0 is left of the cap of 2, less than a report costs"
        assert not any(decision.report(1) for decision in decisions[2:])
        pass_time(device, clock, 200)
        assert device.ledger is not None
        assert device.ledger.spent == 2
    assert len(service.taken) == 2
    assert service.questions == [{}, {}, *[{"participate": False}] * 3]  # no report is waited for


def test_device_declines_when_budget_is_too_small(url: str, service: Service) -> None:
    service.decision = {"epsilon": 0.75}
    with opened(url, cap=1) as device:
        assert [device.decide().participate for _ in range(2)] == [True, False]
        service.decision = {"epsilon": 0.25, "token": None, "participate": False}  # from now on it costs less
        assert device.decide().why == "0.25 is left of the cap of 1, less than a report costs"
        service.decision = {"epsilon": 0.25}
        assert device.decide().participate
    assert [question.get("participate", True) for question in service.questions] == [True, False, False, True]


def test_promised_visitor_keeps_decision_at_cap(url: str, service: Service) -> None:
    with opened(url, cap=1) as device:
        first, again, other = (device.decide(visitor=name) for name in ("ludwig", "ludwig", "bob"))
        assert (first.participate, again.participate, other.participate) == (True, True, False)
        assert device.ledger is not None
        assert device.ledger.spent == 1
    assert [question.get("participate", True) for question in service.questions] == [True, True, False]


def test_paid_decision_is_rewarded_after_restart_at_cap(url: str, service: Service, clock: Clock, folder: Path) -> None:
    """With participate: false the service sends no token, so the device must know what it has paid for."""
    with opened(url, cap=1, path=folder / "ledger") as device:
        assert device.decide(visitor="ludwig").participate
    with opened(url, cap=1, path=folder / "ledger") as device:
        assert device.decide(visitor="ludwig").report(1)
        pass_time(device, clock, 200)
        assert len(service.taken) == 1
        assert not device.decide(visitor="ludwig").participate  # nothing can be rewarded any more
    assert [question.get("participate", True) for question in service.questions] == [True, True, False]


def test_renewed_cap_allows_reports(url: str) -> None:
    with opened(url, cap=1, per="30 days") as device:
        assert [device.decide().participate for _ in range(2)] == [True, False]


@pytest.mark.parametrize("change", [{"participate": False}, {"token": None}, {"participate": None}, {"token": 5}])
def test_server_may_want_no_report(change: dict[str, Any], url: str, service: Service, clock: Clock) -> None:
    service.decision = change
    with opened(url) as device:
        decision = device.decide()
        assert (decision.arm, decision.participate) == ("plain", False)
        assert not decision.report(1)
        pass_time(device, clock, 200)
    assert not service.arrivals


@pytest.mark.parametrize(
    ("requested", "used"),
    [(0.25, "0.25"), (1, "1"), (2.0, "2"), (2.5, "2"), (16, "2"), (0.123456789, "0.123456"), (0.1, "0.1")],
)
def test_smaller_epsilon_is_used(requested: float, used: str, url: str, service: Service, clock: Clock) -> None:
    service.decision = {"epsilon": requested, "threshold": 0, "p00": 1, "p11": 1}
    with opened(url, max_epsilon=2) as device:
        decision = device.decide()
        assert decision.epsilon == Fraction(used)
        pass_time(device, clock, 200)
        assert device.ledger is not None
        assert device.ledger.spent == Fraction(used)
    assert [arrival.epsilon for arrival in service.arrivals] == [float(used)]


@pytest.mark.parametrize(
    "epsilon",
    [0, -1, -0.5, 16.001, 1e300, 1e-9, "0.5", True, None, [1], {}, 10**400, float("inf"), float("nan")],
    ids=lambda value: repr(value)[:12],
)
def test_invalid_epsilon_means_no_report(epsilon: Any, url: str, service: Service, clock: Clock) -> None:
    service.decision = {"epsilon": epsilon}
    with opened(url) as device:
        assert not device.decide(fallback="plain").participate
        pass_time(device, clock, 200)
    assert not service.arrivals


@pytest.mark.parametrize(
    "times",
    [
        {"report_at": "soon"},
        {"report_at": None},
        {"expires": True},
        {"expires": 0},
        {"expires": 1e400},
        {"report_at": 1e18, "expires": 2e18},
        {"report_at": 10**400},
        {"expires": 4_000_000_000},
        {"report_at": 1_800_000_060, "expires": 1_800_000_060.9},  # less than a second
    ],
    ids=str,
)
def test_invalid_times_mean_no_report(times: dict[str, Any], url: str, service: Service) -> None:
    service.decision = times
    with opened(url) as device:
        decision = device.decide()
        assert not decision.participate
        assert "expires" in decision.why or "JSON" in decision.why


def test_past_time_is_refused(url: str, service: Service, clock: Clock) -> None:
    service.decision = {"report_at": clock.at - 1000}
    with opened(url) as device:
        assert "less than 0 s after the decision" in device.decide().why


@pytest.mark.parametrize(
    "answer",
    [
        (200, b""),
        (200, b"<html>"),
        (200, b'{"arm": "plain", "participate": tr'),
        (200, b'{"arm": "plain", "epsilon": NaN}'),
        (200, b"[" * 100_000),
        (200, b"[1]"),
        (200, b"null"),
        (200, b'{"arm": ' + b"1" * 10_000 + b"}"),
        (200, b'{"arm": "\xff"}'),
        (200, {"arm": "\ud800", "participate": True}),
        (200, {"arm": ""}),
        (200, {"arm": 7}),
        (200, {}),
        (200, b'{"arm": "plain", "payload": "' + b"x" * MAX_REPLY_BYTES + b'"}'),
        (404, {"error": "no such experiment"}),
        (410, {"error": "archived"}),
        (503, {"arm": "plain"}),
    ],
    ids=lambda answer: f"{answer[0]} {str(answer[1])[:30]}",
)
def test_invalid_reply_shows_fallback(answer: tuple[int, Any], url: str, service: Service) -> None:
    service.answers = answer
    with opened(url) as device:
        decision = device.decide(fallback="default")
        assert (decision.arm, decision.payload, decision.participate) == ("default", None, False)
        assert decision.why
        assert not decision.report(1)
        assert device.ledger is not None
        assert device.ledger.reports == 0


def test_redirection_is_not_followed(service: Service) -> None:
    def away(link: socket.socket, _: threading.Event) -> None:
        link.sendall(f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {other}\r\nContent-Length: 0\r\n\r\n".encode())

    with serving(service) as other, raw(away) as address, opened(address) as device:
        assert device.decide(fallback="default").arm == "default"
    assert not service.questions


def drip(link: socket.socket, over: threading.Event) -> None:
    """Send one byte after another, endlessly."""
    link.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not over.wait(0.02):
        link.sendall(b"x")


def drip_body(link: socket.socket, over: threading.Event) -> None:
    link.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n{"arm": "')
    while not over.wait(0.02):
        link.sendall(b"x")


def silence(link: socket.socket, over: threading.Event) -> None:
    over.wait(30)


def hang_up(link: socket.socket, over: threading.Event) -> None:
    """Close without a reply."""


def flood(link: socket.socket, over: threading.Event) -> None:
    link.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    with contextlib.suppress(OSError):
        while not over.is_set():
            link.sendall(b"x" * 65_536)


@pytest.mark.parametrize("answer", [drip, drip_body, silence, hang_up, flood])
def test_endless_reply_is_abandoned(answer: Callable[[socket.socket, threading.Event], None]) -> None:
    with raw(answer) as address, opened(address, timeout=0.3) as device:
        decision = device.decide(fallback="default")
    assert (decision.arm, decision.participate) == ("default", False)


def test_missing_server_shows_fallback(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with opened(f"http://127.0.0.1:{port}", path=tmp_path / "ledger") as device:
        assert device.decide(fallback="default").arm == "default"
        nothing = device.decide()
        assert (nothing.arm, nothing.participate, nothing.report(0.5)) == (None, False, False)
        assert "unreachable" in nothing.why


def test_request_has_only_these_fields(url: str, service: Service) -> None:
    with opened(url, key="secret-key") as device:
        assert device.decide(eligible_arms=("green", "blue")).arm == "green"
    assert service.questions == [{"eligible_arms": ["green", "blue"]}]
    assert service.headers[0]["Authorization"] == "Bearer secret-key"
    assert sorted(service.headers[0]) == sorted(
        ["Accept", "Accept-Encoding", "Authorization", "Content-Length", "Content-Type", "Host"]
    )


def test_ineligible_arm_is_not_shown(url: str, service: Service) -> None:
    service.decision = {"arm": "red"}
    with opened(url) as device:
        assert device.decide(eligible_arms=["green"], fallback="green").why.endswith("not in eligible_arms")


def test_visitor_has_one_decision_and_pays_once(url: str, service: Service, clock: Clock, tmp_path: Path) -> None:
    for _ in range(2):  # also after a restart
        with opened(url, path=tmp_path / "ledger") as device:
            assert all(device.decide(visitor="ludwig@example.org").participate for _ in range(3))
            assert device.ledger is not None
            assert device.ledger.spent == 1
    with opened(url, path=tmp_path / "ledger") as device:
        first, again = (device.decide(visitor="ludwig@example.org") for _ in range(2))
        assert first.report(1)
        assert not again.report(0)
        pass_time(device, clock, 200)
        assert len(service.taken) == 1
        late = device.decide(visitor="ludwig@example.org")
        assert (late.arm, late.participate) == ("plain", False)
        assert "already" in late.why
        pass_time(device, clock, 200)
    assert len(service.arrivals) == 1
    assert len({question["visitor"] for question in service.questions}) == 1
    assert "ludwig" not in json.dumps(service.questions)


def test_pseudonyms_differ_and_mean_nothing_elsewhere(url: str, service: Service) -> None:
    with opened(url) as device, opened(url) as other:
        for each in (device, other):
            for visitor in ("ludwig", "bob", "ludwig"):
                each.decide(visitor=visitor)
    assert len({question["visitor"] for question in service.questions}) == 4


def test_experiments_share_one_ledger(url: str, tmp_path: Path) -> None:
    shared: dict[str, Any] = {"path": tmp_path / "ledger", "cap": 3, "max_epsilon": 1, "background": False}
    with Device(url, "headline", **shared) as one, Device(url, "colour", **shared) as other:
        assert [each.decide().participate for each in (one, other, one, other)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "ftp://example.org"}, "url = 'ftp://example.org': give an address"),
        ({"url": "example.org"}, "give an address"),
        ({"url": "https://"}, "give an address"),
        ({"url": "https://example.org:port"}, "give an address"),
        ({"url": "https://a b"}, "give an address"),
        ({"url": None}, "give an address"),
        ({"url": "https://me:secret@example.org"}, "must not contain"),
        ({"url": "https://example.org?key=secret"}, "must not contain"),
        ({"experiment": ""}, "experiment = '': give a text"),
        ({"cap": -1}, "cap = -1 is negative"),
        ({"max_epsilon": 17}, "above 16"),
        ({"max_epsilon": 0}, "rounds to 0"),
        ({"per": "a while"}, "not a period"),
        ({"jitter": -1}, "jitter = -1"),
        ({"timeout": 0}, "timeout = 0"),
        ({"key": "a\nb"}, "invalid key"),
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(options: dict[str, Any], words: str) -> None:
    arguments = {"url": "https://example.org", "experiment": "headline", "cap": 1, "max_epsilon": 1, **options}
    with pytest.raises(UserError) as caught:
        Device(**arguments)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"visitor": ""}, {"visitor": 7}, {"eligible_arms": "green"}, {"eligible_arms": []}])
def test_invalid_request_is_refused(wrong: dict[str, Any], url: str, service: Service) -> None:
    with opened(url) as device, pytest.raises(UserError):
        device.decide(**wrong)
    assert not service.questions


@pytest.mark.parametrize("participate", [True, False])
@pytest.mark.parametrize("reward", [1.5, -0.1, "0.25", float("nan")])
def test_errors_do_not_repeat_a_reward(reward: Any, participate: bool, url: str, service: Service) -> None:
    service.decision = {"participate": participate}
    with opened(url) as device:
        decision = device.decide()
        with pytest.raises(UserError) as caught:
            decision.report(reward)
        assert "cannot be masked" in str(caught.value)
        assert str(reward) not in str(caught.value)
        assert decision.report(1) is participate
