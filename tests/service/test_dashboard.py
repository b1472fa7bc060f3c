"""The dashboard in a real browser, against a real service and against a fake stream."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Running, running

from browsers import needs_browser, one_at_a_time
from children import wait_until
from maskedbandits.service.auth import create_key
from maskedbandits.service.dashboard.history import ARM_NUMBERS, TOTALS
from maskedbandits.service.dashboard.view import MAX_ARMS
from maskedbandits.service.sse import format_event
from maskedbandits.service.storage import open_store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest_plugins = ["browsers"]
pytestmark = [needs_browser, one_at_a_time]
expect = sync_api.expect

NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)> \"&amp;' {{7*7}}"
POLICY = "klucb-cf"  # which other tests need compiled, too
WAIT = 60_000  # milliseconds, for a busy machine
BEGAN = 1_767_225_600.0
PLOTS = ("Estimated reward, with its interval", "Share of the latest decisions", "Decisions and reports in this time")
MARK = "(it) => { it.isTheSame = true; it.focus?.(); }"
IS_MARKED = "(it) => it.isTheSame === true"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service without keys, for requests of this machine."""
    with running(f"sqlite:///{tmp_path_factory.mktemp('dashboard')}/bandits.db") as started:
        started.wait_until_ready()
        yield started


@pytest.fixture
def name(service: Running, request: pytest.FixtureRequest) -> str:
    """A new experiment with an arm whose name is a script."""
    made = request.node.name.partition("[")[0].replace("_", "-")[:60].strip("-")
    number = len(service.ask("GET", "/v1/experiments")[1]["experiments"])
    create(service, f"{made}-{number}"[-60:].lstrip("-"))
    return f"{made}-{number}"[-60:].lstrip("-")


def create(service: Running, name: str) -> None:
    arms = [{"name": "plain"}, {"name": NASTY, "payload": NASTY}]
    about = {"name": name, "epsilon": 1, "policy": POLICY, "arms": arms}
    assert service.ask("POST", "/v1/experiments", about)[0] == 201


def visit(service: Running, name: str, visitors: int) -> None:
    """Send visitors and their reports; those of the nasty arm are ones."""
    _, answer = service.ask("POST", f"/v1/experiments/{name}/decisions", {"n": visitors})
    reports = [{"token": each["token"], "bit": int(each["arm"] == NASTY)} for each in answer["decisions"]]
    assert service.ask("POST", "/v1/reports", {"reports": reports})[0] == 200
    wait_until(lambda: service.ask("GET", f"/v1/experiments/{name}/state")[1]["pending"] == [0, 0], service.process)


@pytest.fixture
def complaints() -> list[str]:
    """Messages of the browser's console; a test removes those it expects."""
    return []


