"""What a device of groups is asked: questions as a hostile server would send them, with every group and reward.

Tables give all groups one arm, each an arm of its own, two arms, or any; signs are all 0, all 1, 1 for the first group
alone, or one of PATTERNS; parts are one for all groups, one for the first and one for all others, one for each, or any.
A third of the questions asks for more than the claim: for the largest epsilon, or for a value drawn for this question
alone from one of six intervals, each half as wide as the one above it and the last one down to the claim. Values are
whole millionths, and no device knows them beforehand. An honest device never uses more than the claim, whatever is
asked. So answers to different values may be counted together: the claim bounds them all.

None depends on group and reward, so no event of a report, by itself or together with the question, may be more than
e^eps times as likely under one input, ``2 group + reward``, as under another.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy.audit.bit_inputs import shuffled
from maskedbandits.privacy.audit.statistics import RUNS, Ints
from maskedbandits.privacy.exact import MOST, as_text
from maskedbandits.privacy.group_query import Question

BIT, ONE_OF_MANY, ONE_OF_PARTS = "bit", "one of many", "one of parts"
TABLES = (
    "where all groups have one arm",
    "where each group has an arm of its own",
    "where arms are drawn",
    "where two arms are drawn",
)
SIGNS = (
    "where all signs are 0",
    "where all signs are 1",
    "where the sign of group 0 alone is 1",
    "where signs are drawn",
)
PARTS = (
    "where all groups are one part",
    "where group 0 is apart from all others",
    "where each group is a part",
    "where parts are drawn",
)
GREEDY = 3  # of so many questions one asks for more than the claim
HALVINGS = 6  # intervals of values above the claim that are asked for
MILLION = 10**6
PATTERNS = 256  # of signs: all that there are, if there are not more
NO_SIGNS = "-"


class Interval(NamedTuple):
    """Values that are asked for, in millionths: above the lower end, up to the upper one."""

    low: int
    high: int

    @property
    def width(self) -> int:
        """How many values there are."""
        return self.high - self.low

    def part(self, place: int, count: int) -> Interval:
        """Return one of so many parts of almost the same width."""
        return Interval(*(self.low - (-self.width * end // count) for end in (place, place + 1)))

    def __str__(self) -> str:
        return f"above {decimal(self.low)} up to {decimal(self.high)}" if self.width > 1 else decimal(self.high)


class Asked(NamedTuple):
    """Questions and what is true on the device, a row for each line."""

    tables: Ints  # (n, G)
    signs: Ints  # (n, G), or (n, 0) if answers are one of several
    parts: Ints  # (n, G), or (n, 0) if no answer tells a part
    inputs: Ints  # (n,) 2 group + reward
    table_kinds: Ints  # (n,) which of TABLES
    sign_kinds: Ints  # (n,) which of SIGNS
    part_kinds: Ints  # (n,) which of PARTS
    rungs: Ints  # (n,) 0 where the claim is asked for, else which of the intervals above it, from 1 on
    millionths: Ints  # (n,) the epsilon asked for, or 0 where it is the claim

    @property
    def greedy(self) -> NDArray[np.bool_]:
        """Whether more is asked for than claimed."""
        return np.asarray(self.rungs > 0)

    @property
    def answers(self) -> int:
        """How many answers there are, at most."""
        return 2 if self.signs.shape[1] else 2 * self.tables.shape[1]

    @property
    def sizes(self) -> Ints:
        """How many answers there are to each question."""
        if self.parts.shape[1]:
            return np.asarray(2 * (self.parts.max(axis=1) + 1))
        return np.full(self.inputs.size, self.answers)

    @property
    def truths(self) -> Ints:
        """What a sound device masks: group or part and reward, or the reward turned round by the sign of the group."""
        lines, groups, rewards = np.arange(self.inputs.size), self.inputs // 2, self.inputs & 1
        if self.signs.shape[1]:
            return np.asarray(rewards ^ self.signs[lines, groups])
        return np.asarray(2 * self.parts[lines, groups] + rewards) if self.parts.shape[1] else self.inputs

    def question(self, line: int, claimed: Fraction) -> Question:
        """Return what is asked in one line."""
        signs = self.signs[line].tolist() if self.signs.shape[1] else None
        parts = self.parts[line].tolist() if self.parts.shape[1] else None
        epsilon = Fraction(int(self.millionths[line]), MILLION) if self.rungs[line] else claimed
        return Question(self.tables[line].tolist(), signs, epsilon, parts)


def asked_of(groups: int, arms: int, kind: str, trials: int, opening: int, claimed: Fraction) -> list[Asked]:
    """Return what every run is asked: the same opening, then each input equally often, in all so often as trials."""
    pool, above = sign_pool(groups), intervals(claimed)
    shared = drawn(opening, groups, arms, kind, pool, ())
    ends = [2 * groups * trials * run // RUNS for run in range(RUNS + 1)]
    sizes = [max(end - start - opening, 0) for start, end in pairwise(ends)]
    return [joined([shared, drawn(size, groups, arms, kind, pool, above)]) for size in sizes]


@cache
def intervals(claimed: Fraction) -> tuple[Interval, ...]:
    """Return what is asked for above the claim: the largest epsilon, then intervals that halve the distance to it."""
    top, bottom = MOST * MILLION, math.floor(MILLION * claimed)
    halves = (math.floor(MILLION * (claimed + (MOST - claimed) / 2**step)) for step in range(1, HALVINGS))
    ends = [top, max(top - 1, bottom), *halves, bottom]
    return tuple(Interval(low, high) for high, low in pairwise(ends) if low < high)


def decimal(millionths: int) -> str:
    """Return a number of millionths as a plain decimal, which any program reads."""
    return as_text(Fraction(millionths, MILLION))


def sign_pool(groups: int) -> Ints:
    """Return the patterns of signs that are asked: all, or where there are too many, some that are drawn."""
    if 2**groups <= PATTERNS:
        return np.asarray(np.arange(2**groups)[:, None] >> np.arange(groups) & 1)
    alone = np.eye(groups, dtype=np.int64)
    return np.concatenate([alone, 1 - alone, below(2, (PATTERNS - 2 * groups, groups))])


def drawn(size: int, groups: int, arms: int, kind: str, pool: Ints, above: Sequence[Interval]) -> Asked:
    """Return so many lines; signs come from a pool, and some lines ask for a value of an interval above the claim."""
    which = below(len(TABLES), (size,))
    two = below(arms, (size, 2))
    ways = [
        np.broadcast_to(below(arms, (size, 1)), (size, groups)),
        np.broadcast_to(np.arange(groups) % arms, (size, groups)),
        below(arms, (size, groups)),
        np.take_along_axis(two, below(2, (size, groups)), axis=1),
    ]
    tables = np.choose(which[:, None], ways)
    signed = np.maximum(below(8, (size,)) - 4, -1) % len(SIGNS)  # five in eight are drawn
    fixed = np.stack([np.zeros(groups), np.ones(groups), np.arange(groups) == 0]).astype(np.int64)
    signs = np.where((signed < 3)[:, None], fixed[np.minimum(signed, 2)], pool[below(len(pool), (size,))])
    apart = below(len(PARTS), (size,))
    none = np.zeros((size, 0), dtype=np.int64)
    choices = np.array([(-1, 1), *((one.low, one.width) for one in above)])  # the first, the claim, becomes a 0
    rungs = (below(GREEDY, (size,)) == 0) * np.minimum(1 + below(max(len(above), 1), (size,)), len(above))
    lows, widths = choices[rungs].T
    return Asked(
        tables,
        signs if kind == BIT else none,
        parts(apart, groups) if kind == ONE_OF_PARTS else none,
        shuffled(np.arange(size) % (2 * groups)),
        which,
        signed,
        apart,
        rungs,
        lows + 1 + below(widths, (size,)),
    )


def parts(kinds: Ints, groups: int) -> Ints:
    """Return in which part each group is, a row for each of the kinds, which are places in PARTS."""
    lines, each = np.arange(kinds.size)[:, None], np.arange(groups)
    fixed = np.stack([0 * each, np.minimum(each, 1), each])
    drawn = below(groups, (kinds.size, groups))
    is_there = np.zeros((kinds.size, groups), dtype=np.int64)
    is_there[lines, drawn] = 1
    numbered = (np.cumsum(is_there, axis=1) - 1)[lines, drawn]  # no number is left out
    return np.asarray(np.where((kinds < 3)[:, None], fixed[np.minimum(kinds, 2)], numbered))


def below(limit: int | Ints, shape: tuple[int, ...]) -> Ints:
    """Return whole numbers from 0 to below the limit, each as likely as the others to one in 2^39."""
    words = np.frombuffer(os.urandom(8 * prod(shape)), dtype=np.uint64)
    return (words % np.asarray(limit, dtype=np.uint64)).astype(np.int64).reshape(shape)


def joined(parts: Sequence[Asked]) -> Asked:
    """Return lines one after the other."""
    return Asked(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def text_of(asked: Asked, claimed: Fraction) -> bytes:
    """Return what a program reads, a line each: table, signs, the epsilon asked for, group, reward, perhaps parts."""
    own = as_text(claimed)
    columns = (asked.tables, asked.signs, asked.millionths, asked.inputs, asked.parts)
    lines = (
        f"{listed(table)} {listed(signs) or NO_SIGNS} {decimal(more) if more else own} {given // 2} {given % 2}"
        f"{' ' * bool(parts)}{listed(parts)}\n"
        for table, signs, more, given, parts in zip(*(column.tolist() for column in columns), strict=True)
    )
    return "".join(lines).encode()


def listed(numbers: Sequence[int]) -> str:
    """Return numbers with commas between them."""
    return ",".join(map(str, numbers))
