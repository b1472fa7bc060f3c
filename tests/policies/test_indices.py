import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from maskedbandits import Monotone, RandomizedResponse, make_policy
from maskedbandits._numba.jit import interpret
from maskedbandits.corruption import Corruption
from maskedbandits.math.confidence import exploration, plus_level
from maskedbandits.policies.indices import kl, ucb
from naive import SlidingWindowKLUCB, Twin
from specimens import CERTAIN, RR
from trials import examples
from twins import TIE, feedbacks, play_both, responses, stream

CURVES = [Monotone(lambda x: 0.1 + 0.8 * x * x), Monotone(lambda x: 1 - math.sqrt(x))]
corruptions: st.SearchStrategy[Corruption] = st.one_of(responses(), responses(), st.sampled_from(CURVES))

PARAMETERS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "klucb": st.fixed_dictionaries({"c": st.sampled_from([0.0, 1.0, 3.0])}),
    "ucb": st.fixed_dictionaries({"c": st.sampled_from([0.0, 3.0]), "xi": st.sampled_from([0.5, 2.0])}),
    "klucb-plus": st.fixed_dictionaries({"horizon": st.sampled_from([1, 30, 10**6])}),
    "ts": st.just({}),
}


@pytest.mark.parametrize("kind", ["ucb", "klucb-plus", "ts"])
@pytest.mark.parametrize("before", ["sw-"])
@examples(60)
@given(data=st.data())
def test_index_equals_twin(before: str, kind: str, data: st.DataObject) -> None:
    """On everything, and on a window; KL has a test of its own beside the policies."""
    arms = data.draw(st.integers(1, 4), label="arms")
    each = [data.draw(corruptions, label="g") for _ in range(arms)]
    window = data.draw(st.one_of(st.integers(arms, 15), st.just(math.inf)), label="window")
    given = data.draw(PARAMETERS[kind], label="parameters")
    fast = make_policy(f"{before}{kind}-cf", arms=arms, corruption=each, window=window, **given)
    slow = Twin(list(each), kind, window=window, **given)
    play_both(fast, slow, data.draw(feedbacks(30), label="feedbacks"), seed=data.draw(st.integers(0, 99)))


@pytest.mark.parametrize("kind", ["ucb", "klucb-plus", "ts"])
@pytest.mark.parametrize("memory", ["", "sw-"])
def test_index_equals_twin_in_long_plays(kind: str, memory: str) -> None:
    """Longer plays, through several epochs and turns of the ring."""
    rng = np.random.default_rng(len(kind))
    each = [RandomizedResponse(*rng.choice([[0.8, 0.9], [0.2, 0.3], [0.7, 0.7]])) for _ in range(5)]
    given: dict[str, Any] = {"horizon": 150} if kind == "klucb-plus" else {}
    if kind == "ucb":
        given["c"] = 0.0
    window: dict[str, Any] = {"window": 40} if memory else {}
    fast = make_policy(f"{memory}{kind}-cf", arms=5, corruption=each, **window, **given)
    play_both(fast, Twin(list(each), kind, **window, **given), rng.integers(0, 2, 150).astype(float).tolist())


@examples(150)
@given(st.data())
def test_kl_index_equals_paper(data: st.DataObject) -> None:
    arms = data.draw(st.integers(1, 4), label="arms")
    each = [data.draw(corruptions, label="g") for _ in range(arms)]
    window = data.draw(st.one_of(st.integers(arms, 15), st.just(math.inf)), label="window")
    c = data.draw(st.sampled_from([0.0, 3.0]), label="c")
    fast = make_policy("sw-klucb-cf", arms=arms, corruption=each, window=window, c=c)
    play_both(fast, SlidingWindowKLUCB(list(each), window, c), data.draw(feedbacks(35), label="feedbacks"))


@examples(10)
@given(st.integers(0, 2**32), st.integers(2, 12), st.integers(12, 90), st.sampled_from([0.0, 3.0]))
def test_kl_index_equals_paper_in_long_plays(seed: int, arms: int, window: int, c: float) -> None:
    """Longer plays, through several epochs and turns of the ring."""
    rng = np.random.default_rng(seed)
    each = [RandomizedResponse(*rng.choice([[0.8, 0.9], [0.2, 0.3], [0.7, 0.7]])) for _ in range(arms)]
    bits = rng.integers(0, 2, 3 * window).astype(float).tolist()
    fast = make_policy("sw-klucb-cf", arms=arms, corruption=each, window=window, c=c)
    play_both(fast, SlidingWindowKLUCB(list(each), window, c), bits)


