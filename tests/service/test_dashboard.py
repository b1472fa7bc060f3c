"""The dashboard in a real browser, against a real service: it shows, follows, acts, and asks nobody else."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Running, running

from browsers import needs_browser, one_at_a_time
from children import wait_until
from maskedbandits.service.auth import create_key
from maskedbandits.service.storage import open_store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest_plugins = ["browsers"]
pytestmark = [needs_browser, one_at_a_time]
expect = sync_api.expect

NASTY = "<script>alert(1)</script><img src=x onerror=alert(2)> \"&amp;' {{7*7}}"
POLICY = "klucb-cf"  # which other tests need compiled, too
WAIT = 60_000  # milliseconds, for a busy machine


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service without keys, which this machine may ask."""
    with running(f"sqlite:///{tmp_path_factory.mktemp('dashboard')}/bandits.db") as started:
        started.wait_until_ready()
        yield started


@pytest.fixture
def name(service: Running, request: pytest.FixtureRequest) -> str:
    """A new experiment, with an arm whose name would like to be a script."""
    made = request.node.name.partition("[")[0].replace("_", "-")[:60].strip("-")
    number = len(service.ask("GET", "/v1/experiments")[1]["experiments"])
    create(service, f"{made}-{number}"[-60:].lstrip("-"))
    return f"{made}-{number}"[-60:].lstrip("-")


def create(service: Running, name: str) -> None:
    arms = [{"name": "plain"}, {"name": NASTY, "payload": NASTY}]
    told = {"name": name, "epsilon": 1, "policy": POLICY, "arms": arms}
    assert service.ask("POST", "/v1/experiments", told)[0] == 201


