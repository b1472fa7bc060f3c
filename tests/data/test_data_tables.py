"""Rounds, logs and segments: their means, and invalid tables."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.data.tables import Log, Rounds, Segments, find_periods, table_kind
from maskedbandits.errors import UserError
from naive import data as naive

ROUNDS: dict[str, Any] = {
    "arms": ("a", "b"),
    "outcomes": [[0, 1], [1, 1], [0, 0]],
    "starts": np.array([0, 2]),
    "period": "a month",
    "labels": ("May", "June"),
}
LOG: dict[str, Any] = {
    "arms": ("a", "b"),
    "chosen": np.array([0, 1, 1]),
    "rewards": [0.5, 1, 0],
    "starts": np.array([0, 2]),
    "period": "a day",
    "labels": ("Monday", "Tuesday"),
}
SEGMENTS: dict[str, Any] = {
    "arms": ("a", "b"),
    "means": [[0.1, 0.2], [0.2, 0.1]],
    "starts": np.array([0, 5]),
    "horizon": 9,
    "period": "a test",
    "labels": ("1", "2"),
}


@st.composite
def cut(draw: st.DrawFn) -> tuple[int, list[str]]:
    """Draw the number of arms and the period of every row."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    return draw(st.integers(2, 4)), [str(index) for index, length in enumerate(lengths) for _ in range(length)]


@given(cut(), st.data())
def test_means_of_rounds_match_twin(drawn: tuple[int, list[str]], data: st.DataObject) -> None:
    arms, periods = drawn
    outcomes = [data.draw(st.lists(st.floats(0, 1), min_size=arms, max_size=arms)) for _ in periods]
    starts, labels = find_periods(periods)
    table = Rounds(tuple("abcd"[:arms]), np.array(outcomes), starts, "a part", labels)
    assert labels == tuple(dict.fromkeys(periods))
    assert table.horizon == len(periods)
    twin = naive.means(arms, [(name, dict(enumerate(row))) for name, row in zip(periods, outcomes, strict=True)])
    np.testing.assert_allclose(table.means, twin, rtol=0, atol=1e-12)


@given(cut(), st.data())
def test_means_of_log_match_twin(drawn: tuple[int, list[str]], data: st.DataObject) -> None:
    arms, periods = drawn
    chosen = [data.draw(st.integers(0, arms - 1)) for _ in periods]
    rewards = [data.draw(st.floats(0, 1)) for _ in periods]
    starts, labels = find_periods(periods)
    table = Log(tuple("abcd"[:arms]), np.array(chosen), np.array(rewards), starts, "a part", labels)
    rows = [(name, {arm: reward}) for name, arm, reward in zip(periods, chosen, rewards, strict=True)]
    np.testing.assert_allclose(table.means, naive.means(arms, rows), rtol=0, atol=1e-12)
    assert table.counts.tolist() == [
        [sum(one == arm for name, one in zip(periods, chosen, strict=True) if name == label) for arm in range(arms)]
        for label in labels
    ]


def test_binary_outcomes_are_stored_as_bytes() -> None:
    assert Rounds(**ROUNDS).outcomes.dtype == np.uint8
    assert Rounds(**{**ROUNDS, "outcomes": [[0, 0.5], [1, 1], [0, 0]]}).outcomes.dtype == np.float64


@pytest.mark.parametrize(("kind", "values"), [(Rounds, ROUNDS), (Log, LOG), (Segments, SEGMENTS)])
def test_tables_are_immutable(kind: type[Any], values: dict[str, Any]) -> None:
    table = kind(**values)
    assert table_kind(table) == kind.__name__.lower()
    with pytest.raises(ValueError, match="read-only"):
        table.starts[0] = 1
    with pytest.raises(AttributeError):
        table.period = "a year"


def test_segments_fit_a_problem() -> None:
    from maskedbandits import Problem, RandomizedResponse

    table = Segments(**SEGMENTS)
    problem = Problem(table.means, table.starts, table.horizon, RandomizedResponse.from_epsilon(1))
    assert problem.lengths.tolist() == [5, 4]
    assert table.counts.tolist() == [[5, 5], [4, 4]]


@pytest.mark.parametrize(
    ("kind", "changed", "complaint"),
    [
        (Rounds, {"outcomes": [[0, 1], [1], [0, 0]]}, "row.*equally long"),
        (Rounds, {"outcomes": [[0, 1, 1]] * 3}, "3 columns for 2"),
        (Rounds, {"outcomes": [[0, 1], [math.nan, 0], [0, 0]]}, "arm 0.*nan.*round 1"),
        (Rounds, {"outcomes": [[0, 1], [0, 0], [0, 1.5]]}, "arm 1.*1.5.*round 2"),
        (Rounds, {"outcomes": [[0, -1], [0, 0], [0, 1]]}, "arm 1.*-1.0.*round 0"),
        (Rounds, {"outcomes": np.zeros((0, 2))}, r"have shape \(0, 2\)"),
        (Rounds, {"arms": ("a",)}, "give at least two"),
        (Rounds, {"arms": ("a", "a")}, "two arms are called 'a'"),
        (Rounds, {"arms": ("a", "")}, "arm = ''"),
        (Rounds, {"arms": ("a", "b\n")}, "a text on one line"),
        (Rounds, {"starts": np.array([1, 2])}, "increasing numbers that begin with 0"),
        (Rounds, {"starts": np.array([0, 0])}, "increasing numbers that begin with 0"),
        (Rounds, {"starts": np.array([0, 3])}, "starts: 3 is not before the end, 3"),
        (Rounds, {"starts": np.array([0.0, 1.5])}, "starts = array"),
        (Rounds, {"labels": ("May",)}, "2 starts but 1 labels"),
        (Rounds, {"period": ""}, "period = ''"),
        (Log, {"chosen": np.array([0, 2, 1])}, "row 1 has arm 2: give arms from 0 to 1"),
        (Log, {"chosen": np.array([0, -1, 1])}, "row 1 has arm -1"),
        (Log, {"chosen": np.array([0, 1])}, "give two lists of one length"),
        (Log, {"chosen": np.array([0.0, 1.5, 1.0])}, "give whole numbers"),
        (Log, {"rewards": [0, 2, 0]}, "rewards: 2.0 in row 1: give numbers in"),
        (Segments, {"means": [[0.1, 0.2]]}, "2 starts but 1 rows of means"),
        (Segments, {"horizon": 5}, "starts: 5 is not before the end, 5"),
        (Segments, {"horizon": 0}, "horizon = 0"),
    ],
)
def test_invalid_tables_are_one_line(kind: type[Any], changed: dict[str, Any], complaint: str) -> None:
    values = {Rounds: ROUNDS, Log: LOG, Segments: SEGMENTS}[kind]
    kind(**values)  # as it is, it is taken
    with pytest.raises(UserError, match=complaint) as caught:
        kind(**{**values, **changed})
    assert "\n" not in str(caught.value)
