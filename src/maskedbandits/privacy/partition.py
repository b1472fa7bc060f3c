"""A published partition of features into cells: the device finds its own cell, which is its group in a question.

Features are numbers in [0, 1], as many as there are axes. Every axis is cut into equal intervals, and a cell is one
interval of each. Nothing but the masked answer to a question leaves the device, so features are as private as a group.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import SupportsIndex

from ..errors import UserError
from .exact import as_whole

MOST_CELLS = 1 << 12


@dataclass(frozen=True)
class Partition:
    """A grid: ``intervals`` says into how many each axis is cut.

    >>> grid = Partition([3, 2])
    >>> grid.cells, grid.cell([0.5, 0.9])
    (6, 3)
    """

    intervals: tuple[int, ...]

    def __init__(self, intervals: Sequence[SupportsIndex]) -> None:
        each = tuple(as_whole("intervals of an axis", many) for many in intervals)
        if not each or min(each) < 1 or math.prod(each) > MOST_CELLS:
            raise UserError(
                f"a partition has 1 to {MOST_CELLS:,} cells, and 1 interval or more on every axis: give such"
            )
        object.__setattr__(self, "intervals", each)

    @property
    def cells(self) -> int:
        """Number of cells: of groups, to a policy."""
        return math.prod(self.intervals)

    def cell(self, features: Sequence[float]) -> int:
        """Return the cell of somebody's features; what lies outside [0, 1] is in the nearest. No error repeats them."""
        if len(features) != len(self.intervals):
            raise UserError(f"features of another partition: give {len(self.intervals)} numbers, one for each axis")
        found = 0
        for value, many in zip(features, self.intervals, strict=True):
            if not -math.inf < value < math.inf:
                raise UserError("a feature is not a finite number: give numbers in [0, 1]")
            found = found * many + min(max(math.floor(value * many), 0), many - 1)
        return found
