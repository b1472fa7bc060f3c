import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import Policy, RandomizedResponse, make_policy
from naive import Twin
from twins import TIE, choose, examples, feedbacks, generator, play_both, responses

RR = RandomizedResponse.from_epsilon(1.0)
INDICES: dict[str, dict[str, Any]] = {
    "klucb": {"c": 3.0},
    "ucb": {"c": 0.0, "xi": 2.0},
    "klucb-plus": {"horizon": 500},
    "ts": {},
}

MEMORIES: dict[str, dict[str, Any]] = {"": {}, "sw-": {"window": 17}, "d-": {"gamma": 0.9}}


def bits(seed: int, length: int) -> list[float]:
    rng = np.random.default_rng(seed)
    means = rng.choice([0.2, 0.5, 0.8], length // 20 + 1).repeat(20)[:length]
    return [float(draw < mean) for draw, mean in zip(rng.random(length), means, strict=True)]


@pytest.mark.parametrize("kind", INDICES)
@examples(60)
@given(data=st.data())
def test_a_discount_is_the_naive_one(kind: str, data: st.DataObject) -> None:
    arms = data.draw(st.integers(1, 4), label="arms")
    each = [data.draw(responses(), label="g") for _ in range(arms)]
    gamma = data.draw(st.sampled_from([0.1, 0.5, 0.9, 0.999]), label="gamma")
    fast = make_policy(f"d-{kind}-cf", arms=arms, corruption=each, gamma=gamma, **INDICES[kind])
    slow = Twin(list(each), kind, gamma=gamma, **INDICES[kind])
    play_both(fast, slow, data.draw(feedbacks(25), label="feedbacks"), seed=data.draw(st.integers(0, 99)))


@pytest.mark.parametrize("kind", INDICES)
def test_a_discount_goes_on_as_the_naive_one(kind: str) -> None:
    """Through several epochs."""
    each = [RandomizedResponse(0.8, 0.9), RandomizedResponse(0.2, 0.3), RR, RR]
    fast = make_policy(f"d-{kind}-cf", arms=4, corruption=each, gamma=0.99, **INDICES[kind])
    play_both(fast, Twin(list(each), kind, gamma=0.99, **INDICES[kind]), bits(3, 200))


def recent(policy: Policy, twin: Twin, steps: int) -> None:
    """Keep of the twin's history what a discount of 0.5 can still show, so that long plays stay cheap."""
    twin.history = twin.history[-80:]
    assert policy.observations == steps


@pytest.mark.parametrize("kind", ["ucb", "ts"])
def test_weights_that_grow_too_large_are_scaled_down(kind: str) -> None:
    """At a discount of 0.5 weights pass 1e100 every 333 steps."""
    given = INDICES[kind]
    fast = make_policy(f"d-{kind}-cf", arms=3, corruption=RR, gamma=0.5, **given)
    slow = Twin([RR] * 3, kind, gamma=0.5, **given)
    feedbacks = bits(4, 2000)
    for begin in range(0, 2000, 40):
        play_both(fast, slow, feedbacks[begin : begin + 40], seed=begin)
        recent(fast, slow, begin + 40)


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("before", MEMORIES)
def test_planned_restarts_are_the_naive_ones(before: str, kind: str) -> None:
    restarts = [0, 5, 6, 41, 60]
    each = [RandomizedResponse(0.8, 0.9), RandomizedResponse(0.2, 0.3), RR]
    given = {**MEMORIES[before], **INDICES[kind]}
    fast = make_policy(f"{before}{kind}-cf", arms=3, corruption=each, restarts=restarts, **given)
    play_both(fast, Twin(list(each), kind, restarts=restarts, **given), bits(1, 100))


@pytest.mark.parametrize("kind", ["ucb", "ts"])
def test_an_oracle_restarts_when_told(kind: str) -> None:
    fast = make_policy(f"oracle-{kind}-cf", arms=3, corruption=RR, restarts=[0, 30], **INDICES[kind])
    play_both(fast, Twin([RR] * 3, kind, restarts=[30], **INDICES[kind]), bits(2, 70))


@pytest.mark.parametrize("kind", INDICES)
def test_doubling_restarts_at_1000_times_powers_of_two(kind: str) -> None:
    """A restart leaves no trace but the time, so a fresh policy goes on as a restarted one does.

    One that needs the horizon takes the length of the phase for it.
    """
    feedbacks = bits(6, 4100)
    lots = generator(1)
    given = {key: value for key, value in INDICES[kind].items() if key != "horizon"}
    policy = make_policy(f"{kind}-cf", arms=3, corruption=RR, restarts="doubling", **given)
    fresh = [policy]
    for length in (1000, 1000, 2000, 4000):
        told = {"horizon": length} if "horizon" in INDICES[kind] else {}
        fresh.append(make_policy(f"{kind}-cf", arms=3, corruption=RR, **given, **told))
    for step, feedback in enumerate(feedbacks):
        phase = sum(step >= start for start in (0, 1000, 2000, 4000))
        before = lots.bit_generator.state
        arm = choose(policy, lots)
        lots.bit_generator.state = before
        assert choose(fresh[phase], lots) == arm
        policy.observe(arm, feedback)
        fresh[phase].observe(arm, feedback)
        if step % 100 == 0:
            assert np.array_equal(policy.indices(), fresh[phase].indices())


def test_doubling_is_for_an_unknown_horizon() -> None:
    with pytest.raises(ValueError, match="unknown horizon"):
        make_policy("klucb-plus-cf", arms=2, corruption=RR, restarts="doubling", horizon=500)


def test_doubling_is_the_naive_restart_at_1000() -> None:
    """The twin is shown the steps before the first restart, and plays around it."""
    fast = make_policy("ucb-cf", arms=2, corruption=RR, restarts="doubling")
    slow = Twin([RR] * 2, "ucb", c=0.0, restarts=[1000, 2000, 4000])
    for bit in bits(7, 990):
        arm = fast.choose()
        fast.observe(arm, bit)
        slow.observe(arm, bit)
    play_both(fast, slow, bits(8, 40))


@pytest.mark.parametrize("kind", INDICES)
class TestLimits:
    """Memories that come to the same."""

    @staticmethod
    def play(policy: Policy, seed: int, length: int = 150) -> tuple[list[int], np.ndarray[Any, Any]]:
        rng, lots = np.random.default_rng(seed), generator(seed)
        chosen = []
        for draw in rng.random(length):
            chosen.append(choose(policy, lots))
            policy.observe(chosen[-1], float(draw < 0.3 + 0.4 * chosen[-1] / policy.arms))
        return chosen, policy.indices()

    @examples(20)
    @given(seed=st.integers(0, 2**32), arms=st.integers(1, 5))
    def test_an_endless_window_and_a_restart_at_0_forget_nothing(self, kind: str, seed: int, arms: int) -> None:
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
    def test_a_discount_near_1_forgets_next_to_nothing(self, kind: str, seed: int, arms: int) -> None:
        """Choices are equal, but for ties, which the slightly older observations decide."""
        given = {"arms": arms, "corruption": RR, **INDICES[kind]}
        patient, fading = make_policy(f"{kind}-cf", **given), make_policy(f"d-{kind}-cf", gamma=1 - 1e-12, **given)
        rng, lots, same = np.random.default_rng(seed), generator(seed), generator(seed)
        for bit in rng.integers(0, 2, 100):
            expected, got = patient.indices(), fading.indices()
            finite = np.isfinite(expected)
            assert np.array_equal(finite, np.isfinite(got))
            assert np.allclose(expected[finite], got[finite], rtol=0, atol=TIE)
            arm, other = choose(patient, lots), choose(fading, same)
            assert arm == other or (kind != "ts" and expected[other] > expected[arm] - TIE)
            patient.observe(arm, bit)
            fading.observe(arm, bit)

    @examples(20)
    @given(seed=st.integers(0, 2**32), order=st.permutations(range(5)), memory=st.sampled_from(["", "sw-", "d-"]))
    def test_arms_have_no_rank_but_their_number(self, kind: str, seed: int, order: list[int], memory: str) -> None:
        """Relabelling arms relabels indices; choices too, but for ties and lots."""
        given = {**MEMORIES[memory], **INDICES[kind], "arms": 5}
        each = [RandomizedResponse(0.6 + 0.05 * arm, 0.9) for arm in range(5)]
        one = make_policy(f"{memory}{kind}-cf", corruption=each, **given)
        other = make_policy(f"{memory}{kind}-cf", corruption=[each[arm] for arm in order], **given)
        lots = generator(seed)
        for feedback in lots.integers(0, 2, 80):
            arm = choose(one, lots)
            assert np.array_equal(one.indices()[order], other.indices())
            one.observe(arm, feedback)
            other.observe(order.index(arm), feedback)
