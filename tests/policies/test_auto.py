import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.private import live_state
from maskedbandits import Monotone, Policy, Problem, RandomizedResponse, load_policy, make_policy, simulate
from naive.auto import Switching, prior
from specimens import CERTAIN
from trials import generator
from twins import MODEL, choose, observe_masked_alike, play_alike, stream


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fractions", [False, True])
@pytest.mark.parametrize("arms", [1, 3])
def test_auto_equals_twin(seed: int, arms: int, fractions: bool) -> None:
    """Through changes and mergers; the twin recounts everything at every step."""
    each = [CERTAIN, RandomizedResponse(0.95, 0.9), RandomizedResponse(0.9, 1.0)][:arms]
    means = [[0.9, 0.2, 0.4][:arms], [0.1, 0.8, 0.6][:arms]]
    fast = make_policy("auto", arms=arms, corruption=each)
    slow = Switching(list(each), MODEL)
    play_alike(fast, slow, means, 350, seed, fractions=fractions)
    assert fast.indices() == pytest.approx(slow.indices(), rel=1e-9)
    assert fast.estimates() == pytest.approx(
        [
            np.clip((s / n - g(0)) / (g(1) - g(0)), 0, 1) if n else math.nan
            for g, (n, s) in zip(each, slow.known, strict=True)
        ],
        nan_ok=True,
    )
    if not fractions:
        assert fast.alarms >= 1


@pytest.mark.parametrize("expected", [0.0, 5.0])
def test_expected_changes_equal_twin(expected: float) -> None:
    each = [CERTAIN, RandomizedResponse(0.95, 0.9), RandomizedResponse(0.9, 1.0)]
    fast = make_policy("auto", arms=3, corruption=each, expected_changes=expected)
    slow = Switching(list(each), MODEL, expected=expected)
    play_alike(fast, slow, [[0.9, 0.2, 0.4], [0.1, 0.8, 0.6]], 350, 3)
    assert fast.indices() == pytest.approx(slow.indices(), rel=1e-9)
    assert (fast.alarms > 0) == (expected > 0.0)


def test_unknown_changes_are_like_one_expected() -> None:
    usual, default, more = (
        make_policy("auto", arms=2, corruption=CERTAIN, seed=1, **given)
        for given in ({"expected_changes": 1}, {}, {"expected_changes": 100})
    )
    draws = np.random.default_rng(2).random(400)
    plays = [stream(policy, draws) for policy in (usual, default, more)]
    assert plays[0] == plays[1] != plays[2]


def test_more_expected_changes_look_at_worse_arms() -> None:
    world = Problem([[0.8, 0.3]], [0], 20_000, CERTAIN)
    pulls = [
        simulate(world, "auto", runs=16, seed=4, expected_changes=expected).pulls[:, 1].mean()
        for expected in (0, 1, 100)
    ]
    assert 2 * pulls[0] < pulls[1] < pulls[2] / 2


