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


def intervals(state: Any, contamination: float, delta: float, sigma: float | None = None) -> Floats:
    """Return for every arm a lower and an upper confidence bound of its mean reward, (K, 2), clipped to [0, 1].

    Feedback that is no bits has a sigma.
    """
    delta = number("delta", delta, 0.0, 1.0, above=True, below=True)

    def ends(arm: int) -> tuple[float, float]:
        if sigma is None and not _is_mixed(state):
            return _ends(state, arm, contamination, delta)
        return _ends_of_sums(*_excess(state, arm, contamination, delta, sigma))

    arms = range(state.counts.size)
    return np.array([ends(arm) if state.counts[arm] > 0.0 else (0.0, 1.0) for arm in arms])


def _ends(state: Any, arm: int, contamination: float, delta: float) -> tuple[float, float]:
    from maskedbandits.maths import evidence

    low, high = evidence.interval(*_remembered(state, arm), delta)
    return _mean_of(state, arm, low - contamination), _mean_of(state, arm, high)


def _ends_of_sums(excess: float, spans: float, radius: float, lies: float) -> tuple[float, float]:
    low, high = np.clip([(excess - radius - lies) / spans, (excess + radius) / spans], 0.0, 1.0)
    return float(low), float(high)


def suspects(state: Any, contamination: float, delta: float, sigma: float | None = None) -> NDArray[np.bool_]:
    """Tell of which arms the feedback lies outside what honest reports can give, such as [1-p, p]."""
    delta = number("delta", delta, 0.0, 1.0, above=True, below=True)
    arms = state.counts.size

    def suspect(arm: int) -> bool:
        if sigma is None and not _is_mixed(state):
            return _is_suspect(state, arm, contamination, delta / arms)
        return _are_sums_suspect(*_excess(state, arm, contamination, delta / arms, sigma))

    return np.array([state.counts[arm] > 0.0 and suspect(arm) for arm in range(arms)], dtype=np.bool_)


def _is_suspect(state: Any, arm: int, contamination: float, delta: float) -> bool:
    from maskedbandits.maths import evidence

    (count, total), (low, span) = _remembered(state, arm), _line(state, arm)
    above = evidence.evidence_above(count, total, low + span + contamination)
    return max(above, evidence.evidence_below(count, total, low)) >= math.log(2.0 / delta)


def _are_sums_suspect(excess: float, spans: float, radius: float, lies: float) -> bool:
    return excess - radius - lies > spans or excess + radius < 0.0


def _excess(
    state: Any, arm: int, contamination: float, delta: float, sigma: float | None
) -> tuple[float, float, float, float]:
    """Return sum w (y - low), the sum of w span, how far the first may be from the mean times the second, and lies."""
    from maskedbandits.maths import evidence

    if sigma is not None:  # divided by 2 sigma it strays no further than feedback in [0, 1]
        heavy, (low, span) = _heaviest(state), _line(state, arm)
        count, total = float(state.counts[arm]) / heavy, float(state.sums[arm]) / heavy
        return total - low * count, span * count, 2.0 * sigma * evidence.radius(count, delta), 0.0
    if not hasattr(state, "mask_weights"):  # all is told as if by the arm's own mask (``auto.observe_masked``)
        count, (low, span) = float(state.counts[arm]), _line(state, arm)
        return float(state.sums[arm]) - low * count, span * count, evidence.radius(count, delta), contamination * count
    heavy = _heaviest(state)
    weights, squares, sums, lows, spans = (
        float(one[arm]) / heavy
        for one in (state.mask_weights, state.mask_squares, state.mask_sums, state.mask_lows, state.mask_spans)
    )
    return sums - lows, spans, evidence.radius(squares, delta), contamination * weights


def _heaviest(state: Any) -> float:
    """Return what the latest feedback weighs: 1 but under a discount."""
    return float(state.own[0].weight) if "weight" in state.own.dtype.names else 1.0


def _remembered(state: Any, arm: int) -> tuple[float, float]:
    """Return how many feedbacks count and their sum, between 0 and as many."""
    heavy = _heaviest(state)
    count = float(state.counts[arm]) / heavy
    return count, min(max(float(state.sums[arm]) / heavy, 0.0), count)


def _is_mixed(state: Any) -> bool:
    """Tell whether some report came with a mask of its own."""
    return "mixed" in state.own.dtype.names and bool(state.own[0].mixed)


def _line(state: Any, arm: int) -> tuple[float, float]:
    """Return the feedback mean of the mean 0, and by how much it rises up to 1."""
    if _is_mixed(state) and hasattr(state, "mask_weights") and state.counts[arm] > 0.0:
        weights = state.mask_weights[arm]
        return float(state.mask_lows[arm] / weights), float(state.mask_spans[arm] / weights)
    return float(state.lows[arm]), float(1.0 / state.rates[arm])


def _mean_of(state: Any, arm: int, feedback_mean: float) -> float:
    """Return the mean that gives this feedback mean, clipped to [0, 1]."""
    if _is_mixed(state):
        low, span = _line(state, arm)
        return float(np.clip((feedback_mean - low) / span, 0.0, 1.0))
    first, last = state.first_node[arm], state.last_node[arm] + 1
    return float(np.interp(feedback_mean, state.node_feedbacks[first:last], state.node_means[first:last]))
