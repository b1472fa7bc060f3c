"""The bound for GLR-KLUCB-CF: its formula, the steps of its proof, and plays."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate, theory
from naive import divergence, exploration
from trials import examples

SETTINGS: dict[str, Any] = {"delta": 1e-6, "exploration": 3.0, "prior_changes": 2.0}


def two_segments(epsilon: float = math.inf, horizon: int = 1_000_000) -> Problem:
    mask = RandomizedResponse.from_epsilon(epsilon)
    return Problem([[0.9, 0.1], [0.1, 0.9]], [0, horizon // 2], horizon, mask)


def plain_bound(problem: Problem, delta: float, effort: float, prior: float) -> float:
    """Return the theorem, term by term, for two arms and one mask."""
    horizon, arms, segments = problem.horizon, problem.arms, problem.segments
    mask = problem.corruption[0]
    seen = [[mask(mean) for mean in row] for row in problem.means.tolist()]
    rate = min(0.5, effort * math.sqrt(arms * prior / horizon))
    total: float = 0.0
    for before, after, row in zip(seen[:-1], seen[1:], problem.means.tolist()[1:], strict=True):
        change = max(abs(x - y) for x, y in zip(before, after, strict=True))
        pulls = math.ceil(4 * math.log(3 * horizon**2 / delta) / change**2)
        total += (max(row) - min(row)) * pulls * 2 * arms * (1 / rate + 1)
    dearest = [max(row) - min(row) for row in problem.means.tolist()]
    looks = 4.3 * effort * math.sqrt(arms * (segments - 1 + prior) * horizon)
    total += max(dearest) * (looks + math.log2(horizon) + segments + 1)
    false = 0.0
    for n in range(2, horizon + 1):
        b = math.log(3 * n * n / delta)
        false += 2 * (n - 1) * (1 + 2 * b) * math.exp(-b)
    wrong = min(1.0, arms * segments * false + (segments - 1) * delta / horizon)
    total += wrong * sum(length * gap for length, gap in zip(problem.lengths.tolist(), dearest, strict=True))
    for row, length, dear in zip(problem.means.tolist(), problem.lengths.tolist(), dearest, strict=True):
        level = exploration(length, 3.0)
        x, y = mask(min(row)), mask(max(row))
        best = float(length)
        for step in range(1, 128):
            r = x + (y - x) * step / 128
            m = max(1, math.ceil(level / divergence(r, y)))
            away = divergence(r, x)
            best = min(best, m + math.exp(-m * away) / (1 - math.exp(-away)))
        missed = 0.0
        for n in range(1, length + 1):
            f = exploration(n, 3.0)
            missed += min(1.0, math.e * max(1, math.ceil(f * math.log(n))) * math.exp(-f))
        total += dear * (best + min(missed, length))
    return total


@pytest.mark.parametrize("epsilon", [3.0, math.inf])
def test_bound_is_its_formula(epsilon: float) -> None:
    """Sums over steps are taken in blocks, each step counting as the worst: at most 1 % more."""
    given_here = {**SETTINGS, "exploration": 30.0}
    problem = two_segments(epsilon, 100_000)
    expected = plain_bound(problem, 1e-6, 30.0, 2.0)
    assert expected <= theory.glr_regret_bound(problem, **given_here) <= 1.01 * expected


def test_delays_grow_with_inverse_square_of_slope() -> None:
    masked, plain = (theory.glr_delays(two_segments(epsilon), **SETTINGS) for epsilon in (1.0, math.inf))
    slope = RandomizedResponse.from_epsilon(1.0).slope
    assert masked[0] / plain[0] == pytest.approx(1 / slope**2, rel=0.01)


def test_plays_stay_below_bound() -> None:
    problem = two_segments()
    policy = make_policy("glr-klucb-cf", arms=2, corruption=problem.corruption, follow_up=0.0, **SETTINGS)
    played = simulate(problem, policy, runs=4, checkpoints=1, progress=False)
    assert played.regret.mean() < theory.glr_regret_bound(problem, **SETTINGS) < 0.3 * 0.8 * problem.horizon


def test_alarm_comes_in_time() -> None:
    settings = {**SETTINGS, "exploration": 30.0}
    problem = two_segments(3.0, 100_000)
    policy = make_policy("glr-klucb-cf", arms=2, corruption=problem.corruption, follow_up=0.0, **settings)
    draws = np.random.default_rng(1)
    latest = problem.horizon // 2 + theory.glr_delays(problem, **settings)[0]
    alarms: list[int] = []
    for step in range(problem.horizon):
        arm = policy.choose()
        seen = problem.feedback_means[2 * step // problem.horizon, arm]
        policy.observe(arm, float(draws.random() < seen))
        if policy.alarms > len(alarms):
            alarms.append(step)
    assert len(alarms) == 1
    assert problem.horizon // 2 < alarms[0] < latest


@examples(10)
@given(st.integers(2, 5), st.floats(0.5, 5.0), st.floats(0.1, 5.0), st.integers(0, 9))
def test_forced_pulls_are_as_frequent_as_in_proof(arms: int, effort: float, prior: float, seed: int) -> None:
    horizon = 3000
    policy = make_policy(
        "glr-klucb-cf",
        arms=arms,
        corruption=RandomizedResponse(1, 1),
        follow_up=0.0,
        exploration=effort,
        prior_changes=prior,
    )
    draws = np.random.default_rng(seed)
    means = draws.random((3, arms))
    last, longest = [0] * arms, 0
    for step in range(horizon):
        arm = policy.choose()
        policy.observe(arm, float(draws.random() < means[3 * step // horizon, arm]))
        longest = max(longest, *(step - each for each in last))
        last[arm] = step
    rate = min(0.5, effort * math.sqrt(arms * prior / horizon))
    assert longest <= 2 * arms * (1 / rate + 1)


@pytest.mark.parametrize(("p", "n"), [(0.2, 12), (0.5, 20), (0.9, 30)])
def test_tail_of_sum_of_two_divergences(p: float, n: int) -> None:
    """Exactly, over all outcomes of two independent means of n bits: P(X + Y >= x) <= 2 (1 + 2x) exp(-x)."""
    chances = stats.binom.pmf(np.arange(n + 1), n, p)
    sizes = [n * divergence(k / n, p) for k in range(n + 1)]
    sums = [(sizes[i] + sizes[j], float(chances[i] * chances[j])) for i, j in itertools.product(range(n + 1), repeat=2)]
    for x in np.arange(0.5, 12, 0.5):
        assert sum(chance for size, chance in sums if size >= x) <= 2 * (1 + 2 * x) * math.exp(-x)


@pytest.mark.parametrize("mask", [(0.9, 0.7), (0.73, 0.73), (0.6, 0.55)])
@pytest.mark.parametrize("more", [{}, {"follow_up": 0.0, "exploration": 1.0, "prior_changes": 1.0}, {"local": True}])
def test_common_mask_changes_no_choice(mask: tuple[float, float], more: dict[str, Any]) -> None:
    """Given the same reports, it chooses as if they were rewards, as docs/theory.md states."""
    masks = RandomizedResponse(*mask), RandomizedResponse(1, 1)
    masked, plain = (make_policy("glr-klucb-cf", arms=3, corruption=each, **more) for each in masks)
    draws = np.random.default_rng(5)
    means = draws.random((3, 3))
    for step in range(3000):
        arm = masked.choose()
        assert plain.choose() == arm
        report = float(draws.random() < masks[0](means[step // 1000, arm]))
        masked.observe(arm, report)
        plain.observe(arm, report)
    assert masked.alarms == plain.alarms


def test_unproved_cases_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        theory.glr_regret_bound(two_segments(1.0, 100_000), **SETTINGS)
    with pytest.raises(ValueError, match="it needs inf"):
        theory.glr_regret_bound(two_segments(), delta=0.01, exploration=0.0)
    with pytest.raises(ValueError, match="delta"):
        theory.glr_delays(two_segments(), delta=0.0)
    with pytest.raises(ValueError, match="prior_changes"):
        theory.glr_delays(two_segments(), delta=0.1, prior_changes=-1)
