import numpy as np
import pytest

import naive.weights as naive
from maskedbandits import RandomizedResponse, make_policy
from naive.gains import gains, width
from specimens import CERTAIN, RR
from trials import generator
from twins import choose, play_alike

MATRICES = [(0.9, 0.8), (0.2, 0.3), (0.7, 0.95), (1.0, 1.0)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("arms", [1, 2, 4])
@pytest.mark.parametrize("fractions", [False, True])
def test_exponential_weights_play_as_the_papers_say(seed: int, arms: int, fractions: bool) -> None:
    matrices = MATRICES[:arms]
    gain = gains(matrices)
    each = [RandomizedResponse(*one) for one in matrices]
    means = [[0.9, 0.1, 0.5, 0.4][:arms], [0.1, 0.9, 0.5, 0.6][:arms]]
    fast = make_policy("exp3s", arms=arms, corruption=each, horizon=500, changes=2)
    play_alike(fast, naive.exp3s(arms, gain, 500, 2), means, 500, seed, fractions=fractions)
    if arms > 1:
        fast = make_policy("rexp3", arms=arms, corruption=each, horizon=500, variation=3.0)
        slow = naive.rexp3(arms, gain, 500, 3.0 / width(matrices))
        assert slow.batch < 250
        play_alike(fast, slow, means, 500, seed, fractions=fractions)


def test_one_response_for_all_arms_leaves_the_feedback_as_the_gain() -> None:
    """Then debiasing and scaling the learning rate for the range cancel out."""
    masked = make_policy("exp3s", arms=3, corruption=RR, horizon=400)
    plain = make_policy("exp3s", arms=3, corruption=CERTAIN, horizon=400)
    for step in range(400):
        arm = choose(masked, generator(step))
        assert choose(plain, generator(step)) == arm
        bit = float(np.random.default_rng(step).random() < 0.3 + 0.2 * arm)
        masked.observe(arm, bit)
        plain.observe(arm, bit)
    assert masked.indices() == pytest.approx(plain.indices(), rel=1e-9)
    assert masked.indices().sum() == pytest.approx(1.0)


def test_weights_stay_finite_over_a_long_play() -> None:
    for name in ("exp3s", "rexp3"):
        parameters = {"variation": 0} if name == "rexp3" else {}
        policy = make_policy(name, arms=2, corruption=CERTAIN, horizon=200, **parameters)
        for step in range(20_000):
            if name == "rexp3" and step % 200 == 0:
                assert policy.indices() == pytest.approx([0.5, 0.5])
            policy.observe(0, 1)
            assert np.all(np.isfinite(policy.indices()))
