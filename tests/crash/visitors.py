"""Visitors that decide and report in a loop, and record every reply: the load of a crash test and its witness.

Like a device, they send a report with the same bit until it gets a reply. Every report has a distinct epsilon, which
marks it in the log even after the id of its decision has been dropped. Now and then an earlier report is sent once
more, before or after its expiry. None may be accepted twice.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

PAUSE_S = 0.05  # seconds before a report is sent again
TIMEOUT_S = 20.0  # seconds for an answer
AT_ONCE = 20  # decisions
EPSILON = 4  # of the experiment; the epsilons of the reports are millionths below
MILLION = 1_000_000
READ_BY_S = 5.0  # seconds after which every service has read a report that another has acknowledged
MAX_EARLIER = 10_000  # reports of a visitor that may be sent once more


class Report(NamedTuple):
    """A report: its body, the epsilon in millionths that marks it, its bit or answer, and the expiry of its token."""

    body: dict[str, Any]
    mark: int
    said: int
    expires: float


class Visitors:
    """Threads that send requests to services on some ports until they end."""

    def __init__(
        self, ports: list[int], experiment: str, count: int, now: Callable[[], float], groups: int = 0
    ) -> None:
        self.ports, self.experiment, self._now = ports, experiment, now
        self._what = "answer" if groups else "bit"
        self._answers = 2 * groups or 2
        self.acknowledged: dict[int, int] = {}  # bits, or answers, by their marks
        self.sent: dict[int, int] = {}  # whether or not they were acknowledged
        self.statuses: Counter[str] = Counter()
        self.sent_again: Counter[str] = Counter()  # statuses of reports sent again after their acknowledgement
        self.faults: list[str] = []
        self._lock, self._ending = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._visit, args=(place,)) for place in range(count)]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Let all threads finish; the services must be running."""
        self._ending.set()
        for thread in self._threads:
            thread.join(120.0)
            if thread.is_alive():
                self.faults.append("a visitor waits for an answer for ever")

    def _visit(self, place: int) -> None:
        rng = random.Random(os.urandom(8))
        earlier: deque[tuple[Report, float]] = deque(maxlen=MAX_EARLIER)
        while not self._ending.is_set():
            decided = self._ask(rng, f"/v1/experiments/{self.experiment}/decisions", {"n": AT_ONCE})
            reports = [self._draw_report(rng, each) for each in decided["decisions"]]
            if place % 2:
                results = self._ask(rng, "/v1/reports", {"reports": [each.body for each in reports]})["results"]
            else:
                results = [self._ask(rng, "/v1/reports", each.body) for each in reports]
            known = self._record(reports, [each["status"] for each in results])
            earlier += [(each, time.monotonic()) for each in known]
            if earlier and not self._ending.is_set():
                again, since = rng.choice(earlier)
                if time.monotonic() > since + READ_BY_S:
                    self._look_again(again, self._ask(rng, "/v1/reports", again.body)["status"])

    def _draw_report(self, rng: random.Random, decision: dict[str, Any]) -> Report:
        said = rng.randrange(self._answers)
        with self._lock:
            mark = EPSILON * MILLION - len(self.sent)
            self.sent[mark] = said
        body = {"token": decision["token"], self._what: said, "epsilon": mark / MILLION}
        return Report(body, mark, said, decision["expires"])

    def _record(self, reports: list[Report], statuses: list[str]) -> list[Report]:
        """Record the statuses of reports, and return the acknowledged ones."""
        known = []
        with self._lock:
            for report, status in zip(reports, statuses, strict=True):
                self.statuses[status] += 1
                if status in ("accepted", "duplicate"):
                    self.acknowledged[report.mark] = report.said
                    known.append(report)
                elif status != "late" or self._now() < report.expires:  # while a service starts, a token may expire
                    self.faults.append(f"a report was {status}")
        return known

    def _look_again(self, report: Report, status: str) -> None:
        with self._lock:
            self.sent_again[status] += 1
            if status != "duplicate" and (status != "late" or self._now() < report.expires):
                self.faults.append(f"a report that had been acknowledged was {status}")

    def _ask(self, rng: random.Random, path: str, body: Any) -> Any:
        """Send a request until there is a reply; try again when a service is down or not ready."""
        until = time.monotonic() + 300.0
        while time.monotonic() < until:
            try:
                status, answer = self._send(rng.choice(self.ports), path, body)
            except (OSError, http.client.HTTPException, ValueError):  # killed, perhaps in the middle of its answer
                time.sleep(PAUSE_S)
                continue
            if status == 410 and answer.get("code") == "late":  # as a batch would say it
                return {"status": "late"}
            if status == 200:
                return answer
            if status != 503:
                self.faults.append(f"{path} answered {status}: {answer}")
            time.sleep(PAUSE_S)
        raise TimeoutError(f"{path} was not answered for five minutes")

    def _send(self, port: int, path: str, body: Any) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        try:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()
