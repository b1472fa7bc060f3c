"""Devices of two groups with a real service: it learns what the library does with the same delays."""

from __future__ import annotations

import heapq
import random
from typing import Any

import numpy as np
import pytest
from running import Running
from test_population import AFTER, JITTER, QUICK, SHORTEST, Population, played, population_service

from maskedbandits import make_contextual
from maskedbandits.contextual import masks
from maskedbandits.device import Device

GROUPS = ["young", "old"]
MEANS = [[0.2, 0.4, 0.9, 0.3], [0.9, 0.3, 0.2, 0.4]]
__all__ = ["population_service"]  # a fixture
EPSILON = 3.0  # at which one of four answers says more than a bit


class Crowd(Population):
    """People of both groups come in turn."""

    def __init__(self, address: str, experiment: str, size: int, seed: int) -> None:
        super().__init__(address, experiment, 0, seed)
        values: dict[str, Any] = {"cap": 10**6, "max_epsilon": 4, "jitter": JITTER, "timing": QUICK, "groups": GROUPS}
        values["background"] = False
        self.devices += [Device(address, experiment, group=GROUPS[place % 2], **values) for place in range(size)]

    def visit(self, at: float) -> None:
        """Let one more person come, see, and click or not."""
        place = self.rng.randrange(len(self.devices))
        decision = self.devices[place].decide()
        assert decision.participate, decision.why
        assert decision.arm is not None
        means = MEANS[place % 2]
        mean = means[int(decision.arm)]
        self.regret += max(means) - mean
        assert decision.report(float(self.rng.random() < mean))
        self.await_due(place, at)


def created(service: Running, name: str, policy: str) -> None:
    arms = [{"name": str(place)} for place in range(4)]
    values = {"name": name, "epsilon": EPSILON, "policy": policy, "report_after": AFTER, "arms": arms, "groups": GROUPS}
    status, answer = service.ask("POST", "/v1/experiments", values)
    assert status == 201, answer


def both(address: str, experiment: str, seed: int) -> Crowd:
    return Crowd(address, experiment, 20, seed)


def simulated(policy: str, runs: int, steps: int) -> list[float]:
    """The regrets of the same visits with the library's policy alone, and answers that come as late."""
    rng = random.Random(1)
    truth, _ = masks.truth_and_other(EPSILON, 2)
    regrets = []
    for run in range(runs):
        own = make_contextual(policy, groups=2, arms=4, epsilon=EPSILON, seed=run)
        coming: list[tuple[int, int, Any, int]] = []
        regret = 0.0
        for step in range(steps):
            while coming and coming[0][0] <= step:
                _, _, question, answer = heapq.heappop(coming)
                own.observe(question, answer)
            question, group = own.ask(), rng.randrange(2)
            mean = MEANS[group][question.arm(group)]
            regret += max(MEANS[group]) - mean
            values = 2 * group + int(rng.random() < mean)
            answer = values if rng.random() < truth else rng.choice([each for each in range(4) if each != values])
            heapq.heappush(coming, (step + 1 + rng.randint(SHORTEST, SHORTEST + JITTER), step, question, answer))
        regrets.append(regret)
    return regrets


def test_every_report_of_population_counts(population_service: Running) -> None:
    """With groups the policy observes answers, otherwise bits."""
    _, [bits] = played(population_service, "klucb-cf", 1, 120)
    _, [answers] = played(population_service, "klucb-cf", 1, 120, created, both)
    assert (bits["observations"], bits["refused"]) == (120, {})
    assert (answers["observations"], answers["refused"]) == (120, {})
    assert answers["answers"] == "one of many"


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["klucb-cf", "auto"])
def test_regret_matches_simulation(policy: str, population_service: Running) -> None:
    populations, steps = 16, 800
    regrets, _ = played(population_service, policy, populations, steps, created, both)
    expected = simulated(policy, 100, steps)
    mean, spread = float(np.mean(expected)), float(np.std(expected))
    assert 4 * spread / populations**0.5 < 0.1 * mean  # if they are equal, it fails by chance once in 30,000 times
    assert np.mean(regrets) <= 1.1 * mean
