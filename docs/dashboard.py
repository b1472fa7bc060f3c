"""Pictures of the dashboard, and what it takes of a phone, both in two minutes of a service with simulated visitors.

python -m docs.dashboard            # all of it
python -m docs.dashboard measure    # the table alone
"""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docs import blocks
from maskedbandits.privacy import Randomizer

PAGE = Path(__file__).with_suffix(".md")
FIGURES = Path(__file__).parent / "figures"
EPSILON = 2.0
ARMS = ("plain", "question", "number", "promise")
BEFORE, AFTER = (0.30, 0.62, 0.40, 0.20), (0.30, 0.25, 0.40, 0.66)  # rewards, until the change and after it
ROUNDS, CHANGE = 110, 60  # of a good half second; the one with which the world changes
AT_ONCE = 40  # visitors in one round
PHONE = {"width": 390, "height": 844}
MANY, OPENED, UPDATES = 10, 9, 30  # arms, pages that are opened, and updates that are watched, to measure
DRAWN = """new MutationObserver((_, observer) => {
  if (document.querySelectorAll(".plot polygon.band").length < %d) return;
  observer.disconnect();
  requestAnimationFrame(() => { window.readyAt = performance.now(); });
}).observe(document, { childList: true, subtree: true });"""
ABSENT, TWICE = 0.03, 0.02  # shares of visitors who never report, and who report again
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of a proxy


def ask(address: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Return what the service answers."""
    sent = None if body is None else json.dumps(body).encode()
    with OPENER.open(urllib.request.Request(address + path, sent), timeout=60) as reply:  # noqa: S310 -- this machine
        return json.loads(reply.read())


@contextmanager
def service(folder: str) -> Iterator[str]:
    """Run a service, and give its address once it is ready."""
    command = [sys.executable, "-m", "maskedbandits", "serve", "--storage", f"sqlite:///{folder}/bandits.db"]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            found = re.search(r"http://[^\s,]+", process.stdout.readline() if process.stdout else "")
            if found is None:
                raise SystemExit("the service has not started")
            while True:
                try:
                    ask(found[0], "/readyz")
                    break
                except OSError:
                    time.sleep(0.2)
            yield found[0]
        finally:
            process.terminate()


def create(address: str, name: str, names: Sequence[str] = ARMS) -> None:
    """Create an experiment; the payload of an arm is its place."""
    arms = [{"name": arm, "payload": place} for place, arm in enumerate(names)]
    ask(address, "/v1/experiments", {"name": name, "epsilon": EPSILON, "arms": arms})


def visit(address: str, name: str, means: Sequence[float], mask: Randomizer, rng: random.Random) -> None:
    """Let some visitors come, see, click or not, and report that masked."""
    reports = []
    for decision in ask(address, f"/v1/experiments/{name}/decisions", {"n": AT_ONCE})["decisions"]:
        bit = mask.bit(int(rng.random() < means[decision["payload"]]))
        times = 0 if rng.random() < ABSENT else 2 if rng.random() < TWICE else 1
        reports += [{"token": decision["token"], "bit": bit}] * times
    ask(address, "/v1/reports", {"reports": reports})


def picture(browser: Any, address: str, where: Path, **window: Any) -> None:
    """Take a picture of the page in a window."""
    context = browser.new_context(**window)
    page = context.new_page()
    page.goto(f"{address}/dashboard#headlines")
    page.locator(".plot path.curve").first.wait_for()
    page.wait_for_timeout(1500)
    page.screenshot(path=where, full_page=True)
    context.close()


@contextmanager
def open_watched(name: str, names: Sequence[str] = ARMS) -> Iterator[tuple[Any, str]]:
    """Open a browser at a service with an experiment that is watched: it is looked at every second then."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with tempfile.TemporaryDirectory() as folder, service(folder) as address, sync_playwright() as playwright:
        create(address, name, names)
        browser = playwright.chromium.launch(executable_path=chromium)
        watching = browser.new_page()
        watching.goto(f"{address}/dashboard#{name}")
        yield browser, address
        browser.close()


def pictures() -> None:
    """Simulate, and take the pictures."""
    rng, mask = random.Random(1), Randomizer(EPSILON)  # noqa: S311 -- the visitors are made up, their masks are not
    with open_watched("headlines") as (browser, address):
        for turn in range(ROUNDS):
            visit(address, "headlines", BEFORE if turn < CHANGE else AFTER, mask, rng)
            time.sleep(0.5)
        picture(browser, address, FIGURES / "dashboard.png", viewport={"width": 1400, "height": 900})
        dark = FIGURES / "dashboard_phone.png"
        picture(browser, address, dark, viewport=PHONE, color_scheme="dark", has_touch=True)


def wait_for_change(page: Any, look: Callable[[], Any], before: Any) -> Any:
    """Return the new value of something on the page once it differs from the old one."""
    for _ in range(600):
        if (now := look()) != before:
            return now
        page.wait_for_timeout(100)
    raise SystemExit("the page does not go on")


def load_page(browser: Any, address: str) -> tuple[int, float, Any]:
    """Open the page; return its size in packed bytes, the seconds until all bands are drawn, and the page."""
    page = browser.new_context(viewport=PHONE, has_touch=True).new_page()
    answers: list[Any] = []
    page.on("response", lambda answer: None if "/v1/" in answer.url else answers.append(answer))
    page.add_init_script(DRAWN % MANY)
    page.goto(f"{address}/dashboard#many")
    ready = wait_for_change(page, lambda: page.evaluate("window.readyAt"), None)
    return sum(len(gzip.compress(answer.body())) for answer in answers), ready / 1000, page


def per_update(page: Any) -> tuple[float, float]:
    """Return milliseconds of script, and of all work of the page's thread, for one update, by the browser's clocks."""
    browser = page.context.new_cdp_session(page)
    browser.send("Performance.enable", {"timeDomain": "threadTicks"})
    browser.send("Profiler.enable")
    browser.send("Profiler.setSamplingInterval", {"interval": 100})  # microseconds

    def task_seconds() -> float:
        metrics = browser.send("Performance.getMetrics")["metrics"]
        return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))

    tile = page.locator(".tiles dd").first.inner_text
    wait_for_change(page, tile, tile())
    before = task_seconds()
    browser.send("Profiler.start")
    for _ in range(UPDATES):
        wait_for_change(page, tile, tile())
    profile = browser.send("Profiler.stop")["profile"]
    return own_script(profile) / UPDATES, 1000 * (task_seconds() - before) / UPDATES


