"""The hierarchy of groups: which of them a question tells apart, and which kind of answer it asks for."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.contextual import masks
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.policies.groups import BEHIND, POOL, TREE, Answers, Levels
from maskedbandits.policies.index.report_masks import ARMS_OWN
from maskedbandits.privacy import Partition, Question

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ParsedQuestion(NamedTuple):
    """A question by part."""

    level: int
    table: Ints  # the arm of each part
    signs: Ints | None  # the sign of each part, if the answer is a bit


@dataclass(frozen=True, eq=False)
class Grouping:
    """The levels of a contextual policy, the coarsest first; the finest tells every group from the others."""

    parts: Ints  # (M, G) the part of each group at each level
    kinds: tuple[str, ...]  # (M,) of answers
    epsilon: float
    shares: Floats  # (G,)
    tree: bool = False  # whether the levels have the habits of a tree, and not those of a pool

    @classmethod
    def of_groups(cls, answers: str | None, epsilon: float, shares: Floats, pool: bool | None) -> "Grouping":
        """Return the levels of named groups: each group alone, and all as one if they are pooled."""
        kind, alone = answers or masks.better_kind(epsilon, shares), np.arange(shares.size)
        pooled = (kind == masks.BIT if pool is None else pool) and shares.size > 1
        parts, kinds = (np.stack([0 * alone, alone]), (masks.BIT, kind)) if pooled else (alone[None, :], (kind,))
        return cls(parts, kinds, epsilon, shares)

    @classmethod
    def of_tree(cls, parts: Ints, answers: str | None, epsilon: float, shares: Floats) -> "Grouping":
        """Return the levels of a tree, each with the given kind of answer or the one that needs fewer visitors."""
        finer = [answers or masks.better_kind(epsilon, _sums(row, shares)) for row in parts[1:]]
        return cls(parts, (masks.BIT, *finer), epsilon, shares, tree=True)

    def is_valid(self) -> bool:
        """Return whether the levels fit together; they may have been read from a file."""
        rows = [np.unique(row) for row in self.parts]
        every = self.parts.ndim == 2 and all(np.array_equal(row, np.arange(row.size)) for row in rows)
        alone = np.array_equal(self.parts[-1], np.arange(self.shares.size))
        pairs = zip(self.parts[:-1], self.parts[1:], strict=True)
        nested = all(np.array_equal(up[_members(row)][row], up) for up, row in pairs)
        known = len(self.kinds) == len(rows) and set(self.kinds) <= set(masks.KINDS)
        return every and alone and nested and known and (self._is_tree() if self.tree else self._is_pool())

    def _is_pool(self) -> bool:
        """Return whether groups are asked each alone, and possibly all as one."""
        return self.finest == 0 or (self.finest == 1 and self.sizes[0] == 1 and self.kinds[0] == masks.BIT)

    def _is_tree(self) -> bool:
        """Return whether the levels are the grids of a tree."""
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
        """Index of the level that tells every group from the others."""
        return len(self.kinds) - 1

    @property
    def all_learn(self) -> bool:
        """Whether the policy of every group learns from every answer, so that its time counts visitors."""
        return self.finest == 0 and (self.kinds[0] == masks.BIT or self.groups == 1)

    def parse(self, level: int, question: Question) -> ParsedQuestion | None:
        """Return a question by part of a level; None if it does not fit this level."""
        table = self.by_part(level, question.table)
        signs = None if question.signs is None else self.by_part(level, question.signs)
        is_bit = self.kinds[level] == masks.BIT
        named = None if is_bit or level == self.finest else tuple(self.parts[level].tolist())
        if table is None or question.parts != named or is_bit != (question.signs is not None):
            return None
        return None if is_bit and signs is None else ParsedQuestion(level, table, signs)

    @lockfree_cached_property
    def sizes(self) -> list[int]:
        """Number of parts of each level."""
        return [int(row.max()) + 1 for row in self.parts]

    @lockfree_cached_property
    def firsts(self) -> Ints:
        """Index of the first policy of each level, and the number of policies."""
        return np.append(0, np.cumsum(self.sizes))

    @property
    def masks(self) -> list[RandomizedResponse]:
        """Mask through which each part sees an answer, level by level."""
        pairs = zip(self.kinds, self.shares_of_parts, strict=True)
        return [mask for kind, shares in pairs for mask in masks.masks(kind, self.epsilon, shares)]

    @lockfree_cached_property
    def shares_of_parts(self) -> list[Floats]:
        """Shares of the parts of each level."""
        return [_sums(row, self.shares) for row in self.parts]

    def build_levels(self, arms: int) -> Levels:
        """Return the levels for compiled code, before the first question."""
        sizes = self.sizes
        many = len(sizes)
        weights = np.array([BEHIND * level if self.tree else BEHIND * (level < many - 1) for level in range(many)])
        return Levels(
            firsts=self.firsts.copy(),
            parts=self.parts.astype(np.int64),
            shares=self.shares.copy(),
            slopes=np.array(
                [masks.slope(kind, self.epsilon, size) for kind, size in zip(self.kinds, sizes, strict=True)]
            ),
            one_bit=np.array([int(kind == masks.BIT) for kind in self.kinds]),
            weights=weights,
            feedbacks=np.zeros(max(sizes)),
            habits=TREE if self.tree else POOL,
            parents=self._parents(),
            members=np.concatenate([_members(row) for row in self.parts]),
            part_shares=np.concatenate(self.shares_of_parts),
            worths=np.zeros(sum(sizes) * arms),
            means=np.zeros(sum(sizes) * arms),
            informed=np.zeros(sum(sizes) * arms),
            chances=np.zeros(many),
            decided=np.zeros(max(sizes), dtype=np.int64),
            named=np.zeros(self.groups, dtype=np.int64),
            expected=np.zeros(2),
        )

    def _parents(self) -> Ints:
        """Return, for the policy of each part, that of the part around it, one level up; -1 if there is none."""
        parents = [np.full(self.sizes[0], -1)]
        for up, row in enumerate(self.parts[1:]):
            parents.append(self.firsts[up] + self.parts[up][_members(row)])
        return np.concatenate(parents).astype(np.int64)

    def by_part(self, level: int, values: Sequence[int]) -> Ints | None:
        """Return a number for each part of a level from those of its groups; None if the groups of a part differ."""
        row, each = self.parts[level], np.array(values)
        values_of_parts = np.zeros(self.sizes[level], dtype=np.int64)
        values_of_parts[row] = each
        return values_of_parts if np.array_equal(values_of_parts[row], each) else None


def one_for_all(shares: Floats, arms: int) -> Levels:
    """Return the single level of a policy without groups: one part, for which a bit is plain feedback."""
    everybody = np.zeros((1, shares.size), dtype=np.int64)
    return Grouping(everybody, (masks.BIT,), math.inf, shares).build_levels(arms)


def _sums(row: Ints, shares: Floats) -> Floats:
    """Return the shares of the parts of a level."""
    return np.asarray(np.bincount(row, shares), dtype=np.float64)


def _members(row: Ints) -> Ints:
    """Return one group of each part of a level."""
    return np.unique(row, return_index=True)[1].astype(np.int64)


def build_answers(
    grouping: Grouping,
    levels: Ints,
    tables: Ints,
    signs: Ints,
    values: Ints,
    epsilons: Sequence[Fraction],
    usual: Fraction,
) -> Answers:
    """Return answers for compiled code; answers of another epsilon than the usual one have masks of their own."""
    others = {epsilon: index for index, epsilon in enumerate(sorted(set(epsilons) - {usual}))}
    seen = [_lines_and_slopes(grouping, epsilon) for epsilon in others]
    return Answers(
        levels=levels,
        tables=tables,
        signs=signs,
        values=values,
        masks=np.array([others.get(epsilon, ARMS_OWN) for epsilon in epsilons], dtype=np.int64),
        lines=np.concatenate([np.zeros((0, 3)), *(lines for lines, _ in seen)]),
        slopes=np.array([slopes for _, slopes in seen]).reshape(-1, len(grouping.kinds)),
    )


@lru_cache(maxsize=256)
def _lines_and_slopes(grouping: Grouping, epsilon: Fraction) -> tuple[Floats, Floats]:
    """Return the line through which each policy sees answers of an epsilon, and their slope at every level."""
    own, pairs = float(epsilon), list(zip(grouping.kinds, grouping.shares_of_parts, strict=True))
    highs = 0.5 + np.concatenate([masks.half_slopes(kind, own, shares) for kind, shares in pairs])
    lines = np.stack([np.zeros(highs.size), 1.0 - highs, highs], axis=1)
    return lines, np.array([masks.slope(kind, own, shares.size) for kind, shares in pairs])


def first_masked(answers: Answers) -> int:
    """Return the position of the first answer with a mask of its own, or the number of answers."""
    masked = np.flatnonzero(answers.masks != ARMS_OWN)
    return int(masked[0]) if masked.size else answers.values.size


def split_answers(answers: Answers, at_once: int) -> Iterator[Answers]:
    """Yield answers in batches."""
    for begin in range(0, answers.values.size, at_once):
        yield slice_answers(answers, begin, begin + at_once)


def slice_answers(answers: Answers, begin: int, end: int) -> Answers:
    """Return the answers from one position up to another."""
    cut = slice(begin, end)
    return answers._replace(
        levels=answers.levels[cut],
        tables=answers.tables[cut],
        signs=answers.signs[cut],
        values=answers.values[cut],
        masks=answers.masks[cut],
    )
