"""An experiment as a person is shown it: numbers by arm, what leads, what epsilon means, what to look into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from maskedbandits.privacy.exposure import exposure
from maskedbandits.service.dashboard.alerts import concerns
from maskedbandits.service.dashboard.history import Point
from maskedbandits.service.schemas import MILLION

if TYPE_CHECKING:
    from maskedbandits.service.experiment import Live

MOST_ARMS = 28  # that are shown: as many as there are looks of lines, seven colours times four dashes
NOTHING_YET = "No report has been learnt yet."


def rows_of(view: Mapping[str, Any], shares: Sequence[float | None], opened: Sequence[int]) -> list[dict[str, Any]]:
    """Return the open arms as rows, in their places; of very many those that are shown most, and look best."""

    def promise(place: int) -> tuple[float, float, int]:
        return -(shares[place] or 0.0), -(view["estimates"][place] or 0.0), place

    known = [place for place in opened if place < len(view["arms"])]
    return [
        {
            "place": place,
            "name": view["arms"][place],
            "estimate": view["estimates"][place],
            "low": view["intervals"][place][0],
            "high": view["intervals"][place][1],
            "share": shares[place],
            "decisions": view["issued"][place],
            "reports": view["reported"][place],
            "awaited": view["pending"][place],
            "missing": view["missing"][place],
            "suspect": view["suspects"][place],
        }
        for place in sorted(sorted(known, key=promise)[:MOST_ARMS])
    ]


def sums_of(view: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of all arms together, retired ones too."""
    return {
        "decisions": sum(view["issued"]),
        "reports": sum(view["reported"]),
        "awaited": sum(view["pending"]),
        "missing": sum(view["missing"]),
        "duplicate": view["refused"].get("duplicate", 0),
        "late": view["refused"].get("late", 0),
        "refused": sum(count for reason, count in view["refused"].items() if reason not in ("duplicate", "late")),
        "alarms": view["alarms"],
        "held_back": view["held_back"],
    }


def told(
    live: Live, view: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], latest: int, points: Sequence[Point]
) -> dict[str, Any]:
    """Return all that a page shows of an experiment; the last of the points is now."""
    return {
        **head(live, view, points[-1].at),
        "meaning": meaning(live.epsilon),
        "lead": lead(rows),
        "arms": rows,
        "latest": latest,
        "concerns": concerns(live.status, rows, latest, points, live.terms.report_after),
    }


def head(live: Live, view: Mapping[str, Any], at: float) -> dict[str, Any]:
    """Return what a page shows of any experiment, with groups or without."""
    return {
        "at": round(at, 1),
        "name": live.name,
        "status": live.status,
        "policy": live.terms.policy,
        "epsilon": live.terms.epsilon,
        "sums": sums_of(view),
        "open": len(live.arms.open),
        "retired": len(live.arms.rows) - len(live.arms.open),
    }


@lru_cache(maxsize=1024)
def meaning(epsilon: int) -> str:
    """Return what one report at an epsilon, in millionths, says about a person."""
    return f"A report hides what the person did: {exposure(Fraction(epsilon, MILLION)).words}"


def lead(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return which arm is ahead, and no more than the intervals say."""
    best, is_clear = ahead(rows)
    if best is None:
        return NOTHING_YET
    share = "" if best["share"] is None else f" It gets {100 * best['share']:.0f} % of the latest decisions."
    if len(rows) == 1:
        return f"The only open arm is {best['name']!r}, {numbers(best)}."
    if is_clear:
        return f"Ahead is {best['name']!r}, {numbers(best)}: its interval lies above all others.{share}"
    return f"No arm is clearly ahead; the highest estimate has {best['name']!r}, {numbers(best)}.{share}"


def ahead(rows: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the arm with the highest estimate, if there is any, and whether its interval lies above all others."""
    judged = [row for row in rows if row["estimate"] is not None]
    if not judged:
        return None, False
    best = max(judged, key=lambda row: row["estimate"])
    others = [row["high"] for row in rows if row is not best]
    return best, bool(others) and best["low"] > max(others)


def numbers(row: Mapping[str, Any]) -> str:
    """Return the estimate of an arm, and its interval."""
    return f"{row['estimate']:.2f} ({row['low']:.2f} to {row['high']:.2f})"
