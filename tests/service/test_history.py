"""Points in memory: the first of each slot, a bounded number, as columns for the page."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.service.dashboard.history import SLOTS, TOTALS, History, Point, to_columns

MOST = 28  # arms


def row(place: int, estimate: float | None = 0.5, **others: Any) -> dict[str, Any]:
    return {"place": place, "estimate": estimate, "low": 0.25, "high": 0.75, "share": 0.5, **others}


def point(at: float, rows: list[dict[str, Any]] | None = None, **sums: int) -> Point:
    return Point.build(at, {**dict.fromkeys(TOTALS, 0), **sums}, [row(0)] if rows is None else rows)


def naive_times(times: list[float]) -> list[float]:
    """Return the stored times: the first of each slot, and of those the last few."""
    kept = set()
    for seconds, most in SLOTS:
        first: dict[int, float] = {}
        for at in times:
            first.setdefault(int(at // seconds), at)
        kept |= set(sorted(first.values())[-most:])
    return sorted(kept)


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=700), st.integers(0, 10**9))
def test_points_match_naive_twin(steps: list[int], start: int) -> None:
    history, times, at = History(), [], float(start)
    for step in steps:
        at += step / 8
        times.append(at)
        history.add(point(at))
    assert [each.at for each in history.list_points()] == naive_times(times)


def test_history_is_bounded() -> None:
    history = History()
    for at in range(0, 366 * 86_400, 600):
        history.add(point(float(at)))
    points = history.list_points()
    assert len(points) <= sum(most for _, most in SLOTS)
    assert points[-1].at - points[0].at == pytest.approx(7 * 86_400, rel=0.05)


def test_point_keeps_its_numbers() -> None:
    made = point(1.0, [row(0), row(7, None, share=None)], reports=3, late=2)
    assert (made.get_total("reports"), made.get_total("late"), made.get_total("missing")) == (3, 2, 0)
    columns = to_columns([made], [f"arm {place}" for place in range(8)], MOST)
    assert columns["reports"] == [3]
    assert [(arm["place"], arm["name"], arm["estimate"], arm["share"]) for arm in columns["arms"]] == [
        (0, "arm 0", [0.5], [0.5]),
        (7, "arm 7", [None], [None]),
    ]


def test_missing_arm_leaves_gaps() -> None:
    points = [point(1.0, [row(0)]), point(2.0, [row(0), row(1)]), point(3.0, [row(1, 0.25)])]
    columns = to_columns(points, ["a", "b"], MOST)
    assert columns["at"] == [1.0, 2.0, 3.0]
    assert [arm["estimate"] for arm in columns["arms"]] == [[0.5, 0.5, None], [None, 0.5, 0.25]]


def test_columns_have_arms_shown_last() -> None:
    """At every point other arms of 1,000 are shown: the history would grow with each."""
    names = [f"arm {place}" for place in range(1000)]
    rows = [[row((7 * at + 31 * each) % 1000) for each in range(MOST)] for at in range(438)]
    columns = to_columns([point(float(at), some) for at, some in enumerate(rows)], names, MOST)
    assert len(columns["at"]) == 438
    assert [arm["place"] for arm in columns["arms"]] == sorted(each["place"] for each in rows[-1])
    few = [point(1.0, [row(0), row(1)]), point(2.0, [row(2)]), point(3.0, [row(3)])]
    assert [arm["place"] for arm in to_columns(few, names, 3)["arms"]] == [
        0,
        2,
        3,
    ]  # arms shown earlier, while there is room


def test_empty_history_has_empty_columns() -> None:
    assert to_columns([], [], MOST) == {"at": [], **{name: [] for name in TOTALS}, "arms": []}
