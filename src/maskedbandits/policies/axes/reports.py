"""Reports that come with a corruption of their own, such as an epsilon that a person has chosen.

The mean of affine functions is affine, so beside counts and sums of feedback those of g(0) and of g(1) - g(0) are kept,
from the first such report on.
"""

import math
from typing import Any

import numpy as np

from maskedbandits.corruption import Corruption
from maskedbandits.errors import UserError
from maskedbandits.record import relaid


def mixed(state: Any) -> Any:
    """Return the state with room for the corruption of every observation; those so far had the arm's own."""
    if np.any(state.last_node - state.first_node > 1):
        raise UserError("reports with a corruption of their own need arms with a RandomizedResponse, not a Monotone")
    masks = ("low_sums", "span_sums", "ring_lows", "ring_spans")
    kept = [key for key in type(state).layout.sections if key not in masks]
    new = relaid(state, {"mixed": 1}, kept)
    new.low_sums[:] = new.lows * new.counts
    new.span_sums[:] = new.counts / new.rates
    if hasattr(new, "ring_lows"):
        new.own[0].settled = 0
        new.ring_lows[:] = new.lows[new.ring_arms]
        new.ring_spans[:] = 1.0 / new.rates[new.ring_arms]
    return new


def as_seen(
    state: Any, arm: int, feedback: float, corruption: Corruption | None, contamination: float
) -> tuple[float, float, float, float]:
    """Return a feedback, the low end and the span of its corruption, and what a detector is shown of it."""
    honest = 1.0 - contamination
    arms_own = float(state.lows[arm] / honest), float(1.0 / (state.rates[arm] * honest))
    flips, low, span = bool(state.flips[arm]), *arms_own
    if corruption is not None:
        line = corruption.polyline
        flips, low, span = line.flipped, float(line.feedbacks[0]), float(line.feedbacks[1] - line.feedbacks[0])
    value = 1.0 - feedback if flips else feedback
    return value, honest * low, honest * span, _masked_on(value, (low, span), arms_own)


def check(corruption: Any) -> None:
    """Refuse what is no randomised response."""
    line = getattr(corruption, "polyline", None)
    if line is None or line.means.size != 2:
        raise UserError("corruption of a report is not affine: give a RandomizedResponse")


def _masked_on(feedback: float, reports: tuple[float, float], arms: tuple[float, float]) -> float:
    """Return what a report shows on average if it is masked on, from a corruption of its own up to the arm's.

    So a detector sees one mean, whatever corruption reports come with. NaN for a report that says less than one under
    the arm's corruption would: it cannot be masked less, and shows the detector nothing.
    """
    share = arms[1] / reports[1]
    lowest = arms[0] - share * reports[0]
    if lowest < -1e-12 or lowest + share > 1.0 + 1e-12:
        return math.nan
    return min(max(lowest + share * feedback, 0.0), 1.0)
