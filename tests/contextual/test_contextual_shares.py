"""Estimates of means where answers reveal how large groups are."""

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from group_runs import answer_of
from maskedbandits import make_contextual
from maskedbandits.contextual import masks
from maskedbandits.contextual import shares as shares_module
from maskedbandits.contextual.policy import Contextual
from maskedbandits.privacy import Partition

SHARES = [0.6, 0.3, 0.1]
MEANS = [[0.9, 0.2]] * 3


def lived(policy: Contextual, visitors: int, shares: list[float], means: list[list[float]], *other: Fraction) -> None:
    """Let visitors of groups of these shares answer with a fixed seed, each arm as often as the other."""
    rng, collected = np.random.default_rng(1), []
    level = policy.grouping.finest
    epsilons = itertools.cycle(other or (policy.epsilon,))
    for_arm = [policy.question(level, np.full(policy.groups, arm), policy.signs(level)) for arm in range(2)]
    questions = {
        (arm, epsilon): replace(for_arm[arm], epsilon=epsilon)
        for arm in range(2)
        for epsilon in other or (policy.epsilon,)
    }
    for visitor, group in enumerate(rng.choice(policy.groups, visitors, p=shares).tolist()):
        question = questions[visitor % 2, next(epsilons)]
        collected.append((question, answer_of(question, group, means, rng)))
    policy.observe_many([question for question, _ in collected], [answer for _, answer in collected])


@pytest.mark.parametrize("name", ["klucb-cf", "auto"])
def test_estimates_use_revealed_shares(name: str) -> None:
    """12,000 answers, some 700 of them to an arm of the smallest group."""
    policy = make_contextual(name, groups=3, arms=2, epsilon=3, answers="one of many", pool=False, seed=1)
    lived(policy, 12_000, SHARES, MEANS)
    as_equal = np.array([own.estimates() for own in policy.by_group])
    assert np.abs(as_equal - MEANS).max() > 0.1  # a large group's too far from 1/2, a small one's too near
    assert policy.estimates() == pytest.approx(np.array(MEANS), abs=0.06)
    low, high = np.moveaxis(policy.intervals(), 2, 0)
    assert np.all((low <= MEANS) & (policy.estimates() >= low) & (policy.estimates() <= high) & (high >= MEANS))
    assert high[0, 0] - low[0, 0] < 0.1
    assert not policy.suspects().any()
    given = make_contextual(
        name, groups=3, arms=2, epsilon=3, answers="one of many", shares=policy.shares(), pool=False
    )
    lived(given, 12_000, SHARES, MEANS)
    assert policy.estimates() == pytest.approx(given.estimates())
    assert policy.intervals(0.2) == pytest.approx(given.intervals(0.2))
    assert np.array_equal(given.estimates(), [own.estimates() for own in given.by_group])


def test_large_group_is_not_suspect() -> None:
    """Nine of ten visitors are of one group, and always like one arm: more ones than a third could give."""
    policy = make_contextual("klucb-cf", groups=3, arms=2, epsilon=2, answers="one of many", pool=False, seed=1)
    lived(policy, 20_000, [0.9, 0.05, 0.05], [[1.0, 0.0]] * 3)
    assert policy.by_group[0].suspects().any()
    assert not policy.suspects().any()


@pytest.mark.parametrize("name", ["klucb-cf", "auto"])
def test_answers_of_other_epsilons_are_partly_corrected(name: str) -> None:
    policy = make_contextual(name, groups=3, arms=2, epsilon=3, answers="one of many", pool=False, seed=1)
    lived(policy, 12_000, SHARES, MEANS, Fraction(3), Fraction(2))
    as_equal = np.array([own.estimates() for own in policy.by_group])
    assert np.abs(policy.estimates() - MEANS).mean() < 0.5 * np.abs(as_equal - MEANS).mean()


def test_reading_estimates_changes_nothing() -> None:
    policy = make_contextual("auto", groups=3, arms=2, epsilon=3, answers="one of many", pool=False, seed=1)
    lived(policy, 500, SHARES, MEANS)
    before = policy.fold_digest()
    policy.estimates(), policy.intervals(), policy.suspects()
    assert policy.fold_digest() == before
    assert policy.shares().min() > 0
    assert make_contextual("auto", groups=3, arms=2, epsilon=1, shares=policy.shares()).groups == 3


