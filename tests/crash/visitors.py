"""Visitors who decide and report without end, and remember what they were told: a crash test's load and its witness.

A report that is not answered is sent again, with the same bit, until it is: as a device does.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import threading
import time
from typing import Any

PAUSE = 0.05  # seconds before a report is sent again
TIMEOUT = 20.0  # seconds for an answer
AT_ONCE = 20  # decisions


def id_of(token: str) -> bytes:
    """The id of a decision: the 11 bytes before the 16 of the keyed digest."""
    return base64.urlsafe_b64decode(token)[-27:-16]


class Visitors:
    """Threads that ask services on some ports, whichever is there, until they are told to end."""

    def __init__(self, ports: list[int], experiment: str, count: int) -> None:
        self.ports, self.experiment = ports, experiment
        self.acknowledged: dict[bytes, int] = {}  # bits by the ids of decisions
        self.sent: dict[bytes, int] = {}  # whether or not they were acknowledged
        self.statuses: dict[str, int] = {}
        self.faults: list[str] = []
        self._lock, self._ending = threading.Lock(), threading.Event()
        self._threads = [threading.Thread(target=self._visit, args=(place,)) for place in range(count)]

    def begin(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Let everybody finish what they have begun; the services must be there for that."""
        self._ending.set()
        for thread in self._threads:
            thread.join(120.0)
            if thread.is_alive():
                self.faults.append("a visitor waits for an answer for ever")

    def _visit(self, place: int) -> None:
        lots = random.Random(os.urandom(8))
        while not self._ending.is_set():
            decided = self._ask(lots, f"/v1/experiments/{self.experiment}/decisions", {"n": AT_ONCE})
            reports = [{"token": each["token"], "bit": lots.getrandbits(1)} for each in decided["decisions"]]
            with self._lock:
                self.sent.update({id_of(each["token"]): each["bit"] for each in reports})
            if place % 2:
                results = self._ask(lots, "/v1/reports", {"reports": reports})["results"]
            else:
                results = [self._ask(lots, "/v1/reports", each) for each in reports]
            self._remember(reports, [each["status"] for each in results])

    def _remember(self, reports: list[dict[str, Any]], statuses: list[str]) -> None:
        with self._lock:
            for report, status in zip(reports, statuses, strict=True):
                self.statuses[status] = self.statuses.get(status, 0) + 1
                if status in ("accepted", "duplicate"):
                    self.acknowledged[id_of(report["token"])] = report["bit"]
                else:
                    self.faults.append(f"a report was {status}")

    def _ask(self, lots: random.Random, path: str, body: Any) -> Any:
        """Ask until there is an answer: a service that is gone, or asks for patience, is asked again."""
        until = time.monotonic() + 300.0
        while time.monotonic() < until:
            try:
                status, answer = self._asked(lots.choice(self.ports), path, body)
            except (OSError, http.client.HTTPException, ValueError):  # killed, perhaps in the middle of its answer
                time.sleep(PAUSE)
                continue
            if status == 200:
                return answer
            if status != 503:
                self.faults.append(f"{path} answered {status}: {answer}")
            time.sleep(PAUSE)
        raise TimeoutError(f"{path} was not answered for five minutes")

    def _asked(self, port: int, path: str, body: Any) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        try:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()
