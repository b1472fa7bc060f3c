"""Experiments created, changed and shown over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from web import SMALL, Reply, Served

from maskedbandits.errors import UserError
from maskedbandits.service import config
from maskedbandits.service.lists import ExperimentsAnswer
from maskedbandits.service.schemas import ExperimentAnswer, StateAnswer
from maskedbandits.service.storage import changes

pytest_plugins = ["service_fixtures"]

ONE = "/v1/experiments/headline"


def test_created_experiment_is_shown(served: Served) -> None:
    reply = served.get(ONE)
    shown = msgspec.json.decode(reply.body, type=ExperimentAnswer)
    assert (shown.name, shown.status, shown.policy, shown.epsilon) == ("headline", "running", "klucb-cf", 1.0)
    assert [(arm.place, arm.name, arm.payload, arm.status) for arm in shown.arms] == [
        (0, "short", None, "open"),
        (1, "long", {"size": 2}, "open"),
    ]
    assert (shown.default_arm, shown.config_version, shown.seq) == ("short", 1, 1)
    listed = msgspec.json.decode(served.get("/v1/experiments").body, type=ExperimentsAnswer)
    assert [(each.name, each.arms) for each in listed.experiments] == [("headline", 2)]


def test_state_is_shown(served: Served) -> None:
    reply = served.get(f"{ONE}/state")
    msgspec.json.decode(reply.body, type=StateAnswer)
    state = reply.json
    assert state["seq"] == 1
    assert state["estimates"] == [None, None]  # JSON has no NaN
    assert served.get("/v1/experiments/none/state").status == 404


@pytest.mark.parametrize(
    ("changes", "status", "complaint"),
    [
        ({}, 409, "the experiment 'headline' already exists"),
        ({"name": "b", "policy": "exp3s"}, 400, "policy = 'exp3s' is not supported"),
        ({"name": "b", "policy": "aoto"}, 400, "no policy is called 'aoto'; did you mean 'auto'?"),
        ({"name": "b", "policy": "sw-klucb-cf", "parameters": {"windw": 3}}, 400, "did you mean 'window'?"),
        ({"name": "b", "policy": "sw-klucb-cf", "parameters": {"window": 10**30}}, 400, "window"),
        ({"name": "b", "policy": "sw-klucb-cf", "parameters": {"window": []}}, 400, "window"),
        ({"name": "b", "policy": "sw-klucb-cf"}, 400, "a number of reports, at most 1000000"),
        ({"name": "b", "policy": "sw-klucb-cf", "parameters": {"window": 10**9}}, 400, "use policy = 'klucb-cf'"),
        ({"name": "b", "policy": "m-klucb-cf", "parameters": {"width": 10**8}}, 400, "at most 8388608"),
        ({"name": "b", "policy": "auto", "parameters": {"contamination": 1}}, 400, "contamination"),
        ({"name": "b", "policy": "auto", "parameters": {"expected_changes": -1}}, 400, "expected_changes"),
        ({"name": "b", "parameters": []}, 400, "Expected `object`, got `array`"),
        ({"name": "b", "parameters": {"arms": 3}}, 400, "klucb-cf has no parameter 'arms'"),
        ({"name": "b", "parameters": {"corruption": None}}, 400, "klucb-cf has no parameter 'corruption'"),
        ({"name": "b", "parameters": {"name": "x"}}, 400, "klucb-cf has no parameter 'name'"),
        ({"name": "b", "parameters": {"seed": 1}}, 400, "klucb-cf has no parameter 'seed'"),
        ({"name": "b", "parameters": {"sigma": 1.0}}, 400, "reports are bits: leave it out"),
        ({"name": "b", "policy": "uniform"}, 400, "a floor just below 1/K"),
        ({"name": "b\n"}, 400, "`$.name`"),
        ({"name": "b", "floor": 0.6}, 400, "floor"),
        ({"name": "b", "report_after": 1}, 400, "report_after = 1: give at least 60 seconds: devices reject less"),
        ({"name": "b", "expires_after": 61}, 400, "expires_after = 61: give 3660 to 2592000 seconds"),
        ({"name": "b", "expires_after": 366 * 86_400}, 400, "Expected `int` <= 2592000"),
        ({"name": "b", "epsilon": 0.0000001}, 400, "epsilon"),
    ],
)
def test_invalid_experiments_are_refused(served: Served, changes: dict[str, Any], status: int, complaint: str) -> None:
    reply = served.post("/v1/experiments", {**SMALL, **changes})
    assert (reply.status, complaint in reply.error) == (status, True), reply


def test_config_can_change(served: Served) -> None:
    changes = {"epsilon": 0.5, "report_after": 120, "expires_after": 3720, "floor": 0.1, "holdout": 0.1}
    reply = served.patch(ONE, {**changes, "default_arm": "long", "status": "paused"})
    assert reply.status == 200
    shown = served.get(ONE).json
    assert {name: shown[name] for name in changes} == changes
    assert (shown["default_arm"], shown["status"]) == ("long", "paused")
    assert served.patch(ONE, {}).json == shown


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"status": "gone"}, "`$.status`"),
        ({"policy": "ts-cf"}, "no field is called 'policy'"),
        ({"default_arm": "none"}, "no open arm is called 'none'"),
        ({"report_after": 59}, "report_after = 59: give at least 60 seconds"),
        ({"expires_after": 30}, "expires_after = 30: give 3660 to 2592000 seconds with report_after = 60"),
        ({"expires_after": 3659}, "expires_after = 3659: give 3660 to 2592000 seconds with report_after = 60"),
        ({"expires_after": 31 * 86_400}, "Expected `int` <= 2592000"),
        ({"report_after": 30 * 86_400 - 3599}, "expires_after = 86400: give"),
        ({"floor": 0.9}, "floor"),
        ({"epsilon": 0.1234567}, "a multiple of one millionth"),
        ([], "Expected `object`"),
    ],
)
def test_invalid_changes_are_refused(served: Served, changes: Any, complaint: str) -> None:
    before = served.get(ONE).json
    reply = served.patch(ONE, changes)
    assert (reply.status, complaint in reply.error) == (400, True), reply
    assert served.get(ONE).json == before
    assert served.patch("/v1/experiments/none", {}).status == 404


def test_names_of_arms_are_never_reused(served: Served) -> None:
    reply = served.post(f"{ONE}/arms", {"name": "a/b é", "payload": [1]})
    assert reply.status == 201
    assert reply.json["arms"][2] == {"place": 2, "name": "a/b é", "payload": [1], "status": "open"}
    assert served.post(f"{ONE}/arms", {"name": "a/b é"}).status == 409
    reply = served.post(f"{ONE}/arms/a%2Fb%20%C3%A9/retire")
    assert (reply.status, reply.json["arms"][2]["status"]) == (200, "retired")
    assert served.post(f"{ONE}/arms/a%2Fb%20%C3%A9/retire").status == 409
    assert served.post(f"{ONE}/arms", {"name": "a/b é"}).status == 409
    reply = served.post(f"{ONE}/arms/lang/retire")
    assert (reply.status, "did you mean 'long'?" in reply.error) == (404, True)
    assert served.post(f"{ONE}/arms/short/retire").status == 400  # the default
    assert served.post("/v1/experiments/none/arms", {"name": "x"}).status == 404
    assert served.post(f"{ONE}/arms", {"name": ""}).status == 400
    assert "one line" in served.post(f"{ONE}/arms", {"name": "a\nb"}).error


def test_unknown_policy_error_lists_offered_ones(served: Served) -> None:
    error = served.post("/v1/experiments", {**SMALL, "name": "b", "policy": "zzz"}).error
    assert "klucb-cf" in error
    assert not {"oracle", "uniform", "dp-ucb"} & set(error.replace(",", "").split())


def test_number_of_arms_is_limited_by_tokens(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MAX_ARMS", 3)
    assert served.post(f"{ONE}/arms", {"name": "third"}).status == 201
    served.post(f"{ONE}/arms/third/retire")  # its place is never used again
    reply = served.post(f"{ONE}/arms", {"name": "fourth"})
    assert (reply.status, "at most 3 arms" in reply.error) == (400, True)


def at_once(served: Served, *requests: tuple[str, str, Any]) -> list[int]:
    """Ask all of it at one moment, and return the statuses in order."""

    async def ask() -> list[Reply]:
        return await asyncio.gather(*(served.client.ask(*each) for each in requests))

    return sorted(reply.status for reply in served.run(ask()))


def test_concurrent_duplicates_are_conflicts(served: Served) -> None:
    created = ("POST", "/v1/experiments", {**SMALL, "name": "other"})
    assert at_once(served, *[created] * 4) == [201, 409, 409, 409]
    added = ("POST", f"{ONE}/arms", {"name": "new"})
    assert at_once(served, *[added] * 3) == [201, 409, 409]
    retired = ("POST", f"{ONE}/arms/new/retire", b"")
    assert at_once(served, *[retired] * 3) == [200, 409, 409]


def test_archived_experiment_cannot_change(served: Served) -> None:
    assert served.patch(ONE, {"status": "archived"}).status == 200
    before = served.get(ONE).json
    for reply in (
        served.patch(ONE, {"status": "running"}),
        served.patch(ONE, {"epsilon": 0.5}),
        served.post(f"{ONE}/arms", {"name": "new"}),
        served.post(f"{ONE}/arms/long/retire"),
    ):
        assert (reply.status, "archived, which is final" in reply.error) == (409, True)
    assert served.get(ONE).json == before


def test_config_and_status_change_atomically(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {"floor": 0.25, "status": "paused"}

    def refuse(*_: object) -> Any:
        raise UserError("no status today")

    with monkeypatch.context() as patch:
        patch.setitem(changes.KINDS, "status", refuse)
        assert served.patch("/v1/experiments/headline", both).status == 400
    assert (served.get("/v1/experiments/headline").json["floor"], store_seq(served)) == (0, 1)
    shown = served.patch("/v1/experiments/headline", both).json
    assert (shown["floor"], shown["status"], store_seq(served)) == (0.25, "paused", 3)


def store_seq(served: Served) -> int:
    """How many events the log of the experiment has."""
    return int(served.run(served.registry.call_store(lambda store: store.read_heads()[1])))
