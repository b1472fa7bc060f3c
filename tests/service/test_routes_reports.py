"""Reports over HTTP: each is accepted once, and every other one is refused and counted."""

from __future__ import annotations

import time
from typing import Any

import pytest
from registries import build_registry, until
from web import SMALL, Reply, Served, sign_token, token_of

from maskedbandits.service.clock import Clock
from maskedbandits.service.registry import ExperimentRegistry
from maskedbandits.service.secret import load_secrets, rotate_signing_key
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.storage import Store, StoreUnavailable
from maskedbandits.service.tokens import Keyring

pytest_plugins = ["service_fixtures"]

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"


def decided(served: Served) -> str:
    return str(served.post(DECISIONS).json["token"])


def status(reply: Reply) -> tuple[int, str]:
    if reply.status != 200:
        assert reply.error
    return reply.status, reply.verdict


def counted(served: Served, store: Store) -> dict[int, dict[str, int]]:
    """How many reports were refused, and why, of no experiment (0) and of the first, as the store knows it."""
    served.close()
    return {experiment: store.sum_refused(experiment) for experiment in (0, 1)}


def test_report_is_accepted_once(served: Served, store: Store) -> None:
    answer = served.post(DECISIONS).json
    for _ in range(3):
        values = status(served.post(REPORTS, {"token": answer["token"], "bit": 1}))
        assert values == ((200, "accepted") if _ == 0 else (200, "duplicate"))
    (event,) = [event for event in store.read_events(1, 0, 100) if event.kind == "report"]
    token = token_of(store, answer)
    assert (event.arm, event.bit, event.epsilon) == (token.arm, 1, 1_000_000)
    assert (event.probability, event.flags) == (token.probability, token.flags)
    assert event.expires is not None
    assert 0 <= 60 * event.expires - token.expires < 3600


def test_report_must_match_experiment_of_path(served: Served) -> None:
    assert served.post("/v1/experiments", {**SMALL, "name": "other"}).status == 201
    token = decided(served)
    assert status(served.post("/v1/experiments/other/reports", {"token": token, "bit": 1})) == (403, "foreign")
    assert status(served.post("/v1/experiments/headline/reports", {"token": token, "bit": 1})) == (200, "accepted")
    assert served.post("/v1/experiments/none/reports", {"token": token, "bit": 1}).status == 404


def test_report_of_unknown_experiment_is_foreign(served: Served, store: Store) -> None:
    token = token_of(store, served.post(DECISIONS).json)
    foreign = sign_token(store, token._replace(experiment=99))
    assert status(served.post(REPORTS, {"token": foreign, "bit": 0})) == (403, "foreign")


def test_token_with_unknown_arm_is_foreign(served: Served, store: Store) -> None:
    """As after a backup was restored that is older than the arm, or than the experiment of this number."""
    token = token_of(store, served.post(DECISIONS).json)
    for other in (token._replace(arm=7), token._replace(question=b"abc")):
        text = sign_token(store, other)
        assert status(served.post(REPORTS, {"token": text, "bit": 1})) == (403, "foreign")
    assert status(served.post(REPORTS, {"token": sign_token(store, token), "bit": 1})) == (200, "accepted")
    assert [event.arm for event in store.read_events(1, 1, 10)] == [token.arm]


def test_late_report_is_refused(storage: str, store: Store) -> None:
    now = 1_000_000_000.0
    with Served(build_registry(storage, Clock(wall=lambda: now, steady=lambda: 0.0))) as served:
        served.post("/v1/experiments", {**SMALL, "expires_after": 3660})
        token = decided(served)
        now += 3660
        assert status(served.post(REPORTS, {"token": token, "bit": 1})) == (410, "late")
        now -= 500  # the clock is set back
        assert status(served.post(REPORTS, {"token": token, "bit": 1})) == (410, "late")
        assert counted(served, store) == {0: {}, 1: {"late": 2}}


