"""The browser's device in a real browser, against a running service.

No answer is drawn twice or lost, and none is paid for beyond the cap: with two tabs, other clocks, and no storage.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from client_site import DECIDE, EXPERIMENT, OPEN, PAGE, Shop, Site, has_arrived, stop_clock
from running import Running

from browsers import needs_browser, one_at_a_time
from maskedbandits.privacy.audit.statistics import Event, epsilon_upper_bound

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="the service is not installed: pip install 'maskedbandits[service]'")
pytest_plugins = ["browsers", "client_fixtures"]
pytestmark = [needs_browser, one_at_a_time]


def test_click_is_masked_and_sent_at_its_time(site: Site) -> None:
    page = site.page()
    assert page.evaluate(DECIDE) == {"arm": "plain", "participates": True, "why": ""}
    assert page.evaluate("() => decision.report(1)") is True
    assert page.evaluate("() => decision.report(0)") is False
    site.pass_time(page, 115)
    assert site.reports == []  # not at the click
    site.pass_time(page, 80, has_arrived(site, 1))
    site.wait_until_reported(page, 1)
    report = site.reports[0]
    assert set(report) == {"token", "bit", "epsilon"}
    assert report["bit"] in (0, 1)
    site.pass_time(page, 120)
    assert len(site.said) == 1
    assert page.evaluate("() => device.remaining()") == 2
    page.evaluate("() => { device.proveIt(2000, document.querySelector('h1')); }")
    assert "promised is at most 1" in page.locator("h1").inner_text()


def test_closed_tab_reports_after_next_visit(site: Site) -> None:
    page = site.page()
    page.evaluate(DECIDE)
    page.evaluate("() => { decision.report(1); location.href = '/elsewhere'; }")  # not waited for: the page goes
    page.wait_for_url("**/elsewhere")
    page.close()
    later = site.page("2027-01-15T14:00:00Z")
    assert site.reports == []
    site.pass_time(later, 75, has_arrived(site, 1))
    site.wait_until_reported(later, 1)
    assert len(site.said) == 1
    later.reload()
    later.evaluate(OPEN, [site.service.address, site.name, {}])
    site.pass_time(later, 60)
    assert len(site.said) == 1
    assert later.evaluate("() => device.remaining()") == 2


@pytest.mark.slow  # client/test has it without a browser
def test_report_survives_hour_without_network(site: Site) -> None:
    page = site.page()
    page.evaluate(DECIDE)
    page.evaluate("() => decision.report(1)")
    page.route(f"{site.service.address}/**", lambda route: route.abort("internetdisconnected"))
    for _ in range(12):
        page.clock.fast_forward(300_000)
        site.settle(page)
    tried = len(site.reports)
    assert 2 <= tried <= 12
    assert page.evaluate(DECIDE)["arm"] == "mine"
    page.unroute_all()
    for _ in range(12):
        page.clock.fast_forward(300_000)
        site.settle(page)
    site.wait_until_reported(page, 1)
    assert len(site.reports) > tried
    assert len(site.said) == 1
    assert all("ERR_INTERNET_DISCONNECTED" in complaint for complaint in site.complaints)
    site.complaints.clear()


def test_two_tabs_share_one_cap(site: Site) -> None:
    one, two = site.page(), site.page()
    many = """async () => {
        const made = await Promise.all([1, 2, 3].map(() => device.decide()));
        await Promise.all(made.map((each) => each.report(1)));
        return made.filter((each) => each.participates).length;
    }"""
    started = [page.evaluate_handle(f"() => {{ window.many = ({many})(); }}") for page in (one, two)]
    assert len(started) == 2
    assert sum(page.evaluate("() => window.many") for page in (one, two)) == 3
    for _ in range(26):
        for page in (one, two):
            site.pass_time(page, 8)
    site.wait_until_reported(one, 3)
    assert len(site.said) == len({token for token, _ in site.said}) == 3
    assert one.evaluate("() => device.remaining()") == 0
    refused = two.evaluate(DECIDE)
    assert not refused["participates"]
    assert "is left of the cap of 3" in refused["why"]


def test_cleared_storage_ends_participation(site: Site) -> None:
    page = site.page()
    page.evaluate(DECIDE)
    page.evaluate("() => new Promise((done) => { indexedDB.deleteDatabase('maskedbandits').onsuccess = done; })")
    assert page.evaluate("() => decision.report(1)") is False
    decision = page.evaluate(DECIDE)
    assert (decision["arm"], decision["participates"]) == ("plain", False)
    assert "storage is not available" in decision["why"]
    site.pass_time(page, 200)
    assert site.reports == []
    assert len(site.complaints) == 1
    assert "does not participate" in site.complaints.pop()
    again = site.page()  # starts again, and knows nothing of what was promised
    assert again.evaluate(DECIDE)["participates"]
    assert again.evaluate("() => device.remaining()") == 2


def test_browser_without_storage_takes_no_part(site: Site) -> None:
    site.context.add_init_script("Object.defineProperty(window, 'indexedDB', { value: undefined })")
    page = site.page()
    decision = page.evaluate(DECIDE)
    assert (decision["arm"], decision["participates"]) == ("plain", False)
    assert "storage is not available" in decision["why"]
    site.pass_time(page, 200)
    assert site.reports == []
    assert site.state()["issued"] == [0]
    assert "does not participate" in site.complaints.pop()


KEPT = """() => new Promise((done) => {
    indexedDB.open("maskedbandits").onsuccess = ({ target: { result } }) => {
        const kept = result.transaction("kept").objectStore("kept");
        kept.getAll().onsuccess = (event) => (result.close(), done(JSON.stringify(event.target.result)));
    };
})"""
GROUPS = ["young-people", "old-people"]


@pytest.mark.parametrize(
    ("epsilon", "answers"), [pytest.param(0.5, 2, marks=pytest.mark.slow), (4, 4)], ids=["signs", "one of many"]
)
def test_groups_look_alike_and_are_counted(site: Site, epsilon: float, answers: int) -> None:
    site.name = f"groups-{answers}"
    arms = [{"name": name, "payload": {"title": name.title()}} for name in ("plain", "bright")]
    config = {**EXPERIMENT, "name": site.name, "epsilon": epsilon, "arms": arms, "groups": GROUPS}
    assert site.service.ask("POST", "/v1/experiments", config)[0] == 201
    wait_until_compiled(site)
    questions = []
    for many, group in enumerate(GROUPS, 1):
        page = site.page(cap=8, maxEpsilon=4, groups=GROUPS, group=group)
        with page.expect_request(lambda request: request.method == "POST") as posted:
            decision = page.evaluate(DECIDE)
        (offer,) = page.evaluate("() => window.offers")
        questions.append(posted.value.post_data_json)
        assert (offer["signs"] is None) == (answers == 4)
        assert decision == {"arm": offer["arms"][many - 1], "participates": True, "why": ""}
        assert page.evaluate("() => decision.payload.title") == decision["arm"].title()
        assert page.evaluate("() => decision.report(1)") is True
        kept = page.evaluate(KEPT)
        assert offer["token"] in kept  # it was looked where things are
        assert not any(name in kept for name in GROUPS)
        site.pass_time(page, 200, has_arrived(site, many))
        site.wait_until_reported(page, many)
        assert page.evaluate("() => device.remaining()") == 8 - many * epsilon
        page.close()
    assert questions == [{}, {}]
    assert len(site.said) == 2
    for report in site.reports:
        assert set(report) == {"token", "answer", "epsilon"}
        assert (report["answer"] in range(answers), report["epsilon"]) == (True, epsilon)
    assert len(site.sent) >= 8  # two pages, two modules, two questions, two reports
    assert not any(name in text for name in (*GROUPS, "bright") for text in site.sent)


def wait_until_compiled(site: Site) -> None:
    """Wait until the service decides: it compiles the policy first, which takes long on a busy machine."""
    for _ in range(300):
        if site.service.ask("POST", f"/v1/experiments/{site.name}/decisions", {})[0] == 200:
            return
        time.sleep(1.0)


DOCUMENTED = re.findall(
    r"^<!-- run -->\n```html\n(.*?)^```",
    (Path(__file__).parents[2] / "docs" / "browser_client.md").read_text(encoding="utf-8"),
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.parametrize("place", range(2), ids=["self-hosted", "imported"])
def test_documented_page_works(site: Site, service: Running, place: int) -> None:
    assert len(DOCUMENTED) == 2
    name = f"headlines-{place}"
    arms = [{"name": "question", "payload": {"title": "Why wait?"}}]
    assert service.ask("POST", "/v1/experiments", {**EXPERIMENT, "name": name, "arms": arms})[0] == 201
    lines = (
        DOCUMENTED[place].replace("https://bandits.example.org", service.address).replace('"headlines"', f'"{name}"')
    )
    Shop.pages = {"/ten": PAGE.partition("<h1>")[0] + lines.replace("maxEpsilon: 1", "maxEpsilon: 1, timeout: 3600")}
    page = site.context.new_page()
    page.on("console", lambda message: site.complaints.append(message.text))
    page.on("pageerror", lambda error: site.complaints.append(str(error)))
    stop_clock(page, "2027-01-15T12:00:00Z")
    page.goto(f"{site.address}/ten")
    sync_api.expect(page.locator("h1")).to_have_text("Why wait?")
    page.locator("button").click()
    for _ in range(240):
        page.clock.run_for(1000)
        page.wait_for_timeout(5)
        if site.reports:
            break
    site.wait_until_reported(page, 1, name)
    assert len(site.said) == 1


# Clocks, tabs and the disk

VISITOR = """async () => {
    window.decision = await device.decide({ visitor: "ann" });
    return decision.participates;
}"""


@pytest.mark.parametrize(
    "days",
    ["2027-01-13", *(pytest.param(day, marks=pytest.mark.slow) for day in ("1970-01-05", "2027-01-17", "2031-01-15"))],
    ids=["behind", "unset", "ahead", "years"],
)
def test_corrected_clock_loses_nothing(site: Site, days: str) -> None:
    page = site.page(per="30 days")
    assert page.evaluate(DECIDE)["participates"]
    assert page.evaluate("() => decision.report(1)") is True
    page.clock.set_system_time(f"{days}T12:00:30Z")
    site.pass_time(page, 10)
    page.evaluate("() => device.decide({ visitor: 'ann' })")  # asks for what is kept, whatever the clock says
    site.pass_time(page, 10)
    page.clock.set_system_time("2027-01-15T12:01:00Z")
    expected = 1 if days.startswith("1970") else 2
    site.pass_time(page, 240, has_arrived(site, expected))
    site.wait_until_reported(page, expected)
    assert len(site.said) == len({token for token, _ in site.said}) == expected


@pytest.mark.slow  # client/test has it without a browser
def test_clock_set_back_and_ahead_sends_once(site: Site) -> None:
    page = site.page()
    page.evaluate(DECIDE)
    page.clock.set_system_time("2027-01-14T12:00:00Z")
    site.pass_time(page, 50)
    assert site.reports == []
    page.clock.set_system_time("2027-01-19T18:00:00Z")  # believed: it leaves early, whatever it says
    site.pass_time(page, 120, has_arrived(site, 1))
    site.wait_until_reported(page, 1)
    page.clock.set_system_time("2027-01-15T12:00:00Z")
    site.pass_time(page, 240)
    assert len(site.said) == 1
    assert page.evaluate("() => device.remaining()") == 2


@pytest.mark.slow  # client/test has it without a browser
def test_clock_set_ahead_does_not_renew_cap(site: Site) -> None:
    page = site.page(cap=1, per="30 days")
    parts = []
    for month in ("01", "03", "05"):
        page.clock.set_system_time(f"2027-{month}-20T12:00:00Z")
        parts.append(page.evaluate(DECIDE)["participates"])
    assert parts == [True, False, False]


@pytest.mark.slow  # test_two_tabs_share_one_cap needs the same lock
def test_two_tabs_send_one_answer_for_a_decision(site: Site) -> None:
    tabs = [site.page(), site.page()]
    assert [tab.evaluate(VISITOR) for tab in tabs] == [True, True]
    for tab in tabs:
        tab.evaluate("() => { window.counts = decision.report(1); }")  # not waited for: both at once
    assert sorted(tab.evaluate("() => window.counts") for tab in tabs) == [False, True]
    for _ in range(26):
        for tab in tabs:
            site.pass_time(tab, 8)
    site.wait_until_reported(tabs[0], 1)
    assert len(site.said) == 1
    assert tabs[1].evaluate("() => device.remaining()") == 2


DURABILITY = """
    window.kinds = [];
    const real = IDBDatabase.prototype.transaction;
    IDBDatabase.prototype.transaction = function (...options) {
        const made = real.apply(this, options);
        window.kinds.push([made.mode, made.durability]);
        return made;
    };
