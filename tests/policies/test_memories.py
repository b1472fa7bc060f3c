import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import Policy, RandomizedResponse, make_policy
from naive import Twin
from specimens import CERTAIN, RR
from specimens import LONG_INDICES as INDICES
from specimens import LONG_MEMORIES as MEMORIES
from trials import examples, generator
from twins import TIE, bits, choose, feedbacks, play_both, responses, stream


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("before", ["d-"])
@examples(60)
@given(data=st.data())
def test_discount_equals_twin(before: str, kind: str, data: st.DataObject) -> None:
    arms = data.draw(st.integers(1, 4), label="arms")
    each = [data.draw(responses(), label="g") for _ in range(arms)]
    gamma = data.draw(st.sampled_from([0.1, 0.5, 0.9, 0.999]), label="gamma")
    fast = make_policy(f"{before}{kind}-cf", arms=arms, corruption=each, gamma=gamma, **INDICES[kind])
    slow = Twin(list(each), kind, gamma=gamma, **INDICES[kind])
    play_both(fast, slow, data.draw(feedbacks(25), label="feedbacks"), seed=data.draw(st.integers(0, 99)))


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("before", ["d-"])
def test_discount_equals_twin_in_long_plays(before: str, kind: str) -> None:
    """Through several epochs."""
    each = [RandomizedResponse(0.8, 0.9), RandomizedResponse(0.2, 0.3), RR, RR]
    fast = make_policy(f"{before}{kind}-cf", arms=4, corruption=each, gamma=0.99, **INDICES[kind])
    play_both(fast, Twin(list(each), kind, gamma=0.99, **INDICES[kind]), bits(3, 200))


def recent(policy: Policy, twin: Twin, steps: int) -> None:
    """Keep of the twin's history what a discount of 0.5 can still show, so that long plays stay cheap."""
    twin.history = twin.history[-80:]
    assert policy.observations == steps


@pytest.mark.plain
@pytest.mark.parametrize("kind", ["ucb", "ts"])
def test_large_weights_are_scaled_down(kind: str) -> None:
    """At a discount of 0.5 weights pass 1e100 every 333 steps."""
    given = INDICES[kind]
    fast = make_policy(f"d-{kind}-cf", arms=3, corruption=RR, gamma=0.5, **given)
    slow = Twin([RR] * 3, kind, gamma=0.5, **given)
    feedbacks = bits(4, 800)
    for begin in range(0, 800, 40):
        play_both(fast, slow, feedbacks[begin : begin + 40], seed=begin)
        recent(fast, slow, begin + 40)


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from([0.0, 3.0]))
def test_endless_window_is_klucb_cf(seed: int, arms: int, c: float) -> None:
    draws = np.random.default_rng(seed).random(200)
    endless = make_policy("sw-klucb-cf", arms=arms, corruption=RR, window=math.inf, c=c)
    long = make_policy("sw-klucb-cf", arms=arms, corruption=RR, window=200, c=c)
    stationary = make_policy("klucb-cf", arms=arms, corruption=RR, c=c)
    assert stream(endless, draws) == stream(stationary, draws) == stream(long, draws)


def test_fractions_accumulate_no_rounding_errors() -> None:
    policy = make_policy("sw-klucb-cf", arms=2, corruption=CERTAIN, window=10)
    rng = np.random.default_rng(0)
    recent: list[tuple[int, float]] = []
    for feedback in rng.random(20_000):
        arm = policy.choose()
        policy.observe(arm, feedback)
        recent = [*recent[-9:], (arm, feedback)]
    for arm in range(2):
        seen = [feedback for chosen, feedback in recent if chosen == arm]
        assert policy.estimates()[arm] == pytest.approx(math.fsum(seen) / len(seen), abs=1e-14)


# klucb-plus with other memories is a rare pair (conftest.py)
@pytest.mark.parametrize("kind", ["klucb", "ucb", "ts", pytest.param("klucb-plus", marks=pytest.mark.slow)])
@pytest.mark.plain
class TestLimits:
    """Memories that come to the same."""

    @staticmethod
    def play(policy: Policy, seed: int, length: int = 150) -> tuple[list[int], np.ndarray[Any, Any]]:
        rng, policy_rng = np.random.default_rng(seed), generator(seed)
        chosen = []
        for draw in rng.random(length):
            chosen.append(choose(policy, policy_rng))
            policy.observe(chosen[-1], float(draw < 0.3 + 0.4 * chosen[-1] / policy.arms))
        return chosen, policy.indices()

    @examples(20)
    @given(seed=st.integers(0, 2**32), arms=st.integers(1, 5))
    def test_endless_window_and_restart_at_0_forget_nothing(self, kind: str, seed: int, arms: int) -> None:
        given = {"arms": arms, "corruption": RR, **INDICES[kind]}
        expected, indices = self.play(make_policy(f"{kind}-cf", **given), seed)
        same: list[tuple[str, dict[str, Any]]] = [
            (f"sw-{kind}-cf", {"window": math.inf}),
            (f"sw-{kind}-cf", {"window": 150}),
            (f"{kind}-cf", {"restarts": [0]}),
            (f"oracle-{kind}-cf", {"restarts": [0]}),
            (f"oracle-{kind}-cf", {"restarts": []}),
        ]
        if "horizon" not in INDICES[kind]:
            same.append((f"{kind}-cf", {"restarts": "doubling"}))
        for name, memory in same:
            chosen, got = self.play(make_policy(name, **given, **memory), seed)
            assert chosen == expected
            assert np.array_equal(got, indices)

    @examples(20)
    @given(seed=st.integers(0, 2**32), arms=st.integers(1, 5))
    def test_discount_near_1_forgets_almost_nothing(self, kind: str, seed: int, arms: int) -> None:
        """Choices are equal, but for ties, which the slightly older observations decide."""
        given = {"arms": arms, "corruption": RR, **INDICES[kind]}
        patient, fading = make_policy(f"{kind}-cf", **given), make_policy(f"d-{kind}-cf", gamma=1 - 1e-12, **given)
        rng, policy_rng, same = np.random.default_rng(seed), generator(seed), generator(seed)
        for bit in rng.integers(0, 2, 100):
            expected, got = patient.indices(), fading.indices()
            finite = np.isfinite(expected)
            assert np.array_equal(finite, np.isfinite(got))
            assert np.allclose(expected[finite], got[finite], rtol=0, atol=TIE)
            arm, other = choose(patient, policy_rng), choose(fading, same)
            assert arm == other or (kind != "ts" and expected[other] > expected[arm] - TIE)
            patient.observe(arm, bit)
            fading.expire(other)
            fading.observe(arm, bit)

    @examples(20)
    @given(seed=st.integers(0, 2**32), order=st.permutations(range(5)), memory=st.sampled_from(["", "sw-", "d-"]))
    def test_permuted_arms_give_permuted_play(self, kind: str, seed: int, order: list[int], memory: str) -> None:
        """Relabelling arms relabels indices; choices too, but for ties and random draws."""
        given = {**MEMORIES[memory], **INDICES[kind], "arms": 5}
        each = [RandomizedResponse(0.6 + 0.05 * arm, 0.9) for arm in range(5)]
        one = make_policy(f"{memory}{kind}-cf", corruption=each, **given)
        other = make_policy(f"{memory}{kind}-cf", corruption=[each[arm] for arm in order], **given)
        policy_rng = generator(seed)
        for feedback in policy_rng.integers(0, 2, 80):
            arm = choose(one, policy_rng)
            assert np.array_equal(one.indices()[order], other.indices())
            one.observe(arm, feedback)
            other.observe(order.index(arm), feedback)
