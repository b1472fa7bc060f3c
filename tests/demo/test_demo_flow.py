"""The demonstration against a real service: what its page reports is counted, and its crowd is soon followed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
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
SIMULATION = {"MASKEDBANDITS_SIMULATION": "1"}  # reports after seconds


def asked_of(service: Running) -> crowd.ServiceClient:
    host, _, port = service.address.removeprefix("http://").rpartition(":")
    return crowd.ServiceClient(host, int(port))


# How soon it learns, whatever else this machine does: in visitors, 150 of which come in a second


def has_learnt(service: Running, name: str, reports: int) -> bool:
    return bool(sum(service.ask("GET", f"/v1/experiments/{name}/state")[1]["reported"]) == reports)


def second_of(visits: crowd.Visits, service: Running, asked: crowd.ServiceClient, number: int) -> float:
    """Let the visitors of one second come, and return which share of them was shown what they like best."""
    for tick in range(number * SECOND, (number + 1) * SECOND):
        visits.tick(asked, tick * crowd.TICK_S)
        wait_until(partial(has_learnt, service, visits.name, (tick + 1) * crowd.VISITORS), service.process)
    likes = crowd.get_rates(number)
    best = likes.index(max(likes))
    return sum(pulls[best] for _, pulls, _ in list(visits.ticks)[-SECOND:]) / (SECOND * crowd.VISITORS)


def test_it_learns_and_follows_a_change_within_ten_seconds(tmp_path: Path) -> None:
    """In a second among ten most visitors are shown what they like best: later in none of 100,000 simulated runs."""
    change = round(crowd.PHASE_S)
    with running(f"sqlite:///{tmp_path}/bandits.db?durable=no", "--workers", 1, environment=SIMULATION) as service:
        service.wait_until_ready()
        visits = crowd.Visits(SHOWN)
        with closing(asked_of(service)) as asked:
            visits.create_experiment(asked)
            shares = [second_of(visits, service, asked, number) for number in range(change + SOON)]
    assert max(shares[:SOON]) > 0.5
    assert max(shares[change:]) > 0.5
    assert sum(sum(pulls) for _, pulls, _ in visits.ticks) == (change + SOON) * 150


# What its page reports


@contextmanager
def page_of(site: Site, listener: socket.socket) -> Iterator[None]:
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


def opened(browser: Any, width: int, address: str, complaints: list[str]) -> Any:
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.set_default_timeout(WAIT)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    return page


@needs_browser
@pytest.mark.parametrize("width", [390, 1400])
def test_what_the_page_reports_the_dashboard_counts(
    width: int, browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the page visits here: what is learnt is what it has reported."""
    sync_api = pytest.importorskip("playwright.sync_api")
    monkeypatch.setattr(crowd.Crowd, "_visit", lambda self: None)
    complaints, site, sent = list[str](), Site(), list[str]()
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    storage = f"sqlite:///{tmp_path}/bandits.db"
    settings = {"MASKEDBANDITS_CORS": address, **SIMULATION}
    with running(storage, environment=settings) as service, page_of(site, listener):
        service.wait_until_ready()
        site.service, started = service.address, crowd.Crowd(asked_of(service))
        started.start()
        site.crowd = started
        board = opened(browser, width, f"{service.address}/dashboard#{crowd.format_name(SHOWN)}", complaints)
        count = board.locator(".tiles div", has=board.get_by_text("Reports learnt", exact=True)).locator("dd")
        sync_api.expect(count).to_have_text("0", timeout=WAIT)
        page = opened(browser, width, "about:blank", complaints)
        page.on("request", lambda each: sent.append(each.url) if each.url.endswith("/v1/reports") else None)
        page.goto(address)
        page.locator("#card small").wait_for()
        page.locator("#like").click()
        sync_api.expect(page.locator("#truth")).to_have_text("clicks. This stays here.", timeout=WAIT)
        sync_api.expect(page.locator("#wire")).to_contain_text('"bit":', timeout=WAIT)
        wire, bit = page.evaluate("['wire', 'bit'].map((id) => document.getElementById(id).textContent)")
        assert f'"bit":{bit},' in wire
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        sync_api.expect(count).not_to_have_text("0", timeout=WAIT)
        assert 1 <= int(count.inner_text()) <= len(sent)
        assert board.evaluate("document.documentElement.scrollWidth") <= width
        page.close()
        board.close()
        started.end()
    assert complaints == []