def test_archived_experiment_refuses_reports(served: Served) -> None:
    token = decided(served)
    served.patch("/v1/experiments/headline", {"status": "archived"})
    assert status(served.post(REPORTS, {"token": token, "bit": 1})) == (410, "late")


def test_paused_experiment_accepts_reports(served: Served) -> None:
    first, second = decided(served), served.post(DECISIONS, {"eligible_arms": ["long"]}).json["token"]
    served.patch("/v1/experiments/headline", {"status": "paused"})
    assert status(served.post(REPORTS, {"token": first, "bit": 0})) == (200, "accepted")
    served.post("/v1/experiments/headline/arms/long/retire")
    assert status(served.post(REPORTS, {"token": second, "bit": 0})) == (200, "accepted")


def test_forged_report_is_refused(served: Served, store: Store) -> None:
    token = token_of(store, served.post(DECISIONS).json)
    forged = Keyring({0: b"x" * 32}, 0).sign(token)
    assert status(served.post(REPORTS, {"token": forged, "bit": 1})) == (400, "forged")
    assert status(served.post("/v1/experiments/headline/reports", {"token": "", "bit": 1})) == (400, "forged")
    assert counted(served, store) == {0: {"forged": 1}, 1: {"forged": 1}}
    assert not [event for event in store.read_events(1, 0, 100) if event.kind == "report"]


def test_new_signing_key_of_other_process_is_read(served: Served, store: Store) -> None:
    token = token_of(store, served.post(DECISIONS).json)
    rotate_signing_key(store)
    text = load_secrets(store).ring.sign(token)
    served.expire_keys()
    assert status(served.post(REPORTS, {"token": text, "bit": 1})) == (200, "accepted")


@pytest.mark.parametrize("epsilon", [1.0, 0.5, 0.000001])
def test_report_epsilon_may_be_lower(served: Served, store: Store, epsilon: float) -> None:
    report = {"token": decided(served), "bit": 0, "epsilon": epsilon}
    assert status(served.post(REPORTS, report)) == (200, "accepted")
    assert store.read_events(1, 0, 100)[-1].epsilon == round(epsilon * 1e6)


@pytest.mark.parametrize("change", [{"epsilon": 1.000001}, {"epsilon": 0}, {"epsilon": -1}, {"epsilon": 1e-7}])
def test_invalid_report_epsilon_is_refused(served: Served, store: Store, change: dict[str, Any]) -> None:
    report = {"token": decided(served), "bit": 1, **change}
    assert status(served.post(REPORTS, report)) == (400, "invalid")
    assert status(served.post(REPORTS, {**report, "epsilon": None})) == (200, "accepted")  # it can be put right
    assert counted(served, store) == {0: {}, 1: {"invalid": 1}}


@pytest.mark.parametrize("bit", ["2", "-1", str(10**30), "0.5", "1e400", "true", "null", '"1"', "[[1]]", '{"bit":1}'])
def test_invalid_bit_is_refused(served: Served, store: Store, bit: str) -> None:
    body = f'{{"token":"{decided(served)}","bit":{bit}}}'
    assert status(served.post(REPORTS, body.encode())) == (400, "invalid")
    assert counted(served, store) == {0: {}, 1: {"invalid": 1}}


@pytest.mark.parametrize("rest", [{}, {"bit": 1, "epsilon": "x"}, {"bit": 1, "epsilon": True}, {"answer": 0.5}])
def test_malformed_report_is_counted(served: Served, store: Store, rest: dict[str, Any]) -> None:
    token = decided(served)
    assert status(served.post(REPORTS, {"token": token, **rest})) == (400, "invalid")
    assert status(served.post(REPORTS, {"token": "x", **rest})) == (400, "forged")
    assert status(served.post(REPORTS, {"token": token, "bit": 1})) == (200, "accepted")  # it can be put right
    assert counted(served, store) == {0: {"forged": 1}, 1: {"invalid": 1}}


