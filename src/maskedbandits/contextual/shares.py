"""Shares of groups among visitors: estimated from a masked survey, or from the answers to a contextual policy.

In a survey every device reports its group once, through randomised response: ``KaryRandomizer(groups, epsilon)
.answer(group)``. An answer names group k with probability ``q + (p - q) p_k``, with p and q the probabilities of the
true answer and of each other one. Solving for p_k gives the share. The survey costs its own epsilon, about the same
group as every later answer.

If no shares are given, groups are presumed equally large, and every policy learns through the mask that follows from
that. A wrong share only stretches what a group sees about 1/2: the slope of its mask is another. One-of-many answers
reveal the shares. Then estimates are read from copies of the policies whose masks have the right slopes. Where nothing
reveals the shares, certain statements use the largest possible slope. What is learned and chosen does not depend on it:
the same log gives the same policy.
"""

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits._numba.state import has_field
from maskedbandits.contextual import masks
from maskedbandits.contextual.hierarchy import Grouping
from maskedbandits.errors import UserError, check_int, check_number
from maskedbandits.policies import Policy
from maskedbandits.privacy import KaryRandomizer

Floats = NDArray[np.float64]

MAX_ANSWERS = 10**15  # floats count up to here exactly


class Survey(NamedTuple):
    """The result of a survey.

    Attributes
    ----------
    shares : ndarray
        The share of each group, of shape (G,). Each is above 0, and they sum to 1, as `make_contextual` needs them.
    intervals : ndarray
        Simultaneous confidence intervals of the shares, of shape (G, 2).

    Examples
    --------
    >>> survey = shares_from_survey([600, 400], 16)
    >>> survey.intervals.round(2).tolist()
    [[0.56, 0.63], [0.37, 0.44]]

    """

    shares: Floats
    intervals: Floats


def shares_from_survey(counts: Sequence[int], epsilon: float, *, confidence: float = 0.95) -> Survey:
    """Estimate the shares of groups from a masked survey.

    The intervals are those of Clopper and Pearson for the counts, with the error probability divided among them, seen
    through the mask. A group that is named less often than by chance gets the share of one answer and not 0, because
    nothing could be learned about an empty group.

    Parameters
    ----------
    counts : sequence of int
        Number of masked answers that named each group.
    epsilon : float
        The epsilon of the survey.
    confidence : float, optional
        The probability that all intervals hold simultaneously.

    Returns
    -------
    Survey
        The shares, and an interval for each.

    Raises
    ------
    UserError
        If there are fewer than two groups, no answers, or epsilon is 0.

    Examples
    --------
    >>> shares_from_survey([600, 400], 16).shares.round(3).tolist()
    [0.6, 0.4]

    """
    from maskedbandits.privacy.audit.statistics import (  # imports scipy, which is slow
        clopper_pearson_lower,
        clopper_pearson_upper,
    )

    checked = [check_int("a count", count, 0, MAX_ANSWERS) for count in counts] if isinstance(counts, Iterable) else []
    if len(checked) < 2 or not 0 < sum(checked) <= MAX_ANSWERS:
        raise UserError(f"a survey requires counts of at least two groups, and 1 to {MAX_ANSWERS:,} answers in all")
    seen = np.array(checked, dtype=np.int64)
    mask = KaryRandomizer(seen.size, epsilon)
    if mask.epsilon == 0:
        raise UserError("epsilon = 0 reveals no shares: ask with a larger epsilon")
    level = (1.0 - check_number("confidence", confidence, 0.0, 1.0, above=True, below=True)) / (2 * seen.size)
    other = float((1 - mask.truth) / (seen.size - 1))
    slope = float(mask.truth) - other
    total = np.full(seen.size, seen.sum())
    bounds = np.stack([clopper_pearson_lower(seen, total, level), clopper_pearson_upper(seen, total, level)], axis=1)
    shares = estimate_shares(seen, other * float(total[0]), slope * float(total[0]))
    return Survey(shares, np.clip((bounds - other) / slope, 0.0, 1.0))


def estimate_shares(named: ArrayLike, chance: float, more: float) -> Floats:
    """Return the shares of groups from the number of answers that named each.

    A group without visitors is named ``chance`` times on average, and one with all visitors ``more`` times more often.
    No share is below that of one answer, because nothing could be learned about an empty group.
    """
    counts = np.asarray(named, dtype=np.float64)
    clipped = np.clip((counts - chance) / more, 1.0 / counts.sum(), 1.0)
    return np.asarray(clipped / clipped.sum())


def slope_factors(grouping: Grouping, level: int, shares: Floats | None) -> Floats:
    """Return by which factor these shares change the slope of each part's mask.

    Without shares, return the largest possible factor: that of a part with all visitors. The factor is that of answers
    with the usual epsilon. With a smaller epsilon it is farther from 1, so answers with an epsilon of their own are
    corrected only in part.
    """
    kind, epsilon = grouping.kinds[level], grouping.epsilon
    parts = np.ones(grouping.sizes[level])
    if shares is not None:
        parts = np.asarray(np.bincount(grouping.parts[level], shares), dtype=np.float64)
    return masks.half_slopes(kind, epsilon, parts) / masks.half_slopes(kind, epsilon, grouping.shares_of_parts[level])


def bounds_for_any_share(bounds: Floats) -> Floats:
    """Return bounds of means, (..., 2), that hold for any share of a group, from those for a share of 1.

    The smaller the share, the closer to 1/2 a mean seems, and always on its own side.
    """
    low, high = bounds[..., 0], bounds[..., 1]
    return np.stack([np.where(low > 0.5, low, 0.0), np.where(high < 0.5, high, 1.0)], axis=-1)


def with_state(policy: Policy, state: Any) -> Policy:
    """Return a policy of the same kind with another state."""
    return Policy(policy.kind, policy._given, state, state.rng.copy(), fresh=False)


def with_slope(policy: Policy, factor: float) -> Policy:
    """Return a copy of a policy whose mask has its slope multiplied by a factor, to read means from.

    Masks of groups are symmetric: the low end falls by half of what the slope gains.
    """
    new = copy.copy(policy)
    state = new._state
    spans = 1.0 / state.rates
    state.lows[:] += 0.5 * (1.0 - factor) * spans
    state.rates[:] /= factor
    middle = 0.5 * (1.0 - policy.contamination)
    state.node_feedbacks[:] = middle + factor * (state.node_feedbacks - middle)
    if has_field(state, "mask_spans"):  # also for answers with masks of their own
        state.mask_lows[:] += 0.5 * (1.0 - factor) * state.mask_spans
        state.mask_spans[:] *= factor
    return new
