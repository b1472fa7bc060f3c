"""The dashboard's view of experiments, without and with groups."""

from __future__ import annotations

import math
from typing import Any

from test_history import point

from maskedbandits.service.dashboard.alerts import MAX_NAMED, MIN_OVERDUE, find_group_alerts
from maskedbandits.service.dashboard.view import (
    MAX_ARMS,
    MAX_GROUPS,
    build_groups,
    build_rows,
    describe_group_leader,
    describe_leader,
    explain_answers,
    explain_epsilon,
    select_groups,
    sum_arms,
)


def view(arms: int, **others: Any) -> dict[str, Any]:
    numbers = {name: [0] * arms for name in ("issued", "reported", "pending", "missing")}
    sample = {"arms": [f"arm {place}" for place in range(arms)], "estimates": [0.5] * arms, "alarms": 0, "refused": {}}
    sample["missing_reports"] = {"warning": None}
    return {
        **sample,
        "held_back": 0,
        "intervals": [[0.4, 0.6]] * arms,
        "suspects": [False] * arms,
        "poisoning": [],
        **numbers,
        **others,
    }


def row(name: str, estimate: float | None, low: float, high: float, share: float | None = 0.25) -> dict[str, Any]:
    return {"name": name, "estimate": estimate, "low": low, "high": high, "share": share}


def test_rows_are_open_arms_by_index() -> None:
    sample = view(4, issued=[5, 6, 7, 8], missing=[1, 2, 3, 4])
    rows = build_rows(sample, [0.1, 0.2, 0.3, 0.4], [0, 2, 3])
    assert [row["name"] for row in rows] == ["arm 0", "arm 2", "arm 3"]
    assert [row["decisions"] for row in rows] == [5, 7, 8]
    assert [row["missing"] for row in rows] == [1, 3, 4]
    assert [row["share"] for row in rows] == [0.1, 0.3, 0.4]


def test_rows_are_limited_to_best_arms() -> None:
    many = 1000
    shares: list[float | None] = [0.0] * many
    shares[500], shares[900] = 0.5, 0.4
    estimates: list[float | None] = [None] * many
    estimates[7] = 0.9
    rows = build_rows(view(many, estimates=estimates), shares, range(many))
    assert len(rows) == MAX_ARMS
    assert {7, 500, 900} <= {row["place"] for row in rows}
    assert [row["place"] for row in rows] == sorted(row["place"] for row in rows)


def test_arm_unknown_to_policy_has_no_row() -> None:
    assert [row["place"] for row in build_rows(view(2), [None, None], [0, 1, 2])] == [0, 1]


def test_totals_are_of_all_arms_and_reasons() -> None:
    sample = view(2, issued=[5, 6], reported=[1, 2], pending=[3, 0], missing=[0, 4], alarms=7, held_back=2)
    sample["refused"] = {"duplicate": 1, "late": 2, "forged": 3, "foreign": 4}
    numbers = {"decisions": 11, "reports": 3, "pending": 3, "missing": 4}
    assert sum_arms(sample) == {**numbers, "duplicate": 1, "late": 2, "refused": 7, "alarms": 7, "held_back": 2}


def test_leader_text_follows_intervals() -> None:
    assert describe_leader([row("a", None, 0, 1)]) == "No reports received yet."
    assert describe_leader([row("a", 0.5, 0.4, 0.6), row("b", None, 0, 1)]).startswith(
        "Leading: 'a', 0.50 (0.40 to 0.60). Not conclusive"
    )
    clear = describe_leader([row("a", 0.5, 0.4, 0.6), row("b", 0.8, 0.7, 0.9)])
    assert clear == (
        "Leading: 'b', 0.80 (0.70 to 0.90). Its interval lies above all others. It gets 25 % of the latest decisions."
    )
    assert describe_leader([row("a", 0.5, 0.4, 0.6, None)]) == "The only open arm is 'a', 0.50 (0.40 to 0.60)."


def test_explanation_of_epsilon() -> None:
    truth = 100 * math.e / (1 + math.e)
    assert f"it is true {truth:.1f} % of the time" in explain_epsilon(1_000_000)


# Groups

NARROW, WIDE = 0.05, 0.4


