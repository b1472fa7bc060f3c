"""What docs/dashboard.md says is what the service does."""

from __future__ import annotations

import re
from pathlib import Path

from maskedbandits.service import app, concerns, history, streams, telling, telling_groups, watching

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "dashboard.md").read_text(encoding="utf-8").split())


def test_its_numbers_are_those_of_the_code() -> None:
    lines = len((app.PAGE / "plots.js").read_text(encoding="utf-8").splitlines())
    for said in (
        f"at least {concerns.FEWEST_DUE} decisions",
        f"{100 * concerns.NEARLY_ALL:.0f} % of its latest decisions",
        f"of the latest decisions, {concerns.LATEST} or more",
        f"Of more than {telling.MOST_ARMS} open arms",
        f"Of more than {telling_groups.MOST_GROUPS} groups",
        f"at the {watching.MOST} newest experiments",
        f"at most {watching.LARGE:,} arms",
        f"There are at most {streams.MOST} in a process",
        f"some {round(lines, -1)} lines",
    ):
        assert said in PAGE, said


def test_its_times_are_those_of_the_code() -> None:
    assert [seconds for seconds, _ in history.SLOTS] == [2, 60, 3600]
    assert [seconds * most for seconds, most in history.SLOTS] == [5 * 60, 2 * 3600, 7 * 86_400]
    assert "every two seconds for five minutes, every minute for two hours, every hour for a week" in PAGE
    assert (watching.UNWATCHED, "looks every ten seconds" in PAGE) == (10, True)
    assert (streams.STALLED, "does not read for ten seconds is dropped" in PAGE) == (10, True)
    assert (watching.LONGEST, "A stream ends after five minutes" in PAGE) == (300, True)
    assert (watching.RATIO, "a tenth of a process's time at most" in PAGE) == (9, True)
    assert (concerns.PATIENCE, "twenty minutes ago or earlier" in PAGE) == (1200, True)


def test_its_events_are_those_that_are_sent() -> None:
    source = Path(watching.__file__).read_text(encoding="utf-8")
    sent = set(re.findall(r'framed\("(\w+)"', source))
    assert sent == set(re.findall(r"\| `(\w+)` \|", PAGE))
