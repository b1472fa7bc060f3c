"""Inputs of an audit: bits in an unpredictable order, and queries as a hostile server would send them.

All runs begin with the same inputs, the opening (``seeds.py``).

For groups, tables give all groups one arm, each its own arm, two arms, or any; signs are all 0, all 1, 1 for the first
group alone, or one of MAX_SIGN_PATTERNS; parts are one for all groups, one for the first and one for all others, one
for each, or any. A third of the queries requests more than the claim: the largest epsilon, or a value drawn for this
query alone from one of six intervals, each half as wide as the one above it and the last one down to the claim. Values
are whole millionths, and no device knows them in advance. An honest device never uses more than the claim, so answers
to different values may be counted together: the claim bounds them all.

Queries do not depend on group and reward, so no event of a report, alone or together with the query, may be more than
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
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy.audit.seeds import MAX_CHANCE
from maskedbandits.privacy.audit.statistics import RUNS, Bits, Ints
from maskedbandits.privacy.exact import MAX_EPSILON, as_text
from maskedbandits.privacy.group_query import GroupQuery

Scalar = TypeVar("Scalar", bound=np.generic)


def choose_opening_length(claimed: float, trials: int) -> int:
    """Return an even number of inputs on which independent runs of the claimed randomiser hardly ever agree."""
    least = trials // RUNS
    agree = -math.log1p(math.exp(-claimed))  # logarithm of the probability of the most frequent report
    pairs = RUNS * (RUNS - 1) / 2
    # Three times as many, because the probability is estimated, and for every character. As many inputs that differ
    # from run to run must follow, to show whether answers depend on them.
    return 2 * min(least // 2, math.ceil(1.5 * math.log(MAX_CHANCE / pairs) / agree))


def draw_bit_inputs(trials: int, opening: int) -> list[Bits]:
    """Return the inputs of every run: the shared opening, then equally many of each bit in random order."""
    shared = draw_balanced(opening // 2)
    ends = [trials * run // RUNS for run in range(RUNS + 1)]
    sizes = [end - start for start, end in pairwise(ends)]
    return [np.concatenate([shared, draw_balanced(size - opening // 2)]) for size in sizes]


def draw_balanced(each: int) -> Bits:
    """Return equally many zeros and ones in random order."""
    return shuffle(np.repeat(np.array([0, 1], dtype=np.uint8), each))


def shuffle(inputs: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return the inputs in an unpredictable order."""
    return inputs[np.argsort(np.frombuffer(os.urandom(8 * inputs.size), dtype=np.uint64), kind="stable")]


def draw_bits(count: int) -> Bits:
    """Return independent random bits."""
    return np.frombuffer(os.urandom(count), dtype=np.uint8) & np.uint8(1)


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
ONE_IN_ABOVE_CLAIM = 3  # one query in this many requests more than the claim
INTERVALS = 6  # of requested values above the claim
MILLION = 10**6
MAX_SIGN_PATTERNS = 256  # all patterns, if there are no more
NO_SIGNS = "-"


