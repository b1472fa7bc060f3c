"""An experiment as a person is shown it: no more than its numbers say."""

from __future__ import annotations

import math
from typing import Any

from maskedbandits.service.dashboard.view import MAX_ARMS, build_rows, describe_leader, explain_epsilon, sum_arms


def view(arms: int, **others: Any) -> dict[str, Any]:
    numbers = {name: [0] * arms for name in ("issued", "reported", "pending", "missing")}
    told = {"arms": [f"arm {place}" for place in range(arms)], "estimates": [0.5] * arms, "alarms": 0, "refused": {}}
    return {**told, "held_back": 0, "intervals": [[0.4, 0.6]] * arms, "suspects": [False] * arms, **numbers, **others}


def row(name: str, estimate: float | None, low: float, high: float, share: float | None = 0.25) -> dict[str, Any]:
    return {"name": name, "estimate": estimate, "low": low, "high": high, "share": share}


def test_rows_are_open_arms_in_their_places() -> None:
    told = view(4, issued=[5, 6, 7, 8], missing=[1, 2, 3, 4])
    rows = build_rows(told, [0.1, 0.2, 0.3, 0.4], [0, 2, 3])
    assert [row["name"] for row in rows] == ["arm 0", "arm 2", "arm 3"]
    assert [row["decisions"] for row in rows] == [5, 7, 8]
    assert [row["missing"] for row in rows] == [1, 3, 4]
    assert [row["share"] for row in rows] == [0.1, 0.3, 0.4]


def test_of_very_many_arms_those_are_shown_that_matter() -> None:
    many = 1000
    shares: list[float | None] = [0.0] * many
    shares[500], shares[900] = 0.5, 0.4
    estimates: list[float | None] = [None] * many
    estimates[7] = 0.9
    rows = build_rows(view(many, estimates=estimates), shares, range(many))
    assert len(rows) == MAX_ARMS
    assert {7, 500, 900} <= {row["place"] for row in rows}
    assert [row["place"] for row in rows] == sorted(row["place"] for row in rows)


def test_an_arm_that_is_not_learnt_of_yet_is_not_shown_yet() -> None:
    assert [row["place"] for row in build_rows(view(2), [None, None], [0, 1, 2])] == [0, 1]


def test_sums_are_of_all_arms_and_reasons() -> None:
    told = view(2, issued=[5, 6], reported=[1, 2], pending=[3, 0], missing=[0, 4], alarms=7, held_back=2)
    told["refused"] = {"duplicate": 1, "late": 2, "forged": 3, "foreign": 4}
    numbers = {"decisions": 11, "reports": 3, "awaited": 3, "missing": 4}
    assert sum_arms(told) == {**numbers, "duplicate": 1, "late": 2, "refused": 7, "alarms": 7, "held_back": 2}


def test_what_leads_is_said_no_stronger_than_the_intervals() -> None:
    assert describe_leader([row("a", None, 0, 1)]) == "No report has been learnt yet."
    assert describe_leader([row("a", 0.5, 0.4, 0.6), row("b", None, 0, 1)]).startswith(
        "No arm is clearly ahead; the highest"
    )
    clear = describe_leader([row("a", 0.5, 0.4, 0.6), row("b", 0.8, 0.7, 0.9)])
    assert clear == (
        "Ahead is 'b', 0.80 (0.70 to 0.90): its interval lies above all others. It gets 25 % of the latest decisions."
    )
    assert describe_leader([row("a", 0.5, 0.4, 0.6, None)]) == "The only open arm is 'a', 0.50 (0.40 to 0.60)."


def test_what_epsilon_means() -> None:
    truth = 100 * math.e / (1 + math.e)
    assert f"it is true {truth:.1f} % of the time" in explain_epsilon(1_000_000)
