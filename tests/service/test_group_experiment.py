"""Experiments with groups over HTTP: one question to all devices, and masked answers."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from registries import build_registry
from running import wait_for
from web import Served, sign_token, token_of

from maskedbandits.privacy import Question
from maskedbandits.service.replay import AGREES, replay
from maskedbandits.service.schemas import MILLION, GroupsStateAnswer, QuestionAnswer
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_HOLDOUT, FLAG_SUBSET

pytest_plugins = ["service_fixtures"]

ALL, ONE = "/v1/experiments", "/v1/experiments/kinds"
DECISIONS, REPORTS, STATE = f"{ONE}/decisions", f"{ONE}/reports", f"{ONE}/state"
GROUPS = ["young", "old", "other"]
KINDS = {
    "name": "kinds",
    "epsilon": 1,
    "arms": [{"name": "short"}, {"name": "long", "payload": {"size": 2}}],
    "policy": "klucb-cf",
    "groups": GROUPS,
}
MANY = {**KINDS, "epsilon": 3}  # above which one of 2 G answers says more than a bit


@pytest.fixture
def grouped(served: Served) -> Served:
    assert served.post(ALL, KINDS).status == 201
    return served


def masked(answer: dict[str, Any], group: int, reward: int, epsilon: float | None = None) -> int:
    """Return the answer of a device in this group."""
    table = [["short", "long", "third"].index(arm) for arm in answer["arms"]]
    return Question(table, answer["signs"], epsilon or answer["epsilon"]).answer(group, reward)


def observed(served: Served, answers: int) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def is_there() -> bool:
        found.update(served.get(STATE).json)
        return int(found["observations"]) == answers

    wait_for(is_there)
    return found


def lived(served: Served, visitors: int, seed: int = 1) -> None:
    """Let visitors come: each group likes another arm."""
    rng, reports = random.Random(seed), []
    for _ in range(visitors):
        answer = served.post(DECISIONS).json
        group = rng.randrange(len(GROUPS))
        reward = int(answer["arms"][group] == ["short", "long", "long"][group])
        reports.append({"token": answer["token"], "answer": masked(answer, group, reward)})
    results = served.post(REPORTS, {"reports": reports}).json["results"]
    assert Counter(each["status"] for each in results) == {"accepted": visitors}


def test_an_experiment_shows_its_groups(grouped: Served) -> None:
    shown = grouped.get(ONE).json
    assert (shown["groups"], shown["shares"]) == (GROUPS, None)
    values = {**KINDS, "name": "shared", "shares": [0.5, 0.25, 0.25]}
    assert grouped.post(ALL, values).json["shares"] == [0.5, 0.25, 0.25]
    assert grouped.get("/v1/experiments/headline").json["groups"] is None
    refused = grouped.patch(ONE, {"groups": ["a", "b"]})
    assert (refused.status, "no field is called 'groups'" in refused.error) == (400, True)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"groups": ["young"]}, "length >= 2"),
        ({"groups": [str(n) for n in range(257)]}, "length <= 256"),
        ({"groups": ["young", "young"]}, "two groups are called 'young'"),
        ({"groups": ["young", "o\nld"]}, "groups"),
        ({"shares": [0.5, 0.5]}, "give 3 numbers"),
        ({"shares": [0.5, 0.4, 0.2]}, "that add up to 1"),
        ({"shares": [0.5, 0.499999, 0.000001]}, "too small to learn about"),
        ({"groups": None, "shares": [0.5, 0.5]}, "shares require groups"),
        ({"policy": "exp3s"}, "policy = 'exp3s' is not supported"),
        (
            {"groups": [str(n) for n in range(256)], "arms": [{"name": str(n)} for n in range(256)]},
            "with 256 groups an experiment has at most 255 arms",
        ),
        ({"policy": "sw-klucb-cf", "groups": [str(n) for n in range(200)], "parameters": {"window": 10**6}}, "at most"),
    ],
)
def test_invalid_groups_are_refused(served: Served, given: dict[str, Any], complaint: str) -> None:
    reply = served.post(ALL, {**KINDS, **given})
    assert reply.status == 400
    assert complaint in reply.error


@pytest.mark.parametrize("epsilon", [1, 3])
def test_decision_is_a_question_to_all_groups(served: Served, store: Store, epsilon: int) -> None:
    assert served.post(ALL, {**KINDS, "epsilon": epsilon}).status == 201
    reply = served.post(DECISIONS)
    answer = reply.json
    msgspec.json.decode(reply.body, type=QuestionAnswer)
    assert [*answer, "stored"] == list(QuestionAnswer.__struct_fields__)  # left out while the store answers
    assert answer["payloads"] == {"short": None, "long": {"size": 2}}
    assert len(answer["arms"]) == 3
    assert (answer["signs"] is None) == (epsilon == 3)
    assert set(answer["signs"] or [0]) <= {0, 1}
    assert (answer["epsilon"], answer["participate"]) == (epsilon, True)
    token = token_of(store, answer)
    assert (token.epsilon, token.experiment, token.expires) == (epsilon * MILLION, 2, answer["expires"])
    assert len(answer["token"]) > 64
    live = served.registry.get("kinds")
    assert live is not None
    assert live.expand_question(token.question) == (answer["arms"], answer["signs"])  # type: ignore[attr-defined]


def test_question_reveals_neither_threshold_nor_group(grouped: Served) -> None:
    values = {"threshold", "p00", "p11", "arm", "payload", "probability", "group"}
    assert not values & set(grouped.post(DECISIONS).json)


def test_nonparticipant_gets_table_without_token(grouped: Served) -> None:
    for request in ({"participate": False}, {"participate": False, "visitor": "somebody"}):
        answer = grouped.post(DECISIONS, request).json
        assert (answer["token"], answer["signs"], answer["participate"]) == (None, None, False)
        assert len(answer["arms"]) == 3
    known = grouped.post(DECISIONS, {"visitor": "known"}).json
    answer = grouped.post(DECISIONS, {"visitor": "known", "participate": False}).json
    assert (answer["token"], answer["signs"], answer["participate"]) == (None, None, False)
    assert answer["arms"] == known["arms"]
    assert grouped.patch(ONE, {"status": "paused"}).status == 200
    answer = grouped.post(DECISIONS, {"eligible_arms": ["long"]}).json
    assert (answer["token"], answer["arms"]) == (None, ["long"] * 3)
    assert grouped.post(DECISIONS).json["arms"] == ["short"] * 3


def test_visitor_keeps_question(grouped: Served) -> None:
    first = grouped.post(DECISIONS, {"visitor": "somebody"}).json
    assert grouped.post(DECISIONS, {"visitor": "somebody"}).json == first
    assert grouped.post(DECISIONS, {"visitor": "another"}).json["token"] != first["token"]
    wait_for(lambda: grouped.get(STATE).json["pending"] == [2])
    assert grouped.post(ONE + "/arms", {"name": "third"}).status == 201
    assert grouped.patch(ONE, {"default_arm": "third"}).status == 200
    shown = set(first["arms"])
    for name in shown:
        assert grouped.post(f"{ONE}/arms/{name}/retire").status == 200
    again = grouped.post(DECISIONS, {"visitor": "somebody"}).json
    assert not set(again["arms"]) & shown


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"answer": 1}, "accepted"),
        ({"answer": 0, "epsilon": 0.5}, "accepted"),
        ({"answer": 2}, "invalid"),
        ({"answer": -1}, "invalid"),
        ({"bit": 1}, "invalid"),
        ({"bit": 1, "answer": 1}, "invalid"),
        ({"answer": 1, "epsilon": 1.5}, "invalid"),
        ({"answer": 0.5}, "invalid"),
        ({"answer": True}, "invalid"),
        ({"answer": 1, "epsilon": "x"}, "invalid"),
        ({}, "invalid"),
    ],
)
def test_reports_are_answers(grouped: Served, values: dict[str, Any], status: str) -> None:
    token = grouped.post(DECISIONS).json["token"]
    reply = grouped.post(REPORTS, {"token": token, **values})
    assert reply.verdict == status
    assert grouped.post("/v1/reports", {"reports": [{"token": token, **values}]}).json["results"][0]["status"] == (
        "duplicate" if status == "accepted" else status
    )
    if status == "invalid":
        assert "\n" not in reply.json["detail"]


def test_token_of_other_groups_is_foreign(grouped: Served, store: Store) -> None:
    """As after a backup was restored: of other groups, or of an arm that there never was."""
    token = token_of(store, grouped.post(DECISIONS).json)
    for question in (b"", b"\x05\0\0\0\0\0\0\0\0", b"\x00\x07\0", b"\x08\0\0"):
        text = sign_token(store, token._replace(question=question))
        assert grouped.post(REPORTS, {"token": text, "answer": 1}).verdict == "foreign"
    assert len(store.read_events(2, 0, 10)) == 1


def test_answer_without_groups_is_invalid(grouped: Served) -> None:
    token = grouped.post("/v1/experiments/headline/decisions").json["token"]
    assert grouped.post("/v1/reports", {"token": token, "answer": 1}).verdict == "invalid"
    assert grouped.post(REPORTS, {"token": token, "bit": 1}).verdict == "foreign"
    assert grouped.post("/v1/reports", {"token": token}).status == 400
    assert grouped.post("/v1/reports", {"token": token, "bit": 1}).verdict == "accepted"


@pytest.mark.parametrize("epsilon", [1, 3])
def test_group_state_follows_from_log(served: Served, store: Store, epsilon: int) -> None:
    """Live, from a snapshot, and replayed: bit for bit the same, with arms that come and go and other epsilons."""
    assert served.post(ALL, {**KINDS, "epsilon": epsilon}).status == 201
    lived(served, 40)
    assert served.post(f"{ONE}/arms", {"name": "third"}).status == 201
    answer = served.post(DECISIONS).json
    own = {"token": answer["token"], "answer": masked(answer, 1, 1, 0.5), "epsilon": 0.5}
    assert served.post(REPORTS, own).verdict == "accepted"
    assert served.patch(ONE, {"epsilon": 2}).status == 200
    lived(served, 30, seed=2)
    assert served.post(f"{ONE}/arms/long/retire").status == 200
    lived(served, 10, seed=3)
    state = observed(served, 81)
    served.close()
    row = store.list_experiments()[1]
    found = replay(store, row, [])
    assert found.holds
    assert [claim.source for claim in found.list_claims(AGREES)] == ["snapshot"]
    assert (found.digest, found.reports) == (state["digest"], 81)
    events = store.read_events(row.id, 0, 1000)
    reports = [event for event in events if event.kind == "report"]
    assert {event.arm for event in reports} == {event.probability for event in reports} == {None}
    assert {event.config for event in reports} == {1, 2, 3, 4}
    one_by_one = ExperimentState()
    for event in events:
        one_by_one.apply_events([event])
    assert one_by_one.compute_digest() == (row.seq, state["digest"])


def test_state_is_by_group(served: Served, storage: str) -> None:
    """With epsilon = 10 answers are true, but for one in a thousand."""
    assert served.post(ALL, {**MANY, "epsilon": 10}).status == 201
    lived(served, 200)
    state = observed(served, 200)
    msgspec.convert(state, GroupsStateAnswer)
    assert set(state) == set(GroupsStateAnswer.__struct_fields__)
    assert state["issued"] == [200]
    assert (state["groups"], state["answers"], state["pooled"]) == (GROUPS, "one of many", 0.0)
    young, old, _ = state["estimates"]
    assert young[0] > 0.9 > 0.1 > (young[1] or 0)
    assert old[1] > 0.9 > 0.1 > (old[0] or 0)
    assert sum(state["shares"]) == pytest.approx(1)
    wait_for(lambda: served.get(STATE).json["issued"] == [200])
    state = served.get(STATE).json
    assert (state["reported"], state["pending"], state["missing"]) == ([200], [0], [0])
    metrics = served.get("/metrics").body.decode()
    assert 'maskedbandits_decisions_issued{experiment="kinds"} 200' in metrics


def test_new_process_expects_answers_of_others(grouped: Served, storage: str, store: Store) -> None:
    """Of questions, by policy and arm; and no more of those that were answered."""
    decisions = [grouped.post(DECISIONS).json for _ in range(6)]
    values = [{"token": each["token"], "answer": masked(each, 0, 1)} for each in decisions[:2]]
    assert grouped.post(REPORTS, {"reports": values}).status == 200
    observed(grouped, 2)
    wait_for(lambda: grouped.get(STATE).json["pending"] == [4])
    ours = grouped.registry.get("kinds")
    assert ours is not None
    wait_for(lambda: ours.total_issued(store.sum_issued(ours.id)) == [6])  # flushed every second
    with Served(build_registry(storage)) as other:
        assert other.get(STATE).json["pending"] == [4]
        theirs = other.registry.get("kinds")
        assert theirs is not None
        ours.sync_pending()
        assert theirs.state.contextual_policy.pending.tolist() == ours.state.contextual_policy.pending.tolist()
        assert theirs.state.contextual_policy.pending.sum() >= 4


def test_holdout_is_whole_table_and_floor_by_part(served: Served, store: Store) -> None:
    values = {**MANY, "floor": 0.25, "holdout": 0.25, "default_arm": "long"}
    assert served.post(ALL, values).status == 201
    held = drawn = 0
    answers = served.post(DECISIONS, {"n": 400}).json["decisions"]
    for answer in answers:
        flags = token_of(store, answer).flags
        held += bool(flags & FLAG_HOLDOUT)
        drawn += bool(flags & FLAG_FLOOR)
        assert not flags & FLAG_HOLDOUT or answer["arms"] == ["long"] * 3
    # Of 400: 100 held out, standard deviation 8.7; of the others each of three parts misses 2/3 of the draws.
    assert abs(held - 100) < 6 * 8.7
    assert abs(drawn - 300 * (1 - (1 / 3) ** 3)) < 6 * 8.7


def test_tables_use_eligible_arms(grouped: Served, store: Store) -> None:
    answer = grouped.post(DECISIONS, {"eligible_arms": ["long"]}).json
    assert answer["arms"] == ["long"] * 3
    assert token_of(store, answer).flags == FLAG_SUBSET
    assert set(answer["payloads"]) == {"short", "long"}  # fetching them reveals nothing about eligible arms
