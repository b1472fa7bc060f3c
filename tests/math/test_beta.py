from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, kstest

import naive
from maskedbandits.math import rng
from maskedbandits.math.beta import LARGE, draw, draw_near
from naive import auto
from trials import examples, generator

SHAPES = [(1.0, 1.0), (1.0, 2.0), (1.5, 1.25), (4.0, 1.0), (3.0, 40.0), (250.5, 249.5), (1.0, 1e4), (1e5, 1e6)]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_draws_have_the_distribution(a: float, b: float) -> None:
    """Kolmogorov-Smirnov with a fixed seed: all eight pass at 0.001 unless the law is wrong (or once in 125 seeds)."""
    words = rng.seed_words(1)
    drawn = np.array([draw(words, a, b) for _ in range(5000)])
    assert kstest(drawn, beta(a, b).cdf).pvalue > 1e-3
    assert np.all((drawn > 0) & (drawn <= 1))


@examples(100)
@given(st.integers(0, 2**32), st.floats(1, 1e6), st.floats(1, 1e6))
def test_it_draws_what_the_published_algorithm_draws(seed: int, a: float, b: float) -> None:
    fast, slow = rng.seed_words(seed), generator(seed)
    for _ in range(5):
        assert draw(fast, a, b) == pytest.approx(naive.draw_beta(slow, a, b), rel=1e-9)
    state: Any = slow.bit_generator.state
    assert np.array_equal(fast, state["state"]["state"])


@pytest.mark.parametrize(("a", "b"), [(1.0, 3.0), (19.0, 400.0), (LARGE, LARGE), (LARGE, 400.0), (2500.0, 1000.0)])
def test_near_draws_have_nearly_the_distribution(a: float, b: float) -> None:
    """Kolmogorov-Smirnov on 20,000 draws: no distance above 0.0138, the 0.1 % point of an exact law."""
    words = rng.seed_words(2)
    drawn = np.array([draw_near(words, a, b, 1.0) for _ in range(20_000)])
    assert kstest(drawn, beta(a, b).cdf).statistic < 0.0138
    words, half = rng.seed_words(2), []
    for _ in range(100):
        half.append(draw_near(words, a, b, 0.5))
    assert half == pytest.approx(a / (a + b) + 0.5 * (drawn[:100] - a / (a + b)), rel=1e-12)


@examples(100)
@given(st.integers(0, 2**32), st.floats(1, 1e4), st.floats(1, 1e4), st.floats(0, 1))
def test_near_draws_are_those_of_the_twin(seed: int, a: float, b: float, width: float) -> None:
    fast, slow = rng.seed_words(seed), generator(seed)
    for _ in range(5):
        assert draw_near(fast, a, b, width) == pytest.approx(auto.draw_near(slow, a, b, width, LARGE), rel=1e-9)
