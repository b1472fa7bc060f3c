"""Guess from the moment of sending whether a device has seen a click: `python -m bench.timing`.

A device with the limits of people's devices serves visits at these limits, on a disk where a write takes 0.4 seconds.
Half of the visitors click, and the device sees it at a random time. Two classifiers are trained on the arrival times of
one half of the visits and tried on the other: the best threshold, and the majority in each of 50 bins. The clock is
simulated, so that the time of a computer under load plays no part; whatever is written moves it on.
"""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from unittest import mock

from maskedbandits.device import Device, device
from maskedbandits.device.http import HttpReply
from maskedbandits.device.outbox import Outbox
from maskedbandits.device.protocol import Timing
from maskedbandits.privacy import Ledger

VISITS = 4000  # half of them with a click
WRITE = 0.4  # seconds that the disk takes for a write
LIMITS = Timing()
Visit = tuple[float, bool]  # arrival after the decision, and whether the device has seen a click


class World:
    """A clock, and a service that answers at once."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0
        self.arrived: float | None = None

    def time(self) -> float:
        """Return what time it is."""
        return self.at

    def post(self, path: str, content: Mapping[str, Any], length: int = 0) -> HttpReply:
        """Answer a question, or take a report."""
        if path == "/v1/reports":
            self.arrived = self.at
            return HttpReply(200, {"status": "accepted"})
        report_at = self.at + LIMITS.min_report_after
        decision = {"token": f"{random.getrandbits(128):032x}", "arm": "plain", "epsilon": 1.0, "participate": True}
        times = {"now": self.at, "report_at": report_at, "expires": report_at + LIMITS.min_window}
        return HttpReply(200, {**decision, **times})

    def slow(self, transaction: Callable[..., Any]) -> Callable[..., Any]:
        """Return a transaction that takes time if it writes."""

        @contextlib.contextmanager
        def slowly(own: Any, begin: str = "BEGIN IMMEDIATE") -> Iterator[sqlite3.Connection]:
            with transaction(own, begin) as connection:
                before = connection.total_changes
                yield connection
                if connection.total_changes != before:
                    self.at += WRITE

        return slowly


def play(visits: int) -> list[Visit]:
    """Return when the reports of some visits arrive."""
    world, rng = World(), random.Random(1)  # noqa: S311 -- when simulated people click
    with contextlib.ExitStack() as stack:
        for kind in (Ledger, Outbox):
            stack.enter_context(mock.patch.object(kind, "_transaction", world.slow(kind._transaction)))
        stack.enter_context(mock.patch.object(device, "time", world))
        own = stack.enter_context(Device("http://127.0.0.1:9", "x", cap=visits, max_epsilon=1, background=False))
        for client in (own._client, own._report_client):
            client.post = world.post  # type: ignore[method-assign]
        return [_visit(own, world, rng, place % 2 == 0) for place in range(visits)]


def _visit(own: Device, world: World, rng: random.Random, clicks: bool) -> Visit:
    decided, world.arrived = world.at, None
    decision = own.decide()
    if clicks:
        world.at += rng.uniform(0, 58)
        decision.report(1)
    while world.arrived is None and own._reporter is not None:
        world.at = max(world.at, own._reporter.next_due(own._client.url) or 0.0)
        own.send_due()
    return (world.arrived or 0.0) - decided, clicks


def threshold(train: list[Visit]) -> Callable[[float], bool]:
    """Return the guess by the threshold that is right most often."""
    ordered = sorted(train)
    clicks, seen, best = sum(click for _, click in train), 0, (0, 0.0, True)
    for place, (time, click) in enumerate(ordered, 1):
        seen += click
        right = seen + (len(train) - place) - (clicks - seen)  # clicks are early
        best = max(best, (right, time, True), (len(train) - right, time, False))
    return lambda time: (time <= best[1]) == best[2]


def bins(train: list[Visit], many: int = 50) -> Callable[[float], bool]:
    """Return the guess by the majority of each bin."""
    low, high = min(train)[0], max(train)[0]

    def place(time: float) -> int:
        return min(max(int((time - low) / (high - low) * many), 0), many - 1)

    balance = [0] * many
    for time, click in train:
        balance[place(time)] += 1 if click else -1
    return lambda time: balance[place(time)] > 0


def main() -> None:
    """Print how often each classifier is right."""
    visits = play(int(sys.argv[1]) if len(sys.argv) > 1 else VISITS)
    half = len(visits) // 2
    train, test = visits[:half], visits[half:]
    sys.stdout.write(
        "| classifier | trained on | tried on | right | 95 % interval |\n| --- | --: | --: | --: | --: |\n"
    )
    for name, learn in (("threshold", threshold), ("50 bins", bins)):
        guess = learn(train)
        right = sum(guess(time) == click for time, click in test) / len(test)
        off = 1.96 * math.sqrt(right * (1 - right) / len(test))
        interval = f"{100 * (right - off):.1f} to {100 * (right + off):.1f} %"
        sys.stdout.write(f"| {name} | {len(train):,} | {len(test):,} | {100 * right:.1f} % | {interval} |\n")


if __name__ == "__main__":
    main()
