import numpy as np
import pytest

from maskedbandits import RandomizedResponse, make_policy
from naive.ldp_bernoulli import BernoulliUCB
from twins import TIE


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("arms", [1, 2, 5, 20])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_ldp_bernoulli_equals_twin(seed: int, arms: int, epsilon: float) -> None:
    mask = RandomizedResponse.from_epsilon(epsilon)
    policy, twin = make_policy("ldp-ucb-b", arms=arms, corruption=mask), BernoulliUCB(arms)
    means, world = np.linspace(0.9, 0.5, arms), np.random.default_rng(seed)
    for _ in range(400):
        arm, scores = policy.choose(), twin.scores()
        assert scores[arm] >= max(scores) - TIE
        bit = float(world.random() < mask(float(means[arm])))
        policy.observe(arm, bit)
        twin.observe(arm, bit)
    scale = 2 * mask.p11 - 1  # indices are means of rewards, the twin's are means of reports
    assert 1 - mask.p11 + scale * policy.indices() == pytest.approx(twin.scores())
