"""Pages whose service is slow or gone, in a real browser and in real time; and the worker of pages that are gone."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from client_site import CLIENT, PAGE
from test_client_browser import DOCUMENTED

from browsers import needs_browser, one_at_a_time

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytest_plugins = ["browsers", "client_fixtures"]
pytestmark = [needs_browser, one_at_a_time]

WORKING = """<script type="module">
    import { Device } from "/client.js";
    const terms = { cap: 10, maxEpsilon: 1, timeout: 60, demonstration: true, jitter: 1, worker: "/report-worker.js" };
    const device = new Device(location.origin, "headline", terms);
    const decision = await device.decide();
    if (CLICKS) await decision.report(1);
    const registration = await navigator.serviceWorker.getRegistration("/report-worker.js");
    while (registration.active?.state !== "activated") await new Promise((done) => setTimeout(done, 20));
    document.querySelector("h1").textContent = decision.participates ? "promised" : decision.why;
</script>"""


class Service(BaseHTTPRequestHandler):
    """Serves pages and files of the client, and makes up decisions that are due in two seconds."""

    pages: dict[str, str] = {}  # noqa: RUF012 -- set by the test
    reports: list[dict[str, Any]] = []  # noqa: RUF012 -- cleared by the test

    def do_GET(self) -> None:
        path = CLIENT / self.path[1:]
        if path.suffix == ".js":
            self._answer(path.read_bytes(), "text/javascript")
        else:
            self._answer(self.pages.get(self.path, "<h1>elsewhere</h1>").encode(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/v1/reports"):
            self.reports.append(content)
            self._answer(b'{"status": "accepted"}', "application/json")
            return
        now = time.time()
        times = {"now": now, "report_at": now + 2, "expires": now + 1000}
        offer = {"arm": "plain", "token": "t" * 20, "participate": True, "epsilon": 1, "experiment": "headline"}
        self._answer(json.dumps(offer | times).encode(), "application/json")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Stuck(BaseHTTPRequestHandler):
    """Accepts connections and requests, and never replies."""

    over = threading.Event()

    def handle(self) -> None:
        """Wait until the test is over."""
        self.over.wait(60)


def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def stuck() -> Iterator[str]:
    Stuck.over.clear()
    yield from serve(Stuck)
    Stuck.over.set()


@pytest.fixture
def here() -> Iterator[str]:
    Service.reports.clear()
    yield from serve(Service)


FALLBACK = """<script type="module">
    import { Device } from "/client.js";
    const device = new Device("SERVICE", "headline", { cap: 10, maxEpsilon: 1 });
    const began = performance.now();
    const decision = await device.decide({ fallback: "plain" });
    window.took = performance.now() - began;
    document.querySelector("h1").textContent = `${decision.arm} ${decision.participates}`;
</script>"""


def test_stuck_service_shows_fallback_at_once(browser: Any, here: str, stuck: str) -> None:
    Service.pages = {"/page": PAGE + FALLBACK.replace("SERVICE", stuck)}
    page = browser.new_page()
    page.goto(f"{here}/page")
    sync_api.expect(page.locator("h1")).to_have_text("plain false", timeout=20_000)
    assert page.evaluate("window.took") < 5000  # half a second on an idle machine; a hanging service takes 60 s
    page.close()


def test_documented_pages_do_not_hang_with_service(browser: Any, here: str, stuck: str) -> None:
    """The script of each page goes on, which its fallback or its warning shows."""
    for lines in DOCUMENTED:
        ended = lines.replace("</script>", "document.title = 'ended';</script>")
        Service.pages = {"/page": PAGE.partition("<h1>")[0] + ended.replace("https://bandits.example.org", stuck)}
        page = browser.new_page()
        page.goto(f"{here}/page")
        page.wait_for_function("document.title === 'ended'", timeout=20_000)
        assert page.locator("h1").inner_text() == "Welcome"
        page.close()


@pytest.mark.parametrize("clicks", ["true", "false"])
def test_worker_reports_for_page_that_is_gone(browser: Any, here: str, clicks: str) -> None:
    Service.pages = {"/page": PAGE + WORKING.replace("CLICKS", clicks)}
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{here}/page")
    sync_api.expect(page.locator("h1")).to_have_text("promised", timeout=20_000)
    page.goto("about:blank")
    assert Service.reports == []
    for _ in range(300):
        if Service.reports:
            break
        page.wait_for_timeout(100)
    assert [set(report) for report in Service.reports] == [{"token", "bit", "epsilon"}]
    page.wait_for_timeout(1500)
    assert len(Service.reports) == 1
    context.close()


def test_missing_worker_leaves_reports_to_page(browser: Any, here: str) -> None:
    Service.pages = {"/page": PAGE + FALLBACK.replace("SERVICE", "").replace("maxEpsilon: 1", MISSING)}
    page = browser.new_page()
    warned: list[str] = []
    page.on("console", lambda message: warned.append(message.text))
    page.goto(f"{here}/page")
    sync_api.expect(page.locator("h1")).to_have_text("plain true", timeout=20_000)
    for _ in range(300):
        if Service.reports and any("/none.html cannot be used" in text for text in warned):
            break
        page.wait_for_timeout(100)
    assert len(Service.reports) == 1
    page.close()


MISSING = 'maxEpsilon: 1, timeout: 60, demonstration: true, jitter: 1, worker: "/none.html"'
