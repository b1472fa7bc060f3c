"""The dashboard's view of an experiment: numbers by arm or by group, the leader, the meaning of epsilon, alerts.

"place" is the index of an arm in what the page gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from maskedbandits.contextual.masks import BIT
from maskedbandits.privacy.exposure import compute_exposure
from maskedbandits.service.dashboard.alerts import find_alerts, find_group_alerts
from maskedbandits.service.dashboard.history import Point
from maskedbandits.service.schemas import MILLION

if TYPE_CHECKING:
    from maskedbandits.service.experiment import LiveExperiment

MAX_ARMS = 28  # that are shown: seven colours times four dashes make as many lines
MAX_GROUPS = 28  # that are shown
NOTHING_YET = "No reports received yet."


def build_rows(
    view: Mapping[str, Any], shares: Sequence[float | None], open_arms: Sequence[int]
) -> list[dict[str, Any]]:
    """Return a row for each open arm, by index; of many arms those that are shown most and look best."""

    def rank(index: int) -> tuple[float, float, int]:
        return -(shares[index] or 0.0), -(view["estimates"][index] or 0.0), index

    known = [index for index in open_arms if index < len(view["arms"])]
    return [
        {
            "place": index,
            "name": view["arms"][index],
            "estimate": view["estimates"][index],
            "low": view["intervals"][index][0],
            "high": view["intervals"][index][1],
            "share": shares[index],
            "decisions": view["issued"][index],
            "reports": view["reported"][index],
            "pending": view["pending"][index],
            "missing": view["missing"][index],
            "suspect": view["suspects"][index],
        }
        for index in sorted(sorted(known, key=rank)[:MAX_ARMS])
    ]


def sum_arms(view: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of all arms together, including retired ones."""
    return {
        "decisions": sum(view["issued"]),
        "reports": sum(view["reported"]),
        "pending": sum(view["pending"]),
        "missing": sum(view["missing"]),
        "duplicate": view["refused"].get("duplicate", 0),
        "late": view["refused"].get("late", 0),
        "refused": sum(count for reason, count in view["refused"].items() if reason not in ("duplicate", "late")),
        "alarms": view["alarms"],
        "held_back": view["held_back"],
    }


def build_view(
    live: LiveExperiment,
    view: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    latest: int,
    points: Sequence[Point],
) -> dict[str, Any]:
    """Return what a page shows of an experiment; the last of the points is now."""
    return {
        **build_header(live, view, points[-1].at),
        "meaning": explain_epsilon(live.epsilon),
        "lead": describe_leader(rows),
        "arms": rows,
        "latest": latest,
        "concerns": find_alerts(
            *(live.status, rows, latest, points, live.config.report_after),
            poisoning=view["poisoning"],
            bias=view["missing_reports"]["warning"],
        ),
    }


def build_header(live: LiveExperiment, view: Mapping[str, Any], at: float) -> dict[str, Any]:
    """Return what a page shows of experiments with and without groups."""
    return {
        "at": round(at, 1),
        "name": live.name,
        "status": live.status,
        "policy": live.config.policy,
        "epsilon": live.config.epsilon,
        "sums": sum_arms(view),
        "open": len(live.arms.open),
        "retired": len(live.arms.rows) - len(live.arms.open),
    }


@lru_cache(maxsize=1024)
def explain_epsilon(epsilon: int) -> str:
    """Return what one report reveals at an epsilon in millionths."""
    return f"A report hides what the person did: {compute_exposure(Fraction(epsilon, MILLION)).summary}"