"""


def test_writes_are_durable(site: Site) -> None:
    site.context.add_init_script(DURABILITY)
    page = site.page()
    page.evaluate(DECIDE)
    page.evaluate("() => decision.report(1)")
    site.pass_time(page, 200, has_arrived(site, 1))
    kinds = Counter(map(tuple, page.evaluate("() => window.kinds")))
    assert kinds["readwrite", "strict"] >= 3
    assert not any(mode == "readwrite" and durability != "strict" for mode, durability in kinds)


MANY = """async ([address, name, batch, rewards]) => {
    const { Device, inBrowser } = await import(address + "/client.js");
    const limits = { cap: rewards.length, maxEpsilon: 1, timeout: 3600 };
    const terms = { ...limits, sticky: false, store: inBrowser(`batch ${batch}`) };
    window.offers = [];
    window.device = new Device(address, name, terms);
    for (const reward of rewards) {
        const decision = await device.decide();
        if (!decision.participates) throw new Error(decision.why);
        if (reward !== null) await decision.report(reward);
    }
    return [await device.remaining(), window.offers.map(({ token }) => token)];
}"""


@pytest.mark.slow
def test_network_log_of_1000_visits_reveals_only_epsilon(site: Site, service: Running) -> None:
    """A sound module fails this once in 10^6 times: what left the browser is all that is looked at."""
    visits, rng = 1000, random.Random(5)
    site.name = "thousand"
    assert service.ask("POST", "/v1/experiments", {**EXPERIMENT, "name": site.name, "report_after": 600})[0] == 201
    page = site.page()
    offers: list[str] = []
    rewards = [rng.choice([1, 0, None]) for _ in range(visits)]
    for start in range(0, visits, 100):
        left, tokens = page.evaluate(MANY, [service.address, site.name, start, rewards[start : start + 100]])
        assert left == 0
        offers += tokens
    site.pass_time(page, 40_000, has_arrived(site, visits))  # a device sends one after the other
    site.wait_until_reported(page, visits)
    assert len(site.said) == len({token for token, _ in site.said}) == visits  # each is there, and once
    assert len({len(json.dumps(report)) for report in site.reports}) == 1  # and all are as long
    said = dict(site.said)
    known: dict[int, list[int]] = {0: [], 1: []}
    for token, reward in zip(offers, rewards, strict=True):
        known[reward or 0].append(said[token])
    trials = (len(known[0]), len(known[1]))
    for value in (0, 1):
        event = Event(f"says {value}", (known[0].count(value), known[1].count(value)), trials, 2.5e-7)
        assert event.epsilon <= 1 <= epsilon_upper_bound(event)
