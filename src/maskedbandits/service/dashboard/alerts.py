"""Alerts of the dashboard: dishonest reports, poisoning, silence, bias, reports held back, and a policy that is stuck.

To add an alert, find it in ``find_alerts`` and give its kind a word in ``page/dashboard.js``.

**Suspect**: the policy rejects that the reports of an arm come from an honest crowd (``Policy.suspects``).

**Unmasked** and **surge**: signs of fake reports in the last 24 hours (``service/unmasked_reports.py`` and
``service/report_surges.py``).

**Silent**: at least 20 decisions were due for their report twenty minutes ago or earlier, and no report has come since
the first of them. A report is due ``report_after`` seconds after its decision, and devices add a delay.

**Held back**: the source limit has held back at least ten reports in the last hour.

**Bias**: arms lose different shares of their reports (``missing.py``), so estimates compare different people.

**Stuck**: while an experiment runs, 99 % of its latest decisions, at least 100 of them, are for one arm, though the
interval of another open arm is above that arm's. A policy that learns leaves such an arm, unless ``eligible_arms``, a
very large holdout or a bug keeps it there.

With groups, decisions are not counted by arm, so there is no alert for being stuck. Suspects are one alert, because a
liar lies to all groups at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from maskedbandits.service.dashboard.history import Point

OVERDUE_S = 1200.0  # devices delay reports, by up to 16 minutes unless set
MIN_OVERDUE = 20  # decisions
MIN_LATEST = 100  # decisions that shares are of
NEARLY_ALL = 0.99
# Without a count: a page announces a text again whenever it changes.
SILENT = "No report was received for a while, although some are due. Check that devices can send reports."
MIN_HELD_BACK = 10  # reports
HELD_BACK_WINDOW_S = 3600.0
HELD = (
    "The source limit held back reports in the last hour. Check for a burst of lies, or raise the limit if many honest "
    "people share an address block, key or second."
)
POISONING = {
    "unmasked": (
        "Reports from one network are not masked. Somebody sends fake reports, or a client is broken. Limit sources, "
        "or decide with a backend key."
    ),
    "surge": (
        "Many more reports than usual arrived while the reports of an arm jumped. If no campaign explains this, "
        "suspect fake reports."
    ),
}
MAX_NAMED = 3  # suspects of an experiment with groups, which may have thousands


def find_alerts(
    status: str,
    rows: Sequence[Mapping[str, Any]],
    latest: int,
    points: Sequence[Point],
    report_after: float,
    poisoning: Sequence[str] = (),
    bias: str | None = None,
) -> list[dict[str, str]]:
    """Return the alerts of an experiment, each with a kind and a text of one line.

    Rows are those of open arms, and their shares are of the ``latest`` decisions. The last of the points is now.
    ``bias`` is the warning of the test for missing reports.
    """
    found = [("suspect", _format_suspect(row)) for row in rows if row["suspect"]]
    found += [(sign, POISONING[sign]) for sign in poisoning]
    if bias is not None:
        found.append(("bias", bias))
    if count_held_back(points) >= MIN_HELD_BACK:
        found.append(("held_back", HELD))
    if status == "running":
        if count_overdue(points, report_after) >= MIN_OVERDUE:
            found.append(("silent", SILENT))
        if (pair := find_stuck(rows, latest)) is not None:
            found.append(("stuck", _format_stuck(*pair)))
    return [{"kind": kind, "text": text} for kind, text in found]


def find_group_alerts(
    status: str, suspects: Sequence[tuple[str, str]], points: Sequence[Point], report_after: float
) -> list[dict[str, str]]:
    """Return the alerts of an experiment with groups; suspects are names of a group and an arm."""
    found = [{"kind": "suspect", "text": _format_group_suspects(suspects)}] if suspects else []
    return found + find_alerts(status, [], 0, points, report_after)


def count_overdue(points: Sequence[Point], report_after: float) -> int:
    """Return the number of overdue decisions since the last report."""
    if not points:
        return 0
    now = points[-1]
    since = next(point for point in points if point.get_total("reports") == now.get_total("reports"))
    due = [point for point in points if since.at <= point.at <= now.at - report_after - OVERDUE_S]
    return max(0, due[-1].get_total("decisions") - since.get_total("decisions")) if due else 0


def count_held_back(points: Sequence[Point]) -> int:
    """Return the number of reports held back in the last hour, as far as the points go back."""
    if not points:
        return 0
    first = next(point for point in points if point.at >= points[-1].at - HELD_BACK_WINDOW_S)
    return points[-1].get_total("held_back") - first.get_total("held_back")


def find_stuck(rows: Sequence[Mapping[str, Any]], latest: int) -> tuple[str, str] | None:
    """Return the arm that gets nearly all decisions, and one whose interval is above its own; None if not stuck."""
    if latest < MIN_LATEST:
        return None
    taking = next((row for row in rows if (row["share"] or 0.0) >= NEARLY_ALL), None)
    if taking is None:
        return None
    better = next((row for row in rows if row["low"] > taking["high"]), None)
    return None if better is None else (taking["name"], better["name"])


def _format_suspect(row: Mapping[str, Any]) -> str:
    return (
        f"Reports for {row['name']!r} contradict the declared ε. Devices may be lying or misconfigured. "
        "Do not trust its estimate."
    )


def _format_group_suspects(suspects: Sequence[tuple[str, str]]) -> str:
    named = ", ".join(f"{arm!r} in {group!r}" for group, arm in suspects[:MAX_NAMED])
    more = f" and {len(suspects) - MAX_NAMED:,} more" if len(suspects) > MAX_NAMED else ""
    return (
        f"Answers for {named}{more} contradict the declared ε. Devices may be lying or misconfigured, or groups may "
        "have other shares than assumed. Do not trust these estimates."
    )


def _format_stuck(taking: str, better: str) -> str:
    return (
        f"Nearly all decisions show {taking!r}, although the interval of {better!r} is higher. Check whether requests "
        "limit eligible_arms, or the holdout is too large."
    )
