import math

import numpy as np
import pytest

from maskedbandits import make_policy
from maskedbandits.policies.dp_ucb import noise_bound
from naive.dp_ucb import CentralUCB
from trials import generator
from twins import observe, play_alike


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("arms", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.3, 4.0, 100.0])
def test_dp_ucb_equals_twin(seed: int, arms: int, epsilon: float) -> None:
    means = [[0.9, 0.1, 0.5, 0.4, 0.2][:arms]]
    fast = make_policy("dp-ucb", arms=arms, epsilon=epsilon)
    play_alike(fast, CentralUCB(arms, epsilon), means, 300, seed, fractions=True)


@pytest.mark.parametrize("count", [1, 3, 64, 127])
def test_noise_of_sum_stays_within_bound(count: int) -> None:
    """The bound for t has a probability of t^-4; here t = 2, so that it is missed often enough to be seen."""
    rng = generator(count)
    errors = np.array([public_error(count, 0.7, rng) for _ in range(400)])
    assert np.mean(np.abs(errors) > noise_bound(count, 0.7, 2.0)) <= 2 * 2.0**-4
    level = count.bit_length() - 1
    nodes = (count - (1 << level)).bit_count()
    variance = 2 * (2 / 0.7) ** 2 * (level + 1 + nodes * level**2)
    assert np.mean(errors) == pytest.approx(0.0, abs=5 * math.sqrt(variance / 400))
    assert np.var(errors) == pytest.approx(variance, rel=0.5)


def public_error(count: int, epsilon: float, rng: np.random.Generator) -> float:
    policy = make_policy("dp-ucb", arms=1, epsilon=epsilon)
    for _ in range(count):
        observe(policy, 0, 1, rng)
    return float(policy.snapshot().sums[0] - count)


def test_decision_does_not_raise_index() -> None:
    """With 17 rewards a sum has more noise than with 16, so the arm chosen last was chosen again and again."""
    policy = make_policy("dp-ucb", arms=2, epsilon=10.0, seed=1)
    for _ in range(16):
        for arm in range(2):
            policy.observe(arm, 1.0)
    chosen = [policy.choose() for _ in range(8)]
    assert chosen.count(0) in (3, 4, 5)