def test_malformed_report_does_not_block_its_batch(served: Served, store: Store) -> None:
    tokens = [decided(served) for _ in range(7)]
    others: list[Any] = [{"bit": 0.5}, {"bit": 1, "epsilon": "x"}, {}, {"bit": 1, "value": 1}, {"answer": True}]
    batch = [{"token": token, **rest} for token, rest in zip(tokens, [{"bit": 1}, *others, {"bit": 0}], strict=True)]
    reply = served.post(REPORTS, {"reports": [*batch, {"bit": 1}, {"token": 5, "bit": 1}, 7, None, [batch[0]]]})
    assert reply.status == 200
    values = [each["status"] for each in reply.json["results"]]
    assert values == ["accepted", *["invalid"] * 5, "accepted", *["invalid"] * 5]
    assert counted(served, store) == {0: {"invalid": 5}, 1: {"invalid": 5}}
    assert [event.bit for event in store.read_events(1, 0, 100) if event.kind == "report"] == [1, 0]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "the body is not JSON"),
        ({}, "a report needs a token and a bit"),
        ([], "got `array`"),
        ({"bit": 0.5}, "a report needs a token and a bit"),
        ({"token": None, "bit": 1}, "a report needs a token and a bit"),
        ({"token": 1, "bit": 1}, "got `int`"),
        ({"token": "x", "bit": 1, "reports": []}, "length >= 1"),
        ({"token": "x", "bit": 1, "reports": [{"token": "x", "bit": 1}]}, "not both"),
        ({"reports": {"token": "x", "bit": 1}}, "got `object`"),
        ({"bit": 0.5, "reports": [{"token": "x", "bit": 1}]}, "not both"),
        ({"reports": [0.5] * 1001}, "length <= 1000"),
        (b'{"token":"x","bit":' + b"[" * 100_000, "nested too deeply"),
        (b'{"reports":[{"token":"x","bit":0.5},tru', "the body is not JSON"),
        ({"token": "x", "answer": 1, "reports": [{"token": "x", "bit": 1}]}, "not both"),
        ({"reports": [{"token": "x", "bit": 0}] * 1001}, "length <= 1000"),
        ({"token": "x", "bit": 1, "value": 1}, "no field is called 'value'"),
    ],
)
def test_bodies_without_reports_are_refused(served: Served, body: Any, complaint: str) -> None:
    reply = served.post(REPORTS, body)
    assert reply.status == 400
    assert complaint in reply.error


def test_batch_has_a_status_for_each_report(served: Served, store: Store) -> None:
    first, second = decided(served), decided(served)
    foreign = sign_token(store, token_of(store, {"token": first})._replace(experiment=99))
    batch = [
        {"token": first, "bit": 1},
        {"token": first, "bit": 0},
        {"token": "x" * 64, "bit": 1},
        {"token": second, "bit": 2},
        {"token": foreign, "bit": 1},
        {"token": second, "bit": 0, "epsilon": 0.25},
    ]
    reply = served.post(REPORTS, {"reports": batch})
    assert reply.status == 200
    values = [each["status"] for each in reply.json["results"]]
    assert values == ["accepted", "duplicate", "forged", "invalid", "foreign", "accepted"]
    assert counted(served, store) == {0: {"foreign": 1, "forged": 1}, 1: {"duplicate": 1, "invalid": 1}}
    assert [event.bit for event in store.read_events(1, 0, 100) if event.kind == "report"] == [1, 0]


def test_a_large_batch(served: Served, store: Store) -> None:
    decisions = served.post(DECISIONS, {"n": 1000}).json["decisions"]
    batch = [{"token": each["token"], "bit": place % 2} for place, each in enumerate(decisions)]
    results = served.post(REPORTS, {"reports": batch}).json["results"]
    assert {each["status"] for each in results} == {"accepted"}
    assert store.read_heads() == {1: 1001}


