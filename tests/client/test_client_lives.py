"""The device in a real browser: clocks that are set, tabs that report the same, what is on the disk, its traffic."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from client_site import DECIDE, EXPERIMENT, Site, arrived
from running import Running

from browsers import needs_browser, one_at_a_time
from maskedbandits.privacy.audit.statistics import Event, epsilon_upper_bound

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest.importorskip("uvicorn", reason="the service is not installed: pip install 'maskedbandits[service]'")
pytest_plugins = ["browsers", "client_fixtures"]
pytestmark = [needs_browser, one_at_a_time]

VISITOR = """async () => {
    window.decision = await device.decide({ visitor: "ann" });
    return decision.participates;
}"""


@pytest.mark.parametrize(
    "days", ["2027-01-13", "1970-01-05", "2027-01-17", "2031-01-15"], ids=["behind", "unset", "ahead", "years"]
)
def test_a_clock_that_is_put_right_loses_nothing(site: Site, days: str) -> None:
    page = site.page(per="30 days")
    assert page.evaluate(DECIDE)["participates"]
    assert page.evaluate("() => decision.report(1)") is True
    page.clock.set_system_time(f"{days}T12:00:30Z")
    site.pass_time(page, 10)
    page.evaluate("() => device.decide({ visitor: 'ann' })")  # asks for what is kept, whatever the clock says
    site.pass_time(page, 10)
    page.clock.set_system_time("2027-01-15T12:01:00Z")
    expected = 1 if days.startswith("1970") else 2
    site.pass_time(page, 240, arrived(site, expected))
    site.wait_until_reported(page, expected)
    assert len(site.said) == len({token for token, _ in site.said}) == expected


def test_a_clock_that_is_set_back_and_ahead_on_the_same_decision(site: Site) -> None:
    page = site.page()
    page.evaluate(DECIDE)
    page.clock.set_system_time("2027-01-14T12:00:00Z")
    site.pass_time(page, 50)
    assert site.reports == []
    page.clock.set_system_time("2027-01-19T18:00:00Z")  # believed: it leaves early, whatever it says
    site.pass_time(page, 120, arrived(site, 1))
    site.wait_until_reported(page, 1)
    page.clock.set_system_time("2027-01-15T12:00:00Z")
    site.pass_time(page, 240)
    assert len(site.said) == 1
    assert page.evaluate("() => device.remaining()") == 2


def test_a_clock_that_is_set_ahead_passes_no_cap_that_renews(site: Site) -> None:
    page = site.page(cap=1, per="30 days")
    parts = []
    for month in ("01", "03", "05"):
        page.clock.set_system_time(f"2027-{month}-20T12:00:00Z")
        parts.append(page.evaluate(DECIDE)["participates"])
    assert parts == [True, False, False]


def test_two_tabs_that_report_the_same_decision_say_one_thing(site: Site) -> None:
    tabs = [site.page(), site.page()]
    assert [tab.evaluate(VISITOR) for tab in tabs] == [True, True]
    for tab in tabs:
        tab.evaluate("() => { window.counts = decision.report(1); }")  # not waited for: both at once
    assert sorted(tab.evaluate("() => window.counts") for tab in tabs) == [False, True]
    for _ in range(40):
        for tab in tabs:
            site.pass_time(tab, 5)
    site.wait_until_reported(tabs[0], 1)
    assert len(site.said) == 1
    assert tabs[1].evaluate("() => device.remaining()") == 2


DURABILITY = """
    window.kinds = [];
    const real = IDBDatabase.prototype.transaction;
    IDBDatabase.prototype.transaction = function (...asked) {
        const made = real.apply(this, asked);
        window.kinds.push([made.mode, made.durability]);
        return made;
    };
"""


def test_everything_is_on_the_disk_before_it_counts(site: Site) -> None:
    site.context.add_init_script(DURABILITY)
    page = site.page()
    page.evaluate(DECIDE)
    page.evaluate("() => decision.report(1)")
    site.pass_time(page, 200, arrived(site, 1))
    kinds = Counter(map(tuple, page.evaluate("() => window.kinds")))
    assert kinds["readwrite", "strict"] >= 3
    assert not any(mode == "readwrite" and durability != "strict" for mode, durability in kinds)


MANY = """async ([address, name, batch, rewards]) => {
    const { Device, inBrowser } = await import(address + "/client.js");
    const terms = { cap: rewards.length, maxEpsilon: 1, timeout: 3600, store: inBrowser(`batch ${batch}`) };
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
def test_the_network_log_of_a_thousand_visits_tells_epsilon_and_nothing_else(site: Site, service: Running) -> None:
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
    site.pass_time(page, 40_000, arrived(site, visits))  # a device sends one after the other
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
