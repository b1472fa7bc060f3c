"""Problems with features, and their simulation."""

from typing import Any

import numpy as np
import pytest

from maskedbandits import FeaturedProblem, RandomizedResponse, make_featured, make_policy, simulate
from maskedbandits.errors import UserError
from naive.features import DiscountedLinUCB, LogisticTS, sigma

MASK = RandomizedResponse.from_epsilon(2)
WEIGHTS = np.random.default_rng(3).normal(size=(2, 3, 4))


def naive_play(problem: FeaturedProblem, twin: Any, seed: int) -> tuple[list[float], list[int], list[int]]:
    """Play one run as the simulator draws it; return regret by step, pulls, and suboptimal pulls."""
    policy_rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(0,))))
    regret, pulls, worse = [0.0], [0] * problem.arms, [0] * problem.arms
    for step in range(problem.horizon):
        weights = problem.weights[np.searchsorted(problem.starts, step, side="right") - 1]
        x = np.append(1.0, policy_rng.standard_normal(problem.features - 1))
        means = [sigma(float(own @ x)) for own in weights]
        arm = twin.choose(x, policy_rng)
        twin.observe(x, arm, float(policy_rng.random() < problem.corruption(means[arm])))
        regret.append(regret[-1] + max(means) - means[arm])
        pulls[arm] += 1
        worse[arm] += means[arm] < max(means)
    return regret[1:], pulls, worse


@pytest.mark.parametrize("name", ["logistic-ts-cf", "d-linucb-cf"])
def test_run_matches_naive_run(name: str) -> None:
    problem = FeaturedProblem(WEIGHTS, [0, 90], 200, MASK)
    assumed = RandomizedResponse(0.9, 0.9)  # the policy need not know the mask of the world
    policy = make_featured(name, arms=3, features=4, corruption=assumed, gamma=0.98)
    played = simulate(problem, policy, runs=2, seed=5, checkpoints=[50, 200])
    twin = (LogisticTS if name == "logistic-ts-cf" else DiscountedLinUCB)(3, 4, 0.9, 0.9, gamma=0.98)
    regret, pulls, worse = naive_play(problem, twin, 5)
    assert played.regret[0] == pytest.approx([regret[49], regret[199]])
    assert played.pulls[0].tolist() == pulls
    assert played.suboptimal_pulls[0].tolist() == worse
    assert played.pulls_over_time.sum(axis=1).tolist() == [100, 400]


def test_results_do_not_depend_on_threads_or_division() -> None:
    problem = FeaturedProblem(WEIGHTS, [0, 1000], 2000, MASK)
    policy = make_featured("logistic-ts-cf", arms=3, features=4, corruption=MASK)
    one, two = (simulate(problem, policy, runs=4, seed=3, threads=threads) for threads in (1, 2))
    last = simulate(problem, policy, runs=2, seed=3, first_run=2)
    assert np.array_equal(one.regret, two.regret)
    assert np.array_equal(one.regret[2:], last.regret)


def test_known_mask_lowers_regret_only_with_privacy() -> None:
    """8 problems, each played once with the same random numbers: regret is at least a tenth lower."""
    lost = {}
    for epsilon in (1.0, 16.0):
        mask = RandomizedResponse.from_epsilon(epsilon)
        for assumed in (mask, RandomizedResponse(1, 1)):
            policy = make_featured("logistic-ts-cf", arms=5, features=6, corruption=assumed)
            lost[epsilon, assumed is mask] = sum(
                simulate(
                    FeaturedProblem(np.random.default_rng(seed).normal(size=(5, 6)), [0], 60_000, mask),
                    policy,
                    runs=1,
                    seed=seed,
                    checkpoints=1,
                ).regret.mean()
                for seed in range(8)
            )
    assert lost[1.0, True] < 0.9 * lost[1.0, False]
    assert lost[16.0, True] == pytest.approx(lost[16.0, False], rel=5e-4)


@pytest.mark.parametrize(("name", "discounts"), [("logistic-ts-cf", (0.999, 1.0)), ("d-linucb-cf", (0.999, 1.0))])
def test_forgetting_lowers_regret_after_changes(name: str, discounts: tuple[float, float]) -> None:
    """Means over 20 runs with three changes."""
    weights = np.random.default_rng(8).normal(size=(4, 3, 3))
    problem = FeaturedProblem(weights, np.arange(4) * 5000, 20_000, RandomizedResponse.from_epsilon(4))
    forgets, keeps = (
        simulate(
            problem,
            make_featured(name, arms=3, features=3, corruption=problem.corruption, gamma=gamma),
            runs=20,
            checkpoints=1,
        ).regret.mean()
        for gamma in discounts
    )
    assert forgets < keeps


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"weights": [1.0]}, "give \\(segments, arms, features\\)"),
        ({"weights": [[1.0, np.inf]]}, "finite"),
        ({"weights": [[1.0], [1.0, 2.0]]}, "equally many features"),
        ({"starts": [0, 5]}, "starts"),
        ({"horizon": 0}, "horizon = 0"),
        ({"corruption": 1.0}, "corruption = 1.0"),
    ],
)
def test_invalid_problems_are_refused(given: dict[str, Any], complaint: str) -> None:
    parameters = {"weights": WEIGHTS[0], "starts": [0], "horizon": 10, "corruption": MASK, **given}
    with pytest.raises(UserError, match=complaint):
        FeaturedProblem(**parameters)


def test_misfits_are_refused() -> None:
    problem = FeaturedProblem(WEIGHTS[0], [0], 10, MASK)
    assert (problem.segments, problem.arms, problem.features) == (1, 3, 4)
    with pytest.raises(UserError, match="make_featured"):
        simulate(problem, make_policy("klucb-cf", arms=3, corruption=MASK))
    with pytest.raises(UserError, match=r"3 arms.*2 features"):
        simulate(problem, make_featured("logistic-ts-cf", arms=3, features=2, corruption=MASK))
    with pytest.raises(UserError, match="features come at once"):
        simulate(problem, make_featured("logistic-ts-cf", arms=3, features=4, corruption=MASK), delay=5)