def visit(service: Running, name: str, visitors: int) -> None:
    """Let visitors be shown something, and report it; whoever sees the nasty arm says yes."""
    _, answer = service.ask("POST", f"/v1/experiments/{name}/decisions", {"n": visitors})
    reports = [{"token": each["token"], "bit": int(each["arm"] == NASTY)} for each in answer["decisions"]]
    assert service.ask("POST", "/v1/reports", {"reports": reports})[0] == 200
    wait_until(lambda: service.ask("GET", f"/v1/experiments/{name}/state")[1]["pending"] == [0, 0], service.process)


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complains of; a test that has provoked something takes it out."""
    return []


@pytest.fixture
def page(browser: Any, service: Running, complaints: list[str], request: pytest.FixtureRequest) -> Iterator[Any]:
    """A window as the test asks for; whatever the browser complains of, or asks of others, fails the test."""
    context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **getattr(request, "param", {})})
    opened = context.new_page()
    opened.set_default_timeout(WAIT)
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: complaints.append(dialog.message))
    opened.on("request", lambda asked: None if asked.url.startswith(service.address) else complaints.append(asked.url))
    yield opened
    context.close()
    assert complaints == []


def tile(page: Any, label: str) -> Any:
    return page.locator(".tiles div", has=page.get_by_text(label, exact=True)).locator("dd")


def test_numbers_are_there_and_follow(page: Any, service: Running, name: str) -> None:
    visit(service, name, 60)
    page.goto(f"{service.address}/")
    assert page.url.endswith("/dashboard")
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    expect(tile(page, "Reports learnt")).to_have_text("60", timeout=WAIT)
    expect(page.locator("tbody th .look + span").nth(1)).to_have_text(NASTY)
    expect(page.get_by_text("it is true 73.1 % of the time")).to_be_visible()
    visit(service, name, 140)
    expect(tile(page, "Reports learnt")).to_have_text("200", timeout=WAIT)
    concerns = page.locator(".concerns")  # as they all say yes
    expect(concerns).to_contain_text("none that an honest crowd gives", timeout=WAIT)
    expect(concerns).to_contain_text("<script>")
    expect(page.locator(".plot path.curve").first).to_be_attached()
    assert page.locator("main script, main img").count() == 0
    page.get_by_role("link", name="Masked Bandits").click()
    expect(page.get_by_role("row", name=name)).to_contain_text("suspect reports", timeout=WAIT)


def test_an_administrator_acts(page: Any, service: Running, name: str, complaints: list[str]) -> None:
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
        {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
        {"color_scheme": "dark"},
    ],
    indirect=True,
    ids=["phone", "dark phone", "dark"],
)
def test_it_fits_and_can_be_read(page: Any, service: Running, name: str) -> None:
    visit(service, name, 40)
    page.goto(f"{service.address}/dashboard#{name}")
    expect(tile(page, "Reports learnt")).to_have_text("40", timeout=WAIT)
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
    """The contrast of a text with what is behind it, as WCAG 2.2 defines it, found at once: the page changes."""
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


def test_plots_can_be_read_by_keyboard_and_as_tables(page: Any, service: Running, name: str) -> None:
    visit(service, name, 40)
    page.goto(f"{service.address}/dashboard#{name}")
    expect(tile(page, "Reports learnt")).to_have_text("40", timeout=WAIT)
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
    assert headings[1:3] == ["What a report tells", "Over time"]


def visit_groups(service: Running, name: str, visitors: int) -> None:
    """Create an experiment with groups whose names would like to be scripts; each likes another arm, and says so."""
    groups, likes = [NASTY, "old", f"{NASTY} 2"], [NASTY, "plain", "plain"]
    arms = [{"name": "plain"}, {"name": NASTY, "payload": NASTY}]
    told = {"name": name, "epsilon": 10, "policy": POLICY, "arms": arms, "groups": groups}
    assert service.ask("POST", "/v1/experiments", told)[0] == 201
    _, answer = service.ask("POST", f"/v1/experiments/{name}/decisions", {"n": visitors})
    reports = []
    for place, each in enumerate(answer["decisions"]):
        group = place % 3
        reports.append({"token": each["token"], "answer": 2 * group + int(each["arms"][group] == likes[group])})
    assert service.ask("POST", "/v1/reports", {"reports": reports})[0] == 200


@pytest.mark.parametrize(
    "page",
    [{"viewport": {"width": 390, "height": 844}, "has_touch": True}, {"viewport": {"width": 1400, "height": 900}}],
    indirect=True,
    ids=["phone", "wide"],
)
def test_groups_and_what_they_like(page: Any, service: Running) -> None:
    width = page.viewport_size["width"]
    name = f"groups-{width}"
    visit_groups(service, name, 120)
    page.goto(f"{service.address}/dashboard")
    page.get_by_role("link", name=name, exact=True).click()
    expect(tile(page, "Reports learnt")).to_have_text("120", timeout=WAIT)
    expect(page.locator(".lead")).to_contain_text("of the 3 groups 3 have a clear best arm")
    expect(page.get_by_text("one of 6 answers, masked, that hides group, arm and reward together")).to_be_visible()
    expect(page.get_by_text("Each group has choices of its own.")).to_be_visible()
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


def test_a_key_is_asked_for_and_kept_out_of_addresses(browser: Any, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/bandits.db"
    with open_store(storage, create=True) as store:
        admin, reader = (create_key(store, role, role, 0)[1] for role in ("admin", "read"))
    with running(storage) as service:
        service.wait_until_ready()
        service.key = admin
        create(service, "headlines")
        page = browser.new_page()
        page.set_default_timeout(WAIT)
        asked, errors = list[str](), list[str]()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{service.address}/dashboard#headlines")
        field, refused = page.get_by_label("A key that may read"), page.locator("#refused")
        expect(field).to_be_focused(timeout=WAIT)
        assert refused.inner_text() == ""
        for wrong, told in (("ü", "That is no key"), ("mb_wrong", "Refused: a key with the role read is needed")):
            field.fill(wrong)
            page.keyboard.press("Enter")
            expect(refused).to_contain_text(told, timeout=WAIT)
            assert "\n" not in refused.inner_text()
        field.fill(reader)
        page.get_by_role("button", name="Show").click()
        expect(tile(page, "Decisions")).to_have_text("0", timeout=WAIT)
        assert not page.get_by_role("button", name="Pause").is_visible()
        assert not page.locator("tbody button").count()
        page.reload()
        expect(tile(page, "Decisions")).to_have_text("0", timeout=WAIT)
        assert not [url for url in asked if "mb_" in url]
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
