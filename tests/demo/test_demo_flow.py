"""The demonstration against a real service: it counts the page's reports and follows the crowd."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from running import Running, running

from browsers import needs_browser, one_at_a_time
from children import wait_until
from maskedbandits.demo import crowd
from maskedbandits.demo.site import Site

pytest_plugins = ["browsers"]
pytestmark = one_at_a_time

WAIT = 60_000  # milliseconds, for a busy machine
SECOND = round(1 / crowd.TICK_S)  # ticks
SOON = 10  # seconds of the demonstration's own clock
SHOWN = 1.0  # epsilon, where the slider is
FOLLOWED = 1.5  # epsilon of an experiment without a page


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.fixture(scope="module")
def address(site: Site) -> Iterator[str]:
    """The address of the page."""
    listener = socket.create_server(("127.0.0.1", 0))
    with serve_page(site, listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[Running]:
    """A service that accepts requests of the page, and reports after seconds."""
    storage = f"sqlite:///{tmp_path_factory.mktemp('demo')}/bandits.db?durable=no"
    settings = {"MASKEDBANDITS_CORS": address, "MASKEDBANDITS_SIMULATION": "1"}
    with running(storage, "--workers", 1, environment=settings) as started:
        started.wait_until_ready()
        yield started


def connect(service: Running) -> crowd.ServiceClient:
    host, _, port = service.address.removeprefix("http://").rpartition(":")
    return crowd.ServiceClient(host, int(port))


# Learning is measured in visitors, 150 of which come in a second, so that a busy machine does not matter


def has_reports(service: Running, name: str, reports: int) -> bool:
    return bool(sum(service.ask("GET", f"/v1/experiments/{name}/state")[1]["reported"]) == reports)


def visit_second(visits: crowd.Visits, service: Running, client: crowd.ServiceClient, number: int) -> float:
    """Send the visitors of one second, and return the share that got the best picture."""
    for tick in range(number * SECOND, (number + 1) * SECOND):
        visits.tick(client, tick * crowd.TICK_S)
        wait_until(partial(has_reports, service, visits.name, len(visits.ticks) * crowd.VISITORS), service.process)
    rates = crowd.get_rates(number)
    best = rates.index(max(rates))
    return sum(pulls[best] for _, pulls, _ in list(visits.ticks)[-SECOND:]) / (SECOND * crowd.VISITORS)


def test_demo_follows_a_change_within_ten_seconds(service: Running) -> None:
    """In one of ten seconds most visitors get the best picture; none of 100,000 simulated runs took longer.

    The seconds between the first success and the change are skipped: the policy then has less to unlearn.
    """
    visits, change = crowd.Visits(FOLLOWED), round(crowd.PHASE_S)
    with closing(connect(service)) as client:
        visits.create_experiment(client)
        for start in (0, change):
            seconds = range(start, start + SOON)
            assert any(visit_second(visits, service, client, number) > 0.5 for number in seconds), start


# Reports of the page


@contextmanager
def serve_page(site: Site, listener: socket.socket) -> Iterator[None]:
    server = uvicorn.Server(uvicorn.Config(site.app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    serving.start()
    try:
        yield
    finally:
        site.end()
        server.should_exit = True
        serving.join(60)
        assert not serving.is_alive()


def open_page(browser: Any, width: int, address: str, complaints: list[str]) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.set_default_timeout(WAIT)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    return page


@needs_browser
def test_dashboard_counts_reports_of_the_page(
    browser: Any, site: Site, address: str, service: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is the only visitor, so all reports are its own. It fits a phone and a wide screen."""
    sync_api = pytest.importorskip("playwright.sync_api")
    monkeypatch.setattr(crowd, "TICK_S", 3600.0)  # nobody comes meanwhile
    complaints, sent, width = list[str](), list[str](), 390
    site.service, started = service.address, crowd.Crowd(connect(service))
    started.start()
    site.crowd = started
    try:
        board = open_page(browser, width, f"{service.address}/dashboard#{crowd.format_name(SHOWN)}", complaints)
        count = board.locator(".tiles div", has=board.get_by_text("Reports received", exact=True)).locator("dd")
        sync_api.expect(count).to_have_text("0", timeout=WAIT)
        page = open_page(browser, width, "about:blank", complaints)
        page.on("request", lambda each: sent.append(each.url) if each.url.endswith("/v1/reports") else None)
        page.goto(address)
        page.locator("#card small").wait_for()
        page.locator("#like").click()
        sync_api.expect(page.locator("#truth")).to_have_text("clicks. This stays on the device.", timeout=WAIT)
        sync_api.expect(page.locator("#wire")).to_contain_text('"bit":', timeout=WAIT)
        wire, bit = page.evaluate("['wire', 'bit'].map((id) => document.getElementById(id).textContent)")
        assert f'"bit":{bit},' in wire
        sync_api.expect(count).not_to_have_text("0", timeout=WAIT)
        assert 1 <= int(count.inner_text()) <= len(sent)
        for width in (390, 1400):
            for each in (page, board):
                each.set_viewport_size({"width": width, "height": 844})
                assert each.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
        board.close()
    finally:
        started.end()
    assert complaints == []
