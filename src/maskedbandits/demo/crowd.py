"""A crowd of simulated visitors in a changing world: each gets a picture, clicks or not, and sends a masked report.

There are three pictures. Every twenty seconds another one becomes the most popular. The crowd visits one experiment for
each epsilon, so that the page shows the cost of privacy side by side. Clicks are drawn from the world, and reports by
the randomiser of real devices. The page's numbers are counted here, where the truth is known. The service learns from
the reports alone.
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

from maskedbandits.privacy import Randomizer

ARMS = ("sun", "moon", "star")
# The probability of a click, by phase and picture: one picture is always far better than the others.
RATES = ((0.75, 0.30, 0.15), (0.15, 0.75, 0.30), (0.30, 0.15, 0.75))
PHASE_S = 20.0
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)  # the stops of the slider; above them bars differ by chance
TICK_S = 0.2
VISITORS = 30  # of each experiment in a tick
SHOWN_S = 60.0  # of the plot
MAX_BITS = 48  # reports of each arm that are shown
TIMEOUT_S = 30.0
REPORT_AFTER_S = 3  # on the page a visitor takes two seconds to report


def format_name(epsilon: float) -> str:
    """Return the name of the experiment with this epsilon."""
    return f"epsilon-{epsilon:g}".replace(".", "-")


def get_phase(at: float) -> int:
    """Return the phase of the world, a number of seconds after its start."""
    return int(at // PHASE_S) % len(RATES)


def get_rates(at: float) -> tuple[float, ...]:
    """Return the probability of a click on each picture."""
    return RATES[get_phase(at)]


class ServiceClient:
    """A client of the service on this machine, with one connection."""

    def __init__(self, host: str, port: int) -> None:
        self._connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the reply; raise OSError for anything but a success."""
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
        """Close the connection."""
        self._connection.close()


class Visits:
    """The visits of one experiment, and their outcomes in the last minute."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon, self.name = epsilon, format_name(epsilon)
        self.randomizer = Randomizer(epsilon)
        self.ticks: deque[tuple[float, list[int], float]] = deque()  # time, pulls by arm, expected clicks lost
        self.bits: list[deque[int]] = [deque(maxlen=MAX_BITS) for _ in ARMS]

    def create_experiment(self, service: ServiceClient) -> None:
        """Create the experiment; its reports are due soon, as a minute would be long to watch."""
        arms = [{"name": arm} for arm in ARMS]
        times = {"report_after": REPORT_AFTER_S, "expires_after": 120}
        config = {"name": self.name, "arms": arms, "epsilon": self.epsilon, **times}
        service.post("/v1/experiments", config)

    def tick(self, service: ServiceClient, at: float) -> None:
        """Send some visitors."""
        answer = service.post(f"/v1/experiments/{self.name}/decisions", {"n": VISITORS})
        rates, pulls, reports = get_rates(at), [0] * len(ARMS), []
        for decision in answer["decisions"]:
            arm = ARMS.index(decision["arm"])
            clicked = random.random() < rates[arm]  # noqa: S311 -- a simulated click
            bit = self.randomizer.bit(clicked)
            reports.append({"token": decision["token"], "bit": bit})
            self.bits[arm].append(bit)
            pulls[arm] += 1
        service.post("/v1/reports", {"reports": reports})
        lost = sum(count * (max(rates) - rate) for count, rate in zip(pulls, rates, strict=True))
        self.ticks.append((at, pulls, lost))
        while self.ticks[0][0] < at - SHOWN_S:
            self.ticks.popleft()

    def compute_loss(self) -> float:
        """Return the clicks lost per 100 visitors in the last minute, compared with always showing the best arm."""
        return 100.0 * sum(lost for _, _, lost in self.ticks) / max(1, VISITORS * len(self.ticks))


class Crowd:
    """Visits all experiments in a thread until it ends."""

    def __init__(self, service: ServiceClient) -> None:
        self.visits = [Visits(epsilon) for epsilon in EPSILONS]
        self.trouble: OSError | None = None
        self._service, self._ending, self._lock = service, threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._visit, name="maskedbandits-crowd", daemon=True)
        self._start = 0.0

    def start(self) -> None:
        """Create the experiments and start to visit them."""
        for each in self.visits:
            each.create_experiment(self._service)
        self._start = time.monotonic()
        self._thread.start()

    def end(self) -> None:
        """Stop visiting."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(TIMEOUT_S)
        self._service.close()

    @property
    def now(self) -> float:
        """Seconds since the start of the world."""
        return time.monotonic() - self._start

    def _visit(self) -> None:
        try:
            while not self._ending.wait(TICK_S - self.now % TICK_S):
                for each in self.visits:
                    with self._lock:
                        each.tick(self._service, self.now)
        except OSError as error:
            if not self._ending.is_set():
                self.trouble = error

    def describe(self, since: float) -> dict[str, Any]:
        """Return what has happened since a moment, as the page shows it."""
        with self._lock:
            now = self.now
            return {
                "now": now,
                "arms": ARMS,
                "rates": get_rates(now),
                "phase": PHASE_S,
                "best": [row.index(max(row)) for row in RATES],
                "experiments": [
                    {
                        "name": each.name,
                        "epsilon": each.epsilon,
                        "truth": float(each.randomizer.p11),
                        "lost": each.compute_loss(),
                        "ticks": [[at, pulls] for at, pulls, _ in each.ticks if at > since],
                        "bits": [list(bits) for bits in each.bits],
                    }
                    for each in self.visits
                ],
            }
