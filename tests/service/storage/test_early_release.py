"""A store that the service of an early release filled goes on in this one, as its operator would do it."""

from __future__ import annotations

import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from older_stores import unpack_release
from running import Running, running

from children import PROGRAM, finished, wait_until

pytest_plugins = ["store_fixtures"]
pytestmark = pytest.mark.slow

EARLY = "1062dfe"  # a commit with version 2 of the tables
ARMS = [{"name": "plain"}, {"name": "question", "payload": {"title": "Why wait?"}}]
CONFIG = {"name": "headlines", "epsilon": 1, "report_after": 60, "expires_after": 86400, "arms": ARMS}
HEADLINES = "/v1/experiments/headlines"


def decide(service: Running, requests: int) -> list[str]:
    """Return the tokens of 20 decisions for each request."""
    replies = [service.ask("POST", f"{HEADLINES}/decisions", {"n": 20})[1] for _ in range(requests)]
    return [each["token"] for reply in replies for each in reply["decisions"]]


def report(service: Running, tokens: list[str]) -> Counter[str]:
    reports = [{"token": each, "bit": random.getrandbits(1)} for each in tokens]
    return Counter(each["status"] for each in service.ask("POST", "/v1/reports", {"reports": reports})[1]["results"])


def read_state(service: Running, seq: int) -> dict[str, Any]:
    """Wait until the service has read the log up to an event, and return its state."""
    wait_until(lambda: service.ask("GET", f"{HEADLINES}/state")[1]["seq"] == seq, service.process)
    state = service.ask("GET", f"{HEADLINES}/state")[1]
    return {name: state[name] for name in ("reported", "pending", "issued", "missing", "estimates", "intervals")}


def test_store_of_an_early_release_goes_on(any_url: str, tmp_path: Path) -> None:
    early = {"PYTHONPATH": str(unpack_release(EARLY, tmp_path / "early"))}

    def run(*command: object) -> str:
        ended = finished((*PROGRAM, *command, "--storage", any_url), folder=tmp_path)
        assert (ended.returncode, ended.stderr) == (0, "")
        return str(ended.stdout)

    with running(any_url, environment=early, folder=tmp_path) as service:
        service.wait_until_ready()
        assert service.ask("POST", "/v1/experiments", CONFIG)[0] == 201
        tokens = decide(service, 15)
        assert report(service, tokens[:260]) == {"accepted": 260}
        assert service.ask("POST", f"{HEADLINES}/arms", {"name": "third"})[0] == 201
        before = read_state(service, 262)
        assert service.stop(signal.SIGTERM)[0] == 0
    refused = finished((*PROGRAM, "serve", "--storage", any_url), folder=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "stop the service and run maskedbandits upgrade" in refused.stderr

    assert run("upgrade").startswith("Upgraded the tables from version 2 to 4.\n")
    assert "262 events, 260 reports" in run("replay")
    run("key", "rotate")
    with running(any_url, folder=tmp_path) as service:
        service.wait_until_ready()
        assert read_state(service, 262) == before
        assert report(service, tokens) == {"duplicate": 260, "accepted": 40}
        assert report(service, decide(service, 10)) == {"accepted": 200}
        assert sum(read_state(service, 502)["reported"]) == 500
        assert f"{service.address} at 502 agrees" in run("replay", "--server", service.address)
        assert "502 events" in run("export", "headlines", "log.csv")
        assert service.stop(signal.SIGTERM)[0] == 0
    assert "events 1 to 502 are those of the log" in run("replay", "headlines", "--export", "log.csv")
