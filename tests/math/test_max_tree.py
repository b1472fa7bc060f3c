"""The root of the tournament is the first of the highest, whatever was placed before."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from maskedbandits.math import max_tree
from trials import examples, outside

place = outside(max_tree.set_score)

scores = st.one_of(st.integers(-2, 2).map(float), st.floats(allow_nan=False), st.just(-math.inf), st.just(math.inf))


@st.composite
def plays(draw: st.DrawFn) -> tuple[int, float, list[tuple[int, float]]]:
    """Arms, the score that all of them begin with, and new scores of some."""
    arms = draw(st.integers(1, 20))
    placed = st.lists(st.tuples(st.integers(0, arms - 1), scores), max_size=40)
    return arms, draw(scores), draw(placed)


def tree(arms: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    leaves = 1 << (arms - 1).bit_length()
    return np.full(2 * leaves, math.nan), np.full(2 * leaves, -1)


def matches(scores: list[float], node: int = 1, first: int = 0) -> Iterator[tuple[int, float, int]]:
    """The slow way: every node of the tree over these scores, the highest of them, and the first arm that has it."""
    best = max(scores)
    yield node, best, first + scores.index(best)
    if len(scores) > 1:
        half = len(scores) // 2
        yield from matches(scores[:half], 2 * node, first)
        yield from matches(scores[half:], 2 * node + 1, first + half)


@examples(200)
@given(plays())
@example((3, 0.0, [(1, 0.0), (2, 0.0), (0, -1.0), (1, -1.0)]))
def test_every_match_is_won_by_the_first_of_the_highest(play: tuple[int, float, list[tuple[int, float]]]) -> None:
    arms, begin, placed = play
    values, winners = tree(arms)
    max_tree.fill(values, winners, arms, begin)
    slow = [begin] * arms + [-math.inf] * (values.size // 2 - arms)
    assert all((values[node], winners[node]) == (best, arm) for node, best, arm in matches(slow))
    for arm, score in placed:
        slow[arm] = score
        place(values, winners, arm, score)
        assert all((values[node], winners[node]) == (best, arm) for node, best, arm in matches(slow))


@pytest.mark.parametrize("arms", [1, 2, 3, 5, 8, 1000])
def test_leaves_beyond_the_arms_never_win(arms: int) -> None:
    values, winners = tree(arms)
    max_tree.fill(values, winners, arms, -math.inf)
    assert winners[1] == 0
    for arm in range(arms):
        place(values, winners, arm, float(arm))
        assert (values[1], winners[1]) == (arm, arm)
    for arm in reversed(range(arms)):
        assert winners[1] == arm
        place(values, winners, arm, -math.inf)
    assert winners[1] == 0
