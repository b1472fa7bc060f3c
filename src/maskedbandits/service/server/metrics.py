"""Counts for Prometheus, in its text format (version 0.0.4): requests, decisions, reports, and how far logs have come.

All workers of a service count in one shared piece of memory, each in places of its own, so that whichever of them is
asked tells the sum; one that is started again goes on counting where the one before it ended.
"""

from __future__ import annotations

import mmap
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maskedbandits.service.experiment import Live

ROUTES = ("decisions", "reports", "experiments", "state", "health", "metrics", "openapi", "live", "static", "other")
LEFT = 499  # the client has
STATUSES = (200, 201, 204, 304, 307, 400, 401, 403, 404, 405, 408, 409, 410, 413, 429, LEFT, 500, 503)
REPORTS = ("accepted", "duplicate", "late", "forged", "foreign", "invalid", "limited", "later")
FATES = ("issued", "reported", "pending", "missing")
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
PLACE = {name: place for place, name in enumerate([*((r, s) for r in ROUTES for s in STATUSES), *REPORTS, "decisions"])}
TIMED = ("decisions", "reports")
BUCKETS = len(SECONDS) + 2  # one beyond the last, and their sum
SIZE = len(PLACE) + len(TIMED) * BUCKETS
BYTES = 8 * SIZE


class Metrics:
    """What this worker counts, beside what all of them have."""

    def __init__(self, shared: mmap.mmap | None = None, worker: int = 0, workers: int = 1) -> None:
        memory = shared if shared is not None else mmap.mmap(-1, BYTES * workers)
        self._all = memoryview(memory).cast("d")
        self._own = self._all[worker * SIZE : (worker + 1) * SIZE]
        self._timed = {route: len(PLACE) + place * BUCKETS for place, route in enumerate(TIMED)}

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        own = self._own
        own[PLACE.get((route, status), PLACE["other", 500])] += 1
        start = self._timed.get(route)
        if start is not None:
            own[start + bisect_left(SECONDS, seconds)] += 1
            own[start + BUCKETS - 1] += seconds

    def count(self, what: str, many: int = 1) -> None:
        """Count decisions, or reports by what became of them."""
        self._own[PLACE[what]] += many

    def _sum(self, place: int) -> float:
        return sum(self._all[place::SIZE])

    def text(
        self, lives: Iterable[Live], ready: bool, fates: Mapping[str, Mapping[str, int]] | None = None, aside: int = 0
    ) -> str:
        """Return all of it, as Prometheus reads it.

        ``fates`` are what became of decisions, by experiment; ``aside`` is how many experiments cannot be followed.
        """
        lines = ["# TYPE maskedbandits_ready gauge", f"maskedbandits_ready {int(ready)}"]
        lines.append("# TYPE maskedbandits_requests_total counter")
        for route in ROUTES:
            for status in STATUSES:
                if found := self._sum(PLACE[route, status]):
                    lines.append(_line("requests_total", found, route=route, status=str(status)))
        lines.append("# TYPE maskedbandits_reports_total counter")
        lines += [_line("reports_total", self._sum(PLACE[name]), status=name) for name in REPORTS]
        lines.append("# TYPE maskedbandits_decisions_total counter")
        lines.append(_line("decisions_total", self._sum(PLACE["decisions"])))
        lines.append("# TYPE maskedbandits_request_seconds histogram")
        for route, start in self._timed.items():
            lines += self._histogram(route, start)
        lines += ["# TYPE maskedbandits_experiments_aside gauge", _line("experiments_aside", aside)]
        lines += _of_experiments(lives)
        lines += _of_decisions(fates or {})
        return "\n".join(lines) + "\n"

    def _histogram(self, route: str, start: int) -> list[str]:
        lines, total = [], 0.0
        for place, edge in enumerate([*map(str, SECONDS), "+Inf"]):
            total += self._sum(start + place)
            lines.append(_line("request_seconds_bucket", total, route=route, le=edge))
        lines.append(_line("request_seconds_sum", self._sum(start + BUCKETS - 1), route=route))
        lines.append(_line("request_seconds_count", total, route=route))
        return lines


def _of_experiments(lives: Iterable[Live]) -> list[str]:
    """Return how far the logs have come, and how many reports are held back; the same whichever worker is asked."""
    known = list(lives)
    lines = ["# TYPE maskedbandits_log_seq gauge"]
    lines += [_line("log_seq", live.fold.seq, experiment=live.name) for live in known]
    lines.append("# TYPE maskedbandits_reports_held_back gauge")
    return lines + [_line("reports_held_back", live.fold.held_back, experiment=live.name) for live in known]


def _of_decisions(fates: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return what became of the decisions of every experiment."""
    lines = []
    for fate in FATES if fates else ():
        lines.append(f"# TYPE maskedbandits_decisions_{fate} gauge")
        lines += [_line(f"decisions_{fate}", counts[fate], experiment=name) for name, counts in fates.items()]
    return lines


def _line(name: str, value: float, **labels: str) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())  # all of them are words of ours, or slugs
    told = f"{value:.0f}" if value == int(value) else f"{value:.9g}"
    return f"maskedbandits_{name}{f'{{{inside}}}' if inside else ''} {told}"


def shared_memory(handle: int, workers: int) -> mmap.mmap:
    """Return the memory behind a file that all workers have open."""
    return mmap.mmap(handle, BYTES * workers)
