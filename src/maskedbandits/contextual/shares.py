"""Shares of groups: estimated by a masked survey, and used by policies once answers reveal them.

How large groups are, from a masked survey: every device says once which group it has, through randomised response.

On the device ``KaryRandomizer(groups, epsilon).answer(group)`` is what leaves it. An answer names group k with
probability ``q + (p - q) p_k``, p and q the probabilities of the true answer and of each other: solved for the share
p_k. The survey costs its own epsilon, and is about the same group that every later answer is about.

What policies tell of groups once answers have told how large these are.

Where shares are not given, groups are taken for equally large, and every policy learns through the mask that follows
from that. A wrong share makes a mask of another slope: what is seen is the same, but stretched about 1/2. Answers that
are one of many tell the shares, so what is *told* of means is put right by them: by copies of the policies whose masks
have the slopes that the shares make. Where nothing tells the shares, what is to be sure is told by the largest slope
that there can be. What is learnt, and chosen, stays as it is: the same log makes the same policy.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits._numba.state import has_field
from maskedbandits.contextual import masks
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.errors import UserError, check_int, number
from maskedbandits.policies import Policy
from maskedbandits.privacy import KaryRandomizer

Floats = NDArray[np.float64]

MOST = 10**15  # answers, which floats count one by one


class Survey(NamedTuple):
    """What a survey says of the shares of groups."""

    shares: Floats  # (G,) each above 0, and 1 together: as ``make_contextual`` takes them
    intervals: Floats  # (G, 2) that hold all shares together


def shares_from_survey(counts: Sequence[int], epsilon: float, *, confidence: float = 0.95) -> Survey:
    """Return the shares of groups, and intervals for them, from how often masked answers named each group.

    The intervals hold together with the confidence asked for: those of Clopper and Pearson for the counts, at a level
    that is divided among them, seen through the mask. A group that is named less often than by chance has the share of
    one answer among all, and not 0: nothing could be learnt of it.

    >>> shares_from_survey([600, 400], 16).shares.round(3).tolist()
    [0.6, 0.4]
    """
    from maskedbandits.privacy.audit.statistics import (  # scipy takes its time, and few ask for a survey
        clopper_pearson_lower,
        clopper_pearson_upper,
    )

    told = [check_int("a count", count, 0, MOST) for count in counts] if isinstance(counts, Iterable) else []
    if len(told) < 2 or not 0 < sum(told) <= MOST:
        raise UserError(f"a survey has a count for each of two groups or more, and 1 to {MOST:,} answers: give such")
    seen = np.array(told, dtype=np.int64)
    mask = KaryRandomizer(seen.size, epsilon)
    if mask.epsilon == 0:
        raise UserError("epsilon = 0 tells nothing of shares: ask with a larger one")
    level = (1.0 - number("confidence", confidence, 0.0, 1.0, above=True, below=True)) / (2 * seen.size)
    other = float((1 - mask.truth) / (seen.size - 1))
    slope = float(mask.truth) - other
    total = np.full(seen.size, seen.sum())
    bounds = np.stack([clopper_pearson_lower(seen, total, level), clopper_pearson_upper(seen, total, level)], axis=1)
    shares = shares_from(seen, other * float(total[0]), slope * float(total[0]))
    return Survey(shares, np.clip((bounds - other) / slope, 0.0, 1.0))


def shares_from(named: ArrayLike, chance: float, more: float) -> Floats:
    """Return the shares of groups from how often answers named each of them.

    By chance alone each is named so often, and so much oftener if all visitors are of it. No share is below that of one
    answer: none at all would leave a group of which nothing can be learnt.
    """
    counts = np.asarray(named, dtype=np.float64)
    found = np.clip((counts - chance) / more, 1.0 / counts.sum(), 1.0)
    return np.asarray(found / found.sum())


def stretches(grouping: Grouping, grain: int, shares: Floats | None) -> Floats:
    """Return how many times as large the slope of each part's mask is if the groups have these shares.

    Without shares, how many times as large it can be at most: if all visitors are of that part.
    It is that of answers with the usual epsilon. With a smaller one it is farther from 1, so what is told of answers
    with an epsilon of their own is put right in part.
    """
    kind, epsilon = grouping.kinds[grain], grouping.epsilon
    parts = np.ones(grouping.sizes[grain])
    if shares is not None:
        parts = np.asarray(np.bincount(grouping.parts[grain], shares), dtype=np.float64)
    return masks.halves(kind, epsilon, parts) / masks.halves(kind, epsilon, grouping.shares_of_parts[grain])


def of_any_share(bounds: Floats) -> Floats:
    """Return bounds of means, (..., 2), that hold whatever a group's share is, from those that hold if it is everybody.

    The smaller the share, the nearer to 1/2 does a mean seem, and always on its own side.
    """
    low, high = bounds[..., 0], bounds[..., 1]
    return np.stack([np.where(low > 0.5, low, 0.0), np.where(high < 0.5, high, 1.0)], axis=-1)


def remade(policy: Policy, state: Any) -> Policy:
    """Return a policy of the same kind that has this state."""
    return Policy(policy.kind, policy._given, state, state.rng.copy(), fresh=False)


def stretched(policy: Policy, times: float) -> Policy:
    """Return a copy of a policy with a mask of so many times the slope, to tell of means alone.

    Masks of groups are symmetric: what a slope gains, half of it the low end loses.
    """
    told = copy.copy(policy)
    state = told._state
    spans = 1.0 / state.rates
    state.lows[:] += 0.5 * (1.0 - times) * spans
    state.rates[:] /= times
    middle = 0.5 * (1.0 - policy.contamination)
    state.node_feedbacks[:] = middle + times * (state.node_feedbacks - middle)
    if has_field(state, "mask_spans"):  # of answers with masks of their own, too
        state.mask_lows[:] += 0.5 * (1.0 - times) * state.mask_spans
        state.mask_spans[:] *= times
    return told
