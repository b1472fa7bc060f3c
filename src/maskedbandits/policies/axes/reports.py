"""Reports that come with a corruption of their own, such as an epsilon that a person has chosen.

A report y with the mask g(m) = low + span m says the less of the mean m the smaller its span is: among unbiased sums
of reports that are nearly fair coins, the one with weights w in proportion to the spans has the least variance. So
reports weigh w = span / the arm's own span. The weighted mean of affine functions is affine, so with the sums of w,
w^2, w y, w low and w span at hand,

    m = (sum w y - sum w low) / sum w span,          N = (sum w)^2 / sum w^2

are the estimate and the number of reports of one kind that would spread as much (Hoeffding's inequality for weighted
sums). N is what an index counts, from the first such report on, and sum w y / sum w the mean that it starts from.
"""

import math
from typing import Any

import numpy as np

from maskedbandits.corruption import Corruption, Noise, Polyline
from maskedbandits.errors import UserError
from maskedbandits.record import relaid


def mixed(state: Any) -> Any:
    """Return the state with room for the corruption of every observation; those so far had the arm's own."""
    kept = [key for key in type(state).layout.sections if not key.startswith(("mask_", "ring_lows", "ring_spans"))]
    new = relaid(state, {"mixed": 1}, kept)
    for section in (new.mask_numbers, new.mask_weights, new.mask_squares):
        section[:] = new.counts
    new.mask_sums[:] = new.sums
    new.mask_lows[:] = new.lows * new.counts
    new.mask_spans[:] = new.counts / new.rates
    if hasattr(new, "ring_lows"):
        new.own[0].settled = 0
        new.ring_lows[:] = new.lows[new.ring_arms]
        new.ring_spans[:] = 1.0 / new.rates[new.ring_arms]
    return new


def refuse_curves(state: Any) -> None:
    """Refuse arms whose own corruption is no straight line."""
    if np.any(state.last_node - state.first_node > 1):
        raise UserError("reports with a corruption of their own need arms with a RandomizedResponse, not a Monotone")


def is_the_arms(state: Any, arm: int, corruption: Corruption, contamination: float) -> bool:
    """Tell whether a corruption is the one that the arm has anyway."""
    line = corruption.polyline
    low, high = (1.0 - contamination) * line.feedbacks[[0, -1]]
    same_line = low == state.lows[arm] and 1.0 / (high - low) == state.rates[arm]
    return bool(same_line and line.flipped == bool(state.flips[arm]) and line.means.size == 2)


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
    if not isinstance(line, Polyline) or line.means.size != 2 or isinstance(corruption, Noise):
        raise UserError("corruption of a report is not affine, or adds noise: give a RandomizedResponse")


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