def test_bits_reveal_no_shares() -> None:
    bits = make_contextual("klucb-cf", groups=3, arms=2, epsilon=1, answers="bit", pool=False, seed=1)
    lived(bits, 300, SHARES, MEANS)
    assert bits.shares() == pytest.approx([1 / 3] * 3)
    assert np.array_equal(bits.estimates(), [own.estimates() for own in bits.by_group])
    tree = make_contextual("klucb-cf", partition=Partition.tree(axes=1, depth=2), arms=2, epsilon=6)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    collected = make_contextual("klucb-cf", partition=Partition.tree(axes=1, depth=2), arms=2, epsilon=6, shares=shares)
    for level in range(3):
        masks = [[mask.slope for mask in each.grouping.masks] for each in (tree, collected)]
        cut = slice(*tree.grouping.firsts[level : level + 2])
        ratio = np.array(masks[1][cut]) / masks[0][cut]
        assert shares_module.slope_factors(tree.grouping, level, shares) == pytest.approx(ratio)


def test_contamination_uses_revealed_shares() -> None:
    policy, given = (
        make_contextual(
            "klucb-cf", groups=3, arms=2, epsilon=3, answers="one of many", contamination=0.1, shares=shares, pool=False
        )
        for shares in (None, SHARES)
    )
    for each in (policy, given):
        lived(each, 2_000, SHARES, MEANS)
    times = shares_module.slope_factors(policy.grouping, 0, np.array(SHARES))
    for own, other, stretch in zip(policy.by_group, given.by_group, times, strict=True):
        assert shares_module.with_slope(own, stretch).estimates() == pytest.approx(other.estimates())
        assert shares_module.with_slope(own, stretch).intervals() == pytest.approx(other.intervals())


UNEQUAL, APART = [0.85, 0.15], [[0.9, 0.3], [0.3, 0.8]]


def of_bits(**others: Any) -> Contextual:
    return make_contextual("klucb-cf", groups=2, arms=2, epsilon=1, answers="bit", seed=1, **{"pool": False, **others})


def answer_bits(policy: Contextual, visitors: int) -> None:
    """Let visitors of two unequal groups answer with bits: each arm as often as the other, and random signs."""
    rng, collected = np.random.default_rng(1), []
    signs = [np.array([first, second]) for first in range(2) for second in range(2)]
    questions = [[policy.question(0, np.full(2, arm), each) for each in signs] for arm in range(2)]
    for visitor in range(visitors):
        question = questions[visitor % 2][int(rng.integers(4))]
        collected.append((question, answer_of(question, int(rng.random() > UNEQUAL[0]), APART, rng)))
    policy.observe_many([question for question, _ in collected], [answer for _, answer in collected])


def test_bounds_hold_for_unknown_shares() -> None:
    """8,000 bits, of groups of which one is nearly everybody: more ones than a half of the visitors could give."""
    policy = of_bits()
    answer_bits(policy, 8_000)
    assert policy.by_group[0].suspects().any()
    assert not policy.suspects().any()
    low, high = np.moveaxis(policy.intervals(), 2, 0)
    assert np.all((low <= APART) & (high >= APART))
    assert low[0, 0] > 0.7
    assert high[0, 1] < 0.5
    assert high[0, 0] == 1.0
    assert low[0, 1] == 0.0
    assert np.array_equal(policy.estimates(), [own.estimates() for own in policy.by_group])
    given = of_bits(shares=UNEQUAL)
    answer_bits(given, 1_000)
    assert np.array_equal(given.intervals(), [own.intervals() for own in given.by_group])


def test_liars_are_suspect_for_any_shares() -> None:
    """All answers speak for ones of the second group, and no share of it can give as many."""
    policy = of_bits()
    questions = [policy.ask() for _ in range(300)]
    policy.observe_many(questions, [1 ^ question.signs[1] for question in questions if question.signs])
    assert policy.suspects()[1].any()
    assert not policy.suspects()[0].any()


@pytest.mark.parametrize("kind", masks.KINDS)
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_bound_for_any_share_holds_for_each(kind: str, share: float) -> None:
    """What is seen of a mean through the mask of a share, taken for what is seen through that of everybody."""
    seen, most = (masks.half_slopes(kind, 1.0, np.array([each, 1.0])) for each in (share, 1.0))
    for mean in np.linspace(0.0, 1.0, 21):
        as_everybody = 0.5 + (mean - 0.5) * seen[0] / most[0]
        low, high = shares_module.bounds_for_any_share(np.array([as_everybody - 0.01, as_everybody + 0.01]))
        assert low <= mean <= high


def test_unknown_shares_of_tree_use_largest_slope() -> None:
    grouping = make_contextual("klucb-cf", partition=Partition.tree(axes=1, depth=2), arms=2, epsilon=1).grouping
    assert shares_module.slope_factors(grouping, 0, None) == pytest.approx([1.0])
    assert shares_module.slope_factors(grouping, 1, None) == pytest.approx([2.0] * 2)
    assert shares_module.slope_factors(grouping, 2, None) == pytest.approx([4.0] * 4)
