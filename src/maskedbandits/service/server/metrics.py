"""Metrics for Prometheus, in its text format (version 0.0.4): requests, decisions, reports, and positions in the logs.

All workers of a service count in one block of shared memory, each in its own part. So any worker can export the sums,
and a restarted worker continues the counts of its predecessor.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits.service.report_status import REPORT_STATUSES

if TYPE_CHECKING:
    from maskedbandits.service.experiment import LiveExperiment


class Metric(NamedTuple):
    """The type of a metric for Prometheus, its help, and its labels."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()


METRICS = {
    "ready": Metric("gauge", "Whether decisions and reports are accepted."),
    "requests_total": Metric("counter", "Requests by route and status.", ("route", "status")),
    "reports_total": Metric("counter", "Reports by their status.", ("status",)),
    "decisions_total": Metric("counter", "Decisions made."),
    "request_seconds": Metric("histogram", "Seconds from a request to its reply.", ("route", "le")),
    "experiments_aside": Metric("gauge", "Experiments that are quarantined, because this process cannot follow them."),
    "log_seq": Metric("gauge", "The last event of the log that this process has read.", ("experiment",)),
    "reports_held_back": Metric("gauge", "Reports over a source limit, from which no policy learns.", ("experiment",)),
    "decisions_issued": Metric("gauge", "Decisions made, by experiment.", ("experiment",)),
    "decisions_reported": Metric("gauge", "Decisions whose report was received.", ("experiment",)),
    "decisions_pending": Metric("gauge", "Decisions that wait for their report.", ("experiment",)),
    "decisions_missing": Metric("gauge", "Decisions without a report in time.", ("experiment",)),
}
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
SIZE = len(INDEX) + len(TIMED_ROUTES) * BUCKETS
WORKER_BYTES = 8 * SIZE


class Metrics:
    """The counters of this worker, and the sums over all workers."""

    def __init__(self, shared: mmap.mmap | None = None, worker: int = 0, workers: int = 1) -> None:
        memory = shared if shared is not None else mmap.mmap(-1, WORKER_BYTES * workers)
        self._all = memoryview(memory).cast("d")
        self._own = self._all[worker * SIZE : (worker + 1) * SIZE]
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

    def _sum(self, index: int) -> float:
        return sum(self._all[index::SIZE])

    def format_text(
        self,
        experiments: Iterable[LiveExperiment],
        is_ready: bool,
        outcomes: Mapping[str, Mapping[str, int]] | None = None,
        quarantined: int = 0,
    ) -> str:
        """Return all metrics as Prometheus reads them; ``outcomes`` are those of decisions, by experiment."""
        lines = [*_format_head("ready"), _format_line("ready", int(is_ready))]
        lines += _format_head("requests_total")
        for route in ROUTES:
            for status in STATUSES:
                if total := self._sum(INDEX[route, status]):
                    lines.append(_format_line("requests_total", total, route=route, status=str(status)))
        lines += _format_head("reports_total")
        lines += [_format_line("reports_total", self._sum(INDEX[name]), status=name) for name in REPORT_STATUSES]
        lines += _format_head("decisions_total")
        lines.append(_format_line("decisions_total", self._sum(INDEX["decisions"])))
        lines += _format_head("request_seconds")
        for route, start in self._histograms.items():
            lines += self._format_histogram(route, start)
        lines += [*_format_head("experiments_aside"), _format_line("experiments_aside", quarantined)]
        lines += _format_experiments(experiments)
        lines += _format_outcomes(outcomes or {})
        return "\n".join(lines) + "\n"

    def _format_histogram(self, route: str, start: int) -> list[str]:
        lines, total = [], 0.0
        for index, limit in enumerate([*map(str, BUCKET_LIMITS_S), "+Inf"]):
            total += self._sum(start + index)
            lines.append(_format_line("request_seconds_bucket", total, route=route, le=limit))
        lines.append(_format_line("request_seconds_sum", self._sum(start + BUCKETS - 1), route=route))
        lines.append(_format_line("request_seconds_count", total, route=route))
        return lines


def _format_experiments(experiments: Iterable[LiveExperiment]) -> list[str]:
    """Return the positions in the logs and the reports held back, which are the same in every worker."""
    known = list(experiments)
    lines = _format_head("log_seq")
    lines += [_format_line("log_seq", each.state.seq, experiment=each.name) for each in known]
    lines += _format_head("reports_held_back")
    return lines + [_format_line("reports_held_back", each.state.held_back, experiment=each.name) for each in known]


def _format_outcomes(outcomes: Mapping[str, Mapping[str, int]]) -> list[str]:
    lines = []
    for outcome in OUTCOMES if outcomes else ():
        lines += _format_head(f"decisions_{outcome}")
        lines += [
            _format_line(f"decisions_{outcome}", counts[outcome], experiment=name) for name, counts in outcomes.items()
        ]
    return lines


def _format_head(name: str) -> list[str]:
    metric = METRICS[name]
    return [f"# HELP maskedbandits_{name} {metric.help}", f"# TYPE maskedbandits_{name} {metric.kind}"]


def _format_line(name: str, value: float, **labels: str) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())  # words of ours or slugs: no need to escape
    number = f"{value:.0f}" if value == int(value) else f"{value:.9g}"
    return f"maskedbandits_{name}{f'{{{inside}}}' if inside else ''} {number}"


def map_memory(handle: int, workers: int) -> mmap.mmap:
    """Return the memory behind a file that all workers have open."""
    return mmap.mmap(handle, WORKER_BYTES * workers)
