"""Bounds for the hardest problems: the steps of their proofs, and plays."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate, theory
from maskedbandits.problems import random_segments
from naive import divergence
from trials import examples


@examples(200)
@given(st.integers(2, 50), st.floats(0.02, 1.0), st.floats(1.0, 1e4))
def test_the_constants_of_the_proof(arms: int, slope: float, longer: float) -> None:
    """What the two problems show differs by a divergence of at most 1/2, their means are means, and 61 is enough."""
    steps = math.ceil(longer * 3 * (arms - 1) * max(1.0, 0.25 / slope**2))
    gap = theory.hard_gap(arms, steps, slope)
    assert 0.5 + 2 * gap <= 1 + 1e-12
    assert steps / (arms - 1) * divergence(0.5, 0.5 + 2 * slope * gap) <= 0.5 + 1e-9
    one_segment = steps * gap * math.exp(-0.5) / 8
    assert theory.minimax_lower_bound(steps, 1, arms, slope) <= one_segment
    assert theory.minimax_lower_bound(7 * steps, 7, arms, slope) == pytest.approx(
        7 * theory.minimax_lower_bound(steps, 1, arms, slope)
    )


@pytest.mark.parametrize("name", ["klucb-cf", "ts-cf", "auto", "uniform"])
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_nobody_loses_less_on_both_of_two_hard_problems(name: str, epsilon: float) -> None:
    """The mean of 200 plays: what is measured is several times the bound."""
    mask = RandomizedResponse.from_epsilon(epsilon)
    steps, slope = 2000, mask.slope
    gap = theory.hard_gap(2, steps, slope)
    lost = []
    for second in (0.5, 0.5 + 2 * gap):
        problem = Problem([[0.5 + gap, second]], [0], steps, mask)
        policy = make_policy(name, arms=2, corruption=mask)
        lost.append(simulate(problem, policy, runs=200, checkpoints=1).regret.mean())
    assert max(lost) >= theory.minimax_lower_bound(steps, 1, 2, slope)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, math.inf])
def test_exp3s_stays_below_its_bound(epsilon: float) -> None:
    mask = RandomizedResponse.from_epsilon(epsilon)
    for segments in (1, 5):
        problem = random_segments(4, 20_000, corruption=mask, segments=segments, seed=segments)
        policy = make_policy("exp3s", arms=4, corruption=mask, horizon=20_000, changes=segments)
        lost = simulate(problem, policy, runs=20, checkpoints=1).regret.mean()
        assert lost <= theory.exp3s_bound(20_000, segments, 4, mask.slope)
        assert theory.exp3s_bound(20_000, segments, 4, mask.slope) == pytest.approx(
            theory.exp3s_bound(20_000, segments, 4) / mask.slope
        )


def test_what_the_proof_does_not_cover_is_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        theory.minimax_lower_bound(100, 10, 10)
    for slope in (0.0, -0.5, 1.5, np.nan):
        with pytest.raises(ValueError, match="slope"):
            theory.minimax_lower_bound(10_000, 1, 2, slope)
    with pytest.raises(ValueError, match="arms"):
        theory.minimax_lower_bound(10_000, 1, 1)
