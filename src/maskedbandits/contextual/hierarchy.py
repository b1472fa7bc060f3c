"""Which groups a question tells apart, and which kind of answer it asks for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.contextual import masks
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.policies.groups.levels import BEHIND, POOL, TREE, Grains
from maskedbandits.privacy import Partition, Question

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Read(NamedTuple):
    """A question taken apart."""

    grain: int
    table: Ints  # an arm for each part
    signs: Ints | None  # and a sign


@dataclass(frozen=True, eq=False)
class Grouping:
    """The grains of a contextual policy, the coarsest first; the finest tells every group from the others."""

    parts: Ints  # (M, G) in which part of each grain a group is
    kinds: tuple[str, ...]  # (M,) of answers
    epsilon: float
    shares: Floats  # (G,)
    tree: bool = False  # whether they have the habits of a tree, not those of a pool

    @classmethod
    def of_groups(cls, answers: str | None, epsilon: float, shares: Floats, pool: bool | None) -> "Grouping":
        """Return the grains of groups that somebody named: each alone, and all as one if they are pooled."""
        kind, alone = answers or masks.better_kind(epsilon, shares), np.arange(shares.size)
        pooled = (kind == masks.BIT if pool is None else pool) and shares.size > 1
        parts, kinds = (np.stack([0 * alone, alone]), (masks.BIT, kind)) if pooled else (alone[None, :], (kind,))
        return cls(parts, kinds, epsilon, shares)

    @classmethod
    def of_tree(cls, parts: Ints, answers: str | None, epsilon: float, shares: Floats) -> "Grouping":
        """Return the grains of a tree, each with the kind of answers that needs fewer visitors, or with that given."""
        finer = [answers or masks.better_kind(epsilon, _sums(row, shares)) for row in parts[1:]]
        return cls(parts, (masks.BIT, *finer), epsilon, shares, tree=True)

    def fits(self) -> bool:
        """Tell whether it is a grouping: it may have been read from a file."""
        rows = [np.unique(row) for row in self.parts]
        every = self.parts.ndim == 2 and all(np.array_equal(row, np.arange(row.size)) for row in rows)
        alone = np.array_equal(self.parts[-1], np.arange(self.shares.size))
        pairs = zip(self.parts[:-1], self.parts[1:], strict=True)
        nested = all(np.array_equal(up[_members(row)][row], up) for up, row in pairs)
        known = len(self.kinds) == len(rows) and set(self.kinds) <= set(masks.KINDS)
        return every and alone and nested and known and (self._is_tree() if self.tree else self._is_pool())

    def _is_pool(self) -> bool:
        """Tell whether groups are asked each alone, or all as one, too."""
        return self.finest == 0 or (self.finest == 1 and self.sizes[0] == 1 and self.kinds[0] == masks.BIT)

    def _is_tree(self) -> bool:
        """Tell whether its grains are the grids of a tree."""
        axes = (self.groups.bit_length() - 1) // max(self.finest, 1)
        if self.kinds[0] != masks.BIT or axes < 1 or 1 << axes * self.finest != self.groups:
            return False
        return np.array_equal(self.parts, Partition.tree(axes, self.finest).parts)

    @lockfree_cached_property
    def groups(self) -> int:
        """Number of groups, G."""
        return int(self.parts.shape[1])

    @property
    def finest(self) -> int:
        """The number of the grain that tells every group from the others."""
        return len(self.kinds) - 1

    @property
    def everybody_hears(self) -> bool:
        """Tell whether the policy of every group learns from every answer, so that it counts as many as visitors."""
        return self.finest == 0 and (self.kinds[0] == masks.BIT or self.groups == 1)

    def read(self, grain: int, question: Question) -> "Read | None":
        """Return a question taken apart, as one of a grain; None if it cannot be one."""
        table = self.by_part(grain, question.table)
        signs = None if question.signs is None else self.by_part(grain, question.signs)
        is_bit = self.kinds[grain] == masks.BIT
        named = None if is_bit or grain == self.finest else tuple(self.parts[grain].tolist())
        if table is None or question.parts != named or is_bit != (question.signs is not None):
            return None
        return None if is_bit and signs is None else Read(grain, table, signs)

    @lockfree_cached_property
    def sizes(self) -> list[int]:
        """How many parts each grain has."""
        return [int(row.max()) + 1 for row in self.parts]

    @lockfree_cached_property
    def firsts(self) -> Ints:
        """The number of the first policy of each grain, and how many there are in all."""
        return np.append(0, np.cumsum(self.sizes))

    @property
    def masks(self) -> list[RandomizedResponse]:
        """The mask through which each part sees an answer, grain by grain."""
        pairs = zip(self.kinds, self.shares_of_parts, strict=True)
        return [mask for kind, shares in pairs for mask in masks.masks(kind, self.epsilon, shares)]

    @lockfree_cached_property
    def shares_of_parts(self) -> list[Floats]:
        """The shares of the parts of each grain."""
        return [_sums(row, self.shares) for row in self.parts]

    def fresh(self, arms: int) -> Grains:
        """Return the grains as compiled code has them, before the first question."""
        sizes = self.sizes
        many = len(sizes)
        weights = np.array([BEHIND * grain if self.tree else BEHIND * (grain < many - 1) for grain in range(many)])
        return Grains(
            firsts=self.firsts.copy(),
            parts=self.parts.astype(np.int64),
            shares=self.shares.copy(),
            slopes=np.array(
                [masks.slope(kind, self.epsilon, size) for kind, size in zip(self.kinds, sizes, strict=True)]
            ),
            one_bit=np.array([int(kind == masks.BIT) for kind in self.kinds]),
            weights=weights,
            told=np.zeros(max(sizes)),
            habits=TREE if self.tree else POOL,
            above=self._above(),
            someone=np.concatenate([_members(row) for row in self.parts]),
            worths=np.zeros(sum(sizes) * arms),
            means=np.zeros(sum(sizes) * arms),
            chances=np.zeros(many),
            decided=np.zeros(max(sizes), dtype=np.int64),
            named=np.zeros(self.groups, dtype=np.int64),
            expected=np.zeros(2),
        )

    def _above(self) -> Ints:
        """Return, for the policy of each part, that of the part in which it lies, one grain up; -1 if there is none."""
        found = [np.full(self.sizes[0], -1)]
        for up, row in enumerate(self.parts[1:]):
            found.append(self.firsts[up] + self.parts[up][_members(row)])
        return np.concatenate(found).astype(np.int64)

    def by_part(self, grain: int, values: Sequence[int]) -> Ints | None:
        """Return what a question says to each part of a grain, or None if it does not say one thing to each."""
        row, each = self.parts[grain], np.array(values)
        found = np.zeros(self.sizes[grain], dtype=np.int64)
        found[row] = each
        return found if np.array_equal(found[row], each) else None


def one_for_all(shares: Floats, arms: int) -> Grains:
    """Return the one grain of a policy without groups: a single part, to which a bit is what it was shown."""
    everybody = np.zeros((1, shares.size), dtype=np.int64)
    return Grouping(everybody, (masks.BIT,), math.inf, shares).fresh(arms)


def _sums(row: Ints, shares: Floats) -> Floats:
    """Return the shares of the parts."""
    return np.asarray(np.bincount(row, shares), dtype=np.float64)


def _members(row: Ints) -> Ints:
    """Return a group of each part."""
    return np.unique(row, return_index=True)[1].astype(np.int64)
