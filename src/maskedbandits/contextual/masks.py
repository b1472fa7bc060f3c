"""Masks of group answers: kinds, slopes, and answers batched for compiled code.

What each group of people sees of a masked answer, and which kind of answer needs fewer visitors.

With shares p_k of the groups and s = (e^eps - 1) / (e^eps + 1), the masked bit, turned round again by the sign of group
k, is a one with probability ``1/2 + s p_k (mean - 1/2)``: the mask of group k is randomised response with
``p00 = p11 = (1 + s p_k) / 2``, and every answer is one to all groups.

Of 2 G answers with probabilities p of the truth and q of each other, one names group k with probability
``2 q + (p - q) p_k``, and a one with it with probability ``q + (p - q) p_k mean``: a mask of slope
``(p - q) p_k / (2 q + (p - q) p_k)``, and an answer is one to the group that it names alone.

A report through a mask of slope c says c^2 of what a reward says, as long as rewards are nearly fair coins. So a
visitor is worth (s p_k)^2 of one whose group and reward are seen, or ((p - q) p_k)^2 / (2 q + (p - q) p_k).

Many masked answers at once, as compiled code takes them in, and the masks of those that have their own.
"""

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import UserError, nearest, shown
from maskedbandits.policies.groups.kernels import Answers
from maskedbandits.policies.index.report_masks import ARMS_OWN
from maskedbandits.privacy import as_epsilon
from maskedbandits.privacy.exact import Number

BIT, ONE_OF_MANY = "bit", "one of many"
KINDS = (BIT, ONE_OF_MANY)
FAINT = 1e-11  # a slope below this is hardly more than rounding

Floats = NDArray[np.float64]


def checked_epsilon(epsilon: Number) -> Fraction:
    """Return an epsilon with which something can be learnt."""
    exact = as_epsilon(epsilon)
    if math.tanh(0.5 * float(exact)) < FAINT:
        raise UserError(f"epsilon = {shown(epsilon)} leaves nothing to learn: give a larger one, such as 1")
    return exact


def refuse_unknown(kind: object) -> None:
    """Refuse what is no kind of answers; nothing stands for the better one."""
    if kind is not None and not (isinstance(kind, str) and kind in KINDS):
        raise UserError(f"answers = {shown(kind)}: give {' or '.join(KINDS)}{nearest(kind, KINDS)}")


def truth_and_other(epsilon: float, groups: int) -> tuple[float, float]:
    """Return the probabilities of the true one of 2 G answers, and of each other."""
    other = 1.0 / (math.exp(epsilon) + 2 * groups - 1)
    return 1.0 - (2 * groups - 1) * other, other


def slope(kind: str, epsilon: float, groups: int) -> float:
    """Return how much likelier an answer is under its own truth: s for a bit, p - q for one of many."""
    if kind == BIT:
        return 2.0 * (RandomizedResponse.from_epsilon(epsilon).p11 - 0.5)
    truth, other = truth_and_other(epsilon, groups)
    return truth - other


def masks(kind: str, epsilon: float, shares: Floats) -> list[RandomizedResponse]:
    """Return the mask through which each group sees an answer."""
    each = halves(kind, epsilon, shares)
    if 2.0 * each.min() < FAINT:
        raise UserError(
            f"a share of {shares.min():g} at epsilon = {epsilon:g} leaves nothing to learn of its group: give larger "
            "shares, put small groups together, or take a larger epsilon"
        )
    return [RandomizedResponse(0.5 + float(half), 0.5 + float(half)) for half in each]


def halves(kind: str, epsilon: float, shares: Floats) -> Floats:
    """Return half the slope of the mask through which each group sees an answer."""
    half = 0.5 * slope(kind, epsilon, shares.size) * shares
    return np.asarray(half / named(epsilon, shares) if kind == ONE_OF_MANY else half)


def named(epsilon: float, shares: Floats) -> Floats:
    """Return how often one of many answers names each group."""
    truth, other = truth_and_other(epsilon, shares.size)
    return np.asarray(2.0 * other + (truth - other) * shares)


def worth(kind: str, epsilon: float, shares: Floats) -> Floats:
    """Return what a visitor tells about each group, of what one tells whose group and reward are seen."""
    told = (slope(kind, epsilon, shares.size) * shares) ** 2
    return told / shares if kind == BIT else told / (shares * named(epsilon, shares))


def better_kind(epsilon: float, shares: Floats) -> str:
    """Return the kind of answers that needs fewer visitors, for the group that needs most."""
    return max(KINDS, key=lambda kind: float(worth(kind, epsilon, shares).min()))


Ints = NDArray[np.int64]


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
    highs = 0.5 + np.concatenate([halves(kind, own, shares) for kind, shares in pairs])
    lines = np.stack([np.zeros(highs.size), 1.0 - highs, highs], axis=1)
    return lines, np.array([slope(kind, own, shares.size) for kind, shares in pairs])


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