def test_expected_changes_are_saved(tmp_path: Path) -> None:
    policy = make_policy("auto", arms=2, corruption=CERTAIN, expected_changes=7)
    stream(policy, np.random.default_rng(3).random(100))
    policy.save(tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy", exact=True)
    assert loaded.parameters["expected_changes"] == 7
    draws = np.random.default_rng(4).random(100)
    assert stream(loaded, draws) == stream(policy, draws)


@pytest.mark.parametrize("expected", [-1, math.nan, math.inf, "many", True])
def test_invalid_expected_changes_are_refused(expected: Any) -> None:
    with pytest.raises(ValueError, match="expected_changes"):
        make_policy("auto", arms=2, corruption=CERTAIN, expected_changes=expected)


def test_prior_is_that_of_masked_means() -> None:
    curve = Monotone(lambda x: 0.1 + 0.8 * x * x)
    responses = [CERTAIN, RandomizedResponse.from_epsilon(0.5), RandomizedResponse(0.1, 0.3)]
    policy = make_policy("auto", arms=4, corruption=[*responses, curve])
    held = policy.snapshot()
    assert (held.alphas[0], held.betas[0]) == pytest.approx((1, 1))
    assert (held.alphas[1], held.betas[1]) == pytest.approx(prior(responses[1]))
    assert (held.betas[2], held.alphas[2]) == pytest.approx(prior(responses[2]))  # flipped
    mean, second = 0.1 + 0.8 / 3, 0.01 + 0.16 / 3 + 0.64 / 5  # of 0.1 + 0.8 U^2
    weight = mean * (1 - mean) / (second - mean**2) - 1
    assert held.alphas[3] == pytest.approx(max(1.0, mean * weight), abs=1e-3)
    assert held.betas[3] == pytest.approx(max(1.0, (1 - mean) * weight), abs=1e-3)


def test_flipped_mask_and_feedback_change_nothing() -> None:
    one = make_policy("auto", arms=3, corruption=RandomizedResponse(0.8, 0.9))
    other = make_policy("auto", arms=3, corruption=RandomizedResponse(0.2, 0.1))
    world = np.random.default_rng(1)
    for step in range(400):
        arm = choose(one, generator(step))
        assert choose(other, generator(step)) == arm
        bit = float(world.random() < 0.2 + 0.3 * arm)
        one.observe(arm, bit)
        other.observe(arm, 1 - bit)


@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_stationary_regret_is_close_to_thompson(epsilon: float) -> None:
    mask = RandomizedResponse.from_epsilon(epsilon)
    world = Problem([[0.7, 0.4, 0.3]], [0], 20_000, mask)
    policies = [("auto", {}), ("auto", {"expected_changes": 0}), ("ts-cf", {})]
    auto, calm, thompson = (
        simulate(world, make_policy(name, arms=3, corruption=mask, **given), runs=100, seed=2).regret[:, -1].mean()
        for name, given in policies
    )
    assert calm < thompson
    assert auto < 2.5 * thompson


@pytest.mark.parametrize("after", [[0.3, 0.6], [0.6, 0.95]])
def test_finds_drop_of_best_and_rise_of_other_arm(after: list[float]) -> None:
    world = Problem([[0.6, 0.2], after], [0, 10_000], 40_000, CERTAIN)
    result = simulate(world, "auto", runs=16, seed=3)
    assert np.median(result.suboptimal_pulls[:, 0]) < 6000  # of the 30,000 steps in which arm 0 is second best


def test_learns_rate_of_changes() -> None:
    policy = make_policy("auto", arms=2, corruption=CERTAIN, seed=4)
    rng = np.random.default_rng(4)
    for step in range(8000):
        arm = policy.choose()
        policy.observe(arm, float(rng.random() < (0.9 if (step // 1000 + arm) % 2 else 0.1)))
    assert 7 <= policy.alarms <= 12  # a change of both arms may count twice


@pytest.mark.parametrize(
    ("section", "value"), [("order", 1), ("order", -1), ("weights", -1.0), ("moved", 2.0), ("old_sums", math.inf)]
)
def test_contradictory_hypotheses_are_refused(section: str, value: float, tmp_path: Path) -> None:
    policy = believer()
    held = getattr(live_state(policy), section)
    held[0] = value if held[0] != value else value + 1
    policy.save(tmp_path / "policy")
    with pytest.raises(ValueError, match="damaged"):
        load_policy(tmp_path / "policy")


@pytest.mark.parametrize("lives", [-1, 13, -(2**63)])
def test_too_many_hypotheses_are_refused(lives: int, tmp_path: Path) -> None:
    policy = believer()
    live_state(policy).lives[0] = lives
    policy.save(tmp_path / "policy")
    with pytest.raises(ValueError, match="damaged"):
        load_policy(tmp_path / "policy")


def test_masked_reports_equal_twin() -> None:
    fast, slow = observe_masked_alike(0.0)
    assert fast.indices() == pytest.approx(slow.indices(), rel=1e-9)
    assert fast.estimates() == pytest.approx(
        [np.clip(slow.mean(arm, s / n), 0, 1) for arm, (n, s) in enumerate(slow.known)]
    )


def test_intervals_hold_with_masked_reports() -> None:
    """Over 200 policies with 60 reports each; one that missed more than 5 % of them would be found out."""
    own, world = [RandomizedResponse.from_epsilon(epsilon) for epsilon in (0.5, 1.0, 4.0)], np.random.default_rng(6)
    missed = 0
    for _ in range(200):
        policy = make_policy("auto", arms=1, corruption=RandomizedResponse.from_epsilon(1.0))
        for step in range(60):
            policy.observe(0, float(world.random() < own[step % 3](0.9)), corruption=own[step % 3])
        low, high = policy.intervals(0.05)[0]
        missed += not low <= 0.9 <= high
        assert not policy.suspects().any()
    assert missed <= 10


def test_decreasing_report_mask_is_flipped() -> None:
    one, other = (make_policy("auto", arms=2, corruption=RandomizedResponse(0.8, 0.7), seed=1) for _ in range(2))
    for bit in np.random.default_rng(7).integers(0, 2, 100):
        one.observe(0, float(bit), corruption=RandomizedResponse(0.9, 0.6))
        other.observe(0, float(1 - bit), corruption=RandomizedResponse(0.1, 0.4))
    assert one.indices() == pytest.approx(other.indices(), rel=1e-12)


@pytest.mark.parametrize(
    "what",
    ["x", RandomizedResponse, [CERTAIN], Monotone(lambda x: 0.1 + 0.8 * x * x)],
    ids=["a word", "the class itself", "a list", "a curve"],
)
def test_invalid_mask_is_refused_without_effect(what: Any) -> None:
    policy = believer()
    before = policy.indices()
    with pytest.raises(ValueError, match="RandomizedResponse"):
        policy.observe(0, 1.0, corruption=what)
    assert np.array_equal(policy.indices(), before)


def test_curved_mask_refuses_masked_reports() -> None:
    policy = make_policy("auto", arms=1, corruption=Monotone(lambda x: 0.1 + 0.8 * x * x))
    with pytest.raises(ValueError, match="RandomizedResponse"):
        policy.observe(0, 1.0, corruption=RandomizedResponse(0.9, 0.9))


def believer() -> Policy:
    """Return a policy that has seen some."""
    policy = make_policy("auto", arms=2, corruption=CERTAIN)
    for bit in np.random.default_rng(0).integers(0, 2, 100):
        policy.observe(policy.choose(), float(bit))
    return policy
