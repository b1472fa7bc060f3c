"""The demonstration: its crowd, its page in a real browser, and its end."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from web import Client

from browsers import needs_browser, one_at_a_time
from children import LONGEST, PROGRAM, child, finished
from maskedbandits.demo import crowd
from maskedbandits.demo.site import Site

pytest_plugins = ["browsers"]


# The crowd


def test_each_phase_has_another_best_picture() -> None:
    best = [row.index(max(row)) for row in crowd.RATES]
    assert sorted(best) == list(range(len(crowd.ARMS)))
    assert [crowd.get_phase(at) for at in (0.0, 19.9, 20.0, 45.0, 60.0)] == [0, 0, 1, 2, 0]
    assert crowd.get_rates(21.0) == crowd.RATES[1]


def test_experiment_names_are_distinct() -> None:
    names = [crowd.format_name(epsilon) for epsilon in crowd.EPSILONS]
    assert names == ["epsilon-0-25", "epsilon-0-5", "epsilon-1", "epsilon-2", "epsilon-4"]


class Always:
    """A fake service that shows one picture and stores the reports."""

    def __init__(self, arm: str) -> None:
        self.arm, self.reports = arm, list[dict[str, Any]]()

    def post(self, path: str, body: Any) -> Any:
        if path.endswith("/decisions"):
            return {"decisions": [{"arm": self.arm, "token": f"token {place}"} for place in range(body["n"])]}
        self.reports += body["reports"]
        return {}


def test_loss_is_relative_to_best_picture() -> None:
    service, visits = Always("moon"), crowd.Visits(8.0)
    for tick in range(50):
        visits.tick(service, tick * crowd.TICK_S)  # type: ignore[arg-type]
    assert visits.compute_loss() == pytest.approx(100 * (0.75 - 0.30))
    assert len(service.reports) == 50 * crowd.VISITORS
    assert {tuple(report) for report in service.reports} == {("token", "bit")}  # without the click
    assert list(visits.bits[1]) == [report["bit"] for report in service.reports][-crowd.MAX_BITS :]


def test_reports_are_masked() -> None:
    """At epsilon 0.5 a click of rate 0.3 is reported with rate 0.451; 15,000 reports are within 0.025 of it."""
    service, visits = Always("moon"), crowd.Visits(0.5)
    for _ in range(500):
        visits.tick(service, 0.0)  # type: ignore[arg-type]
    ones = sum(report["bit"] for report in service.reports) / len(service.reports)
    assert abs(ones - 0.451) < 0.025  # six standard deviations


def test_visits_of_last_minute_are_kept() -> None:
    visits = crowd.Visits(1.0)
    for at in range(200):
        visits.tick(Always("sun"), float(at))  # type: ignore[arg-type]
    assert [at for at, _, _ in visits.ticks] == list(range(139, 200))


# The program


def test_other_host_name_is_rejected() -> None:
    ours, elsewhere = (Client(Site().app, host=host) for host in ("127.0.0.1:8081", "rebound.example"))
    assert asyncio.run(elsewhere.ask("GET", "/where")).status == 400
    assert asyncio.run(ours.ask("GET", "/where")).json == {"service": None}


@contextmanager
def demo(*flags: object, folder: Path, ignoring: tuple[signal.Signals, ...] = ()) -> Iterator[tuple[Any, str]]:
    """Start the demonstration with its own temporary folder."""
    command = (sys.executable, "-P", "-m", "maskedbandits", "demo", "--port", 0, "--no-browser", *flags)
    with child(command, environment={"TMPDIR": str(folder)}, ignoring=ignoring) as process:
        assert process.stdout is not None
        found = re.search(r"http://[0-9.:]+", process.stdout.readline())
        assert found
        yield process, found[0].rstrip(".")


def wait_until_followed(page: Any) -> None:
    """Wait until nearly all visitors get the best picture, and again after a change."""
    seen: set[str] = set()
    until = time.monotonic() + LONGEST
    while len(seen) < 2:
        found = re.match(r"(\d+) % of visitors see the (\w+), which they like best", page.inner_text("#verdict"))
        if found and int(found[1]) >= 80:
            seen.add(found[2])
        assert time.monotonic() < until, page.inner_text("body")
        page.wait_for_timeout(200)


@needs_browser
@one_at_a_time
@pytest.mark.slow  # what it does is in test_demo_flow, too, without waiting for a whole phase
def test_demo_page_shows_learning(browser: Any, tmp_path: Path) -> None:
    complaints: list[str] = []
    hosts: set[str] = set()
    with demo(folder=tmp_path) as (process, address):
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: hosts.add(request.url.split("/")[2].split(":")[0]))
        page.goto(address)
        wait_until_followed(page)
        assert page.locator("#noise i").count() == 3 * crowd.MAX_BITS
        assert page.locator("#bars div").count() == len(crowd.EPSILONS)
        wire = page.locator("#wire").get_by_text(re.compile('"bit":[01],"epsilon":1')).inner_text(timeout=60_000)
        assert set(re.findall(r'"(\w+)":', wire)) == {"token", "bit", "epsilon"}
        page.locator("#epsilon").press("ArrowRight")
        page.locator("#meaning").get_by_text("ε = 2: a report is true 88.1 %").wait_for()
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
        page.locator("#dashboard").click()
        page.get_by_text("epsilon-0-5").first.wait_for(timeout=60_000)
        page.close()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LONGEST)
    assert (process.returncode, errors) == (0, "")
    assert complaints == []
    assert hosts == {"127.0.0.1"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow  # test_serve has an ignored interrupt for the service
def test_ignored_interrupt_does_not_end_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is started in a folder whose modules must not be imported."""
    current, temporary = tmp_path / "current", tmp_path / "temporary"
    current.mkdir()
    temporary.mkdir()
    (current / "click.py").write_text("raise SystemExit('the wrong module')")
    monkeypatch.chdir(current)
    with demo("--seconds", 0.5, folder=temporary, ignoring=(signal.SIGINT,)) as (process, _):
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LONGEST)
    assert (process.returncode, errors) == (0, "")
    assert "Simulated visitors arrive" in out
    assert list(temporary.iterdir()) == []


def test_interrupt_ends_the_demo(tmp_path: Path) -> None:
    with demo(folder=tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONGEST)
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_taken_port_is_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done: subprocess.CompletedProcess[str] = finished([*PROGRAM, "demo", "--port", port, "--no-browser"])
    assert done.returncode == 2
    assert done.stderr.startswith(f"maskedbandits: port {port} of 127.0.0.1 is in use: ")
    assert done.stderr.count("\n") == 1
