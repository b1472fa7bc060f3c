"""What policies tell of groups once answers have told how large these are.

Where shares are not given, groups are taken for equally large, and every policy learns through the mask that follows
from that. A wrong share makes a mask of another slope: what is seen is the same, but stretched about 1/2. Answers that
are one of many tell the shares, so what is *told* of means is put right by them: by copies of the policies whose masks
have the slopes that the shares make. Where nothing tells the shares, what is to be sure is told by the largest slope
that there can be. What is learnt, and chosen, stays as it is: the same log makes the same policy.
"""

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits._numba.state import has_field
from maskedbandits.context import masks
from maskedbandits.context.hierarchy import Grouping
from maskedbandits.policies import Policy

Floats = NDArray[np.float64]


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
    return Policy(policy.kind, policy._given, state, state.lots.copy(), fresh=False)


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
