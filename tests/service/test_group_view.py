"""An experiment with groups as a person is shown it: no more than its numbers say."""

from __future__ import annotations

import math
from typing import Any

from test_history import point

from maskedbandits.service.dashboard.alerts import MAX_NAMED, MIN_OVERDUE, find_group_alerts
from maskedbandits.service.dashboard.view import (
    MAX_ARMS,
    MAX_GROUPS,
    build_groups,
    describe_group_leader,
    explain_answers,
    select_groups,
)

NARROW, WIDE = 0.05, 0.4


def view(estimates: list[list[float | None]], width: float, shares: list[float] | None = None) -> dict[str, Any]:
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


def lead(told: dict[str, Any], *known: int, reports: int = 9) -> str:
    return describe_group_leader(build_groups(told, known), reports)


def test_what_leads_is_said_no_stronger_than_the_intervals() -> None:
    assert lead(view([[None, None]] * 2, WIDE), 0, 1, reports=0) == "No report has been learnt yet."
    assert lead(view([[None, None]] * 2, WIDE), 0, 1) == "No group is told from the others yet."
    three: list[list[float | None]] = [[0.5, 0.5], [0.3, 0.61], [0.8, 0.2]]
    assert lead(view(three, NARROW, [0.5, 0.3, 0.2]), 0, 1) == (
        "'group 1' people like 'arm 1' best, 0.61 (0.56 to 0.66); of the 3 groups 2 have a clear best arm."
    )
    assert lead(view(three, WIDE, [0.2, 0.3, 0.5]), 0, 1) == (
        "None of the 3 groups has a clear best arm yet; for 'group 2' people the highest estimate has 'arm 0', "
        "0.80 (0.40 to 1.20)."
    )
    assert lead(view(three, NARROW), 1) == "The only open arm is 'arm 1'."
    assert lead(view([[0.9, 0.1], [0.5, None]], NARROW), 0, 1).endswith("of the 2 groups 1 has a clear best arm.")


def test_an_arm_that_is_retired_is_not_the_best() -> None:
    (group, _) = build_groups(view([[0.9, 0.5, 0.1]] * 2, NARROW), [1, 2])
    assert (group["best"]["name"], group["clear"]) == ("arm 1", True)
    assert [arm["place"] for arm in group["arms"]] == [1, 2]


def test_of_very_many_groups_and_arms_some_are_shown() -> None:
    many, arms = 256, 200
    told = view([[0.5] * arms for _ in range(many)], WIDE, [0.001] * many)
    told["shares"][200] = 0.5
    told["estimates"][200][150] = 0.9
    told["probabilities"] = [[0.0] * arms for _ in range(many)]
    told["probabilities"][200][180] = 1.0
    shown = select_groups(build_groups(told, range(arms)))
    assert [group["name"] for group in shown] == [f"group {place}" for place in [*range(MAX_GROUPS - 1), 200]]
    assert {len(group["arms"]) for group in shown} == {MAX_ARMS}
    places = [arm["place"] for arm in shown[-1]["arms"]]
    assert places == sorted(places)
    assert {150, 180} <= set(places)


def test_what_epsilon_means_for_bits_and_for_one_of_many() -> None:
    for answers in (2, 6, 20):
        truth = 100 * math.exp(2) / (math.exp(2) + answers - 1)
        assert f"group, arm and reward together: it is true {truth:.1f} % of the time" in explain_answers(
            2_000_000, answers
        )
        belief = 100 * math.exp(2) / (math.exp(2) + 1)  # of two truths that somebody wavers between
        assert f"a guess of 50 % into {belief:.1f} %" in explain_answers(2_000_000, answers)


def test_what_to_look_into_is_told_in_one_line_each() -> None:
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
