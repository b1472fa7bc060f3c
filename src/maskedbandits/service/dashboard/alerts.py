"""What somebody who looks after an experiment should look into: liars, silence, and a policy that is stuck.

**Suspect**: the policy finds that reports of an arm are none that an honest crowd gives (``Policy.suspects``).

**Silent**: at least 20 decisions were due for their report twenty minutes ago or earlier, and since before the first of
them no report was learnt. A report is due ``report_after`` seconds after its decision, and devices add a delay.

**Stuck**: while an experiment runs, 99 % of its latest decisions, at least 100 of them, are for one arm, though the
interval of another open arm lies above that arm's. A policy that learns leaves such an arm; one that does not is kept
there, as by ``eligible_arms``, a holdout of nearly all, or a fault of ours.

Where there are groups nobody counts decisions by arm, so that nothing is said of being stuck; suspects are told in one
line, as somebody who lies does so to all groups at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maskedbandits.service.dashboard.history import Point

PATIENCE = 1200.0  # seconds for which a report may be overdue: devices delay them, by up to 16 minutes unless set
FEWEST_DUE = 20  # decisions
LATEST = 100  # decisions, at least, of which shares are told
NEARLY_ALL = 0.99
# How many they are is left out: a page says it anew whenever it changes.
SILENT = "No report has been learnt for a while, though decisions are due for theirs: look whether devices can report."
FEWEST_HELD, LATELY = 10, 3600.0  # reports held back, and within how many seconds
HELD = (
    "Reports of the last hour were held back by the source limit: look for a burst of lies, or raise the limit if many "
    "honest people share an address block, key or second."
)
MOST_NAMED = 3  # suspects of an experiment with groups, which may have thousands


def concerns(
    status: str, rows: Sequence[Mapping[str, Any]], latest: int, points: Sequence[Point], report_after: float
) -> list[dict[str, str]]:
    """Return what to look into, each in one line; rows are of open arms, ``latest`` how many decisions shares are of.

    The last of the points is now.
    """
    found = [("suspect", _suspect(row)) for row in rows if row["suspect"]]
    if held_lately(points) >= FEWEST_HELD:
        found.append(("held_back", HELD))
    if status == "running":
        if unanswered(points, report_after) >= FEWEST_DUE:
            found.append(("silent", SILENT))
        if (pair := stuck(rows, latest)) is not None:
            found.append(("stuck", _stuck(*pair)))
    return [{"kind": kind, "text": text} for kind, text in found]


def concerns_by_group(
    status: str, suspects: Sequence[tuple[str, str]], points: Sequence[Point], report_after: float
) -> list[dict[str, str]]:
    """Return what to look into where there are groups; suspects are names of a group and of an arm."""
    found = [{"kind": "suspect", "text": _suspect_by_group(suspects)}] if suspects else []
    return found + concerns(status, [], 0, points, report_after)


def unanswered(points: Sequence[Point], report_after: float) -> int:
    """Return how many decisions that are overdue were made since the last report was learnt."""
    if not points:
        return 0
    now = points[-1]
    since = next(point for point in points if point.sum("reports") == now.sum("reports"))
    due = [point for point in points if since.at <= point.at <= now.at - report_after - PATIENCE]
    return max(0, due[-1].sum("decisions") - since.sum("decisions")) if due else 0


def held_lately(points: Sequence[Point]) -> int:
    """Return how many reports were held back in the last hour, as far as the points go back."""
    if not points:
        return 0
    first = next(point for point in points if point.at >= points[-1].at - LATELY)
    return points[-1].sum("held_back") - first.sum("held_back")


def stuck(rows: Sequence[Mapping[str, Any]], latest: int) -> tuple[str, str] | None:
    """Return the arm that gets nearly everything, and one whose interval lies above its own; None if all is well."""
    if latest < LATEST:
        return None
    taking = next((row for row in rows if (row["share"] or 0.0) >= NEARLY_ALL), None)
    if taking is None:
        return None
    better = next((row for row in rows if row["low"] > taking["high"]), None)
    return None if better is None else (taking["name"], better["name"])


def _suspect(row: Mapping[str, Any]) -> str:
    return (
        f"Reports of {row['name']!r} are none that an honest crowd gives: somebody may be lying, or devices mask with "
        "another ε than they say. Do not believe its estimate."
    )


def _suspect_by_group(suspects: Sequence[tuple[str, str]]) -> str:
    named = ", ".join(f"{arm!r} in {group!r}" for group, arm in suspects[:MOST_NAMED])
    more = f" and {len(suspects) - MOST_NAMED:,} more" if len(suspects) > MOST_NAMED else ""
    return (
        f"Answers are none that an honest crowd gives, of {named}{more}: somebody may be lying, groups may be larger "
        "or smaller than is assumed, or devices mask with another ε than they say. Do not believe these estimates."
    )


def _stuck(taking: str, better: str) -> str:
    return (
        f"Nearly all decisions are for {taking!r}, though the interval of {better!r} lies above its own: look whether "
        "whoever asks limits the choice, or the holdout is nearly all."
    )
