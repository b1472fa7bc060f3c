import math

import pytest

from maskedbandits import make_policy
from naive.ldp_laplace import LaplaceUCB
from twins import play_alike


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("arms", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.3, 4.0, 100.0])
def test_ldp_laplace_equals_twin(seed: int, arms: int, epsilon: float) -> None:
    means = [[0.9, 0.1, 0.5, 0.4, 0.2][:arms]]
    play_alike(make_policy("ldp-ucb-l", arms=arms, epsilon=epsilon), LaplaceUCB(arms, epsilon), means, 300, seed)


def test_without_noise_it_is_ucb_with_initial_rounds() -> None:
    free = make_policy("ldp-ucb-l", arms=2, epsilon=math.inf)
    for _ in range(400):
        arm = free.choose()
        free.observe(arm, float(arm))
    log = math.log(401)
    counts = free.snapshot().counts
    assert counts.sum() == 400
    assert free.indices() == pytest.approx([math.sqrt(2 * log / counts[0]), 1 + math.sqrt(2 * log / counts[1])])
