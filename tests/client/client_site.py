"""A site with a device on its pages in a real browser, and the requests that leave the browser.

As in production, the page and the service are on different sites. The test sets the page's clock; the network is real.
"""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from running import Running

PAGE = "<!doctype html><link rel=icon href=data:,><title>Shop</title><h1>Welcome</h1>"
CLIENT = Path(__file__).parents[2] / "client"
STEP_S = 8  # of a page's clock at once; the device's lock times out after 10
EXPERIMENT = {"epsilon": 1, "report_after": 60, "policy": "klucb-cf", "arms": [{"name": "plain"}]}
OPEN = """async ([address, name, options]) => {
    const plain = window.fetch;
    window.offers = [];  // the browser keeps no body that a page reads in parts
    window.fetch = async (url, ...rest) => {
        const answer = await plain(url, ...rest);
        if (String(url).endsWith("/decisions")) window.offers.push(await answer.clone().json());
        return answer;
    };
    const { Device } = await import(address + "/client.js");
    window.device = new Device(address, name, { cap: 3, maxEpsilon: 1, timeout: 3600, sticky: false, ...options });
    await window.device.remaining().catch(() => 0);
}"""
DECIDE = """async () => {
    window.decision = await window.device.decide({ fallback: "mine" });
    return { arm: decision.arm, participates: decision.participates, why: decision.why };
}"""

SETTLE = """async () => {
    await window.device.remaining().catch(() => 0); // what was begun before has had its turn
    for (let looks = 0; looks < 1000; looks++) {
        const { held, pending } = await navigator.locks.query();
        const names = new Set([...held, ...pending].map((lock) => lock.name));
        if (!names.size) return;
        for (const name of names) await navigator.locks.request(name, () => {}); // wait in line, not in a loop
    }
    throw new Error("the device's lock was never free");
}"""


def stop_clock(page: Any, at: str) -> None:
    """Stop a page's clock at a time, so that nothing times out on a slow machine."""
    page.clock.install(time="2027-01-01T00:00:00Z")
    page.clock.pause_at(at)


class Site:
    """The browser of one person, with all its requests recorded."""

    def __init__(self, browser: Any, address: str, service: Running, name: str) -> None:
        self.address, self.service, self.name = address, service, name
        self.context = browser.new_context()
        self.reports: list[dict[str, Any]] = []
        self.sent: list[str] = []  # all requests: addresses, headers, bodies
        self.complaints: list[str] = []
        self.context.on("request", self._note)

    def _note(self, request: Any) -> None:
        self.sent.append(f"{request.method} {request.url} {request.headers} {request.post_data}")
        if request.method == "POST" and request.url.endswith("/v1/reports"):
            self.reports.append(request.post_data_json)

    @property
    def said(self) -> set[tuple[str, int]]:
        """The tokens and answers sent; a report may be sent again until the service replies."""
        return {(report["token"], report["bit" if "bit" in report else "answer"]) for report in self.reports}

    def page(self, at: str = "2027-01-15T12:00:00Z", **options: Any) -> Any:
        """Open a page with a device on it."""
        page = self.context.new_page()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        stop_clock(page, at)
        page.goto(f"{self.address}/")
        page.evaluate(OPEN, [self.service.address, self.name, options])
        return page

    def state(self, name: str | None = None) -> Any:
        return self.service.ask("GET", f"/v1/experiments/{name or self.name}/state")[1]

    def wait_until_reported(self, page: Any, many: int, name: str | None = None) -> None:
        """Wait until the service has a number of reports."""
        for _ in range(6000):
            if self.state(name)["reported"] == [many]:
                return
            page.wait_for_timeout(10)
        pytest.fail(f"not {many} reports after a minute")

    def settle(self, page: Any) -> None:
        """Wait until the device's lock is free; its time limit goes by the page's clock."""
        page.evaluate(SETTLE)

    def pass_time(self, page: Any, seconds: int, until: Callable[[], bool] = lambda: False) -> None:
        """Advance the page's clock in steps, between which started work can end."""
        for _ in range(0, seconds, STEP_S):
            page.clock.run_for(1000 * STEP_S)
            self.settle(page)
            if until():
                return


class Shop(BaseHTTPRequestHandler):
    """Another site on this machine, because browsers block requests from public to local addresses."""

    pages: dict[str, str] = {}  # noqa: RUF012 -- set by the test that has one

    def do_GET(self) -> None:
        is_module = self.path in ("/client.js", "/report-worker.js")  # the site's own copies
        body = (CLIENT / self.path[1:]).read_bytes() if is_module else self.pages.get(self.path, PAGE).encode()
        self.send_response(200)
        self.send_header("Content-Type", f"text/{'javascript' if is_module else 'html'}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def has_arrived(site: Site, many: int) -> Callable[[], bool]:
    return lambda: len(site.said) >= many