def describe_leader(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the leading arm in words that the intervals justify."""
    best, is_clear = find_leader(rows)
    if best is None:
        return NOTHING_YET
    share = "" if best["share"] is None else f" It gets {100 * best['share']:.0f} % of the latest decisions."
    if len(rows) == 1:
        return f"The only open arm is {best['name']!r}, {format_estimate(best)}."
    if is_clear:
        return f"Leading: {best['name']!r}, {format_estimate(best)}. Its interval lies above all others.{share}"
    return f"Leading: {best['name']!r}, {format_estimate(best)}. Not conclusive yet.{share}"


def find_leader(rows: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any] | None, bool]:
    """Return the arm with the highest estimate, if any, and whether its interval is above all others."""
    estimated = [row for row in rows if row["estimate"] is not None]
    if not estimated:
        return None, False
    best = max(estimated, key=lambda row: row["estimate"])
    others = [row["high"] for row in rows if row is not best]
    return best, bool(others) and best["low"] > max(others)


def format_estimate(row: Mapping[str, Any]) -> str:
    """Return the estimate of an arm with its interval."""
    return f"{row['estimate']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


# Experiments with groups: decisions and reports are of all arms together, estimates are by group and then by arm.


def build_group_view(live: LiveExperiment, view: Mapping[str, Any], points: Sequence[Point]) -> dict[str, Any]:
    """Return what a page shows of an experiment with groups; the last of the points is now."""
    known = [index for index in live.arms.open if index < len(view["arms"])]
    groups = build_groups(view, known)
    suspects = [(group["name"], arm["name"]) for group in groups for arm in group["arms"] if arm["suspect"]]
    shown = sorted(sorted(known, key=lambda index: -_compute_chance(view, index))[:MAX_ARMS])
    return {
        **build_header(live, view, points[-1].at),
        "meaning": explain_answers(live.epsilon, 2 if view["answers"] == BIT else 2 * len(groups)),
        "lead": describe_group_leader(groups, sum(view["reported"])),
        "note": f"{_describe_shares(live.config.shares, view['answers'])} {_describe_pooling(view['pooled'])}",
        "arms": [{"place": index, "name": view["arms"][index]} for index in shown],
        "groups": select_groups(groups),
        "more": max(0, len(groups) - MAX_GROUPS),
        "concerns": find_group_alerts(live.status, suspects, points, live.config.report_after),
    }


def build_groups(view: Mapping[str, Any], known: Sequence[int]) -> list[dict[str, Any]]:
    """Return all groups in order, each with its open arms, the best of them, and whether it clearly leads."""
    found = []
    for index, name in enumerate(view["groups"]):
        arms = [_build_arm(view, index, arm) for arm in known]
        best, is_clear = find_leader(arms)
        found.append({"name": name, "share": view["shares"][index], "best": best, "clear": is_clear, "arms": arms})
    return found


def _build_arm(view: Mapping[str, Any], group: int, arm: int) -> dict[str, Any]:
    low, high = view["intervals"][group][arm]
    return {
        "place": arm,
        "name": view["arms"][arm],
        "estimate": view["estimates"][group][arm],
        "low": low,
        "high": high,
        "probability": view["probabilities"][group][arm],
        "suspect": view["suspects"][group][arm],
    }


def select_groups(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the largest groups in order, each with the arms that are chosen most and look best."""

    def rank(arm: Mapping[str, Any]) -> tuple[float, float]:
        return -arm["probability"], -(arm["estimate"] or 0.0)

    largest = sorted(range(len(groups)), key=lambda index: -groups[index]["share"])[:MAX_GROUPS]
    return [
        {
            **groups[index],
            "arms": sorted(sorted(groups[index]["arms"], key=rank)[:MAX_ARMS], key=lambda arm: arm["place"]),
        }
        for index in sorted(largest)
    ]


def describe_group_leader(groups: Sequence[Mapping[str, Any]], reports: int) -> str:
    """Return the best arm of the largest group with a clear leader, and how many groups have one."""
    estimated = sorted((group for group in groups if group["best"] is not None), key=lambda group: -group["share"])
    if not estimated:
        return "No estimates by group yet." if reports else NOTHING_YET
    if len(groups[0]["arms"]) == 1:
        return f"The only open arm is {groups[0]['arms'][0]['name']!r}."
    clear = [group for group in estimated if group["clear"]]
    group = (clear or estimated)[0]
    name, arm, estimate = group["name"], group["best"]["name"], format_estimate(group["best"])
    if not clear:
        return f"None of the {len(groups)} groups has a clear best arm yet. Leading for {name!r}: {arm!r}, {estimate}."
    have = "has" if len(clear) == 1 else "have"
    count = f"Of {len(groups)} groups, {len(clear)} {have} a clear best arm."
    return f"Best for {name!r}: {arm!r}, {estimate}. {count}"


@lru_cache(maxsize=1024)
def explain_answers(epsilon: int, answers: int) -> str:
    """Return what one answer reveals at an epsilon in millionths."""
    kind = "a masked bit" if answers == 2 else f"one of {answers} answers, masked,"
    words = compute_exposure(Fraction(epsilon, MILLION), answers).summary
    return f"A report is {kind} that hides group, arm and reward together: {words}"


def _describe_shares(given: Sequence[float] | None, answers: str) -> str:
    if given is not None:
        return "Shares of groups are the configured ones."
    if answers == BIT:
        return "Groups are assumed to be equally large: no shares are configured, and masked bits do not reveal them."
    return "Shares of groups are estimated from the answers."


def _describe_pooling(chance: float) -> str:
    if chance == 0.0:
        return "Each group has its own policy."
    return (
        f"The next question treats all groups as one with a probability of {100 * chance:.0f} %. Once groups are seen "
        "to differ, each has its own policy permanently."
    )


def _compute_chance(view: Mapping[str, Any], index: int) -> float:
    """Return the probability that an arm is chosen next for a visitor of any group."""
    pairs = zip(view["shares"], view["probabilities"], strict=True)
    return float(sum(share * chances[index] for share, chances in pairs))
