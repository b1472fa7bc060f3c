import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive.exp3 as naive
from maskedbandits import RandomizedResponse, make_policy
from maskedbandits._numba.jit import interpret
from maskedbandits.policies import exp3
from naive.exp3 import gains, width
from specimens import CERTAIN, RR
from trials import generator
from twins import choose, play_alike

PROBABILITY = st.floats(0, 1)
MATRICES = [(0.9, 0.8), (0.2, 0.3), (0.7, 0.95), (1.0, 1.0)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("arms", [1, 2, 4])
@pytest.mark.parametrize("fractions", [False, True])
def test_exp3_equals_twin(seed: int, arms: int, fractions: bool) -> None:
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


def test_common_mask_leaves_feedback_as_gain() -> None:
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


def test_weights_stay_finite_in_long_plays() -> None:
    for name in ("exp3s", "rexp3"):
        parameters = {"variation": 0} if name == "rexp3" else {}
        policy = make_policy(name, arms=2, corruption=CERTAIN, horizon=200, **parameters)
        for step in range(20_000):
            if name == "rexp3" and step % 200 == 0:
                assert policy.indices() == pytest.approx([0.5, 0.5])
            policy.observe(0, 1)
            assert np.all(np.isfinite(policy.indices()))


@given(st.lists(st.tuples(PROBABILITY, PROBABILITY).filter(lambda p: p[0] + p[1] > 1.05), min_size=1, max_size=4))
def test_gains_shrink_rewards_equally_for_all_arms(pairs: list[tuple[float, float]]) -> None:
    responses = [RandomizedResponse(*pair) for pair in pairs]
    ends = [((0 - g(0)) / g.slope, (1 - g(0)) / g.slope) for g in responses]
    floor = min(low for low, _ in ends)
    width = max(high for _, high in ends) - floor
    state = make_policy("exp3s", arms=len(pairs), corruption=responses, horizon=10).snapshot()
    for arm, g in enumerate(responses):
        zero, one = (interpret(exp3.gain_of)(state, arm, y) for y in (0.0, 1.0))
        assert -1e-12 <= zero < one <= 1 + 1e-12
        for mean in (0.0, 0.3, 1.0):
            expected = (mean - floor) / width
            assert g(mean) * one + (1 - g(mean)) * zero == pytest.approx(expected, abs=1e-9)
        if len(set(pairs)) == 1:
            assert (zero, one) == pytest.approx((0, 1))
