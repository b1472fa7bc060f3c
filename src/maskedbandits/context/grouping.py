"""Which groups a question tells apart, and which kind of answer it asks for."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from maskedbandits.context import masks
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.policies.grains import BEHIND, Grains
from maskedbandits.privacy import Question

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Asked(Question):
    """A question that remembers at which grain it was asked; to a device it is a question like any other."""

    grain: int

    def __init__(
        self, table: Sequence[SupportsIndex], signs: Sequence[SupportsIndex] | None, epsilon: Fraction, grain: int
    ) -> None:
        super().__init__(table, signs, epsilon)
        object.__setattr__(self, "grain", grain)


@dataclass(frozen=True, eq=False)
class Grouping:
    """The grains of a contextual policy, the coarsest first; the finest tells every group from the others."""

    parts: Ints  # (M, G) in which part of each grain a group is
    kinds: tuple[str, ...]  # (M,) of answers
    epsilon: float
    shares: Floats  # (G,)

    def fits(self) -> bool:
        """Tell whether it is a grouping: it may have been read from a file."""
        rows = [np.unique(row) for row in self.parts]
        every = self.parts.ndim == 2 and all(np.array_equal(row, np.arange(row.size)) for row in rows)
        alone = np.array_equal(self.parts[-1], np.arange(self.shares.size))
        return every and alone and len(self.kinds) == len(rows) and set(self.kinds) <= set(masks.KINDS)

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return int(self.parts.shape[1])

    @property
    def sizes(self) -> list[int]:
        """How many parts each grain has."""
        return [int(row.max()) + 1 for row in self.parts]

    @property
    def masks(self) -> list[RandomizedResponse]:
        """The mask through which each part sees an answer, grain by grain."""
        return [
            mask
            for row, kind in zip(self.parts, self.kinds, strict=True)
            for mask in masks.masks(kind, self.epsilon, np.asarray(np.bincount(row, self.shares), dtype=np.float64))
        ]

    def fresh(self, arms: int) -> Grains:
        """Return the grains as compiled code has them, before the first question."""
        sizes = self.sizes
        return Grains(
            firsts=np.append(0, np.cumsum(sizes)),
            parts=self.parts.astype(np.int64),
            shares=self.shares.copy(),
            slopes=np.array(
                [masks.slope(kind, self.epsilon, size) for kind, size in zip(self.kinds, sizes, strict=True)]
            ),
            one_bit=np.array([int(kind == masks.BIT) for kind in self.kinds]),
            weights=np.array([BEHIND] * (len(sizes) - 1) + [0.0]),
            told=np.zeros(max(sizes)),
            middles=np.zeros(arms),
        )

    def by_part(self, grain: int, values: Sequence[int]) -> Ints | None:
        """Return what a question says to each part of a grain, or None if it does not say one thing to each."""
        row, each = self.parts[grain], np.array(values)
        found = np.zeros(self.sizes[grain], dtype=np.int64)
        found[row] = each
        return found if np.array_equal(found[row], each) else None
