"""Metrics for Prometheus: complete, parsable, bounded, and the same from every worker."""

from __future__ import annotations

import asyncio
import tempfile

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from registries import until
from web import SMALL, Served

from maskedbandits import __version__
from maskedbandits.service.dashboard.broadcast import ExperimentFeed
from maskedbandits.service.server import metrics as metrics_module
from maskedbandits.service.server.metrics import (
    BUCKET_LIMITS_S,
    METRICS,
    OUTCOMES,
    ROUTES,
    SIZE,
    STATUSES,
    Metrics,
    View,
)
from maskedbandits.service.server.worker_memory import WorkerMemory, WorkerState, count_bytes, map_memory
from maskedbandits.service.storage import StoreUnavailable

pytest_plugins = ["service_fixtures"]

DECISIONS, REPORTS = "/v1/experiments/headline/decisions", "/v1/reports"


def sample(text: str, name: str) -> float:
    (found,) = [line for line in text.splitlines() if line.startswith(f"maskedbandits_{name} ")]
    return float(found.rpartition(" ")[2])


def read(served: Served) -> str:
    return served.get("/metrics").body.decode()


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
    assert sample(text, 'log_behind_events{experiment="headline"}') == 0
    assert sample(text, "ready") == 1


def test_outcomes_of_decisions_are_exported(served: Served) -> None:
    token = served.post(DECISIONS, {"n": 5}).json["decisions"][0]["token"]
    served.post(REPORTS, {"token": token, "bit": 1})

    def values(fate: str) -> float:
        return sample(read(served), f'decisions_{fate}{{experiment="headline"}}')

    for _ in range(300):  # flushed every second
        if values("issued") == 5 and values("reported") == 1:
            break
        served.run(asyncio.sleep(0.01))
    assert {fate: values(fate) for fate in OUTCOMES} == {"issued": 5, "reported": 1, "pending": 4, "missing": 0}


def test_metrics_work_without_store(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(*_: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(served.registry, "outcomes", gone)
    reply = served.get("/metrics")
    assert (reply.status, b"decisions_missing" in reply.body) == (200, False)


def test_both_formats_parse_and_describe_all(served: Served) -> None:
    served.post(DECISIONS)
    text = read(served)
    found = {family.name: family for family in parse_text(text)}
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")} <= METRICS.keys()
    for name, metric in METRICS.items():
        family = found.get(name.removesuffix("_total"))
        if family is not None:
            assert (family.type, family.documentation) == (metric.kind, metric.help)
            assert all({*each.labels} == {*metric.labels} - ({"le"} - {*each.labels}) for each in family.samples)
    assert METRICS.keys() - {f"{name}_total" for name in found} - found.keys() <= {
        "maskedbandits_alert",  # of alerts that there are none of
        "maskedbandits_experiments_alerting",
        "maskedbandits_oldest_event_age_seconds",  # unknown in the first minute
    }
    reply = served.get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"})
    assert reply.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert {family.name for family in parse_open_metrics(reply.body.decode())} == found.keys()


def test_age_of_oldest_event_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000_000.0)
    metrics = Metrics()
    assert "oldest_event" not in metrics.format_text()  # without retention, or before it is known
    metrics.memory.set("retention_s", 86_400.0)
    metrics.memory.set("oldest_event_at", 900_000.0)
    text = metrics.format_text()
    assert (sample(text, "oldest_event_age_seconds"), sample(text, "retention_seconds")) == (100_000, 86_400)


def test_process_and_build_are_exported(served: Served) -> None:
    text = read(served)
    (build,) = [line for line in text.splitlines() if line.startswith("maskedbandits_build_info{")]
    assert f'version="{__version__}"' in build
    values: dict[str, float] = {
        family.name: family.samples[0].value for family in parse_text(text) if family.name.startswith("process_")
    }
    assert values["process_cpu_seconds"] > 0
    assert values["process_resident_memory_bytes"] > 1e6
    assert values["process_open_fds"] > 3


def test_experiments_with_series_are_bounded(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("second", "third"):
        served.post("/v1/experiments", {**SMALL, "name": name})
    monkeypatch.setattr(metrics_module, "MAX_EXPERIMENTS", 1)
    text = read(served)
    assert sample(text, 'experiments{status="running"}') == 3
    assert sample(text, "experiments_unlisted") == 2
    listed = {
        each.labels["experiment"]
        for family in parse_text(text)
        for each in family.samples
        if "experiment" in each.labels
    }
    assert listed == {"third"}
    served.patch("/v1/experiments/third", {"status": "archived"})
    assert 'experiment="third"' not in read(served)


def test_active_alerts_are_exported(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = ExperimentFeed()
    feed.alerts = [{"kind": kind, "text": "why"} for kind in ("stuck", "suspect", "suspect")]
    (live,) = served.registry.experiments()
    monkeypatch.setitem(served.app.broadcaster.feeds, live.id, feed)
    text = read(served)
    assert sample(text, 'alert{experiment="headline",kind="stuck"}') == 1
    assert sample(text, 'alert{experiment="headline",kind="suspect"}') == 1
    assert sample(text, 'experiments_alerting{kind="suspect"}') == 1


def test_events_behind_are_those_not_applied(served: Served) -> None:
    (live,) = served.registry.experiments()
    text = served.app.metrics.format_text(View([live], {live.id: live.state.seq + 7}))
    assert sample(text, 'log_behind_events{experiment="headline"}') == 7


def test_histogram_adds_up() -> None:
    metrics = Metrics()
    for seconds in (0.0001, 0.0005, 0.0006, 0.3, 99.0):
        metrics.count_request("decisions", 200, seconds)
    text = metrics.format_text()
    below = [
        sample(text, f'request_seconds_bucket{{route="decisions",le="{edge}"}}') for edge in (*BUCKET_LIMITS_S, "+Inf")
    ]
    assert below == [2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 5]
    assert sample(text, 'request_seconds_count{route="decisions"}') == 5
    assert sample(text, 'request_seconds_sum{route="decisions"}') == pytest.approx(99.3012)


def test_any_worker_exports_the_sum() -> None:
    with tempfile.TemporaryFile() as file:
        file.truncate(count_bytes(SIZE, 2))

        def attach(worker: int) -> Metrics:
            return Metrics(WorkerMemory(SIZE, map_memory(file.fileno(), SIZE, 2), worker, 2))

        first, second = attach(0), attach(1)
        for metrics in (first, second):
            metrics.memory.set("state", WorkerState.READY)
        first.count("decisions", 3)
        second.count("decisions", 4)
        second.count_request("reports", 200, 0.1)
        second.memory.set("queued", 5)
        assert first.format_text() == second.format_text()
        assert sample(first.format_text(), "decisions_total") == 7
        assert sample(first.format_text(), 'reports_queued{worker="1"}') == 5
        assert sample(first.format_text(), 'workers{state="ready"}') == 2
        again = attach(1)  # started again
        again.count("decisions")
        assert sample(first.format_text(), "decisions_total") == 8


def test_every_status_has_a_counter() -> None:
    metrics = Metrics()
    for route in ROUTES:
        for status in STATUSES:
            metrics.count_request(route, status, 0.0)
    assert metrics.format_text().count("maskedbandits_requests_total{") == len(ROUTES) * len(STATUSES)
