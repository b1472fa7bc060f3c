"""A published partition of features into cells. The device finds its cell, which is its group in a query.

Features are numbers in [0, 1], one for each axis. Every axis is divided into equal intervals, and a cell is one
interval of each. A *tree* is a grid whose axes were halved repeatedly: its cells lie in those of every coarser grid, up
to one cell for everybody. The device finds its cell in the finest grid. Only the masked answer to a query leaves the
device, so features are as private as a group.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, SupportsIndex

from ..errors import UserError
from .exact import check_whole

MAX_CELLS = 1 << 12


@dataclass(frozen=True)
class Partition:
    """A grid of cells over features in [0, 1].

    Parameters
    ----------
    intervals
        The number of intervals of each axis, up to 4,096 cells in all.

    Raises
    ------
    UserError
        The intervals are not positive whole numbers, or give too many cells.

    Examples
    --------
    >>> grid = Partition([3, 2])
    >>> grid.cells, grid.cell([0.5, 0.9])
    (6, 3)

    """

    intervals: tuple[int, ...]
    depth: int = 0  # how often the axes were halved; 0 for a plain grid

    def __init__(self, intervals: Sequence[SupportsIndex]) -> None:
        if not isinstance(intervals, Iterable):
            raise UserError("intervals must be a list: give the number of intervals of each axis")
        counts = tuple(check_whole("intervals of an axis", many) for many in intervals)
        if not counts or min(counts) < 1 or math.prod(counts) > MAX_CELLS:
            raise UserError(f"a partition needs at least 1 interval per axis and at most {MAX_CELLS:,} cells in all")
        object.__setattr__(self, "intervals", counts)

    @classmethod
    def tree(cls, axes: SupportsIndex, depth: SupportsIndex) -> "Partition":
        """Return the finest grid of a tree.

        Parameters
        ----------
        axes
            The number of features.
        depth
            How often every axis is halved.

        Returns
        -------
        Partition
            A grid of ``2 ** depth`` intervals an axis.

        Raises
        ------
        UserError
            The tree has no cells, or too many.

        Examples
        --------
        >>> Partition.tree(axes=2, depth=3).intervals
        (8, 8)

        """
        many, halvings = check_whole("axes", axes), check_whole("depth", depth)
        if min(many, halvings) < 1 or many * halvings > math.log2(MAX_CELLS):
            raise UserError(f"a tree needs at least 1 axis, a depth of at least 1, and at most {MAX_CELLS:,} cells")
        partition = cls([1 << halvings] * many)
        object.__setattr__(partition, "depth", halvings)
        return partition

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The cell of every finest cell in each grid of the tree, coarsest first."""
        every = list(itertools.product(*(range(many) for many in self.intervals)))
        coarser = [Partition([many >> left for many in self.intervals]) for left in range(self.depth, -1, -1)]
        return tuple(
            tuple(grid._cell_number([index >> self.depth - level for index in at]) for at in every)
            for level, grid in enumerate(coarser)
        )

    @property
    def cells(self) -> int:
        """Number of cells, which are a policy's groups."""
        return math.prod(self.intervals)

    def cell(self, features: Sequence[float]) -> int:
        """Return the cell of a person's features.

        Parameters
        ----------
        features
            One number for each axis. Values outside [0, 1] belong to the nearest cell.

        Returns
        -------
        int
            The number of the cell.

        Raises
        ------
        UserError
            These are not as many finite numbers. Errors never repeat the features.

        Examples
        --------
        >>> Partition([2, 2]).cell([0.9, 0.1])
        2

        """
        values = _as_numbers(features)
        if values is None:
            raise UserError("features must be a list of numbers in [0, 1]")
        if len(values) != len(self.intervals):
            raise UserError(f"wrong number of features: give {len(self.intervals)}, one for each axis")
        if not all(-math.inf < value < math.inf for value in values):
            raise UserError("a feature is not a finite number: give numbers in [0, 1]")
        return self._cell_number(
            [
                min(math.floor(min(max(value, 0.0), 1.0) * many), many - 1)  # clip first: no product overflows
                for value, many in zip(values, self.intervals, strict=True)
            ]
        )

    def _cell_number(self, indices: Sequence[int]) -> int:
        """Return the number of the cell of these intervals; the last axis counts fastest."""
        number = 0
        for index, many in zip(indices, self.intervals, strict=True):
            number = number * many + index
        return number


def _as_numbers(features: Any) -> list[Any] | None:
    """Return features as an ordered list of numbers; None if they are not."""
    if isinstance(features, (bytes, bytearray, Set, Mapping)):
        return None
    try:
        values = [value + 0 for value in features]  # + 0 rejects text
    except TypeError:
        return None
    return values if all(isinstance(value, (Real, Decimal)) for value in values) else None
