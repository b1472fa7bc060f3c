"""Metrics for Prometheus: complete, well-formed, and the same from every worker."""

from __future__ import annotations

import asyncio
import re
import tempfile

import pytest
from registries import until
from web import Served

from maskedbandits.service.server.metrics import (
    BUCKET_LIMITS_S,
    OUTCOMES,
    ROUTES,
    STATUSES,
    WORKER_BYTES,
    Metrics,
    map_memory,
)
from maskedbandits.service.storage import StoreUnavailable

pytest_plugins = ["service_fixtures"]

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"
# The text format, as Prometheus documents it: a comment, or a name, labels in quotes, and a number.
COMMENT = r"# TYPE [a-z_]+ (counter|gauge|histogram)|# HELP [a-z_]+ [A-Z][^\\\n]+"
LINE = re.compile(COMMENT + r'|[a-z_]+(\{([a-z]+="[^"\\\n]*",?)*\})? [0-9.e+-]+')


def sample(text: str, name: str) -> float:
    (found,) = [line for line in text.splitlines() if line.startswith(f"maskedbandits_{name} ")]
    return float(found.rpartition(" ")[2])


def test_requests_decisions_and_reports_are_counted(served: Served) -> None:
    token = served.post(DECISIONS, {"n": 5}).json["decisions"][0]["token"]
    served.post(REPORTS, {"token": token, "bit": 1})
    served.post(REPORTS, {"reports": [{"token": token, "bit": 1}, {"token": "x", "bit": 1}]})
    served.post(DECISIONS, b"{")
    served.get("/nowhere")
    served.run(
        until(lambda: [live.state.seq for live in served.registry.experiments()] == [2])
    )  # the policy has observed the report
    reply = served.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = reply.body.decode()
    assert sample(text, "decisions_total") == 5
    counts = {
        status: sample(text, f'reports_total{{status="{status}"}}') for status in ("accepted", "duplicate", "forged")
    }
    assert counts == {"accepted": 1, "duplicate": 1, "forged": 1}
    assert sample(text, 'requests_total{route="decisions",status="200"}') == 1
    assert sample(text, 'requests_total{route="decisions",status="400"}') == 1
    assert sample(text, 'requests_total{route="other",status="404"}') == 1
    assert sample(text, 'log_seq{experiment="headline"}') == 2
    assert sample(text, "ready") == 1


def test_outcomes_of_decisions_are_exported(served: Served) -> None:
    token = served.post(DECISIONS, {"n": 5}).json["decisions"][0]["token"]
    served.post(REPORTS, {"token": token, "bit": 1})

    def values(fate: str) -> float:
        return sample(served.get("/metrics").body.decode(), f'decisions_{fate}{{experiment="headline"}}')

    for _ in range(300):  # flushed every second
        if values("issued") == 5 and values("reported") == 1:
            break
        served.run(asyncio.sleep(0.01))
    assert {fate: values(fate) for fate in OUTCOMES} == {"issued": 5, "reported": 1, "pending": 4, "missing": 0}


def test_metrics_work_without_store(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone() -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(served.registry, "outcomes", gone)
    reply = served.get("/metrics")
    assert (reply.status, b"decisions_missing" in reply.body) == (200, False)


def test_every_line_parses(served: Served) -> None:
    served.post(DECISIONS)
    text = served.get("/metrics").body.decode()
    assert text.endswith("\n")
    assert all(LINE.fullmatch(line) for line in text.splitlines()), text


def test_histogram_adds_up() -> None:
    metrics = Metrics()
    for seconds in (0.0001, 0.0005, 0.0006, 0.3, 99.0):
        metrics.count_request("decisions", 200, seconds)
    text = metrics.format_text([], True)
    below = [
        sample(text, f'request_seconds_bucket{{route="decisions",le="{edge}"}}') for edge in (*BUCKET_LIMITS_S, "+Inf")
    ]
    assert below == [2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 5]
    assert sample(text, 'request_seconds_count{route="decisions"}') == 5
    assert sample(text, 'request_seconds_sum{route="decisions"}') == pytest.approx(99.3012)


def test_any_worker_exports_the_sum() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(2 * WORKER_BYTES)
        first, second = (Metrics(map_memory(file.fileno(), 2), worker, 2) for worker in range(2))
        first.count("decisions", 3)
        second.count("decisions", 4)
        second.count_request("reports", 200, 0.1)
        assert first.format_text([], True) == second.format_text([], True)
        assert sample(first.format_text([], True), "decisions_total") == 7
        again = Metrics(map_memory(file.fileno(), 2), 1, 2)  # started again
        again.count("decisions")
        assert sample(first.format_text([], True), "decisions_total") == 8


def test_every_status_has_a_counter() -> None:
    metrics = Metrics()
    for route in ROUTES:
        for status in STATUSES:
            metrics.count_request(route, status, 0.0)
    assert metrics.format_text([], True).count("maskedbandits_requests_total{") == len(ROUTES) * len(STATUSES)
