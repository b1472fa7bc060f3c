"""Contextual policies: a policy for each group, fed by answers that hide who is in which."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from group_runs import naive_play
from helpers.private import live_state, part_policies
from maskedbandits import ContextualProblem, load_contextual, make_contextual, make_policy, simulate
from maskedbandits.contextual import check_contextual, masks
from maskedbandits.corruption import Monotone, RandomizedResponse
from maskedbandits.errors import UserError

MEANS = np.array([[[0.9, 0.2, 0.4], [0.1, 0.6, 0.3]], [[0.3, 0.8, 0.1], [0.5, 0.2, 0.9]]])


def answered(kind: str, epsilon: float, shares: list[float], group: int, mean: float) -> np.ndarray[Any, Any]:
    """How likely each answer to the question of arm 0 for all, and signs 0, is: by the definition."""
    groups = len(shares)
    if kind == masks.BIT:
        keep = math.exp(epsilon) / (1 + math.exp(epsilon))
        one = mean * keep + (1 - mean) * (1 - keep)
        return np.array([1 - one, one])
    whole = math.exp(epsilon) + 2 * groups - 1
    found = np.full(2 * groups, 1 / whole)
    found[2 * group] += (1 - mean) * (math.exp(epsilon) - 1) / whole
    found[2 * group + 1] += mean * (math.exp(epsilon) - 1) / whole
    return found


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("shares", [[1.0], [0.5, 0.5], [0.1, 0.7, 0.2]])
def test_each_group_sees_corrupt_bandit(shares: list[float], epsilon: float) -> None:
    """The identity: summed over all visitors and signs, by the definition of randomised response."""
    means = np.linspace(0.1, 0.9, len(shares))
    for kind in masks.KINDS:
        seen = masks.masks(kind, epsilon, np.array(shares))
        for group, mask in enumerate(seen):
            if kind == masks.ONE_OF_MANY:
                expected_counts = np.sum(
                    [
                        share * answered(kind, epsilon, shares, other, means[other])
                        for other, share in enumerate(shares)
                    ],
                    axis=0,
                )
                chance = expected_counts[2 * group + 1] / (expected_counts[2 * group] + expected_counts[2 * group + 1])
                named = masks.naming_probabilities(epsilon, np.array(shares))[group]
                assert named == pytest.approx(expected_counts[2 * group : 2 * group + 2].sum())
            else:
                chance = sum(
                    share * answered(kind, epsilon, shares, other, means[other])[1 ^ signs[other] ^ signs[group]]
                    for other, share in enumerate(shares)
                    for signs in itertools.product((0, 1), repeat=len(shares))
                ) / 2 ** len(shares)
            assert mask(means[group]) == pytest.approx(chance, abs=1e-12)


@pytest.mark.parametrize(("groups", "switch"), [(2, 1.34), (5, 1.70), (10, 1.99), (20, 2.30), (50, 2.72)])
def test_better_kind_needs_fewer_visitors(groups: int, switch: float) -> None:
    equal = np.full(groups, 1 / groups)
    assert masks.better_kind(switch - 0.01, equal) == masks.BIT
    assert masks.better_kind(switch + 0.01, equal) == masks.ONE_OF_MANY


@pytest.mark.parametrize(("groups", "expected"), [(5, [83, 23, 6.6, 1.4]), (10, [167, 47, 17, 1.9])])
def test_cost_in_visitors(groups: int, expected: list[float]) -> None:
    equal = np.full(groups, 1 / groups)
    found = [1 / max(masks.worth(kind, epsilon, equal)[0] for kind in masks.KINDS) for epsilon in (0.5, 1, 2, 4)]
    assert found == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("name", ["klucb-cf", "auto"])
def test_one_group_equals_plain_policy(name: str) -> None:
    """Choice for choice, whatever the signs are."""
    contextual = make_contextual(name, groups=1, arms=3, epsilon=1, answers="bit", seed=4)
    plain = make_policy(name, arms=3, corruption=RandomizedResponse.from_epsilon(1))
    live_state(plain).rng[:] = live_state(part_policies(contextual)[0]).rng
    bits = np.random.default_rng(2).integers(0, 2, 200).tolist()
    for bit in bits:
        question = contextual.ask()
        assert question.table == (plain.choose(),)
        assert question.signs is not None
        contextual.observe(question, bit ^ question.signs[0])
        plain.observe(question.table[0], float(bit))


@pytest.mark.parametrize("kind", masks.KINDS)
@pytest.mark.parametrize("shares", [None, [0.3, 0.7]])
@pytest.mark.parametrize("pool", [False, True])
def test_run_equals_twin(kind: str, shares: list[float] | None, pool: bool) -> None:
    problem = ContextualProblem(MEANS, [0, 150], 300, shares)
    policy = make_contextual("klucb-cf", groups=2, arms=3, epsilon=3, shares=shares, answers=kind, pool=pool)
    played = simulate(problem, policy, runs=2, seed=5, checkpoints=[100, 300])
    regret, pulls, _ = naive_play(problem, policy.grouping, 5)
    assert played.regret[0, -1] == pytest.approx(regret)
    assert np.array_equal(played.pulls[0], pulls)
    assert played.group_regret is not None
    assert played.group_regret.sum(axis=2) == pytest.approx(played.regret)
    assert played.pulls_over_time.shape == (2, 2, 3)


def test_threads_change_nothing() -> None:
    problem = ContextualProblem(MEANS, [0, 1000], 2000)
    policy = make_contextual("auto", groups=2, arms=3, epsilon=2)
    one, two = (simulate(problem, policy, runs=4, seed=3, threads=threads) for threads in (1, 2))
    assert np.array_equal(one.regret, two.regret)
    assert one.group_regret is not None
    assert two.group_regret is not None
    assert np.array_equal(one.group_regret, two.group_regret)


@pytest.mark.parametrize("kind", masks.KINDS)
def test_learns_best_arm_of_each_group(kind: str, tmp_path: Path) -> None:
    """By real answers of devices: with epsilon = 8 they are true but for one in a thousand."""
    policy = make_contextual("klucb-cf", groups=2, arms=2, epsilon=8, answers=kind, pool=False, seed=1)
    for visitor in range(400):
        question = policy.ask()
        group = visitor % 2
        policy.observe(question, question.answer(group, float(question.arm(group) == group)))
    estimates = policy.estimates()
    assert estimates[0, 0] > estimates[0, 1]
    assert estimates[1, 1] > estimates[1, 0]
    if kind == masks.ONE_OF_MANY:
        assert policy.shares() == pytest.approx([0.5, 0.5], abs=0.02)
    policy.save(tmp_path / "policy")
    again = load_contextual(tmp_path / "policy")
    assert np.array_equal(again.estimates(), estimates)
    assert np.array_equal(again.shares(), policy.shares())
    assert [again.ask().table for _ in range(5)] == [policy.ask().table for _ in range(5)]


def test_burst_of_questions_is_spread() -> None:
    policy = make_contextual("klucb-cf", groups=3, arms=4, epsilon=1, pool=False)
    burst = [policy.ask() for _ in range(40)]
    assert {question.table[0] for question in burst} == {0, 1, 2, 3}
    for question in burst:
        policy.expire(question)
    assert policy.pending.sum() == 0


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"groups": 0}, "groups = 0"),
        ({"epsilon": 0}, "epsilon = 0 is too small to learn"),
        ({"epsilon": 1e-300}, "epsilon = 1e-300 is too small to learn from answers"),
        (
            {"shares": [1 - 1e-12, 1e-12]},
            "share of 1e-12",
        ),
        (
            {"corruption": RandomizedResponse(0.8, 0.8)},
            "corruption follows from epsilon .*: leave it out",
        ),
        ({"shares": [0.5, 0.6]}, "add up to 1"),
        ({"shares": [1.0, 0.0]}, "above 0"),
        ({"shares": [1.0]}, "give 2 numbers"),
        ({"answers": "bits"}, "answers = 'bits'.*'bit'"),
        ({"answers": np.array([1, 2])}, "answers = "),
        ({"pool": "yes"}, "pool = 'yes'"),
        ({"pool": np.array([1, 2])}, "pool = "),
        ({"name": ["auto"]}, "no policy is called"),
        ({"name": "uniform"}, "uniform does not learn from masked feedback"),
        ({"name": "dp-ucb"}, "dp-ucb does not learn from masked feedback"),
    ],
)
def test_invalid_arguments_are_refused_in_one_line(given: dict[str, Any], complaint: str) -> None:
    expected_counts: dict[str, Any] = {"name": "klucb-cf", "groups": 2, "arms": 2, "epsilon": 1, **given}
    name = expected_counts.pop("name")
    for make in (make_contextual, check_contextual):
        with pytest.raises(UserError, match=complaint) as caught:
            make(name, **expected_counts)
        assert "\n" not in str(caught.value)


def test_unfitting_policy_is_refused(tmp_path: Path) -> None:
    policy = make_contextual("klucb-cf", groups=2, arms=3, epsilon=1)
    other = make_contextual("klucb-cf", groups=2, arms=3, epsilon=4)
    with pytest.raises(UserError, match="question"):
        policy.observe(other.ask(), 0)
    with pytest.raises(UserError, match="question"):
        policy.expire(other.ask())
    with pytest.raises(UserError, match="answer = 2"):
        policy.observe(policy.ask(), 2)
    problem = ContextualProblem(MEANS, [0, 10], 20)
    with pytest.raises(UserError, match="2 groups"):
        simulate(problem, make_contextual("klucb-cf", groups=2, arms=2, epsilon=1))
    with pytest.raises(UserError, match="at once"):
        simulate(problem, policy, delay=5)
    (tmp_path / "odd").write_bytes(b"nothing")
    with pytest.raises(UserError, match="contextual policy"):
        load_contextual(tmp_path / "odd")


@pytest.mark.parametrize(
    ("means", "starts", "complaint"),
    [
        ([0.5, 0.5], [0], "give \\(segments, groups, arms\\)"),
        ([[[0.5, 2.0]]], [0], "give numbers in"),
        ([[[0.5, 0.5]]], [0, 5], "starts"),
    ],
)
def test_invalid_problems_are_refused(means: Any, starts: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        ContextualProblem(means, starts, 10)


@pytest.mark.parametrize("corruption", [3, Monotone(lambda mean: mean), [RandomizedResponse(0.8, 0.8), 3]])
def test_contextual_problem_takes_only_responses(corruption: Any) -> None:
    with pytest.raises(UserError, match="RandomizedResponse"):
        ContextualProblem(MEANS, [0, 10], 20, None, corruption)