def own_script(profile: dict[str, Any]) -> float:
    """Return the milliseconds of a profile that were spent in the page's own files, and in what these called."""
    own: set[int] = set()
    for node in profile["nodes"]:  # parents come first
        if node["id"] in own or "/dashboard/" in node["callFrame"]["url"]:
            own |= {node["id"], *node.get("children", [])}
    pairs = zip(profile["samples"], profile["timeDeltas"], strict=True)
    return float(sum(micro for node, micro in pairs if node in own)) / 1000


def measure() -> None:
    """Measure what a phone-sized page with ten arms takes, and write it into the page."""
    rng, mask = random.Random(1), Randomizer(EPSILON)  # noqa: S311 -- as above
    means = [0.2 + 0.05 * place for place in range(MANY)]
    with open_watched("many", [f"arm {place}" for place in range(MANY)]) as (browser, address):
        done = threading.Event()

        def come() -> None:
            while not done.wait(0.4):
                visit(address, "many", means, mask, rng)

        coming = threading.Thread(target=come)
        coming.start()
        try:
            time.sleep(60)  # so that there is something to draw
            opened = [load_page(browser, address) for _ in range(OPENED)]
            for _, _, page in opened[1:]:
                page.context.close()
            script, task = per_update(opened[0][2])
        finally:
            done.set()
            coming.join()
    seconds = sorted(second for _, second, _ in opened)
    lines = [
        "| what the page takes | |",
        "|---|--:|",
        f"| all that it loads, packed | {opened[0][0] / 1000:.1f} KB |",
        f"| from navigation until all bands are drawn, median of {OPENED} | {statistics.median(seconds):.2f} s |",
        f"| the slowest of them | {seconds[-1]:.2f} s |",
        f"| script for one update, of {UPDATES} | {script:.1f} ms |",
        f"| script, layout and drawing for one update | {task:.1f} ms |",
    ]
    blocks.fill(PAGE, {"measure": "\n".join(lines)})


if __name__ == "__main__":
    if sys.argv[1:] != ["measure"]:
        pictures()
    measure()
