"""A tab that is really hidden, in real time: the arrival of a report does not tell it from one that is looked at.

Playwright keeps pages awake, so Chromium is started without it. Two tabs hold the devices of people who clicked and
left them for a third one, whose devices saw no click. Chromium runs the timers of a hidden page once a second, and
chains of timers once a minute. A device waits for storage before it sets a timer, so its timers are no chain. The
timers of one hidden tab hang on a chain, as if the browser held up all of them. The service is made up: it names the
shortest window that devices accept.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from browsers import CHROMIUM, needs_browser

pytestmark = needs_browser
CLIENT = Path(__file__).parents[2] / "client" / "client.js"
TABS = ("hidden", "held", "front")
DEVICES = 60  # in each tab: half of their arrivals are learned from, the other half are judged
NEIGHBOURS = 7
FLAGS = ("--headless=new", "--no-sandbox", "--no-first-run", "--disable-gpu", "--remote-debugging-port=0")
SOON = "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/10"  # 5 minutes otherwise
PAGE = """<!doctype html><link rel=icon href=data:,><title>Tab</title><script type="module">
    import { Device, inBrowser } from "/client.js";
    const [tab, many] = location.hash.slice(1).split(",");
    if (tab === "held") {
        const [timers, real] = [new Map(), window.setTimeout];
        let count = 0;
        window.setTimeout = (work, wait) => (timers.set(++count, [performance.now() + wait, work]), count);
        window.clearTimeout = (number) => timers.delete(number);
        const beat = () => {
            real(beat, 100);
            const due = [...timers].filter(([, [at]]) => at <= performance.now());
            for (const [number, [, work]] of due) (timers.delete(number), work());
        };
        beat();
    }
    const terms = (each) => ({ cap: 1, maxEpsilon: 1, timeout: 60, store: inBrowser(`${tab} ${each}`) });
    const open = (each) => new Device(location.origin, `${tab}-${each}`, terms(each));
    window.devices = Array.from({ length: Number(many) }, (_, each) => open(each));
    for (const device of devices) {
        const decision = await device.decide();
        if (tab !== "front") await decision.report(1);
    }
    document.title = "ready";
</script>"""


class Service(BaseHTTPRequestHandler):
    """Serves the page, and names times; notes when reports arrive."""

    window = 3600
    due: dict[str, float] = {}  # noqa: RUF012 -- by token, cleared by the test
    arrivals: dict[str, float] = {}  # noqa: RUF012 -- the first of each

    def do_GET(self) -> None:
        is_module = self.path == "/client.js"
        kind = "text/javascript" if is_module else "text/html"
        self._answer(CLIENT.read_bytes() if is_module else PAGE.encode(), f"{kind}; charset=utf-8")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/reports":
            self.arrivals.setdefault(request["token"], time.time())
            reply: dict[str, Any] = {"status": "accepted"}
        else:
            token = f"{self.path.split('/')[3]}-of-no-service-at-all"
            self.due[token] = time.time() + 61 + 60 * random.random()  # in a minute, tabs are woken
            times = {"now": time.time(), "report_at": self.due[token], "expires": self.due[token] + self.window}
            reply = {"arm": "plain", "token": token, "participate": True, "epsilon": 1, **times}
        self._answer(json.dumps(reply).encode(), "application/json")

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def chromium(folder: Path) -> Iterator[str]:
    """Start a browser of its own; yield where its tabs are listed and opened."""
    command = [str(CHROMIUM), *FLAGS, SOON, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(filter(None, (re.search(r"ws://(127\.0\.0\.1:\d+)", line) for line in process.stderr)))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield f"http://{found[1]}/json"
        finally:
            process.terminate()


def call(address: str, method: str = "GET") -> Any:
    with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=60) as reply:  # noqa: S310
        return json.load(reply)


def open_tab(tabs: str, address: str) -> None:
    """Open a tab in front of the others, and wait until its devices have decided."""
    made = call(f"{tabs}/new?{address}", "PUT")["id"]
    for _ in range(1200):
        if any(tab["id"] == made and tab["title"] == "ready" for tab in call(f"{tabs}/list")):
            return
        time.sleep(0.1)
    pytest.fail("a tab is not ready after two minutes")


def tell(known: list[tuple[float, bool]], at: float) -> bool:
    """Tell by a vote of the nearest arrivals whether the tab was hidden."""
    near = sorted(known, key=lambda each: abs(each[0] - at))[:NEIGHBOURS]
    return sum(is_hidden for _, is_hidden in near) > NEIGHBOURS / 2


@pytest.mark.slow
def test_arrival_does_not_reveal_hidden_tab(tmp_path: Path) -> None:
    """For each hidden tab 60 arrivals are judged: 22 to 38 right are chance (95 %), and 49 come once in 10^6 times."""
    Service.due.clear()
    Service.arrivals.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            with chromium(tmp_path) as tabs:
                address = f"http://localhost:{server.server_address[1]}/"
                for tab in TABS:  # the last hides the others
                    open_tab(tabs, f"{address}%23{tab},{DEVICES}")
                for _ in range(6000):
                    if len(Service.arrivals) == len(TABS) * DEVICES:
                        break
                    time.sleep(0.1)
        finally:
            server.shutdown()
            thread.join()
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert len(Service.arrivals) == len(TABS) * DEVICES
    waits = {
        tab: [Service.arrivals[token] - Service.due[token] for token in Service.due if tab in token] for tab in TABS
    }
    assert min(map(min, waits.values())) >= 60
    seconds = [at % 60 for token, at in Service.arrivals.items() if "held" in token]
    woken = max(sum((other - at) % 60 < 5 for other in seconds) for at in seconds)
    assert woken >= 0.9 * DEVICES  # the browser did wake that tab once a minute
    for tab in TABS[:2]:
        arrivals = [
            (wait, each == tab)
            for pair in zip(waits[tab], waits["front"], strict=True)
            for each, wait in zip((tab, "front"), pair, strict=True)
        ]
        known, others = arrivals[: len(arrivals) // 2], arrivals[len(arrivals) // 2 :]
        right = sum(tell(known, at) == is_hidden for at, is_hidden in others)
        assert right < 49, f"{tab}: right for {right} of {len(others)} arrivals"
