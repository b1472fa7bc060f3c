"""Policies whose feedback is no bits: which divergence they take, and that their indices are the slow ones."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import GaussianNoise, LaplaceNoise, Monotone, RandomizedResponse, make_policy
from maskedbandits._numba.jit import interpret
from maskedbandits.policies import check_policy, names
from maskedbandits.policies.indices import sub_gamma, ucb
from naive import unbounded
from specimens import RR
from trials import examples
from twins import play_both

NORMAL, HEAVY = GaussianNoise(1.0), LaplaceNoise(0.7)
SEES_NOISE = [f"{before}{label}-cf" for before in ("", "sw-", "d-", "oracle-") for label in ("klucb", "ucb")]
NEEDED: dict[str, dict[str, Any]] = {
    "sw-": {"window": 30},
    "d-": {"gamma": 0.9},
    "oracle-": {"restarts": [0, 40]},
    "rexp3": {"horizon": 50, "variation": 1.0},
    "exp3s": {"horizon": 50},
    "adswitch": {"horizon": 50},
    "oracle": {"restarts": [0], "best": [1]},
    "ldp-ucb-l": {"epsilon": 1.0},
    "dp-ucb": {"epsilon": 1.0},
}


def made(name: str, corruption: Any, **given: Any) -> Any:
    before = name if name in NEEDED else next((key for key in NEEDED if name.startswith(key)), "")
    horizon = {"horizon": 50} if "plus" in name else {}
    return make_policy(name, arms=2, corruption=corruption, **NEEDED.get(before, {}), **horizon, **given)


def numbers(most: int) -> st.SearchStrategy[list[float]]:
    """Any numbers, and often the same ones."""
    return st.lists(st.one_of(st.floats(-4, 5), st.sampled_from([-0.5, 0.0, 1.0, 1.5])), max_size=most)


@pytest.mark.plain
class TestIndex:
    """Both divergences, by the definition of the index."""

    @examples(150)
    @given(data=st.data())
    def test_gaussian_index_equals_twin(self, data: st.DataObject) -> None:
        """On everything and on a window, with sigma derived and given."""
        arms = data.draw(st.integers(1, 4), label="arms")
        window = data.draw(st.one_of(st.integers(arms, 15), st.just(math.inf)), label="window")
        noise = data.draw(st.sampled_from([0.0, 0.3, 2.0]), label="noise")
        given: dict[str, Any] = data.draw(st.sampled_from([{}, {"sigma": 0.8}]), label="parameters")
        label, c = data.draw(st.sampled_from([("klucb", 3.0), ("ucb", 0.0)]), label="index")
        fast = make_policy(f"sw-{label}-cf", arms=arms, corruption=GaussianNoise(noise), window=window, **given)
        sigma = given.get("sigma", math.sqrt(0.25 + noise**2))
        slow = unbounded.RealTwin(arms, sigma, window=window, c=c)
        play_both(fast, slow, data.draw(numbers(30), label="feedbacks"))

    @examples(25)
    @given(data=st.data())
    def test_sub_gamma_index_equals_twin(self, data: st.DataObject) -> None:
        arms = data.draw(st.integers(1, 3), label="arms")
        window = data.draw(st.one_of(st.integers(arms, 15), st.just(math.inf)), label="window")
        scale = data.draw(st.sampled_from([0.2, 1.0, 5.0]), label="scale")
        fast = make_policy("sw-klucb-cf", arms=arms, corruption=LaplaceNoise(scale), window=window, c=0.0)
        slow = unbounded.RealTwin(arms, math.sqrt(0.25 + 2 * scale**2), scale, window=window, c=0.0)
        play_both(fast, slow, data.draw(numbers(20), label="feedbacks"))

    @pytest.mark.parametrize(
        ("noise", "sigma", "tail"), [(NORMAL, math.sqrt(1.25), 0.0), (HEAVY, math.sqrt(1.23), 0.7)]
    )
    @pytest.mark.parametrize("window", [30, math.inf])
    def test_long_plays_equal_twin(self, noise: Any, sigma: float, tail: float, window: float) -> None:
        """Longer plays, through several epochs and turns of the ring."""
        drawn = np.random.default_rng(3).normal(0.5, 1.5, 60).round(2).tolist()
        fast = make_policy("sw-klucb-cf", arms=3, corruption=noise, window=window)
        play_both(fast, unbounded.RealTwin(3, sigma, tail, window=window, c=3.0), drawn)

    @given(st.floats(-5, 5), st.floats(1e-6, 50), st.floats(0.1, 5), st.floats(0.01, 5))
    def test_bounds_solve_their_equation(self, mean: float, spread: float, sigma: float, tail: float) -> None:
        """d(mean, u) = spread, for both; the heavier tail has the higher bound, by tail times the spread."""
        heavy = make_policy("klucb-cf", arms=1, corruption=HEAVY, sigma=sigma, tail=tail).snapshot()
        light = make_policy("klucb-cf", arms=1, corruption=NORMAL, sigma=sigma).snapshot()
        high = interpret(sub_gamma.bound)(heavy, mean, spread)
        low = interpret(ucb.bound)(light, mean, spread)
        assert unbounded.gaussian_divergence(mean, low, sigma) == pytest.approx(spread, rel=1e-6)
        assert unbounded.sub_gamma_divergence(mean, high, sigma, tail) == pytest.approx(spread, rel=1e-5)
        assert high - low == pytest.approx(tail * spread, rel=1e-6, abs=1e-9)

    @given(st.floats(1e-6, 50), st.floats(0.1, 5), st.floats(0.01, 5))
    def test_slope_is_derivative_and_falls(self, spread: float, sigma: float, tail: float) -> None:
        """As the search for the highest index needs: a tangent stays above what it touches."""
        state = make_policy("klucb-cf", arms=1, corruption=HEAVY, sigma=sigma, tail=tail).snapshot()
        bound, slope = interpret(sub_gamma.bound), interpret(sub_gamma.slope)
        at = bound(state, 0.0, spread)
        step = 1e-4 * spread
        rise = (bound(state, 0.0, spread + step) - bound(state, 0.0, spread - step)) / (2 * step)
        assert slope(state, at, at) == pytest.approx(rise, rel=1e-5)
        assert bound(state, 0.0, 3 * spread) <= at + 2 * spread * slope(state, at, at) + 1e-9

    @given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.integers(2, 4))
    def test_more_observations_lower_index(self, seen: list[float], times: int) -> None:
        """At a fixed mean and a fixed level, as for KL."""
        window = times * len(seen) + 1
        indices = []
        for repeat in (1, times):
            policy = make_policy("sw-klucb-cf", arms=2, corruption=NORMAL, window=window)
            for _ in range(window - repeat * len(seen)):
                policy.observe(1, 0.5)
            for feedback in repeat * seen:
                policy.observe(0, feedback)
            indices.append(policy.indices()[0])
        assert indices[0] >= indices[1] - 1e-9

    def test_shift_of_feedback_shifts_indices(self) -> None:
        """Which KL has no such thing as."""
        drawn = np.random.default_rng(1).normal(size=60)
        here, there = (made("klucb-cf", NORMAL) for _ in range(2))
        for feedback in drawn:
            arm = here.choose()
            assert there.choose() == arm
            here.observe(arm, feedback)
            there.observe(arm, feedback + 7.0)
        assert there.indices() == pytest.approx(here.indices() + 7.0)


@pytest.mark.plain
class TestChoice:
    """The corruption says which divergence fits."""

    @pytest.mark.parametrize("policy", SEES_NOISE)
    def test_noise_selects_divergence(self, policy: str) -> None:
        given = made(policy, NORMAL).parameters
        assert (given["divergence"], given["tail"]) == ("gaussian", None)
        assert given["sigma"] == pytest.approx(math.sqrt(0.25 + 1.0))
        given = made(policy, HEAVY).parameters
        assert (given["divergence"], given["tail"]) == ("sub-gamma", 0.7)
        assert given["sigma"] == pytest.approx(math.sqrt(0.25 + 2 * 0.7**2))
        assert made(policy, RR).sigma is None

    def test_worst_arm_selects_divergence(self) -> None:
        mixed = make_policy("klucb-cf", arms=3, corruption=[RR, GaussianNoise(3), HEAVY]).parameters
        assert (mixed["divergence"], mixed["sigma"], mixed["tail"]) == ("sub-gamma", math.sqrt(9.25), 0.7)

    def test_divergence_can_be_given(self) -> None:
        """On bits, too: then it is UCB with Hoeffding's constant, xi = 1/2."""
        fast = make_policy("klucb-cf", arms=2, corruption=RR, divergence="gaussian")
        slow = make_policy("ucb-cf", arms=2, corruption=RR, c=3.0, xi=0.5)
        for bit in np.random.default_rng(0).integers(0, 2, 100):
            arm = fast.choose()
            assert arm == slow.choose()
            fast.observe(arm, bit)
            slow.observe(arm, bit)
        assert np.array_equal(fast.indices(), slow.indices())
        assert make_policy("klucb-cf", arms=2, corruption=RR, divergence="kl").sigma is None
        assert made("ucb-cf", NORMAL, xi=8.0).sigma == 2.0
        assert made("klucb-cf", HEAVY, divergence="gaussian").parameters["tail"] is None
        assert check_policy("klucb-cf", arms=2, corruption=HEAVY)["xi"] == pytest.approx(2 * (0.25 + 0.98))

    @pytest.mark.parametrize("policy", [each for each in names() if each not in SEES_NOISE])
    def test_other_policies_refuse_noise(self, policy: str) -> None:
        if policy in ("uniform", "oracle", "ldp-ucb-l", "dp-ucb"):
            assert made(policy, NORMAL).arms == 2  # it does not see the noise
            return
        with pytest.raises(ValueError, match="feedback") as caught:
            made(policy, NORMAL)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("corruption", "given", "complaint"),
        [
            (NORMAL, {"divergence": "kl"}, "'kl' requires feedback in"),
            (NORMAL, {"divergence": "laplace"}, "divergence = 'laplace': give 'kl' or 'gaussian' or 'sub-gamma'"),
            (NORMAL, {"sigma": 0.0}, "sigma"),
            (NORMAL, {"sigma": math.nan}, "sigma"),
            (NORMAL, {"divergence": "sub-gamma"}, "requires the parameter 'tail'"),
            (NORMAL, {"tail": 1.0}, "has no tail"),
            (NORMAL, {"contamination": 0.1}, "contamination"),
            (HEAVY, {"tail": -1.0}, "tail"),
            (RR, {"divergence": "kl", "sigma": 1.0}, "sigma and tail require continuous feedback"),
            (RR, {"tail": 1.0}, "sigma and tail require continuous feedback"),
        ],
    )
    def test_unfitting_parameters_are_refused(self, corruption: Any, given: dict[str, Any], complaint: str) -> None:
        with pytest.raises(ValueError, match=complaint) as caught:
            made("klucb-cf", corruption, **given)
        assert "\n" not in str(caught.value)

    def test_sigma_and_xi_exclude_each_other(self) -> None:
        with pytest.raises(ValueError, match="sigma"):
            made("ucb-cf", NORMAL, sigma=1.0, xi=2.0)
        with pytest.raises(ValueError, match="divergence"):
            made("ucb-cf", RR, divergence="kl")


