"""Devices of a population with a real service: learning from masked, late reports matches the simulation.

Devices live on a clock of their own, which runs as fast as they can ask; the service runs on the machine's. A step is a
second of theirs. So a report comes as many steps late as ``report_after`` and the device's delay have seconds.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from running import Running, running

from children import wait_until
from helpers.boundaries import set_device_clock
from helpers.private import next_due
from maskedbandits import Problem, make_policy, simulate
from maskedbandits.device import Device, Timing
from maskedbandits.privacy import Randomizer

START = 1_800_000_000.0
MEANS = [0.2, 0.4, 0.8, 0.3]
EPSILON = 2.0
AFTER, JITTER = 175, 50  # seconds
SHORTEST = AFTER + JITTER // 2  # from a decision to its report: half of the jitter passes before the random part
QUICK = Timing(min_jitter=0.0)  # no person owns these devices


class Clock:
    def __init__(self) -> None:
        self.at = START

    def time(self) -> float:
        return self.at


class Population:
    """Devices that visit one experiment in turn, each with its own ledger."""

    def __init__(self, address: str, experiment: str, size: int, seed: int, **options: Any) -> None:
        values: dict[str, Any] = {"cap": 10**6, "max_epsilon": 4, "jitter": JITTER, "background": False, **options}
        values["timing"] = QUICK
        self.devices = [Device(address, experiment, **values) for _ in range(size)]
        self.turn = itertools.cycle(self.devices)
        self.rng = random.Random(seed)
        self.waiting: list[tuple[float, int]] = []  # when a device has something to do, and which
        self.regret = 0.0
        self.sent = 0

    def visit(self, at: float) -> None:
        """Let one more person come, see, and click or not."""
        own = next(self.turn)
        decision = own.decide()
        assert decision.participate, decision.why
        assert decision.arm is not None
        mean = MEANS[int(decision.arm)]
        self.regret += max(MEANS) - mean
        assert decision.report(float(self.rng.random() < mean))
        self.await_due(self.devices.index(own), at)

    def catch_up(self, at: float) -> None:
        """Send all reports that are due."""
        while self.waiting and self.waiting[0][0] <= at:
            _, place = heapq.heappop(self.waiting)
            self.sent += self.devices[place].send_due()
            self.await_due(place, at)

    def await_due(self, place: int, at: float) -> None:
        due = next_due(self.devices[place])
        if due is not None:
            heapq.heappush(self.waiting, (max(due, at + 0.5), place))

    def close(self) -> None:
        for own in self.devices:
            own.close()


@pytest.fixture(scope="module")
def population_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(f"sqlite:///{tmp_path_factory.mktemp('population')}/bandits.db") as service:
        service.wait_until_ready()
        yield service


def created(service: Running, name: str, policy: str) -> None:
    arms = [{"name": str(place)} for place in range(len(MEANS))]
    values = {"name": name, "epsilon": EPSILON, "policy": policy, "report_after": AFTER, "arms": arms}
    status, answer = service.ask("POST", "/v1/experiments", values)
    assert status == 201, answer


def state_of(service: Running, name: str) -> dict[str, Any]:
    status, state = service.ask("GET", f"/v1/experiments/{name}/state")
    assert status == 200, state
    assert isinstance(state, dict)
    return state


def settled(service: Running, name: str, steps: int) -> bool:
    """Tell whether the service has observed all reports and counted all decisions."""
    state = state_of(service, name)
    return (state["observations"], sum(state["issued"]), sum(state["pending"])) == (steps, steps, 0)


def everybody(address: str, experiment: str, seed: int) -> Population:
    return Population(address, experiment, 40, seed)


def played(
    service: Running,
    policy: str,
    populations: int,
    steps: int,
    create: Callable[[Running, str, str], None] = created,
    people: Callable[[str, str, int], Population] = everybody,
) -> tuple[list[float], list[dict[str, Any]]]:
    """Let populations visit an experiment each, step by step; return their regrets, and the states in the end."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        set_device_clock(patch, clock)
        names = [f"{people.__name__}-{policy}-{number}" for number in range(populations)]
        for name in names:
            create(service, name, policy)
        crowds = [people(service.address, name, seed) for seed, name in enumerate(names)]
        for _ in range(steps):
            clock.at += 1
            for crowd in crowds:
                crowd.catch_up(clock.at)
                crowd.visit(clock.at)
        while any(crowd.waiting for crowd in crowds):
            clock.at += 1
            for crowd in crowds:
                crowd.catch_up(clock.at)
        assert [crowd.sent for crowd in crowds] == [steps] * populations
        for crowd in crowds:
            crowd.close()
        for name in names:
            wait_until(partial(settled, service, name, steps), service.process)
        return [crowd.regret for crowd in crowds], [state_of(service, name) for name in names]


def simulated(policy: str, steps: int) -> tuple[float, float]:
    """The regret of the same visits in a simulation, with the same delays, and its standard deviation."""
    mask = Randomizer(EPSILON).corruption
    problem = Problem([MEANS], starts=[0], horizon=steps, corruption=mask)
    made = make_policy(policy, arms=len(MEANS), corruption=mask)
    delays = list(range(SHORTEST, SHORTEST + JITTER + 1))
    result = simulate(problem, made, runs=400, seed=1, checkpoints=1, delay=delays, progress=False)
    return float(result.regret.mean()), float(result.regret.std())


@pytest.mark.slow  # test_population_groups has few reports of both kinds
@pytest.mark.parametrize("policy", ["klucb-cf", "auto"])
def test_regret_matches_simulation(policy: str, population_service: Running) -> None:
    populations, steps = 20, 600
    regrets, _ = played(population_service, policy, populations, steps)
    expected, spread = simulated(policy, steps)
    assert 4 * spread / populations**0.5 < 0.1 * expected  # if they are equal, it fails by chance once in 30,000 times
    assert np.mean(regrets) <= 1.1 * expected
