"""A device adopts offers that a backend requested: it checks, pays and masks as for its own, and reports once."""

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from device_fakes import START, Clock, Service, opened, pass_time, raw
from test_device_groups import GROUPS, TABLE, group_offer, of

from maskedbandits.device import request_offer
from maskedbandits.errors import UserError

pytest_plugins = ["device_fixtures"]
DAY = 86_400.0


def test_adopted_offer_is_paid_masked_and_reported(url: str, service: Service, clock: Clock) -> None:
    offer = request_offer(url, "headline", visitor="cookie")
    assert service.questions == [{"visitor": "cookie"}]
    clock.at += 3
    with opened(url, cap=2, max_epsilon=0.5) as device:
        decision = device.adopt(offer)
        assert (decision.arm, decision.payload, decision.participate) == ("plain", {"text": "Hello"}, True)
        assert decision.report(1)
        assert not decision.report(0)
        pass_time(device, clock, 59)
        assert not service.arrivals
        pass_time(device, clock, 60)
        assert device.ledger is not None
        assert device.ledger.spent == device.ledger.cap / 4
    assert [(arrival.token, arrival.epsilon) for arrival in service.arrivals] == [(offer["token"], 0.5)]


def test_offer_adopted_twice_is_one_promise(url: str, service: Service, clock: Clock, folder: Path) -> None:
    offer = request_offer(url, "headline")
    for _ in range(2):  # a page that is reloaded, a program that starts again
        with opened(url, cap=1, path=folder / "ledger") as device:
            assert device.adopt(offer).participate
            assert device.adopt(offer).participate
    with opened(url, cap=1, path=folder / "ledger") as device:
        assert device.adopt(offer).report(1)
        pass_time(device, clock, 200)
        decision = device.adopt(offer)
        assert (decision.participate, decision.why) == (False, "this decision was already reported")
    assert len(service.arrivals) == 1


@pytest.mark.parametrize(
    ("change", "late", "why"),
    [
        ({"experiment": "colour"}, 0, "not of this experiment"),
        ({"experiment": None}, 0, "not of this experiment"),
        ({"service": "https://other.example"}, 0, "not of this service"),
        ({"service": 5}, 0, "not of this service"),
        ({"now": None}, 0, "lacks its time"),
        ({}, DAY, "expired"),
        ({}, DAY - 59, "expired"),
        ({"epsilon": 17}, 0, "epsilon"),
        ({"epsilon": 1.5}, 0, "above the cap"),
        ({"token": "short"}, 0, "no token"),
        ({"stored": False}, 0, "cannot store"),
        ({"participate": False}, 0, "requests no report"),
        ({"report_at": START}, 0, "report_at"),
        ({"now": START + 60}, 0, "report_at"),
        ({"expires": START + 31 * DAY}, 0, "30 days"),
    ],
)
def test_unusable_offer_is_shown_and_not_paid(
    change: dict[str, Any], late: float, why: str, url: str, service: Service, clock: Clock
) -> None:
    offer = {**request_offer(url, "headline"), **change}
    clock.at += late
    with opened(url, cap=1, timing=None, jitter=900) as device:
        decision = device.adopt(offer)
        assert (decision.arm, decision.participate, decision.report(1)) == ("plain", False, False)
        assert why in decision.why
        pass_time(device, clock, 3600)
        assert device.ledger is not None
        assert device.ledger.spent == 0
    assert not service.arrivals


def test_reloads_without_store_cost_nothing(url: str, service: Service, clock: Clock) -> None:
    """While its store is away, a service decides for a known visitor again."""
    with opened(url, cap=5) as device:
        promised = device.decide(visitor="ann")
        offer = request_offer(url, "headline", visitor="ann")
        assert device.adopt(offer).participate
        service.decision = {"stored": False}
        for reload in range(3):
            other = {**offer, "stored": False, "token": f"token-of-the-reload-{reload}"}
            assert "cannot store" in device.adopt(other).why
            service.visitors.clear()
            decision = device.decide(visitor="ann")
            assert "cannot store" in decision.why
            assert (decision.arm, decision.participate) == ("plain", False)
        assert device.adopt({**offer, "stored": False}).participate  # its own promise
        assert promised.report(1)
        assert device.ledger is not None
        assert device.ledger.spent == 2


def test_late_adoption_hurries_no_report(url: str, service: Service, clock: Clock) -> None:
    offer = request_offer(url, "headline")
    clock.at += 300  # the page was open in the background
    with opened(url) as device:
        assert device.adopt(offer).participate
        pass_time(device, clock, 59)
        assert not service.arrivals


@pytest.mark.parametrize("offer", [None, [], "plain", {}, {"arm": 5}])
def test_offer_without_arm_shows_none(offer: Any, url: str) -> None:
    with opened(url) as device:
        decision = device.adopt(offer)
        assert (decision.arm, decision.participate) == (None, False)
        assert decision.why


@pytest.mark.parametrize("group", GROUPS)
def test_adopted_question_shows_arm_of_group(url: str, service: Service, clock: Clock, group: str) -> None:
    service.decision = group_offer([0, 1, 1])
    offer = request_offer(url, "headline")
    with of(url, group) as device:
        decision = device.adopt(offer)
        assert (decision.arm, decision.participate) == (TABLE[GROUPS.index(group)], True)
        pass_time(device, clock, 200)
    assert len(service.taken) == 1


def test_service_behind_a_gateway_has_public_address(url: str, service: Service) -> None:
    offer = request_offer(url, "headline", public_url="https://bandits.example.org/")
    with opened("https://bandits.example.org") as device:
        assert device.adopt(offer).participate
    with opened(url) as device:
        assert "not of this service" in device.adopt(offer).why


def never_reply(_: socket.socket, over: threading.Event) -> None:
    over.wait(20)


def test_backend_without_service_shows_fallback(service: Service) -> None:
    with raw(never_reply) as address:
        offer = request_offer(address, "headline", fallback="plain", timeout=0.2)
    assert (offer["arm"], offer["participate"]) == ("plain", False)
    assert "slower than 0.2 s" in offer["why"]
    with opened("http://127.0.0.1:9") as device:
        assert (device.adopt(offer).arm, device.adopt(offer).participate) == ("plain", False)


def test_backend_that_is_refused_shows_fallback(url: str, service: Service) -> None:
    service.answers = (401, {"error": "give a key"})
    assert "status 401" in request_offer(url, "headline", fallback="plain")["why"]


@pytest.mark.parametrize(
    "options", [{"visitor": ""}, {"eligible_arms": []}, {"timeout": 0}, {"public_url": "ftp://x"}, {"key": "a b"}]
)
def test_invalid_request_of_backend_is_refused(options: dict[str, Any], url: str) -> None:
    with pytest.raises(UserError):
        request_offer(url, "headline", **options)
