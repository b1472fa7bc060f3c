"""Visitors with tokens near their expiry: every token that they get can still be reported."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from registries import build_registry
from web import SMALL, Served

from maskedbandits.service.clock import Clock
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.storage import StoreUnavailable

pytest_plugins = ["service_fixtures"]

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/experiments/headline/reports"
DAY = 86_400
START = 1_800_000_000.0 + 17
GROUPS = {"groups": ["young", "old"]}


class Aged:
    """A service with a clock that is set by hand, and an experiment whose tokens live for a day."""

    def __init__(self, storage: str, more: dict[str, Any]) -> None:
        self.now = START
        self.served = Served(build_registry(storage, Clock(wall=lambda: self.now, steady=lambda: 0.0)))
        self.said = "answer" if more else "bit"
        self.about = {**SMALL, **more}

    def visit(self, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.served.post(DECISIONS, {"visitor": "somebody", **more}).json
        return answer

    def report(self, token: str) -> Any:
        return self.served.post(REPORTS, {"token": token, self.said: 1}).verdict


@pytest.fixture(params=[{}, GROUPS], ids=["alone", "groups"])
def aged(request: pytest.FixtureRequest, storage: str, restless: None) -> Iterator[Aged]:
    made = Aged(storage, request.param)
    with made.served as served:
        assert served.post("/v1/experiments", made.about).status == 201
        yield made


@pytest.mark.parametrize("after", [0, 1, 600, 900, 3600, 10_000])
def test_visitor_never_gets_expired_token(aged: Aged, after: int) -> None:
    first = aged.visit()
    aged.now = first["expires"] + after
    again = aged.visit()
    assert again["token"] != first["token"]
    assert again["expires"] == aged.now + DAY
    assert aged.visit()["token"] == again["token"]
    assert aged.report(again["token"]) == "accepted"
    assert aged.report(first["token"]) == "late"


@pytest.mark.parametrize(("left", "kept"), [(3600, True), (2, True), (1, True), (0.75, False), (0.25, False)])
def test_visitor_gets_same_token_while_valid(aged: Aged, left: float, kept: bool) -> None:
    """A device takes no part if less than a second is left."""
    first = aged.visit()
    aged.now = first["expires"] - left
    assert (aged.visit()["token"] == first["token"]) == kept


def test_nonparticipating_visitor_changes_after_a_day(aged: Aged) -> None:
    assert aged.visit(participate=False)["participate"] is False
    aged.now += DAY
    assert aged.visit()["participate"] is True


@pytest.mark.parametrize("trouble", ["slow", "away"])
def test_visitor_gets_decision_while_store_is_away(trouble: str, aged: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    first = aged.visit()
    assert "stored" not in first

    async def visit(*_: object) -> bytes:
        if trouble == "slow":
            await asyncio.sleep(3600)
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(ExperimentRegistry, "visit", visit)
        again = aged.visit()
    assert (again["stored"], again["participate"]) == (False, True)
    assert again["token"] != first["token"]
    assert aged.report(again["token"]) == "accepted"
    assert aged.visit()["token"] == first["token"]


def test_report_is_due_before_token_expires(aged: Aged) -> None:
    first = aged.visit()
    aged.now += DAY // 2
    assert aged.served.patch("/v1/experiments/headline", {"report_after": DAY, "expires_after": 2 * DAY}).status == 200
    again = aged.visit()
    assert (again["token"], again["expires"]) == (first["token"], first["expires"])
    assert again["report_at"] == again["expires"] - 1
