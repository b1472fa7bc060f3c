"""Tables of the dashboard in a real browser: they tell all that plots show, and stay in place while they are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from running import Running, running

from browsers import needs_browser, one_at_a_time
from maskedbandits.service.dashboard.history import ARM_NUMBERS, TOTALS
from maskedbandits.service.dashboard.view import MAX_ARMS
from maskedbandits.service.sse import format_event

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest_plugins = ["browsers"]
pytestmark = [needs_browser, one_at_a_time]
expect = sync_api.expect

WAIT = 60_000  # milliseconds, for a busy machine
BEGAN = 1_767_225_600.0
PLOTS = ("Estimated reward, with its interval", "Share of the latest decisions", "Decisions and reports in this time")
MARK = "(it) => { it.isTheSame = true; it.focus?.(); }"
IS_MARKED = "(it) => it.isTheSame === true"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Its pages; what they are told is made up."""
    with running(f"sqlite:///{tmp_path_factory.mktemp('tables')}/bandits.db") as started:
        started.wait_until_ready()
        yield started


def columns(times: list[float], arms: list[str], alarms: list[int], reports: int) -> dict[str, Any]:
    """Points as the service tells them: each arm has the same numbers all the time."""
    told: dict[str, Any] = {"at": times, **{name: [reports] * len(times) for name in TOTALS}, "alarms": alarms}
    numbers = dict(zip(ARM_NUMBERS, (0.5, 0.25, 0.75, 0.1), strict=True))
    lists = {name: [number] * len(times) for name, number in numbers.items()}
    return {**told, "arms": [{"place": int(arm[1:]), "name": arm, **lists} for arm in arms]}


def state(at: float, arms: list[str], alarms: int, reports: int, concerns: list[str]) -> dict[str, Any]:
    numbers = {"estimate": 0.5, "low": 0.25, "high": 0.75, "share": 0.1, "awaited": 0, "missing": 0, "suspect": False}
    rows = [{"place": int(a[1:]), "name": a, "decisions": reports, "reports": reports, **numbers} for a in arms]
    about = {"name": "made-up", "status": "running", "policy": "auto", "epsilon": 1.0, "meaning": "", "lead": ""}
    sums = dict.fromkeys((*TOTALS, "refused"), reports)
    told = {**about, "at": at, "sums": sums, "open": len(arms), "retired": 0, "arms": rows, "latest": 100}
    found = [{"kind": "silent", "text": text} for text in concerns]
    return {**told, "concerns": found, "point": columns([at], arms, [alarms], reports)}


class Told:
    """A page whose streams are made up: the first is given at once, what follows when it is told to."""

    def __init__(self, browser: Any, service: Running, path: str, first: bytes) -> None:
        self.bodies, self.waiting = [first], list[Any]()
        self.page = browser.new_page(viewport={"width": 390, "height": 844})
        self.page.set_default_timeout(WAIT)
        self.page.route("**/live", self._answer)
        self.page.goto(f"{service.address}/dashboard{path}")

    def _answer(self, route: Any) -> None:
        self.waiting.append(route)
        if self.bodies:
            self.waiting.pop().fulfill(body=self.bodies.pop(), content_type="text/event-stream")

    def then(self, body: bytes) -> None:
        """Go on: a page asks again a second after a stream has ended."""
        self.bodies.append(body)
        if self.waiting:
            self._answer(self.waiting.pop())


