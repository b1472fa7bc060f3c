"""Random words, normal and Laplace draws are those of numpy's SFC64."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.math.rng import EDGE, laplace, normal, plain_word, seed_words
from maskedbandits.math.rng import uniform as draw_uniform
from maskedbandits.math.rng import word as draw_word
from trials import INTERPRETED, examples, generator, outside

word, uniform = outside(draw_word), outside(draw_uniform)
MANY = 2_000 if INTERPRETED else 50_000


def words_of(rng: np.random.Generator) -> Any:
    state: Any = rng.bit_generator.state
    return state["state"]["state"]


@pytest.mark.parametrize("draw", [word, plain_word], ids=["compiled", "interpreted"])
@examples(50)
@given(seed=st.integers(0, 2**64))
def test_words_are_those_of_sfc64(draw: Any, seed: int) -> None:
    words, reference = seed_words(seed), generator(seed)
    assert np.array_equal(words, words_of(reference))
    drawn = [int(draw(words)) for _ in range(40)]
    assert drawn == reference.bit_generator.random_raw(40).tolist()
    assert np.array_equal(words, words_of(reference))


def test_seeds_are_those_of_sfc64() -> None:
    assert not np.array_equal(seed_words(), seed_words())
    one, other = (seed_words(seed) for seed in np.random.SeedSequence(3).spawn(2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("seed", [0, 1])
def test_numbers_are_those_of_numpy(seed: int) -> None:
    words, reference = seed_words(seed), generator(seed)
    assert [uniform(words) for _ in range(1000)] == reference.random(1000).tolist()
    drawn = np.array([normal(words) for _ in range(MANY)])
    assert drawn == pytest.approx(reference.standard_normal(MANY), rel=1e-12)
    assert INTERPRETED or np.abs(drawn).max() > EDGE  # the tail was drawn from, too
    drawn = np.array([laplace(words, 2.5) for _ in range(1000)])
    assert drawn == pytest.approx(reference.laplace(0, 2.5, 1000), rel=1e-12)
    assert np.array_equal(words, words_of(reference))