@pytest.fixture
def page(browser: Any, service: Running, complaints: list[str], request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page; messages on its console and requests to other servers fail the test."""
    context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **getattr(request, "param", {})})
    opened = context.new_page()
    opened.set_default_timeout(WAIT)
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(dialog.message))
    opened.on(
        "request", lambda request: None if request.url.startswith(service.address) else complaints.append(request.url)
    )
    yield opened
    context.close()
    assert complaints == []


def tile(page: Any, label: str) -> Any:
    return page.locator(".tiles div", has=page.get_by_text(label, exact=True)).locator("dd")


def test_page_shows_numbers_and_follows_them(page: Any, service: Running, name: str) -> None:
    visit(service, name, 60)
    page.goto(f"{service.address}/")
    assert page.url.endswith("/dashboard")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    expect(tile(page, "Reports received")).to_have_text("60", timeout=WAIT)
    expect(page.locator("tbody th .look + span").nth(1)).to_have_text(NASTY)
    expect(page.get_by_text("it is true 73.1 % of the time")).to_be_visible()
    visit(service, name, 140)
    expect(tile(page, "Reports received")).to_have_text("200", timeout=WAIT)
    alerts = page.locator(".concerns")  # as they all say yes
    expect(alerts).to_contain_text("contradict the declared ε", timeout=WAIT)
    expect(alerts).to_contain_text("<script>")
    expect(page.locator(".plot path.curve").first).to_be_attached()
    assert page.locator("main script, main img").count() == 0
    page.get_by_role("link", name="Masked Bandits").click()
    expect(page.get_by_role("row", name=name)).to_contain_text("suspect reports", timeout=WAIT)


def test_list_has_a_search_and_archived_experiments(page: Any, service: Running, name: str) -> None:
    create(service, f"{name[:50]}-old")
    assert service.ask("PATCH", f"/v1/experiments/{name[:50]}-old", {"status": "archived"})[0] == 200
    page.goto(f"{service.address}/dashboard")
    expect(page.get_by_role("link", name=name, exact=True)).to_be_visible(timeout=WAIT)
    page.get_by_text("Archived experiments").click()
    old = page.get_by_role("link", name=f"{name[:50]}-old", exact=True)
    expect(old).to_be_visible(timeout=WAIT)
    page.get_by_label("Search by name").fill(f"{name[:50]}-OLD")
    expect(page.get_by_text("No name contains this text.")).to_be_visible()
    expect(old).to_be_visible()
    page.get_by_label("Search by name").fill("none-of-them")
    expect(page.get_by_text("None.", exact=True)).to_be_visible(timeout=WAIT)
    page.get_by_label("Search by name").fill("")
    expect(page.get_by_role("link", name=name, exact=True)).to_be_visible()
    old.click()
    expect(page.locator("h1 .status")).to_have_text("archived", timeout=WAIT)


def test_administrator_pauses_and_changes_arms(page: Any, service: Running, name: str, complaints: list[str]) -> None:
    page.goto(f"{service.address}/dashboard#{name}")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1 .status")).to_have_text("paused", timeout=WAIT)
    assert service.ask("GET", f"/v1/experiments/{name}")[1]["status"] == "paused"
    page.get_by_role("button", name="Start").click()
    expect(page.locator("h1 .status")).to_have_text("running", timeout=WAIT)
    page.get_by_text("Add an arm").click()
    page.get_by_label("Name of the new arm").fill("third")
    page.get_by_label("Payload, JSON").fill("{")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_text("The payload is no JSON")).to_be_visible()
    page.get_by_label("Payload, JSON").fill('{"size": 3}')
    page.get_by_role("button", name="Add", exact=True).click()
    retire = page.get_by_role("button", name="Retire third")
    retire.click()
    retire.click()
    expect(retire).to_have_count(0, timeout=WAIT)
    arms = service.ask("GET", f"/v1/experiments/{name}")[1]["arms"]
    assert [(arm["name"], arm["payload"], arm["status"]) for arm in arms[2:]] == [("third", {"size": 3}, "retired")]
    default = page.get_by_role("button", name="Retire plain")
    default.click()
    default.click()
    expect(page.get_by_text("is the default arm: make another the default first")).to_be_visible()
    assert "status of 400" in complaints.pop()  # which every browser notes


@pytest.mark.parametrize(
    "page",
    [
        {"viewport": {"width": 390, "height": 844}, "has_touch": True},
        {"color_scheme": "dark"},
    ],
    indirect=True,
    ids=["phone", "dark"],
)
def test_page_fits_and_is_readable(page: Any, service: Running, name: str) -> None:
    visit(service, name, 40)
    page.goto(f"{service.address}/dashboard#{name}")
    expect(tile(page, "Reports received")).to_have_text("40", timeout=WAIT)
    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    share = page.locator("tbody tr").first.locator("td").nth(1).bounding_box()
    assert share["x"] + share["width"] <= width  # estimate and share are seen without scrolling
    for selector in (".lead", ".tiles dt", ".pale", "td", "summary", "svg text"):
        assert contrast(page, selector) >= 4.5, selector
    page.goto(f"{service.address}/dashboard")
    page.get_by_role("link", name=name).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    reports = page.locator("tbody tr").first.locator("td").nth(2).bounding_box()
    assert reports["x"] + reports["width"] <= width


def contrast(page: Any, selector: str) -> float:
    """Return the contrast of a text and its background by WCAG 2.2, in one call, as the page changes."""
    page.locator(selector).first.wait_for(state="attached")
    colours = page.evaluate(
        """selector => {
          const it = document.querySelector(selector);
          let behind = it;
          while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
          const style = getComputedStyle(it);
          return [it instanceof SVGElement ? style.fill : style.color, getComputedStyle(behind).backgroundColor];
        }""",
        selector,
    )
    lights = sorted(luminance(colour) for colour in colours)
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.strip("rgb()").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_plots_are_accessible_by_keyboard_and_table(page: Any, service: Running, name: str) -> None:
    visit(service, name, 40)
    page.goto(f"{service.address}/dashboard#{name}")
    expect(tile(page, "Reports received")).to_have_text("40", timeout=WAIT)
    plot = page.get_by_role("group", name="Estimated reward, with its interval: arrow keys read it")
    plot.focus()
    page.keyboard.press("ArrowLeft")
    readout = page.locator("section", has=plot).locator(".readout")
    expect(readout).to_contain_text(f"{NASTY} 1.000 (")
    page.keyboard.press("Escape")
    expect(readout).to_be_empty()
    counts = page.locator("section", has=page.get_by_role("heading", name="Decisions and reports in this time"))
    counts.get_by_text("As a table").click()
    shown = ["Time", "decisions", "reports", "missing", "duplicate", "late"]
    assert counts.locator("thead th").all_inner_texts() == shown
    headings = page.get_by_role("heading").all_inner_texts()
    assert headings[1:3] == ["Privacy per report", "Over time"]


def visit_groups(service: Running, name: str, visitors: int) -> None:
    """Create an experiment with groups whose names are scripts, and send answers of each group for its best arm."""
    groups, likes = [NASTY, "old", f"{NASTY} 2"], [NASTY, "plain", "plain"]
    arms = [{"name": "plain"}, {"name": NASTY, "payload": NASTY}]
    about = {"name": name, "epsilon": 10, "policy": POLICY, "arms": arms, "groups": groups}
    assert service.ask("POST", "/v1/experiments", about)[0] == 201
    _, answer = service.ask("POST", f"/v1/experiments/{name}/decisions", {"n": visitors})
    reports = []
    for place, each in enumerate(answer["decisions"]):
        group = place % 3
        reports.append({"token": each["token"], "answer": 2 * group + int(each["arms"][group] == likes[group])})
    assert service.ask("POST", "/v1/reports", {"reports": reports})[0] == 200


@pytest.mark.parametrize(
    "page",
    [
        {"viewport": {"width": 390, "height": 844}, "has_touch": True},
        pytest.param({"viewport": {"width": 1400, "height": 900}}, marks=pytest.mark.slow),
    ],
    indirect=True,
    ids=["phone", "wide"],
)
def test_page_shows_groups(page: Any, service: Running) -> None:
    width = page.viewport_size["width"]
    name = f"groups-{width}"
    visit_groups(service, name, 120)
    page.goto(f"{service.address}/dashboard")
    page.get_by_role("link", name=name, exact=True).click()
    expect(tile(page, "Reports received")).to_have_text("120", timeout=WAIT)
    expect(page.locator(".lead")).to_contain_text("Of 3 groups, 3 have a clear best arm")
    expect(page.get_by_text("one of 6 answers, masked, that hides group, arm and reward together")).to_be_visible()
    expect(page.get_by_text("Each group has its own policy.")).to_be_visible()
    groups = page.get_by_role("region", name="Groups", exact=True).locator("tbody tr")
    assert groups.locator("th").all_inner_texts() == [NASTY, "old", f"{NASTY} 2"]
    assert groups.locator("td:nth-child(2)").all_inner_texts() == [NASTY, "plain", "plain"]
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    reward = groups.first.locator("td").nth(1).bounding_box()
    assert reward["x"] + reward["width"] <= width  # best arm and estimate are seen without scrolling
    every = page.get_by_role("region", name="All arms of each group").locator("tbody tr")
    expect(every.first).not_to_be_visible()
    page.get_by_text("All arms of each group").click()
    expect(every).to_have_count(6)
    assert page.get_by_role("heading", level=3).all_inner_texts() == ["Decisions and reports in this time"]
    page.get_by_text("Add an arm").click()
    page.get_by_label("Name of the new arm").fill("third")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(every).to_have_count(9, timeout=WAIT)
    expect(every.first).to_be_visible()  # what is unfolded stays so
    page.get_by_text("Retire an arm").click()
    retire = page.get_by_role("button", name="Retire third")
    retire.click()
    retire.click()
    expect(every).to_have_count(6, timeout=WAIT)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("h1 .status")).to_have_text("paused", timeout=WAIT)
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_page_asks_for_key_and_keeps_it_out_of_urls(browser: Any, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/bandits.db"
    with open_store(storage, create=True) as store:
        admin, reader = (create_key(store, role, role, 0)[1] for role in ("admin", "read"))
    with running(storage) as service:
        service.wait_until_ready()
        service.key = admin
        create(service, "headlines")
        page = browser.new_page()
        page.set_default_timeout(WAIT)
        addresses, errors = list[str](), list[str]()
        page.on("request", lambda request: addresses.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{service.address}/dashboard#headlines")
        field, refused = page.get_by_label("A key that may read"), page.locator("#refused")
        expect(field).to_be_focused(timeout=WAIT)
        assert refused.inner_text() == ""
        for wrong, message in (("ü", "That is no key"), ("mb_wrong", "Refused: a valid key with the role read")):
            field.fill(wrong)
            page.keyboard.press("Enter")
            expect(refused).to_contain_text(message, timeout=WAIT)
            assert "\n" not in refused.inner_text()
        field.fill(reader)
        page.get_by_role("button", name="Show").click()
        expect(tile(page, "Decisions")).to_have_text("0", timeout=WAIT)
        assert not page.get_by_role("button", name="Pause").is_visible()
        assert not page.locator("tbody button").count()
        page.reload()
        expect(tile(page, "Decisions")).to_have_text("0", timeout=WAIT)
        assert not [url for url in addresses if "mb_" in url]
        assert page.evaluate("localStorage.length + document.cookie.length") == 0
        page.get_by_role("button", name="Forget the key").click()
        expect(field).to_be_visible(timeout=WAIT)
        field.fill(reader)
        page.keyboard.press("Enter")
        expect(tile(page, "Decisions")).to_have_text("0", timeout=WAIT)
        code, logged = service.stop(signal.SIGTERM)
        assert (code, logged[-1]["event"]) == (0, "stopped")
        assert "web server" not in {line["event"] for line in logged}  # it did not have to cut off the stream
        expect(page.locator("#link")).to_contain_text("does not answer", timeout=WAIT)
        assert errors == []
        page.close()


# Pages with a fake stream: tables show all that plots show, and updates keep what is being read


def columns(times: list[float], arms: list[str], alarms: list[int], reports: int) -> dict[str, Any]:
    """Return points as the service sends them, with constant numbers for each arm."""
    view: dict[str, Any] = {"at": times, **{name: [reports] * len(times) for name in TOTALS}, "alarms": alarms}
    numbers = dict(zip(ARM_NUMBERS, (0.5, 0.25, 0.75, 0.1), strict=True))
    lists = {name: [number] * len(times) for name, number in numbers.items()}
    return {**view, "arms": [{"place": int(arm[1:]), "name": arm, **lists} for arm in arms]}


def state(at: float, arms: list[str], alarms: int, reports: int, alerts: list[str]) -> dict[str, Any]:
    numbers = {"estimate": 0.5, "low": 0.25, "high": 0.75, "share": 0.1, "pending": 0, "missing": 0, "suspect": False}
    rows = [{"place": int(a[1:]), "name": a, "decisions": reports, "reports": reports, **numbers} for a in arms]
    about = {"name": "made-up", "status": "running", "policy": "auto", "epsilon": 1.0, "meaning": "", "lead": ""}
    sums = dict.fromkeys((*TOTALS, "refused"), reports)
    view = {**about, "at": at, "sums": sums, "open": len(arms), "retired": 0, "arms": rows, "latest": 100}
    found = [{"kind": "silent", "text": text} for text in alerts]
    return {**view, "concerns": found, "point": columns([at], arms, [alarms], reports)}


class FakeStream:
    """A page with a fake stream: the first events come at once, later ones on demand."""

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
        """Send more events: a page connects again a second after a stream has ended."""
        self.bodies.append(body)
        if self.waiting:
            self._answer(self.waiting.pop())


def test_tables_show_intervals_and_changes(browser: Any, service: Running) -> None:
    times = [BEGAN + 10 * step for step in range(12)]
    history = columns(times, ["a0", "a1"], [0] * 6 + [2] * 6, 5)
    stream = FakeStream(
        browser,
        service,
        "#made-up",
        format_event("history", history) + format_event("state", state(BEGAN + 120, ["a0", "a1"], 3, 9, [])),
    )
    page = stream.page
    for title in PLOTS:
        page.locator("summary", has_text=f"As a table: {title}").click()
    reward, share, counts = (page.get_by_role("region", name=f"{title}, as a table", exact=True) for title in PLOTS)
    assert reward.locator("thead th").all_inner_texts() == ["Time", "a0", "a1", "Changes detected"]
    assert share.locator("thead th").all_inner_texts() == ["Time", "a0", "a1", "Changes detected"]
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


def test_update_keeps_focus_and_elements(browser: Any, service: Running) -> None:
    """New numbers change the text of the cells and keep the elements."""
    times, silent = [BEGAN + step for step in range(40)], "No report has arrived for a while."
    first = format_event("history", columns(times, ["a0", "a1"], [0] * 40, 5)) + format_event(
        "state", state(BEGAN + 40, ["a0", "a1"], 0, 7, [silent])
    )
    later = format_event("state", state(BEGAN + 41, ["a0", "a1"], 0, 8, [silent, "Something else."]))
    stream = FakeStream(browser, service, "#made-up", first)
    page = stream.page
    page.locator("summary", has_text=f"As a table: {PLOTS[0]}").click()
    box = page.get_by_role("region", name=f"{PLOTS[0]}, as a table")
    marked = [box, box.locator("tbody th").nth(3), page.locator(".concerns li").first]
    marked += [
        page.get_by_role("region", name="Arms").locator("tbody tr").first.locator(part) for part in ("th", "strong")
    ]
    for each in reversed(marked):
        each.evaluate(MARK)
    stream.then(later)
    expect(page.locator(".tiles dd").first).to_have_text("8", timeout=WAIT)
    assert all(each.evaluate(IS_MARKED) for each in marked)
    assert box.evaluate("(it) => document.activeElement === it")
    assert page.locator(".concerns li").all_inner_texts() == [silent, "Something else."]
    assert page.get_by_role("list", name="To look into").locator("xpath=..").get_attribute("role") == "status"
    page.close()


def test_list_update_keeps_focus(browser: Any, service: Running) -> None:
    def body(*experiments: tuple[str, int]) -> bytes:
        others = {"status": "running", "policy": "auto", "epsilon": 1.0, "arms": 2, "alarms": 0, "concerns": []}
        rows = [{"name": name, "reports": reports, **others} for name, reports in experiments]
        return format_event("experiments", {"experiments": rows, "trouble": ""})

    stream = FakeStream(browser, service, "", body(("one", 1), ("two", 2)))
    link = stream.page.get_by_role("link", name="two")
    link.evaluate(MARK)
    stream.then(body(("zero", 0), ("two", 3)))
    expect(stream.page.locator("tbody tr").last).to_contain_text(re.compile("^two.*3"), timeout=WAIT)
    assert stream.page.locator("tbody th").all_inner_texts() == ["zero", "two"]
    assert link.evaluate(IS_MARKED)
    expect(link).to_be_focused()
    stream.page.close()


def test_many_arms_are_limited_in_plots(browser: Any, service: Running) -> None:
    sets = [[f"a{(start + 5 * each) % 1000}" for each in range(MAX_ARMS)] for start in range(0, 40, 2)]
    states = [format_event("state", state(BEGAN + at, arms, 0, at, [])) for at, arms in enumerate(sets, start=1)]
    stream = FakeStream(
        browser, service, "#made-up", format_event("history", columns([BEGAN], sets[0], [0], 0)) + b"".join(states)
    )
    legend = stream.page.locator(".legend").first.locator("li")
    expect(stream.page.locator(".tiles dd").first).to_have_text(str(len(sets)), timeout=WAIT)
    assert sorted(legend.all_inner_texts()) == sorted(sets[-1])
    stream.page.close()
