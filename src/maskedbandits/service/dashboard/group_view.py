"""An experiment with groups as a person is shown it: what each group likes best, and how far that is sure.

Nobody knows which arm somebody was shown, so decisions and reports are those of all arms together. What is learnt is by
group, and then by arm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from maskedbandits.contextual.masks import BIT
from maskedbandits.privacy.exposure import exposure
from maskedbandits.service.dashboard.alerts import concerns_by_group
from maskedbandits.service.dashboard.history import Point
from maskedbandits.service.dashboard.view import MOST_ARMS, NOTHING_YET, ahead, head, numbers
from maskedbandits.service.schemas import MILLION

if TYPE_CHECKING:
    from maskedbandits.service.experiment import Live

MOST_GROUPS = 28  # that are shown


def told_by_group(live: Live, view: Mapping[str, Any], points: Sequence[Point]) -> dict[str, Any]:
    """Return all that a page shows of an experiment with groups; the last of the points is now."""
    known = [place for place in live.arms.open if place < len(view["arms"])]
    groups = groups_of(view, known)
    suspects = [(group["name"], arm["name"]) for group in groups for arm in group["arms"] if arm["suspect"]]
    shown = sorted(sorted(known, key=lambda place: -_chance(view, place))[:MOST_ARMS])
    return {
        **head(live, view, points[-1].at),
        "meaning": meaning_of_answers(live.epsilon, 2 if view["answers"] == BIT else 2 * len(groups)),
        "lead": lead_by_group(groups, sum(view["reported"])),
        "note": f"{_shares(live.terms.shares, view['answers'])} {_pooled(view['pooled'])}",
        "arms": [{"place": place, "name": view["arms"][place]} for place in shown],
        "groups": shown_of(groups),
        "more": max(0, len(groups) - MOST_GROUPS),
        "concerns": concerns_by_group(live.status, suspects, points, live.terms.report_after),
    }


def groups_of(view: Mapping[str, Any], known: Sequence[int]) -> list[dict[str, Any]]:
    """Return all groups in their order, each with its open arms, the best of them, and whether that is clear."""
    found = []
    for place, name in enumerate(view["groups"]):
        arms = [_arm(view, place, arm) for arm in known]
        best, is_clear = ahead(arms)
        found.append({"name": name, "share": view["shares"][place], "best": best, "clear": is_clear, "arms": arms})
    return found


def _arm(view: Mapping[str, Any], group: int, arm: int) -> dict[str, Any]:
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


def shown_of(groups: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the largest groups in their order; of very many arms those that are chosen most, and look best."""

    def promise(arm: Mapping[str, Any]) -> tuple[float, float]:
        return -arm["probability"], -(arm["estimate"] or 0.0)

    largest = sorted(range(len(groups)), key=lambda place: -groups[place]["share"])[:MOST_GROUPS]
    return [
        {
            **groups[place],
            "arms": sorted(sorted(groups[place]["arms"], key=promise)[:MOST_ARMS], key=lambda arm: arm["place"]),
        }
        for place in sorted(largest)
    ]


def lead_by_group(groups: Sequence[Mapping[str, Any]], reports: int) -> str:
    """Return what a group likes best, the largest of which that is clear, and of how many it is."""
    judged = sorted((group for group in groups if group["best"] is not None), key=lambda group: -group["share"])
    if not judged:
        return "No group is told from the others yet." if reports else NOTHING_YET
    if len(groups[0]["arms"]) == 1:
        return f"The only open arm is {groups[0]['arms'][0]['name']!r}."
    clear = [group for group in judged if group["clear"]]
    group = (clear or judged)[0]
    name, arm, told = group["name"], group["best"]["name"], numbers(group["best"])
    if not clear:
        return (
            f"None of the {len(groups)} groups has a clear best arm yet; for {name!r} people the highest estimate has "
            f"{arm!r}, {told}."
        )
    have = "has" if len(clear) == 1 else "have"
    count = f"of the {len(groups)} groups {len(clear)} {have} a clear best arm"
    return f"{name!r} people like {arm!r} best, {told}; {count}."


@lru_cache(maxsize=1024)
def meaning_of_answers(epsilon: int, answers: int) -> str:
    """Return what one answer at an epsilon, in millionths, says about a person."""
    kind = "a masked bit" if answers == 2 else f"one of {answers} answers, masked,"
    words = exposure(Fraction(epsilon, MILLION), answers).words
    return f"A report is {kind} that hides group, arm and reward together: {words}"


def _shares(given: Sequence[float] | None, answers: str) -> str:
    if given is not None:
        return "Shares of groups are as they were given."
    if answers == BIT:
        return "Groups are taken for equally large: no shares were given, and masked bits do not tell them."
    return "Shares of groups are as the answers tell them."


def _pooled(chance: float) -> str:
    if chance == 0.0:
        return "Each group has choices of its own."
    return (
        f"The next question asks all groups as one with a chance of {100 * chance:.0f} %: single groups learn nothing "
        "of it. As soon as they are seen to differ, each has choices of its own for good."
    )


def _chance(view: Mapping[str, Any], place: int) -> float:
    """Return how likely an arm is chosen next for anybody, by the policies of the groups."""
    pairs = zip(view["shares"], view["probabilities"], strict=True)
    return float(sum(share * chances[place] for share, chances in pairs))
