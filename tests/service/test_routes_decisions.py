"""Decisions over HTTP: replies and their tokens agree."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import msgspec
import pytest
from registries import until
from web import SMALL, Served, token_of

from maskedbandits.service.schemas import DecisionAnswer
from maskedbandits.service.storage import Store
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_SUBSET

pytest_plugins = ["service_fixtures"]

DECISIONS, STATE = "/v1/experiments/headline/decisions", "/v1/experiments/headline/state"


def test_reply_matches_its_token(served: Served, store: Store) -> None:
    assert served.patch("/v1/experiments/headline", {"floor": 0.25}).status == 200  # without, all is certain
    before = int(time.time())
    reply = served.post(DECISIONS)
    after = int(time.time())
    assert reply.status == 200
    answer = reply.json
    msgspec.json.decode(reply.body, type=DecisionAnswer)
    assert [*answer, "stored"] == list(DecisionAnswer.__struct_fields__)
    token = token_of(store, answer)
    assert answer["arm"] == ["short", "long"][token.arm]
    assert answer["payload"] == [None, {"size": 2}][token.arm]
    assert (answer["epsilon"], token.epsilon) == (1.0, 1_000_000)
    assert (answer["probability"], token.probability) in [(0.25, 16_384), (0.75, 49_152)]
    assert answer["expires"] == token.expires
    assert before + 86_400 <= token.expires <= after + 86_400
    assert answer["report_at"] == token.expires - 86_400 + 60
    assert answer["participate"] is True
    assert (token.experiment, token.config) == (1, 2)
    assert token.flags in (0, FLAG_FLOOR)


def test_reply_has_no_threshold(served: Served) -> None:
    assert not {"threshold", "flips", "p00", "p11", "bits"} & set(served.post(DECISIONS).json)


@pytest.mark.parametrize("n", [1, 2, 150, 1000])
def test_many_decisions_at_once(served: Served, n: int) -> None:
    decisions = served.post(DECISIONS, {"n": n}).json["decisions"]
    assert len({each["token"] for each in decisions}) == n


def test_only_eligible_arms(served: Served, store: Store) -> None:
    decisions = served.post(DECISIONS, {"n": 20, "eligible_arms": ["long"]}).json["decisions"]
    assert Counter(each["arm"] for each in decisions) == {"long": 20}
    assert {token_of(store, each).flags for each in decisions} == {FLAG_SUBSET}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"eligible_arms": ["lang"]}, "no arm is called 'lang'; did you mean 'long'?"),
        ({"eligible_arms": []}, "length >= 1"),
        ({"n": 0}, "`int` >= 1"),
        ({"n": 1001}, "`int` <= 1000"),
        ({"n": 2, "visitor": "v"}, "exclude each other"),
        ({"visitor": ""}, "length >= 1"),
        ({"visitor": 1}, "Expected `str | null`, got `int`"),
        ({"visiter": "v"}, "no field is called 'visiter'; did you mean 'visitor'?"),
        (b"n=1", "the body is not JSON"),
    ],
)
def test_invalid_decision_requests_are_refused(served: Served, body: Any, complaint: str) -> None:
    reply = served.post(DECISIONS, body)
    assert reply.status == 400
    assert complaint in reply.error


def test_unknown_experiment_gets_404(served: Served) -> None:
    assert served.post("/v1/experiments/none/decisions").status == 404
    assert served.post("/v1/experiments/headline%2Fdecisions/decisions").status == 404


def test_any_characters_in_names_and_payloads(served: Served) -> None:
    name, payload = 'a"b\\ é 滑', ['"', "\u2028", {"é": [1.5, None, "\x00"]}]
    odd = {**SMALL, "name": "odd", "epsilon": 0.000001, "arms": [{"name": name, "payload": payload}]}
    assert served.post("/v1/experiments", odd).status == 201
    answer = served.post("/v1/experiments/odd/decisions").json
    assert (answer["arm"], answer["payload"], answer["epsilon"]) == (name, payload, 1e-6)


def test_reply_does_not_reveal_number_of_reports(served: Served) -> None:
    """A holder of a page's key could watch each report arrive by the number of the last event."""
    times = {"now", "report_at", "expires"}
    known = {"token", "arm", "payload", "epsilon", "probability", "participate", "experiment", *times}
    for participate in (True, False):
        assert set(served.post(DECISIONS, {"participate": participate}).json) == known


# Visitors


