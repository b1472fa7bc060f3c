"""The history of an experiment: some hundred points in memory, dense for the last minutes and sparse for a week.

Time is cut into slots of two seconds, a minute and an hour. The first point of each slot is stored for five minutes,
two hours and a week, so the memory is bounded. Each process has its own points and starts with none. They are not
read from the log, which may begin later than they do.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SLOTS = ((2.0, 150), (60.0, 120), (3600.0, 168))  # seconds, and how many of them
ARM_NUMBERS = ("estimate", "low", "high", "share")
TOTALS = ("decisions", "reports", "pending", "missing", "duplicate", "late", "alarms", "held_back")


class Point(NamedTuple):
    """An experiment at one time, with four numbers for each shown arm; NaN where there is none."""

    at: float  # unix seconds
    totals: tuple[int, ...]  # by TOTALS
    arms: Sequence[int]  # indexes
    numbers: array[float]

    @classmethod
    def build(cls, at: float, totals: Mapping[str, int], rows: Sequence[Mapping[str, Any]]) -> Point:
        """Return a point from numbers by name."""
        numbers = array("f", [math.nan if row[name] is None else row[name] for row in rows for name in ARM_NUMBERS])
        return cls(at, tuple(totals[name] for name in TOTALS), array("H", [row["place"] for row in rows]), numbers)

    def get_total(self, name: str) -> int:
        """Return a number of all arms together."""
        return self.totals[TOTALS.index(name)]


class History:
    """The points of one experiment."""

    def __init__(self) -> None:
        self._series: list[deque[Point]] = [deque(maxlen=slots) for _, slots in SLOTS]

    def add(self, point: Point) -> None:
        """Store a point, later than all before, in each series in which its slot is empty."""
        for (seconds, _), series in zip(SLOTS, self._series, strict=True):
            if not series or point.at // seconds > series[-1].at // seconds:
                series.append(point)

    def list_points(self) -> list[Point]:
        """Return all points, the oldest first."""
        return sorted({point.at: point for series in self._series for point in series}.values())


def to_columns(points: Sequence[Point], names: Sequence[str], max_arms: int) -> dict[str, Any]:
    """Return points as a page draws them: a list for each number, null where an arm was not shown.

    Of more than ``max_arms`` arms those that were shown last are returned, as every point may show others.
    """
    columns: dict[str, Any] = {"at": [round(point.at, 1) for point in points]}
    columns |= {name: [point.get_total(name) for point in points] for name in TOTALS}
    latest = dict.fromkeys(arm for point in reversed(points) for arm in point.arms)
    shown = sorted(list(latest)[:max_arms])
    starts = [dict(zip(point.arms, range(0, len(point.numbers), len(ARM_NUMBERS)), strict=True)) for point in points]
    columns["arms"] = [
        {
            "place": arm,
            "name": names[arm],
            **{
                name: [_get_number(point, start.get(arm), offset) for point, start in zip(points, starts, strict=True)]
                for offset, name in enumerate(ARM_NUMBERS)
            },
        }
        for arm in shown
    ]
    return columns


def _get_number(point: Point, start: int | None, offset: int) -> float | None:
    value = math.nan if start is None else point.numbers[start + offset]
    return None if math.isnan(value) else round(value, 4)
