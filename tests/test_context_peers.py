"""Other ways to learn with groups that the benchmark plays."""

import numpy as np
import pytest
from bench import context_peers as peers
from bench.context import ARMS, GROUPS, without_groups

from maskedbandits import ContextualProblem


def world(horizon: int) -> ContextualProblem:
    means = np.full((GROUPS, ARMS), 0.1)
    means[np.arange(GROUPS), np.arange(GROUPS)] = 0.9  # each group likes an arm of its own
    return ContextualProblem(means, [0], horizon)


def test_peer_noise_matches_its_namesakes() -> None:
    """At delta = 0.01, worked out from their lines: ln 250 = 5.521461, ln 125 = 4.828314."""
    assert peers.DELTA == 0.01
    assert peers.noise_of_han(1) == pytest.approx(19.9385, abs=1e-3)  # 6 times the root of 2 x 5.521461
    assert peers.noise_of_zheng(1) == pytest.approx(8.7894, abs=1e-3)  # 4 times the root of 4.828314
    assert peers.noise_in_comment(1) == pytest.approx(12.4301, abs=1e-3)  # 4 times the root of 2 x 4.828314
    assert peers.noise_of_han(4) == pytest.approx(4.9846, abs=1e-3)


def test_rows_name_their_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "linucb", lambda problem, sigma, *others: sigma)
    named = {name: way for name, way in peers.WAYS.items() if "noise" in name}
    assert len(named) == 5
    for name, way in named.items():
        assert name.endswith(f"noise {way(world(10), 1.0, 1, 1):.1f}/ε")


def test_linucb_learns_without_noise() -> None:
    problem = world(4_000)
    lost = peers.linucb(problem, 1e-3, 1, 1e-3)
    assert lost < 0.2 * peers.uniform(problem, 1, 1, 1)
    assert peers.linucb(problem, 1e-3, 1, 1e-3, root=False) < 0.2 * peers.uniform(problem, 1, 1, 1)


def test_less_information_costs_more_regret() -> None:
    problem = world(20_000)
    ours, triple, alone = (way(problem, 4.0, 2, 1) for way in (peers.ours, peers.triple, without_groups))
    assert ours < triple < alone  # no arm is best for all: without groups four of five visitors lose 0.8
    assert alone == pytest.approx(0.64 * 20_000, rel=0.01)
