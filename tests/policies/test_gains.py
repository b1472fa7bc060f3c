import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import RandomizedResponse, make_policy
from maskedbandits._numba.jit import interpret
from maskedbandits.policies import exp3

probability = st.floats(0, 1)


@given(st.lists(st.tuples(probability, probability).filter(lambda p: p[0] + p[1] > 1.05), min_size=1, max_size=4))
def test_gains_are_rewards_on_average_shrunk_alike_for_all_arms(pairs: list[tuple[float, float]]) -> None:
    responses = [RandomizedResponse(*pair) for pair in pairs]
    ends = [((0 - g(0)) / g.slope, (1 - g(0)) / g.slope) for g in responses]
    floor = min(low for low, _ in ends)
    width = max(high for _, high in ends) - floor
    state = make_policy("exp3s", arms=len(pairs), corruption=responses, horizon=10)._state
    for arm, g in enumerate(responses):
        zero, one = (interpret(exp3.gain_of)(state, arm, y) for y in (0.0, 1.0))
        assert -1e-12 <= zero < one <= 1 + 1e-12
        for mean in (0.0, 0.3, 1.0):
            expected = (mean - floor) / width
            assert g(mean) * one + (1 - g(mean)) * zero == pytest.approx(expected, abs=1e-9)
        if len(set(pairs)) == 1:
            assert (zero, one) == pytest.approx((0, 1))
