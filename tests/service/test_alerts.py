"""Alerts of dishonest reports, silence and stuck policies, and none for healthy experiments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from test_history import point

from maskedbandits.service.dashboard import alerts as module
from maskedbandits.service.dashboard.alerts import (
    HELD_BACK_WINDOW_S,
    MIN_HELD_BACK,
    MIN_LATEST,
    MIN_OVERDUE,
    OVERDUE_S,
    count_overdue,
    find_alerts,
    find_stuck,
)


def arm(name: str, low: float, high: float, share: float | None, *, suspect: bool = False) -> dict[str, Any]:
    return {"name": name, "low": low, "high": high, "share": share, "suspect": suspect}


WELL = [arm("a", 0.1, 0.3, 0.0), arm("b", 0.4, 0.6, 1.0)]


def kinds(*arguments: Any) -> list[str]:
    return [each["kind"] for each in find_alerts(*arguments)]


def test_healthy_experiment_has_no_alerts() -> None:
    assert find_alerts("running", WELL, 1000, [point(0.0, decisions=5, reports=5)], 60) == []
    assert find_alerts("running", [], 0, [point(0.0)], 60) == []


def test_suspect_arm_raises_alert() -> None:
    (found,) = find_alerts("paused", [arm("<b>", 0.9, 1.0, 1.0, suspect=True)], 0, [point(0.0)], 60)
    assert found["kind"] == "suspect"
    assert "'<b>'" in found["text"]
    assert "\n" not in found["text"]


def test_signs_of_fake_reports_raise_alerts() -> None:
    assert kinds("running", WELL, 0, [point(0.0)], 60, ["unmasked", "surge"]) == ["unmasked", "surge"]


def test_different_shares_of_missing_reports_raise_alert() -> None:
    for status in ("running", "paused"):
        (found,) = find_alerts(status, WELL, 1000, [point(0.0)], 60, bias="Estimates may be biased: ...")
        assert found == {"kind": "bias", "text": "Estimates may be biased: ..."}


def test_stuck_policy_raises_alert() -> None:
    rows = [arm("a", 0.1, 0.3, 0.995), arm("b", 0.4, 0.6, 0.005)]
    assert find_stuck(rows, MIN_LATEST) == ("a", "b")
    assert kinds("running", rows, MIN_LATEST, [point(0.0)], 60) == ["stuck"]
    assert kinds("paused", rows, MIN_LATEST, [point(0.0)], 60) == []  # where it shows the default arm to all
    assert find_stuck(rows, MIN_LATEST - 1) is None
    assert find_stuck([arm("a", 0.1, 0.3, 0.98), rows[1]], MIN_LATEST) is None  # it still explores
    assert find_stuck([rows[0], arm("b", 0.3, 0.6, 0.0)], MIN_LATEST) is None  # it may be no better
    assert find_stuck([arm("a", 0.1, 0.3, None)], MIN_LATEST) is None


def test_reports_held_back_lately_raise_alert() -> None:
    before, then = point(0.0, held_back=5), point(100.0, held_back=5 + MIN_HELD_BACK)
    assert kinds("paused", WELL, 0, [before, then], 60) == ["held_back"]
    assert kinds("running", WELL, 0, [before, point(100.0, held_back=4 + MIN_HELD_BACK)], 60) == []
    assert (
        kinds("running", WELL, 0, [before, then, point(100.0 + HELD_BACK_WINDOW_S, held_back=15)], 60) == []
    )  # long ago
    assert kinds("running", WELL, 0, [then], 60) == []  # before this process began
    assert kinds("running", WELL, 0, [], 60) == []


def test_page_has_a_word_for_each_alert() -> None:
    page = Path(module.__file__).with_name("page") / "dashboard.js"
    words = re.search(r"const WORDS = \{(.*?)\};", page.read_text(encoding="utf-8"), re.DOTALL)
    assert words
    assert set(re.findall(r"(\w+):", words[1])) == {
        "suspect",
        "unmasked",
        "surge",
        "held_back",
        "silent",
        "bias",
        "stuck",
        "aside",
    }


def test_unreported_decisions_raise_alert() -> None:
    after, due = 60.0, 60.0 + OVERDUE_S
    reported = point(0.0, decisions=10, reports=10)
    made = point(10.0, decisions=10 + MIN_OVERDUE, reports=10)
    later = point(10.0 + due, decisions=1000, reports=10)
    assert count_overdue([reported, made, later], after) == MIN_OVERDUE
    assert kinds("running", WELL, 0, [reported, made, later], after) == ["silent"]
    assert kinds("paused", WELL, 0, [reported, made, later], after) == []
    early = point(9.0 + due, decisions=1000, reports=10)
    assert count_overdue([reported, made, early], after) == 0  # a report may still arrive
    answered = point(10.0 + due, decisions=1000, reports=11)
    assert count_overdue([reported, made, answered], after) == 0
    assert count_overdue([], after) == 0


def test_lasting_alert_keeps_its_text() -> None:
    """Screen readers announce a text that changes, so it has no count that grows."""
    points = [point(0.0, decisions=10, reports=10)]
    points += [point(second, decisions=round(second), reports=10) for second in (50.0, 100.0, 2000.0, 4000.0)]
    early, late = (find_alerts("running", WELL, 0, points[:many], 60) for many in (4, 5))
    assert count_overdue(points[:4], 60) != count_overdue(points, 60)
    assert [each["kind"] for each in early] == ["silent"]
    assert early == late


def test_decisions_before_last_report_are_not_overdue() -> None:
    points = [point(0.0, decisions=500, reports=1), point(1.0, decisions=500, reports=2)]
    points += [point(500.0, decisions=519, reports=2), point(2000.0, decisions=900, reports=2)]
    assert count_overdue(points, 60) == 19
    assert kinds("running", WELL, 0, points, 60) == []
