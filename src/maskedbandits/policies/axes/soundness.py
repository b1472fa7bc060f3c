"""Whether the saved state of a policy on the axes contradicts itself."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def contradiction(state: Any, parameters: Mapping[str, Any]) -> str:
    """Return where it does."""
    own = state.own[0]
    if own.since > own.time:
        return "it was forgotten later than it is"
    if not _sums_fit(state):
        return "a count is out of range"
    if hasattr(state, "winners") and not _tournament_holds(state):
        return "its scores are not in order"
    return ""


def _sums_fit(state: Any) -> bool:
    """Tell whether sums are sums of as many numbers in [0, 1] as are counted, but for rounding."""
    slack = 1e-9 * (1.0 + state.counts)
    sums = [state.sums, state.low_sums, state.span_sums] if state.own[0].mixed else [state.sums]
    fit = all(np.all((one >= -slack) & (one <= state.counts + slack)) for one in sums)
    spans = state.span_sums[state.counts[: state.span_sums.size] > 0.0]
    return bool(fit and np.all(spans > 0.0))


def _tournament_holds(state: Any) -> bool:
    """Tell whether every match went to the higher score, and none to an arm that does not exist."""
    own = state.own[0]
    leaves, first_absent = int(own.leaves), int(own.leaves + own.arms)
    if np.any(state.winners[leaves:] != np.arange(leaves)) or np.any(state.values[first_absent:] != -math.inf):
        return False
    if not np.all(state.values[leaves:first_absent] > -math.inf):
        return False
    values, winners = state.values[2:].reshape(-1, 2), state.winners[2:].reshape(-1, 2)
    right = values[:, 1] > values[:, 0]
    played = values.max(axis=1, initial=-math.inf) > -math.inf
    higher = np.array_equal(state.values[1:leaves], np.where(right, values[:, 1], values[:, 0]))
    won = np.where(right, winners[:, 1], winners[:, 0])
    return bool(higher and np.array_equal(state.winners[1:leaves][played], won[played]))