def test_they_tell_intervals_and_changes_under_names_of_their_own(browser: Any, service: Running) -> None:
    times = [BEGAN + 10 * step for step in range(12)]
    history = columns(times, ["a0", "a1"], [0] * 6 + [2] * 6, 5)
    told = Told(
        browser,
        service,
        "#made-up",
        format_event("history", history) + format_event("state", state(BEGAN + 120, ["a0", "a1"], 3, 9, [])),
    )
    page = told.page
    for title in PLOTS:
        page.locator("summary", has_text=f"As a table: {title}").click()
    reward, share, counts = (page.get_by_role("region", name=f"{title}, as a table", exact=True) for title in PLOTS)
    assert reward.locator("thead th").all_inner_texts() == ["Time", "a0", "a1", "Changes seen"]
    assert share.locator("thead th").all_inner_texts() == ["Time", "a0", "a1", "Changes seen"]
    assert counts.locator("thead th").all_inner_texts() == [
        "Time",
        "decisions",
        "reports",
        "missing",
        "duplicate",
        "late",
    ]
    assert reward.locator("tbody td").first.inner_text().split() == ["0.500", "(0.250", "to", "0.750)"]
    assert share.locator("tbody td").first.inner_text() == "10 %"
    seen = [int(text) for text in reward.locator("tbody td:last-child").all_inner_texts()]
    assert (len(seen), seen[6], seen[-1], sum(seen)) == (13, 2, 1, 3)
    page.close()


def test_what_is_read_stays_where_it_is(browser: Any, service: Running) -> None:
    """A second stream tells of new numbers and a new time: cells say so, and are the same."""
    times, silent = [BEGAN + step for step in range(40)], "No report has been learnt for a while."
    first = format_event("history", columns(times, ["a0", "a1"], [0] * 40, 5)) + format_event(
        "state", state(BEGAN + 40, ["a0", "a1"], 0, 7, [silent])
    )
    later = format_event("state", state(BEGAN + 41, ["a0", "a1"], 0, 8, [silent, "Something else."]))
    told = Told(browser, service, "#made-up", first)
    page = told.page
    page.locator("summary", has_text=f"As a table: {PLOTS[0]}").click()
    box = page.get_by_role("region", name=f"{PLOTS[0]}, as a table")
    marked = [box, box.locator("tbody th").nth(3), page.locator(".concerns li").first]
    marked += [
        page.get_by_role("region", name="Arms").locator("tbody tr").first.locator(part) for part in ("th", "strong")
    ]
    for each in reversed(marked):
        each.evaluate(MARK)
    told.then(later)
    expect(page.locator(".tiles dd").first).to_have_text("8", timeout=WAIT)
    assert all(each.evaluate(IS_MARKED) for each in marked)
    assert box.evaluate("(it) => document.activeElement === it")
    assert page.locator(".concerns li").all_inner_texts() == [silent, "Something else."]
    assert page.get_by_role("list", name="To look into").locator("xpath=..").get_attribute("role") == "status"
    page.close()


def test_the_list_stays_where_it_is(browser: Any, service: Running) -> None:
    def body(*experiments: tuple[str, int]) -> bytes:
        others = {"status": "running", "policy": "auto", "epsilon": 1.0, "arms": 2, "alarms": 0, "concerns": []}
        rows = [{"name": name, "reports": reports, **others} for name, reports in experiments]
        return format_event("experiments", {"experiments": rows, "trouble": ""})

    told = Told(browser, service, "", body(("one", 1), ("two", 2)))
    link = told.page.get_by_role("link", name="two")
    link.evaluate(MARK)
    told.then(body(("zero", 0), ("two", 3)))
    expect(told.page.locator("tbody tr").last).to_contain_text(re.compile("^two.*3"), timeout=WAIT)
    assert told.page.locator("tbody th").all_inner_texts() == ["zero", "two"]
    assert link.evaluate(IS_MARKED)
    expect(link).to_be_focused()
    told.page.close()


def test_of_very_many_arms_no_more_are_drawn_than_can_be_told_apart(browser: Any, service: Running) -> None:
    sets = [[f"a{(start + 5 * each) % 1000}" for each in range(MAX_ARMS)] for start in range(0, 40, 2)]
    states = [format_event("state", state(BEGAN + at, arms, 0, at, [])) for at, arms in enumerate(sets, start=1)]
    told = Told(
        browser, service, "#made-up", format_event("history", columns([BEGAN], sets[0], [0], 0)) + b"".join(states)
    )
    legend = told.page.locator(".legend").first.locator("li")
    expect(told.page.locator(".tiles dd").first).to_have_text(str(len(sets)), timeout=WAIT)
    assert sorted(legend.all_inner_texts()) == sorted(sets[-1])
    told.page.close()