@examples(30)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(6, 60))
def test_certain_response_gives_plain_sw_klucb(seed: int, arms: int, window: int) -> None:
    draws = np.random.default_rng(seed).random(150)
    plain = make_policy("sw-klucb-cf", arms=arms, corruption=CERTAIN, window=window)
    slow = SlidingWindowKLUCB([lambda q: q] * arms, window, 3.0)
    chosen = stream(plain, draws)
    for arm, draw in zip(chosen, draws, strict=True):
        scores = slow.indices()
        assert scores[arm] == max(scores) or scores[arm] > max(scores) - TIE
        slow.observe(arm, float(draw < 0.3 + 0.4 * arm / arms))


def test_klucb_takes_feedback_at_face_value() -> None:
    draws = np.random.default_rng(5).random(400)
    plain = make_policy("klucb", arms=4, corruption=RR)
    certain = make_policy("klucb-cf", arms=4, corruption=CERTAIN)
    assert stream(plain, draws) == stream(certain, draws)
    # with one corruption for all arms the two agree, since only the order of the indices counts
    uneven = [RR, RR, RR, RandomizedResponse(0.1, 0.2)]
    masked = make_policy("klucb-cf", arms=4, corruption=uneven)
    assert stream(masked, draws) != stream(make_policy("klucb", arms=4, corruption=uneven), draws)


@given(st.integers(0, 2**32), responses(), st.integers(1, 5), st.integers(5, 60))
def test_flipped_mask_and_feedback_change_nothing(seed: int, g: RandomizedResponse, arms: int, window: int) -> None:
    swapped = RandomizedResponse(1 - g.p00, 1 - g.p11)
    one = make_policy("sw-klucb-cf", arms=arms, corruption=g, window=window)
    other = make_policy("sw-klucb-cf", arms=arms, corruption=swapped, window=window)
    for feedback in np.random.default_rng(seed).integers(0, 2, 150):
        arm = one.choose()
        assert other.choose() == arm
        one.observe(arm, feedback)
        other.observe(arm, 1 - feedback)


@given(st.integers(0, 20), st.integers(1, 20), st.integers(1, 6), corruptions)
def test_more_observations_lower_index(ones: int, zeros: int, times: int, g: Corruption) -> None:
    """At a fixed mean and a fixed level, the index does not grow with the number of observations."""
    window = 2 * times * (ones + zeros) + 1
    indices = []
    for repeat in (1, times, 2 * times):
        policy = make_policy("sw-klucb-cf", arms=2, corruption=[g, RR], window=window)
        for _ in range(window - repeat * (ones + zeros)):
            policy.observe(1, 1)
        for _ in range(repeat):
            for bit in [1] * ones + [0] * zeros:
                policy.observe(0, bit)
        indices.append(policy.indices()[0])
    assert indices[0] >= indices[1] - 1e-12
    assert indices[1] >= indices[2] - 1e-12


@given(st.floats(1, 1e12), st.sampled_from([0.0, 1.0, 3.0]))
def test_exploration_function_equals_twin_and_grows(x: float, c: float) -> None:
    assert exploration(x, c) == pytest.approx(naive.exploration(x, c), rel=1e-12)
    assert exploration(2 * x, c) > exploration(x, c) >= 0


@given(st.floats(1e-3, 1e6), st.integers(1, 50), st.integers(1, 10**7))
def test_plus_level_equals_twin_and_falls_with_count(count: float, arms: int, horizon: int) -> None:
    level = plus_level(count, float(arms), float(horizon))
    assert level == pytest.approx(naive.klucb_plus_level(count, arms, horizon), rel=1e-12)
    assert plus_level(2 * count, float(arms), float(horizon)) <= level


@given(st.integers(1, 50), st.integers(0, 50), st.floats(0, 20), st.sampled_from([0.5, 2.0]))
def test_ucb_is_wider_than_kl_by_pinsker(count: int, ones: int, level: float, xi: float) -> None:
    """Pinsker: a bonus of sqrt(f / 2 N) is never below the KL bound."""
    mean, spread = min(ones, count) / count, level / count
    state = make_policy("ucb-cf", arms=1, corruption=CERTAIN, xi=xi).snapshot()
    bound = interpret(ucb.bound)(state, mean, spread)
    assert bound >= kl.kl_bound(mean, spread) - 1e-9
    assert bound == pytest.approx(mean + math.sqrt(xi * spread))
