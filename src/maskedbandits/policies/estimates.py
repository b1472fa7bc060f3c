"""Estimates from a policy's state: mean rewards, confidence intervals, and arms with suspect reports."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.state import Floats, has_field
from maskedbandits.errors import UserError, check_number
from maskedbandits.policies.registry import Kind


def check_bounds_known(kind: Kind, parameters: Mapping[str, Any]) -> None:
    """Refuse a policy without masked feedback, or without known bounds of it."""
    if kind.sees_rewards:
        raise UserError(f"{kind.name} has no estimates, because it sees rewards: use a policy that learns from reports")
    if parameters.get("tail") is not None:
        raise UserError("no anytime bounds are known for noise with a heavy tail: use estimates instead")


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
    """Return a confidence interval of the mean reward of every arm, (K, 2), clipped to [0, 1].

    Unbounded feedback has a sigma.
    """
    delta = check_number("delta", delta, 0.0, 1.0, above=True, below=True)
    ends = _mixed_ends if _is_mixed(state) else _ends
    arms = range(state.counts.size)
    rows = [ends(state, arm, contamination, delta, sigma) if state.counts[arm] > 0.0 else (0.0, 1.0) for arm in arms]
    return np.array(rows)


def _ends(state: Any, arm: int, contamination: float, delta: float, sigma: float | None) -> tuple[float, float]:
    """Return the interval of an arm whose reports have its own mask."""
    from maskedbandits.math import confidence

    if sigma is None:
        low, high = confidence.interval(*_count_and_sum(state, arm), delta)
    else:
        low, high = _unbounded_interval(state, arm, delta, sigma)
    return _mean_of(state, arm, low - contamination), _mean_of(state, arm, high)


def _unbounded_interval(state: Any, arm: int, delta: float, sigma: float) -> tuple[float, float]:
    """Return an interval of the mean of unbounded feedback, which over 2 sigma varies like feedback in [0, 1]."""
    from maskedbandits.math import confidence

    weight = _latest_weight(state)
    count, total = float(state.counts[arm]) / weight, float(state.sums[arm]) / weight
    radius = 2.0 * sigma * confidence.radius(count, delta)
    return (total - radius) / count, (total + radius) / count


def _mixed_ends(state: Any, arm: int, contamination: float, delta: float, sigma: float | None) -> tuple[float, float]:
    """Return the interval of an arm whose reports have several masks."""
    excess, spans, radius, lies = _excess(state, arm, contamination, delta)
    low, high = np.clip([(excess - radius - lies) / spans, (excess + radius) / spans], 0.0, 1.0)
    return float(low), float(high)


def suspects(state: Any, contamination: float, delta: float, sigma: float | None = None) -> NDArray[np.bool_]:
    """Return which arms have feedback outside the range of honest reports, such as [1-p, p]."""
    delta = check_number("delta", delta, 0.0, 1.0, above=True, below=True)
    arms = state.counts.size
    suspect = _is_mixed_suspect if _is_mixed(state) else _is_suspect
    found = [state.counts[arm] > 0.0 and suspect(state, arm, contamination, delta / arms, sigma) for arm in range(arms)]
    return np.array(found, dtype=np.bool_)


def _is_suspect(state: Any, arm: int, contamination: float, delta: float, sigma: float | None) -> bool:
    """Return whether an arm is suspect whose reports have its own mask."""
    from maskedbandits.math import confidence

    (count, total), (low, span) = _count_and_sum(state, arm), _line(state, arm)
    if sigma is not None:
        lowest, highest = _unbounded_interval(state, arm, delta, sigma)
        return lowest > low + span or highest < low
    above = confidence.evidence_above(count, total, low + span + contamination)
    return max(above, confidence.evidence_below(count, total, low)) >= math.log(2.0 / delta)


def _is_mixed_suspect(state: Any, arm: int, contamination: float, delta: float, sigma: float | None) -> bool:
    """Return whether an arm is suspect whose reports have several masks."""
    excess, spans, radius, lies = _excess(state, arm, contamination, delta)
    return excess - radius - lies > spans or excess + radius < 0.0


def _excess(state: Any, arm: int, contamination: float, delta: float) -> tuple[float, float, float, float]:
    """Return sum w (y - low), sum w span, the radius of the first sum, and the largest sum of lies."""
    from maskedbandits.math import confidence

    if not has_field(state, "mask_weights"):  # auto converts reports to the arm's own mask
        count, (low, span) = float(state.counts[arm]), _line(state, arm)
        return (
            float(state.sums[arm]) - low * count,
            span * count,
            confidence.radius(count, delta),
            contamination * count,
        )
    weight = _latest_weight(state)
    weights, squares, sums, lows, spans = (
        float(one[arm]) / weight
        for one in (state.mask_weights, state.mask_squares, state.mask_sums, state.mask_lows, state.mask_spans)
    )
    return sums - lows, spans, confidence.radius(squares, delta), contamination * weights


def _latest_weight(state: Any) -> float:
    """Return the weight of the latest feedback: 1 except under a discount."""
    return float(state.scalars[0].weight) if has_field(state, "weight") else 1.0


def _count_and_sum(state: Any, arm: int) -> tuple[float, float]:
    """Return the number of feedbacks that count, and their sum."""
    weight = _latest_weight(state)
    count = float(state.counts[arm]) / weight
    return count, min(max(float(state.sums[arm]) / weight, 0.0), count)


def _is_mixed(state: Any) -> bool:
    """Return whether some report had its own mask."""
    return has_field(state, "mixed") and bool(state.scalars[0].mixed)


def _line(state: Any, arm: int) -> tuple[float, float]:
    """Return the feedback mean of the mean 0, and its increase up to the mean 1."""
    if _is_mixed(state) and has_field(state, "mask_weights") and state.counts[arm] > 0.0:
        weights = state.mask_weights[arm]
        return float(state.mask_lows[arm] / weights), float(state.mask_spans[arm] / weights)
    return float(state.lows[arm]), float(1.0 / state.rates[arm])


def _mean_of(state: Any, arm: int, feedback_mean: float) -> float:
    """Return the mean behind a feedback mean, clipped to [0, 1]."""
    if _is_mixed(state):
        low, span = _line(state, arm)
        return float(np.clip((feedback_mean - low) / span, 0.0, 1.0))
    first, last = state.first_node[arm], state.last_node[arm] + 1
    return float(np.interp(feedback_mean, state.node_feedbacks[first:last], state.node_means[first:last]))
