"""Metrics for Prometheus, in its text format and in OpenMetrics: requests, reports, logs, alerts, workers, processes.

All workers of a service count in one block of shared memory, each in its own part. So any worker can export the sums,
and a restarted worker continues the counts of its predecessor. What differs between workers has a label for them.
"""

from __future__ import annotations

import platform
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits import __version__
from maskedbandits.service.report_status import REPORT_STATUSES
from maskedbandits.service.server.worker_memory import WorkerMemory, WorkerState

if TYPE_CHECKING:
    from maskedbandits.service.experiment import LiveExperiment

PREFIX = "maskedbandits_"
MAX_EXPERIMENTS = 200  # with series of their own: the newest that are not archived


class Metric(NamedTuple):
    """The type of a metric for Prometheus, its help, and its labels."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()


METRICS = {
    f"{PREFIX}build_info": Metric("gauge", "Version of the service and of Python; always 1.", ("version", "python")),
    f"{PREFIX}ready": Metric("gauge", "Whether every worker that accepts requests can decide."),
    f"{PREFIX}workers": Metric("gauge", "Workers by their state.", ("state",)),
    f"{PREFIX}worker_restarts_total": Metric("counter", "Workers that died and were started again.", ("worker",)),
    f"{PREFIX}store_away": Metric("gauge", "Whether the worker cannot reach the store.", ("worker",)),
    f"{PREFIX}reports_queued": Metric("gauge", "Reports that wait to be written.", ("worker",)),
    f"{PREFIX}log_read_age_seconds": Metric(
        "gauge", "Seconds since the worker last read all logs to their end.", ("worker",)
    ),
    f"{PREFIX}oldest_event_age_seconds": Metric(
        "gauge", "Age of the oldest event in the store; none without `retention_days`."
    ),
    f"{PREFIX}retention_seconds": Metric("gauge", "Age after which events are removed, of `retention_days`."),
    f"{PREFIX}requests_total": Metric("counter", "Requests by route and status.", ("route", "status")),
    f"{PREFIX}reports_total": Metric("counter", "Reports by their status.", ("status",)),
    f"{PREFIX}decisions_total": Metric("counter", "Decisions made."),
    f"{PREFIX}request_seconds": Metric("histogram", "Seconds from a request to its reply.", ("route", "le")),
    f"{PREFIX}experiments": Metric("gauge", "Experiments that are not archived, by status.", ("status",)),
    f"{PREFIX}experiments_quarantined": Metric("gauge", "Experiments that some worker cannot read."),
    f"{PREFIX}experiments_unlisted": Metric("gauge", "Experiments that are too many for series of their own."),
    f"{PREFIX}alert": Metric("gauge", "An alert of the dashboard; 1 while it is active.", ("experiment", "kind")),
    f"{PREFIX}experiments_alerting": Metric("gauge", "Experiments with an active alert, by its kind.", ("kind",)),
    f"{PREFIX}log_seq": Metric("gauge", "The last event of the log that this worker has applied.", ("experiment",)),
    f"{PREFIX}log_behind_events": Metric(
        "gauge", "Events in the store that this worker has not applied yet.", ("experiment",)
    ),
    f"{PREFIX}reports_held_back": Metric(
        "gauge", "Reports over a source limit, from which no policy learns.", ("experiment",)
    ),
    f"{PREFIX}decisions_issued": Metric("gauge", "Decisions made, by experiment.", ("experiment",)),
    f"{PREFIX}decisions_reported": Metric("gauge", "Decisions whose report was received.", ("experiment",)),
    f"{PREFIX}decisions_pending": Metric("gauge", "Decisions that wait for their report.", ("experiment",)),
    f"{PREFIX}decisions_missing": Metric("gauge", "Decisions without a report in time.", ("experiment",)),
    "process_cpu_seconds_total": Metric("counter", "Processor time of the worker.", ("worker",)),
    "process_resident_memory_bytes": Metric("gauge", "Resident memory of the worker; Linux only.", ("worker",)),
    "process_open_fds": Metric("gauge", "Open file descriptors of the worker; Linux only.", ("worker",)),
    "process_start_time_seconds": Metric("gauge", "Unix time at which the worker started.", ("worker",)),
}
BY_WORKER = {  # the conditions that are exported as they are
    f"{PREFIX}worker_restarts_total": "restarts",
    f"{PREFIX}reports_queued": "queued",
    "process_cpu_seconds_total": "cpu_seconds",
    "process_resident_memory_bytes": "resident_bytes",
    "process_open_fds": "open_files",
    "process_start_time_seconds": "started_at",
}
LINUX_ONLY = ("process_resident_memory_bytes", "process_open_fds")
ROUTES = ("decisions", "reports", "experiments", "state", "health", "metrics", "openapi", "live", "static", "other")
CLIENT_GONE = 499
STATUSES = (
    *(200, 201, 202, 204, 304, 307, 400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 422, 429),
    *(CLIENT_GONE, 500, 503),
)
OUTCOMES = ("issued", "reported", "pending", "missing")  # of decisions
BUCKET_LIMITS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
COUNTERS = [*((route, status) for route in ROUTES for status in STATUSES), *REPORT_STATUSES, "decisions"]
INDEX = {name: index for index, name in enumerate(COUNTERS)}
TIMED_ROUTES = ("decisions", "reports")
BUCKETS = len(BUCKET_LIMITS_S) + 2  # one beyond the last limit, and the sum
SIZE = len(INDEX) + len(TIMED_ROUTES) * BUCKETS  # counters of a worker

Sample = tuple[str, float, dict[str, str]]  # name, value, labels


class View(NamedTuple):
    """What the worker that exports knows of experiments; ``heads`` and ``outcomes`` are empty without the store."""

    experiments: Sequence[LiveExperiment] = ()
    heads: Mapping[int, int] = {}  # the last event in the store, by the id of an experiment
    outcomes: Mapping[str, Mapping[str, int]] = {}  # of decisions, by experiment
    alerts: Mapping[str, Iterable[str]] = {}  # kinds of active alerts, by experiment


def select_listed(experiments: Sequence[LiveExperiment]) -> list[LiveExperiment]:
    """Return the experiments with series of their own; they are bounded, as every series costs Prometheus memory."""
    return [each for each in experiments if each.status != "archived"][-MAX_EXPERIMENTS:]


class Metrics:
    """The counters of this worker, and the sums over all workers."""

    def __init__(self, memory: WorkerMemory | None = None) -> None:
        self.memory = memory or WorkerMemory(SIZE)
        self._own = self.memory.counters
        self._histograms = {route: len(INDEX) + index * BUCKETS for index, route in enumerate(TIMED_ROUTES)}

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        own = self._own
        own[INDEX.get((route, status), INDEX["other", 500])] += 1
        start = self._histograms.get(route)
        if start is not None:
            own[start + bisect_left(BUCKET_LIMITS_S, seconds)] += 1
            own[start + BUCKETS - 1] += seconds

    def count(self, what: str, many: int = 1) -> None:
        """Count decisions, or reports by their status."""
        self._own[INDEX[what]] += many

    def format_text(self, view: View | None = None, *, is_open: bool = False) -> str:
        """Return all metrics in the text format of Prometheus, or in OpenMetrics with ``is_open``."""
        samples: dict[str, list[Sample]] = {name: [] for name in METRICS}
        for sample in (*self._list_samples(), *self._list_worker_samples(), *_list_experiment_samples(view or View())):
            family = sample[0] if sample[0] in METRICS else sample[0].rpartition("_")[0]  # of a histogram
            samples[family].append(sample)
        lines = []
        for name, each in samples.items():
            if each:
                lines += [*_format_head(name, is_open), *map(_format_sample, each)]
        return "\n".join([*lines, *(["# EOF"] if is_open else [])]) + "\n"

    def _list_samples(self) -> Iterator[Sample]:
        """Yield the sums over all workers."""
        yield f"{PREFIX}build_info", 1, {"version": __version__, "python": platform.python_version()}
        for route in ROUTES:
            for status in STATUSES:
                if total := self.memory.sum_counter(INDEX[route, status]):
                    yield f"{PREFIX}requests_total", total, {"route": route, "status": str(status)}
        for name in REPORT_STATUSES:
            yield f"{PREFIX}reports_total", self.memory.sum_counter(INDEX[name]), {"status": name}
        yield f"{PREFIX}decisions_total", self.memory.sum_counter(INDEX["decisions"]), {}
        for route, start in self._histograms.items():
            yield from self._list_buckets(route, start)

    def _list_buckets(self, route: str, start: int) -> Iterator[Sample]:
        total, name = 0.0, f"{PREFIX}request_seconds"
        for index, limit in enumerate([*map(str, BUCKET_LIMITS_S), "+Inf"]):
            total += self.memory.sum_counter(start + index)
            yield f"{name}_bucket", total, {"route": route, "le": limit}
        yield f"{name}_sum", self.memory.sum_counter(start + BUCKETS - 1), {"route": route}
        yield f"{name}_count", total, {"route": route}

    def _list_worker_samples(self) -> Iterator[Sample]:
        """Yield the condition of each worker."""
        memory = self.memory
        states = Counter(memory.get_state(worker) for worker in range(memory.workers))
        yield f"{PREFIX}ready", int(memory.get_state(memory.worker) == WorkerState.READY), {}
        for state in WorkerState:
            yield f"{PREFIX}workers", states[state], {"state": state.name.lower()}
        if retention := max(memory.get_all("retention_s")):
            yield f"{PREFIX}retention_seconds", retention, {}
        if oldest_at := max(memory.get_all("oldest_event_at")):  # the newest reading, since old events only go
            yield f"{PREFIX}oldest_event_age_seconds", max(0.0, time.time() - oldest_at), {}
        yield f"{PREFIX}experiments_quarantined", max(memory.get_all("quarantined")), {}
        for worker in range(memory.workers):
            labels = {"worker": str(worker)}
            yield f"{PREFIX}store_away", int(memory.get("store_lost_at", worker) > 0), labels
            if read_at := memory.get("log_read_at", worker):
                yield f"{PREFIX}log_read_age_seconds", max(0.0, time.time() - read_at), labels
            for name, condition in BY_WORKER.items():
                if (value := memory.get(condition, worker)) or name not in LINUX_ONLY:
                    yield name, value, labels


def _list_experiment_samples(view: View) -> Iterator[Sample]:
    """Yield what this worker knows of experiments."""
    listed = select_listed(view.experiments)
    by_status = Counter(each.status for each in view.experiments)
    for status in ("running", "paused"):
        yield f"{PREFIX}experiments", by_status[status], {"status": status}
    yield f"{PREFIX}experiments_unlisted", by_status["running"] + by_status["paused"] - len(listed), {}
    for each in listed:
        labels = {"experiment": each.name}
        yield f"{PREFIX}log_seq", each.state.seq, labels
        if each.id in view.heads:
            yield f"{PREFIX}log_behind_events", max(0, view.heads[each.id] - each.state.seq), labels
        yield f"{PREFIX}reports_held_back", each.state.held_back, labels
        for kind in sorted({*view.alerts.get(each.name, ())}):
            yield f"{PREFIX}alert", 1, {**labels, "kind": kind}
        for outcome, count in view.outcomes.get(each.name, {}).items():
            yield f"{PREFIX}decisions_{outcome}", count, labels
    for kind, count in sorted(Counter(kind for kinds in view.alerts.values() for kind in {*kinds}).items()):
        yield f"{PREFIX}experiments_alerting", count, {"kind": kind}


def _format_head(name: str, is_open: bool) -> list[str]:
    """Return the lines that describe a metric; OpenMetrics names counters without their suffix."""
    metric = METRICS[name]
    shown = name.removesuffix("_total") if is_open else name
    return [f"# HELP {shown} {metric.help}", f"# TYPE {shown} {metric.kind}"]


def _format_sample(sample: Sample) -> str:
    name, value, labels = sample
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())  # words of ours or slugs: no need to escape
    number = f"{value:.0f}" if value == int(value) else f"{value:.9g}"
    if name == "process_start_time_seconds":
        number = f"{value:.3f}"  # nine digits would round it to seconds
    return f"{name}{f'{{{inside}}}' if inside else ''} {number}"