class EpsilonInterval(NamedTuple):
    """Requested values in millionths, above the lower end and up to the upper one."""

    low: int
    high: int

    @property
    def width(self) -> int:
        """Number of values."""
        return self.high - self.low

    def part(self, number: int, count: int) -> EpsilonInterval:
        """Return one of ``count`` parts of almost equal width."""
        return EpsilonInterval(*(self.low - (-self.width * end // count) for end in (number, number + 1)))

    def __str__(self) -> str:
        return (
            f"above {format_millionths(self.low)} up to {format_millionths(self.high)}"
            if self.width > 1
            else format_millionths(self.high)
        )


class GroupInputs(NamedTuple):
    """Queries and the true group and reward, a row for each line."""

    tables: Ints  # (n, G)
    signs: Ints  # (n, G), or (n, 0) if answers are one of several
    parts: Ints  # (n, G), or (n, 0) if answers have no parts
    inputs: Ints  # (n,) 2 group + reward
    table_kinds: Ints  # (n,) index in TABLES
    sign_kinds: Ints  # (n,) index in SIGNS
    part_kinds: Ints  # (n,) index in PARTS
    interval_numbers: Ints  # (n,) 0 if the claim is requested, else the number of the interval above it
    millionths: Ints  # (n,) the requested epsilon, 0 for the claim

    @property
    def is_above_claim(self) -> NDArray[np.bool_]:
        """Whether a query requests more than the claim, by line."""
        return np.asarray(self.interval_numbers > 0)

    @property
    def answers(self) -> int:
        """The largest number of answers."""
        return 2 if self.signs.shape[1] else 2 * self.tables.shape[1]

    @property
    def answer_counts(self) -> Ints:
        """Number of answers, by line."""
        if self.parts.shape[1]:
            return np.asarray(2 * (self.parts.max(axis=1) + 1))
        return np.full(self.inputs.size, self.answers)

    @property
    def true_answers(self) -> Ints:
        """The input that an honest device masks: group or part and reward, or the reward with the sign of the group."""
        lines, groups, rewards = np.arange(self.inputs.size), self.inputs // 2, self.inputs & 1
        if self.signs.shape[1]:
            return np.asarray(rewards ^ self.signs[lines, groups])
        return np.asarray(2 * self.parts[lines, groups] + rewards) if self.parts.shape[1] else self.inputs

    def query(self, line: int, claimed: Fraction) -> GroupQuery:
        """Return the query of one line."""
        signs = self.signs[line].tolist() if self.signs.shape[1] else None
        parts = self.parts[line].tolist() if self.parts.shape[1] else None
        epsilon = Fraction(int(self.millionths[line]), MILLION) if self.interval_numbers[line] else claimed
        return GroupQuery(self.tables[line].tolist(), signs, epsilon, parts)


def draw_group_inputs(
    groups: int, arms: int, kind: str, trials: int, opening: int, claimed: Fraction
) -> list[GroupInputs]:
    """Return the lines of every run: the shared opening, then each input equally often."""
    pool, above = draw_sign_pool(groups), divide_above(claimed)
    shared = draw_lines(opening, groups, arms, kind, pool, ())
    ends = [2 * groups * trials * run // RUNS for run in range(RUNS + 1)]
    sizes = [max(end - start - opening, 0) for start, end in pairwise(ends)]
    return [concatenate([shared, draw_lines(size, groups, arms, kind, pool, above)]) for size in sizes]


@cache
def divide_above(claimed: Fraction) -> tuple[EpsilonInterval, ...]:
    """Return the requested values above the claim: the largest epsilon, then intervals that halve the distance."""
    top, bottom = MAX_EPSILON * MILLION, math.floor(MILLION * claimed)
    halves = (math.floor(MILLION * (claimed + (MAX_EPSILON - claimed) / 2**step)) for step in range(1, INTERVALS))
    ends = [top, max(top - 1, bottom), *halves, bottom]
    return tuple(EpsilonInterval(low, high) for high, low in pairwise(ends) if low < high)


def format_millionths(millionths: int) -> str:
    """Return millionths as a plain decimal."""
    return as_text(Fraction(millionths, MILLION))


def draw_sign_pool(groups: int) -> Ints:
    """Return patterns of signs: all of them, or random ones if there are too many."""
    if 2**groups <= MAX_SIGN_PATTERNS:
        return np.asarray(np.arange(2**groups)[:, None] >> np.arange(groups) & 1)
    alone = np.eye(groups, dtype=np.int64)
    return np.concatenate([alone, 1 - alone, draw_below(2, (MAX_SIGN_PATTERNS - 2 * groups, groups))])


def draw_lines(
    size: int, groups: int, arms: int, kind: str, pool: Ints, above: Sequence[EpsilonInterval]
) -> GroupInputs:
    """Return random lines; signs come from a pool, and some lines request a value above the claim."""
    table_kinds = draw_below(len(TABLES), (size,))
    two = draw_below(arms, (size, 2))
    ways = [
        np.broadcast_to(draw_below(arms, (size, 1)), (size, groups)),
        np.broadcast_to(np.arange(groups) % arms, (size, groups)),
        draw_below(arms, (size, groups)),
        np.take_along_axis(two, draw_below(2, (size, groups)), axis=1),
    ]
    tables = np.choose(table_kinds[:, None], ways)
    sign_kinds = np.maximum(draw_below(8, (size,)) - 4, -1) % len(SIGNS)  # five in eight are drawn
    fixed = np.stack([np.zeros(groups), np.ones(groups), np.arange(groups) == 0]).astype(np.int64)
    signs = np.where((sign_kinds < 3)[:, None], fixed[np.minimum(sign_kinds, 2)], pool[draw_below(len(pool), (size,))])
    part_kinds = draw_below(len(PARTS), (size,))
    none = np.zeros((size, 0), dtype=np.int64)
    choices = np.array([(-1, 1), *((one.low, one.width) for one in above)])  # the first is the claim: 0
    interval_numbers = (draw_below(ONE_IN_ABOVE_CLAIM, (size,)) == 0) * np.minimum(
        1 + draw_below(max(len(above), 1), (size,)), len(above)
    )
    lows, widths = choices[interval_numbers].T
    return GroupInputs(
        tables,
        signs if kind == BIT else none,
        draw_parts(part_kinds, groups) if kind == ONE_OF_PARTS else none,
        shuffle(np.arange(size) % (2 * groups)),
        table_kinds,
        sign_kinds,
        part_kinds,
        interval_numbers,
        lows + 1 + draw_below(widths, (size,)),
    )


def draw_parts(kinds: Ints, groups: int) -> Ints:
    """Return the part of each group, a row for each kind of PARTS."""
    lines, each = np.arange(kinds.size)[:, None], np.arange(groups)
    fixed = np.stack([0 * each, np.minimum(each, 1), each])
    drawn = draw_below(groups, (kinds.size, groups))
    is_there = np.zeros((kinds.size, groups), dtype=np.int64)
    is_there[lines, drawn] = 1
    numbered = (np.cumsum(is_there, axis=1) - 1)[lines, drawn]  # without gaps
    return np.asarray(np.where((kinds < 3)[:, None], fixed[np.minimum(kinds, 2)], numbered))


def draw_below(limit: int | Ints, shape: tuple[int, ...]) -> Ints:
    """Return uniform whole numbers below the limit; the bias is below 2^-39."""
    words = np.frombuffer(os.urandom(8 * prod(shape)), dtype=np.uint64)
    return (words % np.asarray(limit, dtype=np.uint64)).astype(np.int64).reshape(shape)


def concatenate(parts: Sequence[GroupInputs]) -> GroupInputs:
    """Return lines one after the other."""
    return GroupInputs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def format_lines(lines: GroupInputs, claimed: Fraction) -> bytes:
    """Return the input of a program, a line each: table, signs, requested epsilon, group, reward, parts."""
    claim_text = as_text(claimed)
    columns = (lines.tables, lines.signs, lines.millionths, lines.inputs, lines.parts)
    texts = (
        f"{join_numbers(table)} {join_numbers(signs) or NO_SIGNS} {format_millionths(more) if more else claim_text} "
        f"{given // 2} {given % 2}"
        f"{' ' * bool(parts)}{join_numbers(parts)}\n"
        for table, signs, more, given, parts in zip(*(column.tolist() for column in columns), strict=True)
    )
    return "".join(texts).encode()


def join_numbers(numbers: Sequence[int]) -> str:
    """Join numbers with commas."""
    return ",".join(map(str, numbers))
