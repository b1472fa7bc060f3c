"""What a policy's state says of the mean rewards: estimates, confidence intervals, arms whose reports are suspect."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import number
from maskedbandits.record import Floats


def estimates(state: Any, contamination: float) -> Floats:
    """Return the estimated mean reward of every arm, clipped to [0, 1]; NaN for an arm not remembered."""
    return np.array(
        [
            _mean_of(state, arm, state.sums[arm] / state.counts[arm] - 0.5 * contamination)
            if state.counts[arm] > 0.0
            else math.nan
            for arm in range(state.counts.size)
        ]
    )


def intervals(state: Any, contamination: float, delta: float) -> Floats:
    """Return for every arm a lower and an upper confidence bound of its mean reward, (K, 2), clipped to [0, 1]."""
    from maskedbandits.maths import evidence

    delta = number("delta", delta, 0.0, 1.0, above=True, below=True)
    rows = []
    for arm in range(state.counts.size):
        low, high = evidence.interval(*_remembered(state, arm), delta)
        ends = _mean_of(state, arm, low - contamination), _mean_of(state, arm, high)
        rows.append(ends if state.counts[arm] > 0.0 else (0.0, 1.0))
    return np.array(rows)


def suspects(state: Any, contamination: float, delta: float) -> NDArray[np.bool_]:
    """Tell of which arms the feedback lies outside what honest reports can give, such as [1-p, p]."""
    from maskedbandits.maths import evidence

    delta = number("delta", delta, 0.0, 1.0, above=True, below=True)
    arms = state.counts.size
    told = np.zeros(arms, dtype=np.bool_)
    for arm in range(arms):
        (count, total), (low, span) = _remembered(state, arm), _line(state, arm)
        above = evidence.evidence_above(count, total, low + span + contamination)
        told[arm] = max(above, evidence.evidence_below(count, total, low)) >= math.log(2.0 * arms / delta)
    return told


def _remembered(state: Any, arm: int) -> tuple[float, float]:
    """Return how many feedbacks count and their sum, between 0 and as many; weights are 1 but under a discount."""
    names = state.own.dtype.names
    weight = float(state.own[0].weight) if "weight" in names else 1.0
    count = float(state.counts[arm]) / weight
    return count, min(max(float(state.sums[arm]) / weight, 0.0), count)


def _is_mixed(state: Any) -> bool:
    return hasattr(state, "low_sums") and state.low_sums.size > 0


def _line(state: Any, arm: int) -> tuple[float, float]:
    """Return the feedback mean of the mean 0, and by how much it rises up to 1."""
    if _is_mixed(state) and state.counts[arm] > 0.0:
        return float(state.low_sums[arm] / state.counts[arm]), float(state.span_sums[arm] / state.counts[arm])
    return float(state.lows[arm]), float(1.0 / state.rates[arm])


def _mean_of(state: Any, arm: int, feedback_mean: float) -> float:
    """Return the mean that gives this feedback mean, clipped to [0, 1]."""
    if _is_mixed(state):
        low, span = _line(state, arm)
        return float(np.clip((feedback_mean - low) / span, 0.0, 1.0))
    first, last = state.first_node[arm], state.last_node[arm] + 1
    return float(np.interp(feedback_mean, state.node_feedbacks[first:last], state.node_means[first:last]))
