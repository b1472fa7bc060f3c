"""Trees of grids: coarse cells decide until finer ones differ and have enough reports."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_runs import answer_of, lived, naive_play, same_rng
from helpers.private import live_levels, live_state
from maskedbandits import ContextualProblem, load_contextual, make_contextual, simulate
from maskedbandits.contextual import masks
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError
from maskedbandits.privacy import Partition, Question
from naive import Twin
from naive.groups import Pooled

LINE = Partition.tree(axes=1, depth=2)
HALVES = [[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]]


@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_cell_lies_in_coarser_cells(axes: int, depth: int, data: Any) -> None:
    tree = Partition.tree(axes=axes, depth=depth)
    features = data.draw(st.lists(st.floats(0, 1), min_size=axes, max_size=axes))
    for level, row in enumerate(tree.parts):
        assert row[tree.cell(features)] == Partition([2**level] * axes).cell(features)
    assert len(tree.parts) == depth + 1
    assert Partition([2, 3]).parts == (tuple(range(6)),)


@pytest.mark.parametrize(("axes", "depth"), [(0, 1), (1, 0), (2, 7), (13, 1), (1, 10**9)])
def test_invalid_tree_is_refused(axes: int, depth: int) -> None:
    with pytest.raises(UserError, match="tree needs at least"):
        Partition.tree(axes=axes, depth=depth)


@pytest.mark.parametrize("kind", masks.KINDS)
def test_live_tree_equals_twin(kind: str) -> None:
    """Question for question, while people differ by halves: coarse cells decide, finer ones listen, decide, and win."""
    policy = make_contextual("klucb-cf", partition=LINE, arms=2, epsilon=3, answers=kind, seed=7)
    sizes, slopes = policy.grouping.sizes, iter([mask.slope for mask in policy.grouping.masks])
    twin = Pooled(
        [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]],
        [0.25] * 4,
        [[next(slopes) for _ in range(size)] for size in sizes],
        lambda slope: Twin([RandomizedResponse(0.5 + slope / 2, 0.5 + slope / 2)] * 2, "klucb"),
        2,
        tree=True,
    )
    policy_rng, rng, roles = same_rng(live_state(policy).rng[:4]), np.random.default_rng(1), set()
    for _ in range(250):
        question, decides = policy.ask(), twin.drawn(policy_rng)
        level = twin.listening(decides, policy_rng)
        roles.add((decides, level))
        table = twin.decided(decides, level)
        assert (question.level, question.table) == (level, tuple(table[part] for part in twin.parts[level]))
        answer = answer_of(question, int(rng.integers(4)), HALVES, rng)
        policy.observe(question, answer)
        if question.signs is None:
            assert question.answers == 2 * sizes[level]
            twin.take_in_one(level, answer >> 1, table[answer >> 1], float(answer & 1))
        else:
            signs = [question.signs[twin.parts[level].index(part)] for part in range(len(table))]
            feedbacks = [float(answer ^ sign) for sign in signs]
            twin.take_in_bit(level, masks.slope(masks.BIT, 3.0, sizes[level]), table, feedbacks)
        assert live_levels(policy).weights == pytest.approx(twin.weights, abs=1e-9)
    assert {(0, 0), (0, 1), (0, 2)} <= roles


@pytest.mark.parametrize("kind", masks.KINDS)
def test_run_of_tree_equals_twin(kind: str) -> None:
    problem = ContextualProblem(HALVES, [0], 300)
    policy = make_contextual("klucb-cf", partition=LINE, arms=2, epsilon=3, answers=kind)
    played = simulate(problem, policy, runs=1, seed=5, checkpoints=1)
    regret, pulls, weights = naive_play(problem, policy.grouping, 5)
    assert played.regret[0, -1] == pytest.approx(regret)
    assert np.array_equal(played.pulls[0], pulls)
    assert weights[0] == -np.inf  # halves have won


def test_tree_finds_halves_and_their_means(tmp_path: Path) -> None:
    policy = make_contextual("auto", partition=LINE, arms=2, epsilon=6, seed=1)
    lived(policy, HALVES, 1500)
    assert policy.pooled == 0
    assert policy.estimates() == pytest.approx(np.array(HALVES), abs=0.25)
    policy.save(tmp_path / "tree")
    again = load_contextual(tmp_path / "tree")
    assert again.grouping.tree
    assert live_levels(again).habits == live_levels(policy).habits
    assert again.fold_digest() == policy.fold_digest()
    assert np.array_equal(again.estimates(), policy.estimates())


def test_tree_is_close_to_right_grid() -> None:
    """Where all are alike the finest grid loses more, and where quarters differ one cell for all does."""
    tree = Partition.tree(axes=2, depth=2)
    alike, apart = np.tile([0.3, 0.7], (16, 1)), np.array([HALVES[part] for part in tree.parts[1]])

    def lost(means: Any, **how: Any) -> float:
        policy = make_contextual("auto", arms=2, epsilon=2, **how)
        return float(
            simulate(ContextualProblem(means, [0], 20_000), policy, runs=4, seed=3, checkpoints=1).regret.mean()
        )

    assert lost(alike, partition=tree) < 0.5 * lost(alike, partition=tree, pool=False)
    assert lost(apart, partition=tree) < 0.2 * 20_000 * 0.4  # one arm for all loses 0.4 a visitor


def test_either_groups_or_partition() -> None:
    with pytest.raises(UserError, match="partition"):
        make_contextual("auto", arms=2, epsilon=1)
    with pytest.raises(UserError, match="partition"):
        make_contextual("auto", arms=2, epsilon=1, groups=4, partition=LINE)
    with pytest.raises(UserError, match="partition"):
        make_contextual("auto", arms=2, epsilon=1, partition=4)  # type: ignore[arg-type]
    policy = make_contextual("klucb-cf", partition=Partition([3]), arms=2, epsilon=6)
    assert (policy.groups, policy.grouping.tree) == (3, False)


def test_question_about_other_parts_is_refused() -> None:
    policy = make_contextual("klucb-cf", partition=LINE, arms=2, epsilon=6)
    for level, parts in ((1, None), (1, [0, 1, 0, 1]), (2, [0, 0, 1, 1])):
        with pytest.raises(UserError, match="question"):
            policy.observe(Question([0, 0, 0, 0], None, policy.epsilon, parts, level=level), 0)
    policy.observe(Question([0, 0, 0, 0], None, policy.epsilon, [0, 0, 1, 1], level=1), 3)


@pytest.mark.parametrize(
    ("signs", "parts"), [([0, 0], [0, 0]), (None, [0]), (None, [0, 2]), (None, [1, 1]), (None, [0, -1]), (None, 0)]
)
def test_invalid_parts_are_refused(signs: Any, parts: Any) -> None:
    with pytest.raises(UserError, match="parts must"):
        Question([0, 0], signs, 1, parts)
