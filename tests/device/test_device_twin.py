"""The device behaves like a naive twin in random lives full of accidents."""

import random
from pathlib import Path

import pytest
from device_fakes import START, Clock, Service, opened

from helpers.boundaries import set_delays
from helpers.private import move_decision
from maskedbandits.device import Decision
from maskedbandits.privacy import Randomizer
from naive.device import NaiveDevice

pytest_plugins = ["device_fixtures"]


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 20))])
def test_device_matches_twin(
    seed: int, url: str, service: Service, clock: Clock, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_delays(monkeypatch, lambda: 0.5)
    monkeypatch.setattr(Randomizer, "bit", lambda self, value: int(value))  # to see what was masked
    rng, path = random.Random(seed), folder / "ledger"
    twin = NaiveDevice(cap=12, jitter=100)
    decisions: list[tuple[str, Decision]] = []
    device = opened(url, path=path, cap=12, jitter=100)
    for _ in range(80):
        act = rng.choice(["decide", "decide", "report", "report", "look", "look", "look", "restart", "back"])
        clock.at += rng.choice([6, 30, 200]) if rng.random() < 0.95 else 3000
        if act == "decide":
            service.report_after, service.expires_after = rng.choice([(60.0, 86_400.0), (0.0, 90.0), (500.0, 2000.0)])
            decision = device.decide(visitor=str(len(service.issued)))
            token = list(service.issued)[-1]
            decisions.append((token, decision))
            times = service.report_after, service.expires_after
            assert decision.participate == twin.decide(token, *times, clock.at)
        elif act == "report" and decisions:
            token, decision = rng.choice(decisions)
            reward = rng.randrange(2)
            assert decision.report(reward) == twin.report(token, reward)
        elif act == "restart":
            device.close()
            device = opened(url, path=path, cap=12, jitter=100)
            for _, decision in decisions:
                move_decision(decision, device)
        elif act == "back":
            clock.at = max(clock.at - rng.choice([100, 10_000]), START - 10**6)
        else:
            up = rng.random() < 0.7
            before = len(service.arrivals)
            service.fails = lambda count, up=up: "" if up else "before"  # type: ignore[misc]
            device.send_due()
            sent = [(arrival.token, arrival.bit) for arrival in service.arrivals[before:]]
            assert sorted(sent) == sorted(twin.look(clock.at, up))
    device.close()
    assert service.arrivals