def group_view(estimates: list[list[float | None]], width: float, shares: list[float] | None = None) -> dict[str, Any]:
    many, arms = len(estimates), len(estimates[0])
    return {
        "groups": [f"group {place}" for place in range(many)],
        "arms": [f"arm {place}" for place in range(arms)],
        "shares": shares or [1 / many] * many,
        "estimates": estimates,
        "intervals": [[[0, 1] if each is None else [each - width, each + width] for each in row] for row in estimates],
        "suspects": [[False] * arms] * many,
        "probabilities": [[1 / arms] * arms] * many,
    }


def describe_groups(sample: dict[str, Any], *known: int, reports: int = 9) -> str:
    return describe_group_leader(build_groups(sample, known), reports)


def test_group_leader_text_follows_intervals() -> None:
    assert describe_groups(group_view([[None, None]] * 2, WIDE), 0, 1, reports=0) == "No reports received yet."
    assert describe_groups(group_view([[None, None]] * 2, WIDE), 0, 1) == "No estimates by group yet."
    three: list[list[float | None]] = [[0.5, 0.5], [0.3, 0.61], [0.8, 0.2]]
    assert describe_groups(group_view(three, NARROW, [0.5, 0.3, 0.2]), 0, 1) == (
        "Best for 'group 1': 'arm 1', 0.61 (0.56 to 0.66). Of 3 groups, 2 have a clear best arm."
    )
    assert describe_groups(group_view(three, WIDE, [0.2, 0.3, 0.5]), 0, 1) == (
        "None of the 3 groups has a clear best arm yet. Leading for 'group 2': 'arm 0', 0.80 (0.40 to 1.20)."
    )
    assert describe_groups(group_view(three, NARROW), 1) == "The only open arm is 'arm 1'."
    assert describe_groups(group_view([[0.9, 0.1], [0.5, None]], NARROW), 0, 1).endswith(
        "Of 2 groups, 1 has a clear best arm."
    )


def test_retired_arm_is_not_best() -> None:
    (group, _) = build_groups(group_view([[0.9, 0.5, 0.1]] * 2, NARROW), [1, 2])
    assert (group["best"]["name"], group["clear"]) == ("arm 1", True)
    assert [arm["place"] for arm in group["arms"]] == [1, 2]


def test_groups_and_arms_are_limited() -> None:
    many, arms = 256, 200
    sample = group_view([[0.5] * arms for _ in range(many)], WIDE, [0.001] * many)
    sample["shares"][200] = 0.5
    sample["estimates"][200][150] = 0.9
    sample["probabilities"] = [[0.0] * arms for _ in range(many)]
    sample["probabilities"][200][180] = 1.0
    shown = select_groups(build_groups(sample, range(arms)))
    assert [group["name"] for group in shown] == [f"group {place}" for place in [*range(MAX_GROUPS - 1), 200]]
    assert {len(group["arms"]) for group in shown} == {MAX_ARMS}
    places = [arm["place"] for arm in shown[-1]["arms"]]
    assert places == sorted(places)
    assert {150, 180} <= set(places)


def test_explanation_of_answers() -> None:
    for answers in (2, 6, 20):
        truth = 100 * math.exp(2) / (math.exp(2) + answers - 1)
        assert f"group, arm and reward together: it is true {truth:.1f} % of the time" in explain_answers(
            2_000_000, answers
        )
        belief = 100 * math.exp(2) / (math.exp(2) + 1)  # between two equally likely truths
        assert f"a guess of 50 % into {belief:.1f} %" in explain_answers(2_000_000, answers)


def test_group_alerts_are_one_line() -> None:
    pairs = [(f"<b>{place}", "long") for place in range(MAX_NAMED + 2)]
    (found,) = find_group_alerts("paused", pairs, [point(0.0)], 60)
    assert found["kind"] == "suspect"
    assert "'long' in '<b>0'" in found["text"]
    assert f"'long' in '<b>{MAX_NAMED - 1}' and 2 more" in found["text"]
    assert f"<b>{MAX_NAMED}" not in found["text"]
    assert "more" not in find_group_alerts("running", pairs[:1], [point(0.0)], 60)[0]["text"]
    silent = [point(0.0), point(1.0, decisions=MIN_OVERDUE), point(2000.0, decisions=MIN_OVERDUE)]
    assert [each["kind"] for each in find_group_alerts("running", [], silent, 60)] == ["silent"]
    assert find_group_alerts("running", [], [point(0.0)], 60) == []
