"""A crowd of simulated visitors: each asks what to show, clicks or does not, and sends a masked report.

The same crowd visits one experiment for each epsilon, so that what privacy costs can be seen side by side. Clicks are
drawn from the world, reports by the randomiser that real devices have. What the page shows is counted here, where the
truth is known: the service learns from the reports alone.
"""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from maskedbandits.demo import world
from maskedbandits.privacy import Randomizer

TICK = 0.2  # seconds
VISITORS = 30  # of each experiment in a tick
KEPT = 60.0  # seconds that are shown
BITS = 48  # reports of each arm that are shown
TIMEOUT = 30.0
REPORT_AFTER = 3  # seconds: on the page a visitor takes two until a report is made


class Service:
    """A service on this machine, asked over one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what it answers; anything but a success is an OSError."""
        try:
            self._connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            answer = self._connection.getresponse()
            content = answer.read()
        except http.client.HTTPException as error:
            raise OSError(f"the service broke off: {error}") from error
        if answer.status >= 300:
            raise OSError(f"the service answers {path} with {answer.status}")
        return json.loads(content)

    def close(self) -> None:
        """Ask no more."""
        self._connection.close()


class Visits:
    """The visits of one experiment, and what became of them in the last minute."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon, self.name = epsilon, world.name_of(epsilon)
        self.randomizer = Randomizer(epsilon)
        self.ticks: deque[tuple[float, list[int], float]] = deque()  # when, pulls by arm, what they lost
        self.bits: list[deque[int]] = [deque(maxlen=BITS) for _ in world.ARMS]

    def created(self, service: Service) -> None:
        """Have its experiment made; the minute until a report is due otherwise would be long to watch."""
        arms = [{"name": arm} for arm in world.ARMS]
        times = {"report_after": REPORT_AFTER, "expires_after": 120}
        about = {"name": self.name, "arms": arms, "epsilon": self.epsilon, **times}
        service.post("/v1/experiments", about)

    def tick(self, service: Service, at: float) -> None:
        """Let some people visit."""
        answer = service.post(f"/v1/experiments/{self.name}/decisions", {"n": VISITORS})
        likes, pulls, reports = world.rates(at), [0] * len(world.ARMS), []
        for decision in answer["decisions"]:
            arm = world.ARMS.index(decision["arm"])
            clicked = random.random() < likes[arm]  # noqa: S311 -- nobody's click: it is simulated
            bit = self.randomizer.bit(clicked)
            reports.append({"token": decision["token"], "bit": bit})
            self.bits[arm].append(bit)
            pulls[arm] += 1
        service.post("/v1/reports", {"reports": reports})
        lost = sum(many * (max(likes) - rate) for many, rate in zip(pulls, likes, strict=True))
        self.ticks.append((at, pulls, lost))
        while self.ticks[0][0] < at - KEPT:
            self.ticks.popleft()

    def lost(self) -> float:
        """Return how many clicks of 100 visitors were lost in the last minute, to somebody who knows everything."""
        return 100.0 * sum(lost for _, _, lost in self.ticks) / max(1, VISITORS * len(self.ticks))


class Crowd:
    """Visits all experiments, in a thread of its own, until it is told to end."""

    def __init__(self, service: Service) -> None:
        self.visits = [Visits(epsilon) for epsilon in world.EPSILONS]
        self.trouble: OSError | None = None
        self._service, self._ending, self._lock = service, threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._visit, name="maskedbandits-crowd", daemon=True)
        self._began = 0.0

    def start(self) -> None:
        """Make the experiments, and begin to visit them."""
        for each in self.visits:
            each.created(self._service)
        self._began = time.monotonic()
        self._thread.start()

    def end(self) -> None:
        """Stop visiting."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(TIMEOUT)
        self._service.close()

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return time.monotonic() - self._began

    def _visit(self) -> None:
        try:
            while not self._ending.wait(TICK - self.now % TICK):
                for each in self.visits:
                    with self._lock:
                        each.tick(self._service, self.now)
        except OSError as error:
            if not self._ending.is_set():
                self.trouble = error

    def told(self, since: float) -> dict[str, Any]:
        """Return what has happened since a moment, as the page shows it."""
        with self._lock:
            now = self.now
            return {
                "now": now,
                "arms": world.ARMS,
                "rates": world.rates(now),
                "phase": world.PHASE,
                "best": [row.index(max(row)) for row in world.RATES],
                "experiments": [
                    {
                        "name": each.name,
                        "epsilon": each.epsilon,
                        "truth": float(each.randomizer.p11),
                        "lost": each.lost(),
                        "ticks": [[at, pulls] for at, pulls, _ in each.ticks if at > since],
                        "bits": [list(bits) for bits in each.bits],
                    }
                    for each in self.visits
                ],
            }
