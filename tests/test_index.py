import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from maskedbandits import Monotone, RandomizedResponse, make_policy
from maskedbandits.core import index
from maskedbandits.corruption import Corruption
from naive import Twin
from twins import examples, feedbacks, play_both, responses

CURVES = [Monotone(lambda x: 0.1 + 0.8 * x * x), Monotone(lambda x: 1 - math.sqrt(x))]
corruptions: st.SearchStrategy[Corruption] = st.one_of(responses(), responses(), st.sampled_from(CURVES))

PARAMETERS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "klucb": st.fixed_dictionaries({"c": st.sampled_from([0.0, 1.0, 3.0])}),
    "ucb": st.fixed_dictionaries({"c": st.sampled_from([0.0, 3.0]), "xi": st.sampled_from([0.5, 2.0])}),
    "klucb-plus": st.fixed_dictionaries({"horizon": st.sampled_from([1, 30, 10**6])}),
    "ts": st.just({}),
}


@pytest.mark.parametrize("kind", ["ucb", "klucb-plus", "ts"])
@examples(120)
@given(data=st.data())
def test_every_index_is_the_naive_one(kind: str, data: st.DataObject) -> None:
    """On everything, and on a window; KL has a test of its own beside the policies."""
    arms = data.draw(st.integers(1, 4), label="arms")
    each = [data.draw(corruptions, label="g") for _ in range(arms)]
    window = data.draw(st.one_of(st.integers(arms, 15), st.just(math.inf)), label="window")
    given = data.draw(PARAMETERS[kind], label="parameters")
    fast = make_policy(f"sw-{kind}-cf", arms=arms, corruption=each, window=window, **given)
    slow = Twin(list(each), kind, window=window, **given)
    play_both(fast, slow, data.draw(feedbacks(30), label="feedbacks"), seed=data.draw(st.integers(0, 99)))


@pytest.mark.parametrize("kind", ["ucb", "klucb-plus", "ts"])
@pytest.mark.parametrize("memory", ["", "sw-"])
def test_every_index_goes_on_as_the_naive_one(kind: str, memory: str) -> None:
    """Longer plays, through several epochs and turns of the ring."""
    rng = np.random.default_rng(len(kind))
    each = [RandomizedResponse(*rng.choice([[0.8, 0.9], [0.2, 0.3], [0.7, 0.7]])) for _ in range(5)]
    given: dict[str, Any] = {"horizon": 150} if kind == "klucb-plus" else {}
    if kind == "ucb":
        given["c"] = 0.0
    window: dict[str, Any] = {"window": 40} if memory else {}
    fast = make_policy(f"{memory}{kind}-cf", arms=5, corruption=each, **window, **given)
    play_both(fast, Twin(list(each), kind, **window, **given), rng.integers(0, 2, 150).astype(float).tolist())


@given(st.floats(1, 1e12), st.sampled_from([0.0, 1.0, 3.0]))
def test_exploration_is_the_naive_one_and_grows(x: float, c: float) -> None:
    assert index.exploration(x, c) == pytest.approx(naive.exploration(x, c), rel=1e-12)
    assert index.exploration(2 * x, c) > index.exploration(x, c) >= 0


@given(st.floats(1e-3, 1e6), st.integers(1, 50), st.integers(1, 10**7))
def test_the_level_of_plus_is_the_naive_one_and_shrinks_with_the_count(count: float, arms: int, horizon: int) -> None:
    level = index.plus_level(count, arms, horizon)
    assert level == pytest.approx(naive.klucb_plus_level(count, arms, horizon), rel=1e-12)
    assert index.plus_level(2 * count, arms, horizon) <= level


@given(st.integers(1, 50), st.integers(0, 50), st.floats(0, 20), st.sampled_from([0.5, 2.0]))
def test_ucb_is_wider_than_kl_by_pinsker(count: int, ones: int, level: float, xi: float) -> None:
    """Pinsker: a bonus of sqrt(f / 2 N) is never below the KL bound."""
    mean, spread = min(ones, count) / count, level / count
    assert index.ucb_bound(mean, spread, 0.5) >= index.kl_bound(mean, spread) - 1e-9
    assert index.ucb_bound(mean, spread, xi) == pytest.approx(mean + math.sqrt(xi * spread))
