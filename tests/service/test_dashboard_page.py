"""docs/dashboard.md matches the code."""

from __future__ import annotations

import re
from pathlib import Path

from maskedbandits.service import sse, static
from maskedbandits.service.dashboard import alerts, broadcast, history, view

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "dashboard.md").read_text(encoding="utf-8").split())


def test_documented_numbers_match_code() -> None:
    lines = len((static.DASHBOARD / "plots.js").read_text(encoding="utf-8").splitlines())
    for said in (
        f"at least {alerts.MIN_OVERDUE} decisions",
        f"{100 * alerts.NEARLY_ALL:.0f} % of its latest decisions",
        f"of the latest decisions, {alerts.MIN_LATEST} or more",
        f"Of more than {view.MAX_ARMS} open arms",
        f"Of more than {view.MAX_GROUPS} groups",
        f"at the {broadcast.MAX_IDLE_EXPERIMENTS} newest experiments",
        f"at most {broadcast.MAX_IDLE_ARMS:,} arms",
        f"There are at most {sse.MAX_STREAMS} in a process",
        f"some {round(lines, -1)} lines",
    ):
        assert said in PAGE, said


def test_documented_times_match_code() -> None:
    assert [seconds for seconds, _ in history.SLOTS] == [2, 60, 3600]
    assert [seconds * most for seconds, most in history.SLOTS] == [5 * 60, 2 * 3600, 7 * 86_400]
    assert "every two seconds for five minutes, every minute for two hours, every hour for a week" in PAGE
    assert (broadcast.IDLE_INTERVAL_S, "looks every ten seconds" in PAGE) == (10, True)
    assert (sse.SEND_TIMEOUT_S, "does not read for ten seconds is dropped" in PAGE) == (10, True)
    assert (broadcast.MAX_STREAM_S, "A stream ends after five minutes" in PAGE) == (300, True)
    assert (broadcast.REST_RATIO, "a tenth of a process's time at most" in PAGE) == (9, True)
    assert (alerts.OVERDUE_S, "twenty minutes ago or earlier" in PAGE) == (1200, True)


def test_documented_events_match_code() -> None:
    source = Path(broadcast.__file__).read_text(encoding="utf-8")
    sent = set(re.findall(r'format_event\("(\w+)"', source))
    assert sent == set(re.findall(r"\| `(\w+)` \|", PAGE))