def test_visitor_keeps_arm_and_token(served: Served) -> None:
    first = served.post(DECISIONS, {"visitor": "somebody"}).json
    for _ in range(10):
        again = served.post(DECISIONS, {"visitor": "somebody"}).json
        assert {**again, "now": 0} == {**first, "now": 0}
    assert sum(served.get(STATE).json["pending"]) == 1  # decisions that no device received are cancelled
    others = {served.post(DECISIONS, {"visitor": f"visitor {place}"}).json["token"] for place in range(10)}
    assert len(others | {first["token"]}) == 11


def test_visitor_keeps_token_if_its_arm_is_eligible(served: Served, store: Store) -> None:
    served.post("/v1/experiments/headline/arms", {"name": "third"})
    first = served.post(DECISIONS, {"visitor": "v"}).json
    assert token_of(store, first).flags == 0
    others = sorted({"short", "long", "third"} - {first["arm"]})
    for named in (["short", "long", "third"], ["third", "long", "short"], [first["arm"]], [others[0], first["arm"]]):
        again = served.post(DECISIONS, {"visitor": "v", "eligible_arms": named}).json
        assert again == first


def test_visitor_has_a_token_for_each_set_of_arms(served: Served) -> None:
    first = served.post(DECISIONS, {"visitor": "v"}).json
    (other,) = {"short", "long"} - {first["arm"]}
    second, again = (served.post(DECISIONS, {"visitor": "v", "eligible_arms": [other]}).json for _ in range(2))
    assert (second["arm"], again["token"]) == (other, second["token"])
    assert second["token"] != first["token"]
    for _ in range(3):
        assert served.post(DECISIONS, {"visitor": "v"}).json["token"] == first["token"]
        assert served.post(DECISIONS, {"visitor": "v", "eligible_arms": [other]}).json["token"] == second["token"]
        assert served.post(DECISIONS, {"visitor": "v", "eligible_arms": [first["arm"]]}).json["token"] == first["token"]
    assert sum(served.get(STATE).json["pending"]) == 2


def test_naming_all_arms_is_no_subset(served: Served, store: Store) -> None:
    assert token_of(store, served.post(DECISIONS, {"eligible_arms": ["long", "short", "long"]}).json).flags == 0


def test_only_visitors_of_retired_arm_get_new_tokens(served: Served) -> None:
    served.post("/v1/experiments/headline/arms", {"name": "third"})

    def visit(place: int) -> dict[str, Any]:
        answer: dict[str, Any] = served.post(DECISIONS, {"visitor": str(place)}).json
        return answer

    before = [visit(place) for place in range(12)]
    assert {each["arm"] for each in before} == {"short", "long", "third"}
    assert served.post("/v1/experiments/headline/arms/third/retire").status == 200
    after = [visit(place) for place in range(12)]
    for old, new in zip(before, after, strict=True):
        assert (new["token"] == old["token"]) == (old["arm"] != "third")
    assert [each["token"] for each in after] == [visit(place)["token"] for place in range(12)]


@pytest.mark.parametrize("lifetime", [3660, 86_400 * 30])
def test_visitor_keeps_report_time_after_config_change(served: Served, lifetime: int) -> None:
    first = served.post(DECISIONS, {"visitor": "v"}).json
    assert served.patch("/v1/experiments/headline", {"expires_after": lifetime}).status == 200
    again = served.post(DECISIONS, {"visitor": "v"}).json
    assert again["token"] == first["token"]
    assert abs(again["report_at"] - first["report_at"]) < 60


def test_visitor_is_not_shown_retired_arm(served: Served) -> None:
    for place in range(20):
        served.post(DECISIONS, {"visitor": str(place)})
    assert served.post("/v1/experiments/headline/arms/long/retire").status == 200
    assert {served.post(DECISIONS, {"visitor": str(place)}).json["arm"] for place in range(20)} == {"short"}


def test_visitor_keeps_epsilon_of_token(served: Served) -> None:
    """Else a report would be taken for one that was masked less than it was."""
    first = served.post(DECISIONS, {"visitor": "v"}).json
    assert served.patch("/v1/experiments/headline", {"epsilon": 0.5}).status == 200
    assert served.post(DECISIONS, {"visitor": "v"}).json["epsilon"] == first["epsilon"] == 1.0
    assert served.post(DECISIONS, {"visitor": "w"}).json["epsilon"] == 0.5


def test_visitor_gets_new_token_after_dropped_key(served: Served, store: Store) -> None:
    first = served.post(DECISIONS, {"visitor": "v"}).json
    old = store.list_signing_keys()[0][0]
    store.add_signing_key(b"n" * 48)  # sealed
    store.drop_signing_key(old)
    served.renew_keys()
    again = [served.post(DECISIONS, {"visitor": "v"}).json["token"] for _ in range(3)]
    assert again == [again[0]] * 3 != [first["token"]] * 3


