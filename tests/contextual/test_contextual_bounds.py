"""The bound on regret with groups, how many visitors privacy takes, and where the kinds of answers change."""

from typing import Any

import numpy as np
import pytest
from docs import private_groups as page
from hypothesis import given, settings
from hypothesis import strategies as st

from maskedbandits import ContextualProblem, Problem, RandomizedResponse, make_contextual, simulate
from maskedbandits.contextual import contextual_bound, masks
from maskedbandits.errors import UserError
from naive import contextual_bounds as naive

MEANS = st.lists(st.lists(st.sampled_from([0.1, 0.4, 0.7, 0.95]), min_size=2, max_size=2), min_size=2, max_size=2)


@settings(max_examples=10, deadline=None)
@given(MEANS, MEANS, st.sampled_from([1.0, 4.0]), st.sampled_from([20, 80]), st.sampled_from(masks.KINDS))
def test_bound_is_that_of_each_bandit(
    first: list[list[float]], second: list[list[float]], epsilon: float, window: int, kind: str
) -> None:
    problem = ContextualProblem([first, second], [0, 90], 150, [0.3, 0.7])
    expected = naive.regret_bound([first, second], [90, 60], [0.3, 0.7], epsilon, kind == "one of many", window)
    assert contextual_bound(problem, epsilon, window, answers=kind) == pytest.approx(np.array(expected), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("kind", masks.KINDS)
@pytest.mark.parametrize("changes", [False, True])
def test_regret_stays_below_bound(kind: str, changes: bool) -> None:
    still = [[0.9, 0.1], [0.1, 0.9]]
    means, starts = ([still, still[::-1]], [0, 20_000]) if changes else ([still], [0])
    problem = ContextualProblem(means, starts, 40_000, [0.4, 0.6])
    window = 4_000 if changes else 40_000
    policy = make_contextual(
        "sw-klucb-cf", groups=2, arms=2, epsilon=4, shares=problem.shares, answers=kind, pool=False, window=window
    )
    played = simulate(problem, policy, runs=8, seed=1, checkpoints=1)
    bound = contextual_bound(problem, 4, window, answers=kind)
    assert bound.sum() < 0.4 * 40_000 * 0.8  # and says something: a policy that knows nothing loses half of the steps
    assert played.regret[:, -1].max() < bound.sum()


def test_default_kind_is_the_better_one() -> None:
    problem = ContextualProblem([[[0.9, 0.1], [0.2, 0.6]]], [0], 1000)
    for epsilon, kind in ((1.0, "bit"), (3.0, "one of many")):
        assert np.array_equal(
            contextual_bound(problem, epsilon, 1000), contextual_bound(problem, epsilon, 1000, answers=kind)
        )
    without: Any = Problem([[0.5, 0.6]], [0], 10, RandomizedResponse(0.8, 0.8))
    with pytest.raises(UserError, match="ContextualProblem"):
        contextual_bound(without, 1, 5)
    with pytest.raises(UserError, match="epsilon = 0"):
        contextual_bound(problem, 0, 1000)
    with pytest.raises(UserError, match="one of many"):
        contextual_bound(problem, 1, 1000, answers="bits")


@pytest.mark.parametrize(("groups", "switch"), [(2, 1.34), (5, 1.70), (10, 1.99), (20, 2.30), (50, 2.72)])
def test_epsilon_at_which_one_of_many_is_better(groups: int, switch: float) -> None:
    equal = np.full(groups, 1 / groups)
    for epsilon, kind in ((switch - 0.006, "bit"), (switch + 0.006, "one of many")):
        assert masks.better_kind(epsilon, equal) == kind
        visitors_by_kind = {one: naive.times_as_many(epsilon, groups, one) for one in masks.KINDS}
        assert min(visitors_by_kind, key=lambda one: visitors_by_kind[one]) == kind


@pytest.mark.parametrize(
    ("groups", "arms", "ours", "triple"),
    [(5, 2, (83, 23, 6.6, 1.4), (522, 86, 11, 2)), (10, 5, (167, 47, 17, 1.9), (4938, 748, 69, 4))],
)
def test_number_of_visitors(groups: int, arms: int, ours: tuple[float, ...], triple: tuple[float, ...]) -> None:
    for epsilon, few, many in zip((0.5, 1, 2, 4), ours, triple, strict=True):
        kind, times = page.fewest(epsilon, groups)
        assert times == pytest.approx(naive.times_as_many(epsilon, groups, kind))
        assert times == pytest.approx(few, rel=0.04)  # as rounded
        masked = page.of_the_triple(epsilon, groups, arms)
        assert masked == pytest.approx(naive.times_as_many(epsilon, groups, "triple", arms))
        assert round(masked) == many
