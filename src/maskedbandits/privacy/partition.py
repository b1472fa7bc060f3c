"""A published partition of features into cells: the device finds its own cell, which is its group in a question.

Features are numbers in [0, 1], as many as there are axes. Every axis is cut into equal intervals, and a cell is one
interval of each. A *tree* is a grid whose axes were halved again and again, and remembers how: its cells lie in those
of every coarser grid, up to one cell for everybody. The device finds its cell in the finest. Nothing but the masked
answer to a question leaves the device, so features are as private as a group.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, SupportsIndex

from ..errors import UserError
from .exact import as_whole

MOST_CELLS = 1 << 12


@dataclass(frozen=True)
class Partition:
    """A grid: ``intervals`` says into how many each axis is cut; ``tree`` makes one that was halved.

    >>> grid = Partition([3, 2])
    >>> grid.cells, grid.cell([0.5, 0.9])
    (6, 3)
    """

    intervals: tuple[int, ...]
    depth: int = 0  # how often the axes of a tree were halved; 0 of a grid

    def __init__(self, intervals: Sequence[SupportsIndex]) -> None:
        if not isinstance(intervals, Iterable):
            raise UserError("a partition has a list of intervals, one for each axis: give such")
        each = tuple(as_whole("intervals of an axis", many) for many in intervals)
        if not each or min(each) < 1 or math.prod(each) > MOST_CELLS:
            raise UserError(
                f"a partition has 1 to {MOST_CELLS:,} cells, and 1 interval or more on every axis: give such"
            )
        object.__setattr__(self, "intervals", each)

    @classmethod
    def tree(cls, axes: SupportsIndex, depth: SupportsIndex) -> "Partition":
        """Return the finest grid of a tree: every axis is halved so many times.

        >>> Partition.tree(axes=2, depth=3).intervals
        (8, 8)
        """
        many, times = as_whole("axes", axes), as_whole("depth", depth)
        if min(many, times) < 1 or many * times > math.log2(MOST_CELLS):
            raise UserError(f"a tree has 1 axis and 1 halving or more, and up to {MOST_CELLS:,} cells: give such")
        made = cls([1 << times] * many)
        object.__setattr__(made, "depth", times)
        return made

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """In which cell of each grid of the tree every cell of the finest lies, the coarsest first."""
        every = list(itertools.product(*(range(many) for many in self.intervals)))
        coarser = [Partition([many >> left for many in self.intervals]) for left in range(self.depth, -1, -1)]
        return tuple(
            tuple(grid._number([place >> self.depth - level for place in at]) for at in every)
            for level, grid in enumerate(coarser)
        )

    @property
    def cells(self) -> int:
        """Number of cells: of groups, to a policy."""
        return math.prod(self.intervals)

    def cell(self, features: Sequence[float]) -> int:
        """Return the cell of somebody's features; what lies outside [0, 1] is in the nearest. No error repeats them."""
        told = _numbers(features)
        if told is None:
            raise UserError("a feature is not a number, or these are no list: give numbers in [0, 1]")
        if len(told) != len(self.intervals):
            raise UserError(f"features of another partition: give {len(self.intervals)} numbers, one for each axis")
        if not all(-math.inf < value < math.inf for value in told):
            raise UserError("a feature is not a finite number: give numbers in [0, 1]")
        return self._number(
            [
                min(math.floor(min(max(value, 0.0), 1.0) * many), many - 1)  # within [0, 1] no product overflows
                for value, many in zip(told, self.intervals, strict=True)
            ]
        )

    def _number(self, places: Sequence[int]) -> int:
        """Return the number of the cell of these intervals: the last axis counts fastest."""
        found = 0
        for place, many in zip(places, self.intervals, strict=True):
            found = found * many + place
        return found


def _numbers(features: Any) -> list[Any] | None:
    """Return features as numbers in their order; None if some is none, or they have no order."""
    if isinstance(features, (bytes, bytearray, Set, Mapping)):
        return None
    try:
        told = [value + 0 for value in features]  # + 0: a text is no number
    except TypeError:
        return None
    return told if all(isinstance(value, (Real, Decimal)) for value in told) else None
