"""A policy without groups on a problem with groups: one arm for everybody, and each visitor's own best arm to miss."""

from typing import Any

import numpy as np
import pytest

from maskedbandits import ContextualProblem, RandomizedResponse, make_policy, simulate
from maskedbandits.errors import UserError
from maskedbandits.noise import GaussianNoise
from naive import Twin

MEANS = np.array([[[0.9, 0.2, 0.4], [0.1, 0.6, 0.3]], [[0.3, 0.8, 0.1], [0.5, 0.2, 0.9]]])
SHARES = [0.3, 0.7]
UNEVEN = RandomizedResponse(0.9, 0.7)


def problem(corruption: Any = UNEVEN, horizon: int = 300) -> ContextualProblem:
    return ContextualProblem(MEANS, [0, horizon // 2], horizon, SHARES, corruption)


def naive_play(horizon: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """One run of klucb-cf, as the simulator draws it: regret and pulls, by group."""
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(0,))))
    policy = Twin([UNEVEN] * 3, "klucb")
    regret, pulls = np.zeros(2), np.zeros((2, 3))
    for step in range(horizon):
        means = MEANS[int(step >= horizon // 2)]
        group = int(rng.random() >= SHARES[0])
        arm = policy.choose()
        shown = 1 - 0.9 + (0.9 + 0.7 - 1) * means[group, arm]  # a masked reward is a one
        policy.observe(arm, float(rng.random() < shown))
        rng.bit_generator.random_raw()  # coins for groups that are not asked
        regret[group] += means[group].max() - means[group, arm]
        pulls[group, arm] += 1
    return regret, pulls


def test_plain_policy_run_equals_twin() -> None:
    policy = make_policy("klucb-cf", arms=3, corruption=UNEVEN)
    played = simulate(problem(), policy, runs=2, seed=5, checkpoints=[100, 300])
    regret, pulls = naive_play(300, 5)
    assert played.group_regret is not None
    assert played.group_regret[0, -1] == pytest.approx(regret)
    assert played.regret[0, -1] == pytest.approx(regret.sum())
    assert np.array_equal(played.pulls[0], pulls)


def test_policy_name_is_resolved() -> None:
    by_name = simulate(problem(), "klucb-cf", runs=2, seed=5)
    made = simulate(problem(), make_policy("klucb-cf", arms=3, corruption=UNEVEN), runs=2, seed=5)
    assert np.array_equal(by_name.regret, made.regret)


def test_plain_policy_meets_average_visitor() -> None:
    """The best arm on average is what it can find: with true rewards it does, and loses what this arm loses.

    Arms 0 and 1 are 0.34 and 0.48 on average at first, arm 2 0.33; so it ends with arm 1 nearly always, which costs
    people of the first group 0.7 each.
    """
    still = ContextualProblem(MEANS[0], [0], 20_000, SHARES, RandomizedResponse(1.0, 1.0))
    average = still.average_groups()
    assert average.means[0] == pytest.approx([0.34, 0.48, 0.33])
    played = simulate(still, "klucb-cf", runs=4, seed=1)
    assert played.pulls[:, :, 1].sum() > 0.95 * 4 * 20_000
    assert played.group_regret is not None
    assert 0.9 < played.group_regret[:, -1, 0].mean() / (0.3 * 20_000 * 0.7) < 1.1


@pytest.mark.slow  # it compiles a policy for this alone
def test_dp_ucb_sees_rewards_without_mask() -> None:
    """The oracle knows; a policy that is shown rewards finds the best arm on average however strong the mask is."""
    blind = ContextualProblem(MEANS[0], [0], 20_000, SHARES, RandomizedResponse.from_epsilon(0.01))
    assert simulate(blind, make_policy("dp-ucb", arms=3, epsilon=16.0), runs=2, seed=1).pulls[:, :, 1].sum() > 20_000


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ((ContextualProblem(MEANS, [0, 10], 20), "auto"), "requires the problem's corruption.*make_contextual"),
        ((problem(), 7), "was given 7: give a policy of make_contextual, or of make_policy"),
        ((problem(), make_policy("uniform", arms=2)), "2 arms and the problem 3"),
    ],
)
def test_unfitting_policy_is_refused(given: tuple[Any, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        simulate(*given)


@pytest.mark.parametrize("corruption", [GaussianNoise(1.0), [UNEVEN]])
def test_mask_is_response_for_each_arm(corruption: Any) -> None:
    with pytest.raises(UserError, match="give"):
        problem(corruption)
