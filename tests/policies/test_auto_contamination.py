"""`auto` with contamination: bursts of lies that do not turn it, and changes that it follows all the same."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.private import live_state
from maskedbandits import Policy, Problem, RandomizedResponse, load_policy, make_policy, simulate
from maskedbandits._numba.jit import interpret
from maskedbandits.policies import auto
from naive.auto import Aside, Switching
from specimens import CERTAIN, RR
from twins import MODEL, observe_masked_alike, play_alike, stream

MEANS = (0.65, 0.35)
OTHER_CASES = [(1, False, 0.02), (1, True, 0.2), (3, False, 0.2), (3, True, 0.02)]  # arms, fractions, share


@pytest.mark.parametrize(
    ("arms", "fractions", "share"),
    [
        (1, False, 0.2),
        (1, True, 0.02),
        (3, False, 0.02),
        (3, True, 0.2),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHER_CASES),
    ],
)
def test_contamination_equals_twin(arms: int, fractions: bool, share: float) -> None:
    """Through changes and mergers; the twin counts everything again at every step."""
    each = [CERTAIN, RandomizedResponse(0.95, 0.9), RandomizedResponse(0.9, 1.0)][:arms]
    means = [[0.9, 0.2, 0.4][:arms], [0.1, 0.8, 0.6][:arms]]
    fast = make_policy("auto", arms=arms, corruption=each, contamination=share)
    slow = Switching(list(each), MODEL, share)
    play_alike(fast, slow, means, 350, 0, fractions=fractions)
    assert fast.indices() == pytest.approx(slow.indices(), rel=1e-9)
    assert fast.snapshot().aside_counts.max() > 1


def test_masked_reports_are_set_aside_too() -> None:
    fast, slow = observe_masked_alike(0.05)
    assert fast.indices() == pytest.approx(slow.indices(), rel=1e-9)


@given(st.lists(st.floats(0.1, 10).map(lambda ratio: round(ratio, 3)), max_size=40), st.floats(0, 12))
def test_set_aside_gains_never_exceed_the_largest(ratios: list[float], most: float) -> None:
    weights, counts, sums = np.full(2, 0.5), np.zeros(4), np.zeros(4)
    slow, weight = Aside(), 1.0
    for ratio in ratios:
        before = weights.copy()
        weights *= 0.3 * np.array([1.0, ratio])
        interpret(auto.set_aside)(weights, before, 0, most, 2, counts, sums)
        weight *= 1 + slow.kept(ratio - 1, most) if ratio > 1 + 1e-9 else ratio
        assert weights[1] / weights[0] == pytest.approx(weight)
        weights /= weights.sum()
    gains = sorted((ratio - 1 for ratio in ratios if ratio > 1 + 1e-9), reverse=True)
    room = [min(1.0, max(0.0, most - place)) for place in range(len(gains))]
    assert counts[3] == pytest.approx(min(most, len(gains)))
    assert sums[3] <= sum(gain * part for gain, part in zip(gains, room, strict=True)) + 1e-9
    assert counts[:3].tolist() == [0.0] * 3
    if len(gains) <= most:  # all of them may be lies: the hypothesis gains nothing
        assert weight == pytest.approx(math.prod(ratio for ratio in ratios if ratio <= 1 + 1e-9))


def test_long_memory_allows_no_longer_burst() -> None:
    """Of 20,000 reports as of 10,000, contamination=0.001 allows for ten lies."""
    policy = make_policy("auto", arms=1, corruption=CERTAIN, contamination=0.001)
    world = np.random.default_rng(6)
    policy.observe_many(np.zeros(20_000, dtype=np.int64), world.integers(0, 2, 20_000).astype(np.float64))
    assert policy.snapshot().counts[0] == 20_000
    assert policy.snapshot().aside_counts.max() == pytest.approx(10)


class TestBursts:
    """40 lies in a row after 10,000 honest reports; all draws are of fixed seeds."""

    @pytest.mark.parametrize("epsilon", [1.0, 2.0, math.inf])
    def test_contamination_resists_burst_of_lies(self, epsilon: float) -> None:
        shares = {
            share: [worse_share_after(40, epsilon, seed, contamination=share) for seed in range(5)]
            for share in (0.0, 0.01)
        }
        assert np.mean(shares[0.0]) > 0.85
        assert np.max(shares[0.01]) < 0.1

    def test_too_many_lies_mislead(self) -> None:
        assert worse_share_after(200, 1.0, 0, contamination=0.01) > 0.85

    def test_contamination_still_follows_change(self) -> None:
        world = Problem([MEANS, MEANS[::-1]], [0, 10_000], 20_000, CERTAIN)
        policy = make_policy("auto", arms=2, corruption=CERTAIN, contamination=0.01)
        regret = simulate(world, policy, runs=8, seed=3, checkpoints=[15_000, 20_000]).regret
        assert np.all(regret[:, 1] - regret[:, 0] < 0.02 * 0.3 * 5000)


def worse_share_after(burst: int, epsilon: float, seed: int, **parameters: Any) -> float:
    """Return how often the worse arm would be chosen right after a burst of lies."""
    mask, world = RandomizedResponse.from_epsilon(epsilon), np.random.default_rng(seed)
    policy = make_policy("auto", arms=2, corruption=mask, seed=seed, **parameters)
    arms = (world.random(10_000) < 0.02).astype(np.int64)
    policy.observe_many(
        arms, (world.random(10_000) < np.array([mask(mean) for mean in MEANS])[arms]).astype(np.float64)
    )
    for _ in range(burst):
        arm = policy.choose()
        policy.observe(arm, float(arm))  # zeros for the better arm, ones for the worse
    return float(policy.sample(400).mean())


class TestParameter:
    def test_zero_contamination_changes_nothing(self) -> None:
        one, other = (make_policy("auto", arms=3, corruption=RR, seed=1, **each) for each in ({}, {"contamination": 0}))
        draws = np.random.default_rng(1).random(300)
        assert stream(one, draws) == stream(other, draws)
        assert (one.nbytes, one.fold_digest()) == (other.nbytes, other.fold_digest())

    @pytest.mark.parametrize("share", [-0.1, 1.0, math.nan, "x", None])
    def test_invalid_share_is_refused(self, share: Any) -> None:
        with pytest.raises(ValueError, match="contamination") as caught:
            make_policy("auto", arms=2, corruption=RR, contamination=share)
        assert "\n" not in str(caught.value)

    def test_saved_policy_continues_exactly(self, tmp_path: Path) -> None:
        policy, copy = saved(tmp_path)
        assert copy.parameters["contamination"] == 0.05
        draws = np.random.default_rng(2).random(200)
        assert stream(copy, draws) == stream(policy, draws)
        assert copy.fold_digest() == policy.fold_digest()

    @pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
    def test_impossible_saved_numbers_are_refused(self, value: float, tmp_path: Path) -> None:
        policy, _ = saved(tmp_path)
        live_state(policy).aside_sums[0] = value
        policy.save(tmp_path / "policy")
        with pytest.raises(ValueError, match="damaged"):
            load_policy(tmp_path / "policy")

    def test_log_keeps_contamination(self) -> None:
        policy = make_policy("auto", arms=2, corruption=RR, contamination=0.05)
        played, _ = policy.for_log(2.0)
        assert played.contamination == 0.05
        stream(played, np.random.default_rng(3).random(50))
        assert played.snapshot().aside_counts.max() > 0

    @pytest.mark.parametrize("lie", [0.0, 1.0])
    def test_intervals_hold_despite_lies(self, lie: float) -> None:
        """One report in ten is a lie: 200 policies, bounds of 95 %."""
        world, missed = np.random.default_rng(4), 0
        for _ in range(200):
            policy = make_policy("auto", arms=1, corruption=RR, contamination=0.1)
            bits = world.random(300) < RR(0.6)
            bits[::10] = lie
            policy.observe_many(np.zeros(300, dtype=np.int64), bits.astype(np.float64))
            low, high = policy.intervals(0.05)[0]
            missed += not low <= 0.6 <= high
        assert missed <= 10


def saved(folder: Path) -> tuple[Policy, Policy]:
    """Return a policy that has seen some, and what becomes of it when it is saved and loaded."""
    policy = make_policy("auto", arms=3, corruption=RR, seed=2, contamination=0.05)
    stream(policy, np.random.default_rng(5).random(150))
    policy.save(folder / "policy")
    return policy, load_policy(folder / "policy", exact=True)
