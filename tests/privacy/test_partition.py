"""Partitions: every point has a cell, and errors never repeat a feature."""

import itertools
import math
import sys
from typing import Any

import numpy as np
import pytest

from maskedbandits.errors import UserError
from maskedbandits.privacy import Partition


@pytest.mark.parametrize("intervals", [[1], [4], [3, 2], [2, 3, 4]])
def test_cell_is_an_interval_of_each_axis(intervals: list[int]) -> None:
    """Check the middles of all intervals, in order, and their lower ends."""
    grid = Partition(intervals)
    every = list(itertools.product(*(range(many) for many in intervals)))
    for offset in (0.5, 0.01):
        points = [[(index + offset) / many for index, many in zip(at, intervals, strict=True)] for at in every]
        assert [grid.cell(point) for point in points] == list(range(grid.cells)) == list(range(math.prod(intervals)))


def test_outside_features_are_in_nearest_cell() -> None:
    grid = Partition([3, 3])
    assert [grid.cell(point) for point in ([0, 0], [1, 1], [-5, 0.5], [1e300, -1e300])] == [0, 8, 1, 6]
    most = sys.float_info.max  # times an interval it is no number any more
    assert [grid.cell(point) for point in ([most, -most], [1e308, 0.5], [10**400, -(10**400)])] == [6, 7, 6]


@pytest.mark.parametrize("intervals", [[], [0], [3, -1], [100, 100]])
def test_invalid_partition_is_refused(intervals: list[int]) -> None:
    with pytest.raises(UserError, match="4,096 cells"):
        Partition(intervals)


@pytest.mark.parametrize("features", [[0.123], [0.123, math.nan], [0.123, math.inf], [0.123, 0.1, 0.1]])
def test_wrong_features_are_refused_and_not_repeated(features: list[float]) -> None:
    with pytest.raises(UserError) as caught:
        Partition([3, 3]).cell(features)
    assert "0.123" not in str(caught.value)


# neither complex numbers nor arrays are one number; what has no order is nobody's features; bytes are a text
ODD = [[1j, 0], [np.array([0.1, 0.2]), 0.1], {0.1, 0.2}, {0.1: 0, 0.2: 0}, b"12"]


@pytest.mark.parametrize("features", [None, 3, [None, 0.5], ["0.5", 0.5], "12", [[0.5], 0.5], *ODD])
def test_non_features_are_refused_in_one_line(features: Any) -> None:
    with pytest.raises(UserError, match=r"numbers in \[0, 1\]"):
        Partition([2, 2]).cell(features)


@pytest.mark.parametrize("intervals", [None, 3])
def test_non_intervals_are_refused_in_one_line(intervals: Any) -> None:
    with pytest.raises(UserError, match="must be a list"):
        Partition(intervals)
