"""Many masked answers at once, as compiled code takes them in, and the masks of those that have their own."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maskedbandits.context import masks
from maskedbandits.context.hierarchy import Grouping
from maskedbandits.policies.groups.kernels import Answers
from maskedbandits.policies.index.report_masks import ARMS_OWN

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def answers(
    grouping: Grouping,
    grains: Ints,
    tables: Ints,
    signs: Ints,
    values: Ints,
    epsilons: Sequence[Fraction],
    usual: Fraction,
) -> Answers:
    """Return answers as compiled code takes them in; each has its epsilon, of which one is usual."""
    others = {epsilon: place for place, epsilon in enumerate(sorted(set(epsilons) - {usual}))}
    seen = [_seen(grouping, epsilon) for epsilon in others]
    return Answers(
        grains=grains,
        tables=tables,
        signs=signs,
        values=values,
        masks=np.array([others.get(epsilon, ARMS_OWN) for epsilon in epsilons], dtype=np.int64),
        lines=np.concatenate([np.zeros((0, 3)), *(lines for lines, _ in seen)]),
        slopes=np.array([slopes for _, slopes in seen]).reshape(-1, len(grouping.kinds)),
    )


@lru_cache(maxsize=256)
def _seen(grouping: Grouping, epsilon: Fraction) -> tuple[Floats, Floats]:
    """Return the line through which each policy sees an answer of an epsilon, and its slope at every grain."""
    own, pairs = float(epsilon), list(zip(grouping.kinds, grouping.shares_of_parts, strict=True))
    highs = 0.5 + np.concatenate([masks.halves(kind, own, shares) for kind, shares in pairs])
    lines = np.stack([np.zeros(highs.size), 1.0 - highs, highs], axis=1)
    return lines, np.array([masks.slope(kind, own, shares.size) for kind, shares in pairs])


def first_masked(told: Answers) -> int:
    """Return the place of the first answer that has a mask of its own."""
    found = np.flatnonzero(told.masks != ARMS_OWN)
    return int(found[0]) if found.size else told.values.size


def pieces(told: Answers, at_once: int) -> Iterator[Answers]:
    """Yield answers a few at a time."""
    for begin in range(0, told.values.size, at_once):
        yield part(told, begin, begin + at_once)


def part(told: Answers, begin: int, end: int) -> Answers:
    """Return some of the answers."""
    cut = slice(begin, end)
    return told._replace(
        grains=told.grains[cut],
        tables=told.tables[cut],
        signs=told.signs[cut],
        values=told.values[cut],
        masks=told.masks[cut],
    )
