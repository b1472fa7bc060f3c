"""What an experiment was like before: some hundred points in memory, dense for the last minutes, thin for a week.

Time is cut into slots, of two seconds, a minute and an hour, and of each slot the first point is kept: for five
minutes, two hours and a week. So it takes the same room however long the service runs. Each process keeps points of its
own, and begins anew when it starts: what was learnt is in the log, and none of it is lost.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SLOTS = ((2.0, 150), (60.0, 120), (3600.0, 168))  # seconds, and how many of them
PER_ARM = ("estimate", "low", "high", "share")
SUMS = ("decisions", "reports", "awaited", "missing", "duplicate", "late", "alarms", "held_back")


class Point(NamedTuple):
    """An experiment at one time; of each arm that is shown four numbers in a row, NaN where there is none."""

    at: float  # unix seconds
    sums: tuple[int, ...]  # by SUMS
    places: Sequence[int]
    numbers: array[float]

    @classmethod
    def of(cls, at: float, sums: Mapping[str, int], rows: Sequence[Mapping[str, Any]]) -> Point:
        """Return a point of numbers by their names."""
        numbers = array("f", [math.nan if row[name] is None else row[name] for row in rows for name in PER_ARM])
        return cls(at, tuple(sums[name] for name in SUMS), array("H", [row["place"] for row in rows]), numbers)

    def sum(self, name: str) -> int:
        """Return a number of all arms together."""
        return self.sums[SUMS.index(name)]


class History:
    """The points of one experiment."""

    def __init__(self) -> None:
        self._kept: list[deque[Point]] = [deque(maxlen=most) for _, most in SLOTS]

    def add(self, point: Point) -> None:
        """Keep a point in each series in which its slot is empty; it is later than all before."""
        for (seconds, _), kept in zip(SLOTS, self._kept, strict=True):
            if not kept or point.at // seconds > kept[-1].at // seconds:
                kept.append(point)

    def points(self) -> list[Point]:
        """Return all of them, the oldest first."""
        return sorted({point.at: point for kept in self._kept for point in kept}.values())


def columns(points: Sequence[Point], names: Sequence[str], most: int) -> dict[str, Any]:
    """Return points as a page draws them: a list for each number, null where an arm was not shown.

    Of more arms than ``most`` those are told that were shown last: of very many, others come with every point.
    """
    told: dict[str, Any] = {"at": [round(point.at, 1) for point in points]}
    told |= {name: [point.sum(name) for point in points] for name in SUMS}
    latest = dict.fromkeys(place for point in reversed(points) for place in point.places)
    shown = sorted(list(latest)[:most])
    found = [dict(zip(point.places, range(0, len(point.numbers), len(PER_ARM)), strict=True)) for point in points]
    told["arms"] = [
        {
            "place": place,
            "name": names[place],
            **{
                name: [_number(point, at.get(place), which) for point, at in zip(points, found, strict=True)]
                for which, name in enumerate(PER_ARM)
            },
        }
        for place in shown
    ]
    return told


def _number(point: Point, start: int | None, which: int) -> float | None:
    value = math.nan if start is None else point.numbers[start + which]
    return None if math.isnan(value) else round(value, 4)
