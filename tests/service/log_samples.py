"""Logs of simulated services: the real chooser with a simple policy decides, and reports come late."""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maskedbandits.service.arm_selection import WHOLE, ArmSelector
from maskedbandits.service.evaluation.log import Ints
from maskedbandits.service.schemas import MILLION
from maskedbandits.service.state import get_mask
from maskedbandits.service.storage.models import EventRow
from naive import evaluation as naive

Means = Callable[[int], Sequence[float]]


class Guesser:
    """A policy that follows the best mean so far, or draws from around the means."""

    def __init__(self, arms: int, draws_from: str, seed: int) -> None:
        self.arms, self.draws_from = arms, draws_from
        self.sums, self.counts, self.pending = np.zeros(arms), np.zeros(arms), np.zeros(arms)
        self.rng = np.random.default_rng(seed)

    @property
    def kind(self) -> Guesser:
        return self

    def _means(self) -> Any:
        counts = self.counts + self.pending
        return np.where(counts > 0, self.sums / np.maximum(counts, 1), 2.0)

    def sample(self, n: int, among: Any = None) -> Ints:
        if not self.draws_from:
            return np.full(n, int(np.argmax(self._means())))
        widths = 1.0 / np.sqrt(1.0 + self.counts)
        drawn = self._means() + widths * self.rng.standard_normal((n, self.arms))
        return np.asarray(np.argmax(drawn, axis=1))

    def choose(self, n: Any = None, *, among: Any = None) -> int:
        arm = int(self.sample(1)[0])
        self.note(arm)
        return arm

    def note(self, arm: int) -> None:
        self.pending[arm] += 1

    def observe(self, arm: int, bit: int) -> None:
        self.pending[arm] -= 1
        self.sums[arm] += bit
        self.counts[arm] += 1


def settings(epsilon: int, floor: float, holdout: float, report_after: int = 60) -> dict[str, Any]:
    rest = {"policy": "klucb-cf", "parameters": {}, "report_after": report_after, "expires_after": 86400}
    return {"epsilon": epsilon / MILLION, "floor": floor, "holdout": holdout, **rest}


def change(seq: int, hour: int, kind: str, arm: int | None = None, **detail: Any) -> EventRow:
    return EventRow(seq, kind, arm, None, None, None, None, None, hour, json.dumps(detail))


def create_event(arms: int | Sequence[str], config: dict[str, Any], hour: int = 0, default_arm: int = 0) -> EventRow:
    names = [f"arm {place}" for place in range(arms)] if isinstance(arms, int) else arms
    listed = [{"name": name, "payload": {"secret": place}} for place, name in enumerate(names)]
    return change(1, hour, "create", config=config, default_arm=default_arm, arms=listed)


def report(
    seq: int, hour: int, arm: int, bit: int, probability: int, epsilon: int = MILLION, flags: int = 0
) -> EventRow:
    return EventRow(seq, "report", arm, bit, epsilon, probability, flags, None, hour, None)


def simulate_log(
    means: Sequence[float] | Means,
    reports: int,
    *,
    seed: int,
    epsilon: int = MILLION,
    floor: float = 0.05,
    holdout: float = 0.0,
    draws_from: str = "",
    delay: Callable[[random.Random], float] = lambda rng: 0.0,
) -> list[EventRow]:
    """Return the log of a service after a number of decisions, all of which are reported."""
    at: Means = means if callable(means) else lambda decision: means
    arms, rng, truth = len(at(0)), random.Random(seed), get_mask(epsilon).p00
    random.seed(seed)  # of the chooser
    policy = Guesser(arms, draws_from, seed)
    selector = ArmSelector(policy, range(arms), floor, holdout, 0)  # type: ignore[arg-type]  # it asks for no more
    events = [create_event(arms, settings(epsilon, floor, holdout))]
    waiting: list[tuple[float, int, int, int, int, int]] = []
    for decision in range(reports):
        arm, probability, flags = selector.decide()
        reward = rng.random() < at(decision)[arm]
        bit = int(reward == (rng.random() < truth))
        heapq.heappush(waiting, (decision + delay(rng), decision, arm, bit, probability, flags))
        while waiting and (waiting[0][0] <= decision or decision == reports - 1):
            _, _, arm, bit, probability, flags = heapq.heappop(waiting)
            events.append(report(len(events) + 1, len(events) // 1000, arm, bit, probability, epsilon, flags))
            policy.observe(arm, bit)
            selector.mark_stale()
    return events


def with_probabilities(events: Sequence[EventRow], probability_of: Callable[[EventRow], float]) -> list[EventRow]:
    """Return a log whose probabilities are others."""
    return [
        event
        if event.probability is None
        else event._replace(probability=min(WHOLE, max(1, round(probability_of(event)))))
        for event in events
    ]


def to_naive(events: list[EventRow], number: Callable[[Any], Any] = float) -> list[naive.Event]:
    """A log as the twin reads it."""
    most = max(get_mask(event.epsilon).slope for event in events if event.epsilon)
    found = []
    for event in events:
        detail = {} if event.detail is None else json.loads(event.detail)
        config = detail.get("config", {"floor": 0, "holdout": 0, "report_after": 0})
        known = naive.Event(event.kind, event.hour, -1 if event.arm is None else event.arm)
        known.floor, known.holdout = config["floor"] > 0, config["holdout"] > 0
        known.default, known.arms = detail.get("default_arm", 0), len(detail.get("arms", ()))
        known.wait = math.ceil((config["report_after"] + 1200) / 3600)
        if event.kind == "report":
            assert event.epsilon
            assert event.probability
            assert event.flags is not None
            mask = get_mask(event.epsilon)
            slope = number(mask.p00) * 2 - 1
            known.reward = (number(event.bit) - (1 - number(mask.p00))) / slope
            known.worth = (slope / (slope if mask.slope == most else number(most))) ** 2
            known.probability, known.subset = (
                number(event.probability) / WHOLE,
                bool(event.flags & (4 | 16)),
            )  # left out, or held back
        found.append(known)
    return found


def draw_log(seed: int, reports: int = 60) -> list[EventRow]:
    """Return a log with every kind of event: arms, settings, epsilons and subsets change."""
    rng = random.Random(seed)
    floors = [rng.choice([0.0, 0.1]), rng.choice([0.0, 0.1])]
    events = [create_event(2, settings(MILLION, floors[0], rng.choice([0.0, 0.2])), default_arm=rng.randrange(2))]
    arms, hour, can_go = 2, 0, [1]
    while len(events) < reports:
        seq, draw = len(events) + 1, rng.random()
        hour += rng.random() < 0.15
        if draw < 0.04:
            events.append(change(seq, hour, "arm", arms, name=f"arm {arms}"))
            can_go.append(arms)
            arms += 1
        elif draw < 0.06 and can_go:
            events.append(change(seq, hour, "retire", can_go.pop(rng.randrange(len(can_go))), name="gone"))
        elif draw < 0.09:
            config = settings(MILLION, rng.choice(floors), rng.choice([0.0, 0.2]), rng.choice([60, 4000]))
            events.append(change(seq, hour, "config", config=config, default_arm=0))
        elif draw < 0.11:
            events.append(change(seq, hour, "status", status="paused"))
        else:
            given = (rng.randrange(arms), rng.randrange(2), rng.randrange(WHOLE // 4, WHOLE + 1))
            epsilon, flags = rng.choice([MILLION, MILLION, 2 * MILLION, 10]), rng.choice([0, 0, 0, 1, 4])
            events.append(report(seq, hour, *given, epsilon, flags))
    return events