def test_visitor_name_is_never_stored(served: Served, store: Store, tmp_path: Any) -> None:
    served.post(DECISIONS, {"visitor": "alice@example.org"})
    files = [path.read_bytes() for path in tmp_path.rglob("bandits.db*")]
    assert files
    assert not any(b"alice" in content for content in files)


# Without participation


@pytest.mark.parametrize("more", [{}, {"eligible_arms": ["long"]}, {"n": 3}])
def test_nonparticipant_gets_arm_without_token(served: Served, more: dict[str, Any]) -> None:
    answer = served.post(DECISIONS, {"participate": False, **more}).json
    for each in answer.get("decisions", [answer]):
        assert (each["token"], each["participate"]) == (None, False)
        assert each["arm"] in more.get("eligible_arms", ["short", "long"])


def test_nonparticipant_gets_probability(served: Served) -> None:
    """Of two arms without reports, 64 draws are not all of one."""
    assert served.post("/v1/experiments", {**SMALL, "name": "drawn", "policy": "auto"}).status == 201
    path = "/v1/experiments/drawn/decisions"
    shown = served.post(path, {"n": 20, "participate": False}).json["decisions"]
    first, again = (served.post(path, {"visitor": "ada", "participate": False}).json for _ in range(2))
    for each in (*shown, first):
        assert 0 < each["probability"] < 1
        assert (64 * each["probability"]).is_integer()
    assert (first["arm"], first["probability"]) == (again["arm"], again["probability"])


def test_nonparticipating_visitor_keeps_arm(served: Served) -> None:
    first = served.post(DECISIONS, {"visitor": "ada", "participate": False}).json
    again = [served.post(DECISIONS, {"visitor": "ada", "participate": taking}).json for taking in (False, True)]
    assert [(each["arm"], each["token"]) for each in again] == [(first["arm"], None)] * 2


@pytest.mark.parametrize("more", [{}, {"eligible_arms": ["long"]}])
def test_visitor_with_token_can_skip_participation(served: Served, more: dict[str, Any]) -> None:
    first = served.post(DECISIONS, {"visitor": "ada", **more}).json
    assert first["token"]
    shown = served.post(DECISIONS, {"visitor": "ada", "participate": False, **more}).json
    assert (shown["token"], shown["participate"]) == (None, False)
    assert (shown["arm"], shown["probability"]) == (first["arm"], first["probability"])
    again = served.post(DECISIONS, {"visitor": "ada", **more}).json
    assert again["token"] == first["token"]  # it stays the visitor's
    assert sum(served.get(STATE).json["pending"]) == 1


# Arms that come


def test_new_arm_is_tried_beside_perfect_one(served: Served) -> None:
    assert served.post("/v1/experiments", {**SMALL, "name": "sure", "policy": "auto", "epsilon": 4}).status == 201
    path = "/v1/experiments/sure"
    for arm, bit in (("short", 0), ("long", 1)):
        decisions = served.post(f"{path}/decisions", {"n": 1000, "eligible_arms": [arm]}).json["decisions"]
        batch = [{"token": each["token"], "bit": bit} for each in decisions]
        assert served.post("/v1/reports", {"reports": batch}).status == 200
    assert served.post(f"{path}/arms", {"name": "new"}).status == 201
    live = served.registry.get("sure")
    assert live is not None
    served.run(until(lambda: live.selector.open_arms == [0, 1, 2]))
    live.decide()
    assert live.selector.counts[2] > 0
    live.decide(1, (2,))  # with a report pending, the arm is no longer untried
    assert not live.find_untried().any()


# Paused, archived


def test_paused_experiment_shows_default_arm(served: Served) -> None:
    served.patch("/v1/experiments/headline", {"status": "paused", "default_arm": "long"})
    answer = served.post(DECISIONS).json
    assert answer["arm"] == "long"
    assert (answer["token"], answer["participate"], answer["probability"]) == (None, False, 1.0)
    assert served.post(DECISIONS, {"eligible_arms": ["short"]}).json["arm"] == "short"
    assert len(served.post(DECISIONS, {"n": 3}).json["decisions"]) == 3
    assert served.post(DECISIONS, {"n": 3, "visitor": "v"}).status == 400  # as while it runs
    served.patch("/v1/experiments/headline", {"status": "running"})
    assert served.post(DECISIONS).json["token"]


def test_archived_experiment_gets_410(served: Served) -> None:
    served.patch("/v1/experiments/headline", {"status": "archived"})
    assert served.post(DECISIONS).status == 410
