"""Whether the saved state of a policy on the axes contradicts itself."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from maskedbandits._numba.state import has_field
from maskedbandits.policies.index import ties


def contradiction(state: Any, parameters: Mapping[str, Any]) -> str:
    """Return where it does."""
    scalars = state.scalars[0]
    if scalars.since > scalars.time:
        return "it was forgotten later than it is"
    if parameters.get("sigma") is None and not _sums_fit(state):  # feedback that is no bits adds up to anything
        return "a count is out of range"
    if has_field(state, "winners"):
        return ties.contradiction(state) or ("" if _tournament_holds(state) else "its scores are not in order")
    return ""


def _sums_fit(state: Any) -> bool:
    """Tell whether sums are sums of as many numbers in [0, 1] as are counted, but for rounding."""
    fit = _are_of_shares(state.sums, state.counts)
    return bool(fit and _masks_fit(state)) if state.scalars[0].mixed else fit


def _are_of_shares(sums: Any, weights: Any) -> bool:
    slack = 1e-9 * (1.0 + weights)
    return bool(np.all((sums >= -slack) & (sums <= weights + slack)))


def _masks_fit(state: Any) -> bool:
    """Tell whether the sums over reports with masks of their own are those of as many as count."""
    seen = state.mask_numbers > 0.0
    weights, squares, spans = (one[seen] for one in (state.mask_weights, state.mask_squares, state.mask_spans))
    if not (np.all(weights > 0.0) and np.all(squares > 0.0) and np.all(spans > 0.0)):
        return False
    counts = np.zeros_like(state.counts)
    with np.errstate(over="ignore"):  # an infinite count is none that was counted
        counts[seen] = weights**2 / squares
    shares = (state.mask_sums, state.mask_lows, state.mask_spans)
    return np.allclose(counts, state.counts, rtol=1e-9) and all(
        _are_of_shares(one, state.mask_weights) for one in shares
    )


def _tournament_holds(state: Any) -> bool:
    """Tell whether every match went to the higher score, and none to an arm that does not exist."""
    scalars = state.scalars[0]
    leaves, first_absent = int(scalars.leaves), int(scalars.leaves + scalars.arms)
    if np.any(state.winners[leaves:] != np.arange(leaves)) or np.any(state.values[first_absent:] != -math.inf):
        return False
    away = (state.leaders != ties.NONE) | (state.closed != 0)
    if np.any((state.values[leaves:first_absent] > -math.inf) == away):
        return False  # those that wait in another's shadow, and those that are retired, have no place, and only those
    values, winners = state.values[2:].reshape(-1, 2), state.winners[2:].reshape(-1, 2)
    right = values[:, 1] > values[:, 0]
    played = values.max(axis=1, initial=-math.inf) > -math.inf
    higher = np.array_equal(state.values[1:leaves], np.where(right, values[:, 1], values[:, 0]))
    won = np.where(right, winners[:, 1], winners[:, 0])
    return bool(higher and np.array_equal(state.winners[1:leaves][played], won[played]))