def test_too_many_reports_with_one_token(registry: ExperimentRegistry) -> None:
    with Served(registry, Settings(token_rate=0.001, burst=3000)) as served:
        served.post("/v1/experiments", SMALL)
        report = {"token": decided(served), "bit": 1}
        values = [served.post(REPORTS, report) for _ in range(5)]
        assert [reply.status for reply in values] == [200, 200, 200, 429, 429]
        assert int(values[-1].headers["retry-after"]) > 900
        assert "token" in values[-1].error
        assert served.post(REPORTS, {"token": decided(served), "bit": 1}).status == 200


def test_batch_limits_reports_of_one_token(registry: ExperimentRegistry, store: Store) -> None:
    with Served(registry, Settings(token_rate=0.001, burst=2000)) as served:
        served.post("/v1/experiments", SMALL)
        often, once = decided(served), decided(served)
        batch = {"reports": [{"token": token, "bit": 1} for token in (often, often, often, once)]}
        reply = served.post(REPORTS, batch)
        values = [each["status"] for each in reply.json["results"]]
        assert (reply.status, values) == (200, ["accepted", "duplicate", "limited", "accepted"])
        assert "again later" in reply.json["results"][2]["error"]
        assert counted(served, store) == {0: {}, 1: {"duplicate": 1}}


def test_reread_batch_is_charged_once(registry: ExperimentRegistry, store: Store) -> None:
    with Served(registry, Settings(token_rate=0.001, burst=1000)) as served:
        served.post("/v1/experiments", SMALL)
        token = decided(served)
        unknown = sign_token(store, token_of(store, {"token": token})._replace(experiment=99))
        batch = {"reports": [{"token": token, "bit": 1}, {"token": unknown, "bit": 1}]}
        values = [each["status"] for each in served.post(REPORTS, batch).json["results"]]
        assert values == ["accepted", "foreign"]


def test_no_error_asks_for_a_second_draw(served: Served) -> None:
    error = served.post(REPORTS, {"token": decided(served), "bit": 2}).error
    assert "mask it again" not in error
    assert "epsilon, if given" in error


def test_new_signing_key_is_read_for_a_batch(served: Served, store: Store) -> None:
    """However soon after they were read: a device drops a report for good if it counts as forged."""
    token = token_of(store, served.post(DECISIONS).json)
    served.expire_keys(time.monotonic())
    rotate_signing_key(store)
    text = load_secrets(store).ring.sign(token)
    assert status(served.post(REPORTS, {"token": text, "bit": 1})) == (200, "accepted")


def test_new_key_and_new_experiment_in_one_batch(storage: str, served: Served, store: Store) -> None:
    with Served(build_registry(storage)) as elsewhere:
        elsewhere.post("/v1/experiments", {**SMALL, "name": "other"})
        other = token_of(store, elsewhere.post("/v1/experiments/other/decisions").json)
        known = token_of(store, served.post(DECISIONS).json)
        rotate_signing_key(store)
        sign = load_secrets(store).ring.sign
        batch = {"reports": [{"token": sign(token), "bit": 1} for token in (known, other)]}
        values = served.post(REPORTS, batch).json["results"]
    assert [each["status"] for each in values] == ["accepted", "accepted"]


def test_report_is_deferred_while_logs_are_unreadable(
    storage: str, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The experiment may be one that another process has made, and a foreign report is dropped for good."""

    def fail() -> None:
        raise StoreUnavailable("the database cannot be reached")

    monkeypatch.setattr(served.registry.log_reader.store, "read_status", fail)
    with Served(build_registry(storage)) as elsewhere:
        elsewhere.post("/v1/experiments", {**SMALL, "name": "other"})
        token = elsewhere.post("/v1/experiments/other/decisions").json["token"]
        reply = served.post(REPORTS, {"token": token, "bit": 1})
        assert (reply.status, "again later" in reply.error) == (503, True)
        reply = served.post("/v1/experiments/other/decisions")
        assert (reply.status, "send the request again" in reply.error) == (503, True)
        monkeypatch.undo()
        served.run(until(lambda: served.registry.get("other") is not None))
        assert status(served.post(REPORTS, {"token": token, "bit": 1})) == (200, "accepted")
