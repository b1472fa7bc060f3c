import pytest

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate
from naive.adswitch import AdSwitch
from naive.exp3 import gains
from specimens import CERTAIN
from twins import play_alike


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("arms", "finest"), [(1, 16.0), (2, 4.0), (3, 2.0), (4, 16.0)])
def test_adswitch_equals_twin(seed: int, arms: int, finest: float) -> None:
    matrices = [(1.0, 1.0), (0.05, 0.0), (1.0, 0.95), (0.95, 1.0)][:arms]
    each = [RandomizedResponse(*one) for one in matrices]
    rewards = [[0.95, 0.1, 0.2, 0.3][:arms], [0.05, 0.9, 0.2, 0.3][:arms]]
    means = [[g(mean) for g, mean in zip(each, row, strict=True)] for row in rewards]
    fast = make_policy("adswitch", arms=arms, corruption=each, horizon=60, strictness=1.0, finest=finest)
    slow = AdSwitch(arms, gains(matrices), 60, 1.0, finest)
    play_alike(fast, slow, means, 200 + 100 * arms, seed)
    assert fast.alarms == slow.episode - 1
    if arms > 1:
        assert slow.evictions > 0
        assert slow.checks > 0
        assert fast.alarms > 0


def test_adswitch_detects_evicted_arm_that_became_best() -> None:
    world = Problem([[0.8, 0.1], [0.8, 1.0]], [0, 4000], 14_000, CERTAIN)
    policy = make_policy("adswitch", arms=2, corruption=CERTAIN, horizon=14_000, strictness=2.0, finest=2.0)
    pulls = simulate(world, policy, runs=4).suboptimal_pulls
    assert pulls[:, 0].max() < 6000  # of the 10,000 steps in which arm 0 is second best