@pytest.mark.plain
class TestFeedback:
    """Any number is taken in, and no nonsense."""

    def test_unbounded_feedback_is_accepted(self) -> None:
        one, many = made("klucb-cf", NORMAL), made("klucb-cf", NORMAL)
        seen = [-3.5, 0.0, 1e9, -1e9, 2]
        for feedback in seen:
            one.observe(0, feedback)
        many.observe_many([0] * 5, seen)
        assert one.snapshot().sums[0] == many.snapshot().sums[0] == -1.5

    @pytest.mark.parametrize("feedback", [math.nan, math.inf, -math.inf, 1.1e9, -1.1e9])
    def test_invalid_feedback_is_refused(self, feedback: float) -> None:
        policy = made("klucb-cf", NORMAL)
        with pytest.raises(ValueError, match=r"1e\+09"):
            policy.observe(0, feedback)
        with pytest.raises(ValueError, match="out of range"):
            policy.observe_many([0], [feedback])
        assert policy.observations == 0

    def test_report_mask_is_refused(self) -> None:
        with pytest.raises(ValueError, match="corruption"):
            made("klucb-cf", NORMAL).observe(0, 0.5, RR)
        with pytest.raises(ValueError, match="RandomizedResponse"):
            made("klucb-cf", RR).observe(0, 1, NORMAL)

    def test_estimates_are_clipped_means(self) -> None:
        policy = made("klucb-cf", NORMAL)
        policy.observe_many([0, 0, 1], [-2.0, 2.5, 4.0])
        assert policy.estimates().tolist() == [0.25, 1.0]

    def test_intervals_hold_at_all_times(self) -> None:
        """100 plays of 160 reports: the mean is left ever in at most 20 %, and five standard errors."""
        rng = np.random.default_rng(2)
        left = 0
        for _ in range(100):
            policy = make_policy("klucb-cf", arms=1, corruption=GaussianNoise(0.2), sigma=0.2)
            missed = False
            for feedback in rng.normal(0.5, 0.2, 160).reshape(8, 20):
                policy.observe_many([0] * 20, feedback)
                low, high = policy.intervals(0.2)[0]
                missed |= not low <= 0.5 <= high
            left += missed
        assert left / 100 <= 0.2 + 5 * math.sqrt(0.2 * 0.8 / 100)
        assert high - low < 0.2  # and it says something

    def test_interval_is_robbins_with_two_sigma(self) -> None:
        policy = make_policy("klucb-cf", arms=1, corruption=GaussianNoise(0.1), sigma=0.1)
        policy.observe_many([0] * 300, [0.4, 0.6] * 150)
        spread = 0.25 * 300 + 0.75
        wide = 2 * 0.1 * math.sqrt(spread * math.log(spread / (0.75 * 0.05**2))) / 300
        assert policy.intervals(0.05)[0] == pytest.approx([0.5 - wide, 0.5 + wide])

    def test_impossible_feedback_is_suspect(self) -> None:
        policy = made("klucb-cf", NORMAL)
        policy.observe_many([0] * 500, [3.0] * 500)
        policy.observe_many([1] * 500, [1.0] * 500)
        assert policy.suspects().tolist() == [True, False]

    def test_heavy_tail_has_no_intervals(self) -> None:
        for ask in (made("klucb-cf", HEAVY).intervals, made("klucb-cf", HEAVY).suspects):
            with pytest.raises(ValueError, match="heavy tail"):
                ask()


def test_intervals_pass_through_curve() -> None:
    """With Hoeffding's sigma on bits of a corruption that is no straight line."""
    curve = Monotone(lambda x: x * x)
    policy = make_policy("klucb-cf", arms=1, corruption=curve, divergence="gaussian")
    policy.observe_many([0] * 400, [0, 1] * 200)
    spread = 0.25 * 400 + 0.75
    wide = math.sqrt(spread * math.log(spread / (0.75 * 0.05**2))) / 400
    assert policy.intervals(0.05)[0] == pytest.approx([math.sqrt(0.5 - wide), math.sqrt(0.5 + wide)], abs=1e-6)
    assert not policy.suspects()[0]


def test_bits_and_noise_in_one_policy() -> None:
    """An arm under a decreasing response beside one under noise: indices are means of rewards."""
    falling = RandomizedResponse(0.1, 0.2)
    policy = make_policy("klucb-cf", arms=2, corruption=[falling, NORMAL])
    policy.observe_many([0] * 10 + [1] * 10, [0, 1] * 5 + [0.3] * 10)
    assert policy.estimates() == pytest.approx([falling.inverse(0.5), 0.3])
