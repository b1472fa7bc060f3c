"""Distributions of rewards, and means that are a function of time."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import GaussianNoise, LaplaceNoise, Problem, RandomizedResponse, theory
from maskedbandits.math import rng
from maskedbandits.math.beta import draw_around
from maskedbandits.problems import Beta, Gaussian
from naive.unbounded import draw_around as slowly_drawn
from trials import generator

RR = RandomizedResponse.from_epsilon(1.0)


@given(st.integers(0, 2**32), st.floats(0.001, 0.999), st.floats(0.01, 1e5))
def test_beta_draws_match_naive_draws(seed: int, mean: float, concentration: float) -> None:
    fast, slow = rng.seed_words(seed), generator(seed)
    for _ in range(3):
        assert draw_around(fast, mean, concentration) == pytest.approx(
            slowly_drawn(slow, mean, concentration), abs=1e-9
        )


def test_mean_0_or_1_is_certain() -> None:
    words = rng.seed_words(0)
    assert [draw_around(words, mean, 3.0) for mean in (0.0, 1.0)] == [0.0, 1.0]
    assert [Beta(3.0).draw(np.random.default_rng(0), mean) for mean in (0.0, 1.0)] == [0.0, 1.0]


def test_problem_has_spread_of_feedback() -> None:
    def spread(corruption: Any, rewards: Any = "bernoulli") -> Any:
        return Problem([0.2, 0.8], [0], 10, corruption, rewards=rewards).spread

    assert spread(RR) is None
    assert spread(GaussianNoise(1)) == (pytest.approx(math.sqrt(1.25)), 0.0)
    assert spread(LaplaceNoise(1), Beta(5)) == (pytest.approx(1.5), 1.0)
    assert spread(GaussianNoise(4), Gaussian(3)) == (5.0, 0.0)
    assert spread([RR, GaussianNoise(0)]) == (0.5, 0.0)


def test_noise_keeps_means() -> None:
    problem = Problem([[0.2, 0.8]], [0], 10, [GaussianNoise(3), RR])
    assert problem.feedback_means[0].tolist() == [0.2, RR(0.8)]
    assert problem.is_noisy
    assert not Problem([[0.2, 0.8]], [0], 10, RR).is_noisy


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Problem([0.2, 0.8], [0], 10, RR, rewards="normal"), "rewards = 'normal'"),
        (lambda: Problem([0.2, 0.8], [0], 10, RR, rewards=Gaussian(1)), "cannot.*masked as bits"),
        (lambda: Problem([0.2, 0.8], [0], 10, [GaussianNoise(1), RR], rewards=Gaussian(1)), "cannot.*masked as bits"),
        (lambda: Problem([0.2, 0.8], [0], 10, GaussianNoise(1), liars=0.1), "liars"),
        (lambda: Problem.replay([[0, 1]] * 5, GaussianNoise(1)), "replayed as bits"),
        (lambda: Problem.replay_log([0, 1], [0, 1], LaplaceNoise(1)), "replayed as bits"),
        (lambda: theory.lower_bound(Problem([0.2, 0.8], [0], 10, GaussianNoise(1))), "bounds require feedback"),
        (
            lambda: theory.glr_delays(Problem([0.2, 0.8], [0], 10, GaussianNoise(1)), delta=0.1),
            "bounds require feedback",
        ),
        (lambda: Beta(0), "concentration"),
        (lambda: Gaussian(0), "sigma"),
        (lambda: Gaussian(math.inf), "sigma"),
    ],
)
def test_misfits_are_refused_in_one_line(make: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        make()
    assert "\n" not in str(caught.value)


class TestFunctionOfTime:
    """Problem.from_function calls a function at regular steps."""

    def test_means_hold_until_next_call(self) -> None:
        steps: list[int] = []

        def means_at(step: int) -> list[float]:
            steps.append(step)
            return [step / 100, 0.5, 1 - step / 100]

        problem = Problem.from_function(means_at, 100, RR, resolution=30, rewards=Beta(2))
        assert problem.starts.tolist() == [0, 30, 60, 90]
        assert np.allclose(problem.means, [[0, 0.5, 1], [0.3, 0.5, 0.7], [0.6, 0.5, 0.4], [0.9, 0.5, 0.1]])
        assert (set(steps), problem.law) == ({0, 30, 60, 90}, Beta(2))
        assert problem.corruption == (RR,) * 3

    def test_default_is_a_thousand_calls(self) -> None:
        problem = Problem.from_function(lambda step: [0.5 + 0.4 * math.sin(step / 900), 0.5], 50_000, RR)
        assert problem.segments == 1000
        assert problem.drifts

    @pytest.mark.parametrize(
        ("means_at", "complaint"),
        [
            (lambda step: [0.1, 1.2], r"means_at\(0\) = .*1.2"),
            (lambda step: [0.1, math.nan], "list of numbers"),
            (lambda step: 0.5, r"means_at\(0\) = 0.5"),
            (lambda step: [], "give a list"),
            (lambda step: ["a"], "give a list"),
            (lambda step: [0.1] * (2 if step < 5 else 3), r"means_at\(5\) has 3 means, but means_at\(0\) has 2"),
            ([0.1, 0.2], "means_at = .*: give a function"),
        ],
    )
    def test_bad_function_is_refused_in_one_line(self, means_at: Any, complaint: str) -> None:
        with pytest.raises(ValueError, match=complaint) as caught:
            Problem.from_function(means_at, 10, RR, resolution=5)
        assert "\n" not in str(caught.value)
