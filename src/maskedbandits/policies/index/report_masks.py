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
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import Ints, copy_resized, has_field, layout_of
from maskedbandits.corruption import Noise, Polyline, RandomizedResponse
from maskedbandits.errors import UserError

ARMS_OWN = -1
NO_LINES = np.array([[0.0, 0.0, 1.0]])  # a line that no report has


def mixed(state: Any) -> Any:
    """Return the state with room for the corruption of every observation; those so far had the arm's own."""
    kept = [key for key in layout_of(state).arrays if not key.startswith(("mask_", "ring_lows", "ring_spans"))]
    new = copy_resized(state, {"mixed": 1}, kept)
    for section in (new.mask_numbers, new.mask_weights, new.mask_squares):
        section[:] = new.counts
    new.mask_sums[:] = new.sums
    new.mask_lows[:] = new.lows * new.counts
    new.mask_spans[:] = new.counts / new.rates
    if has_field(new, "ring_lows"):
        new.scalars[0].settled = 0
        new.ring_lows[:] = new.lows[new.ring_arms]
        new.ring_spans[:] = 1.0 / new.rates[new.ring_arms]
    return new


def refuse_curves(state: Any) -> None:
    """Refuse arms whose own corruption is no straight line."""
    if state.scalars[0].curved:
        raise UserError("reports with a corruption of their own need arms with a RandomizedResponse, not a Monotone")


Line = tuple[float, float, float]  # whether it flips, the feedback mean of the mean 0, and of 1, flipped if need be


class Masks(NamedTuple):
    """The corruptions of reports, as compiled code sees them."""

    places: Ints  # of each report's among the lines, or ARMS_OWN
    lines: NDArray[np.float64]


def read(corruptions: Any, reports: int) -> Masks | None:
    """Return the corruptions of so many reports, checked; None of a report, or of all, is that of its arm."""
    if not isinstance(corruptions, (Sequence, np.ndarray)) or len(corruptions) != reports:
        raise UserError(f"corruptions: give a list of {reports}, one for each report, None for that of its arm")
    lines: list[Line] = []
    places = {id(None): ARMS_OWN}
    told = list(corruptions)  # an array makes its elements anew each time, and two may get one identity
    for key, each in {id(each): each for each in told}.items():
        if each is not None:
            places[key] = len(lines)
            lines.append(_known_line(each) if isinstance(each, RandomizedResponse) else _line(each))
    if not lines:
        return None
    return Masks(np.fromiter(map(places.__getitem__, map(id, told)), np.int64, reports), np.array(lines))


def _line(corruption: Any) -> Line:
    """Return a corruption as a line; what is no randomised response is refused."""
    line = getattr(corruption, "polyline", None)
    if not isinstance(line, Polyline) or line.means.size != 2 or isinstance(corruption, Noise):
        raise UserError("corruption of a report is not affine, or adds noise: give a RandomizedResponse")
    return float(line.flipped), float(line.feedbacks[0]), float(line.feedbacks[1])


_known_line = lru_cache(maxsize=1 << 10)(_line)


@inlined
def is_the_arms(state: Any, arm: int, mask: int, lines: NDArray[np.float64], honest: float) -> bool:
    """Tell whether a corruption is the one that the arm has anyway."""
    if state.last_node[arm] != state.first_node[arm] + 1 or lines[mask, 0] != float(state.flips[arm]):
        return False
    low, high = honest * lines[mask, 1], honest * lines[mask, 2]
    return low == state.lows[arm] and 1.0 / (high - low) == state.rates[arm]


@inlined
def as_seen(
    state: Any, arm: int, feedback: float, mask: int, lines: NDArray[np.float64], honest: float
) -> tuple[float, float, float, float]:
    """Return a feedback, the low end and the span of its corruption, and what a detector is shown of it."""
    arms_low, arms_span = state.lows[arm] / honest, 1.0 / (state.rates[arm] * honest)
    if mask == ARMS_OWN:
        flips, low, span = state.flips[arm] != 0, arms_low, arms_span
    else:
        flips, low, span = lines[mask, 0] != 0.0, lines[mask, 1], lines[mask, 2] - lines[mask, 1]
    value = 1.0 - feedback if flips else feedback
    return value, honest * low, honest * span, _masked_on(value, low, span, arms_low, arms_span)


@inlined
def _masked_on(feedback: float, low: float, span: float, arms_low: float, arms_span: float) -> float:
    """Return what a report shows on average if it is masked on, from a corruption of its own up to the arm's.

    So a detector sees one mean, whatever corruption reports come with. NaN for a report that says less than one under
    the arm's corruption would: it cannot be masked less, and shows the detector nothing.
    """
    share = arms_span / span
    lowest = arms_low - share * low
    if lowest < -1e-12 or lowest + share > 1.0 + 1e-12:
        return math.nan
    return min(max(lowest + share * feedback, 0.0), 1.0)
