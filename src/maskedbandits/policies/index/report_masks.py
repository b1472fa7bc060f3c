"""Reports with a mask of their own, such as an epsilon that a person has chosen.

A report y with the mask g(m) = low + span m tells less about the mean m the smaller its span is. Among unbiased sums of
reports that are nearly fair coins, the one with weights w in proportion to the spans has the least variance. So a
report weighs w = span / the arm's own span. The weighted mean of affine functions is affine. With the sums of w, w^2, w
y, w low and w span,

    m = (sum w y - sum w low) / sum w span,          N = (sum w)^2 / sum w^2

are the estimate, and the number of equal reports that would vary as much (Hoeffding's inequality for weighted sums).
From the first such report on, an index counts N observations of mean sum w y / sum w.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import Ints, copy_resized, has_field, layout_of
from maskedbandits.corruption import Polyline, RandomizedResponse
from maskedbandits.errors import UserError
from maskedbandits.noise import Noise

ARMS_OWN = -1
NO_LINES = np.array([[0.0, 0.0, 1.0]])  # a line that no report has


def add_mask_sums(state: Any) -> Any:
    """Return the state with sums over the masks of reports; all reports so far had the mask of their arm."""
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
    """Refuse arms whose own mask is not a straight line."""
    if state.scalars[0].curved:
        raise UserError("reports with their own corruption require arms with a RandomizedResponse, not a Monotone")


Line = tuple[float, float, float]  # whether it decreases; the feedback means of the means 0 and 1, then flipped


class Masks(NamedTuple):
    """The masks of reports, as compiled code takes them."""

    indices: Ints  # of each report's mask among the lines, or ARMS_OWN
    lines: NDArray[np.float64]


def read_masks(corruptions: Any, reports: int) -> Masks | None:
    """Check the masks of ``reports`` reports; None means the mask of the report's arm, or of all arms."""
    if not isinstance(corruptions, (Sequence, np.ndarray)) or len(corruptions) != reports:
        raise UserError(f"corruptions: give a list of {reports}, one for each report, None for that of its arm")
    lines: list[Line] = []
    indices = {id(None): ARMS_OWN}
    listed = list(corruptions)  # an array creates its elements on each access, and two may get the same id
    for key, each in {id(each): each for each in listed}.items():
        if each is not None:
            indices[key] = len(lines)
            lines.append(_known_line(each) if isinstance(each, RandomizedResponse) else _line(each))
    if not lines:
        return None
    return Masks(np.fromiter(map(indices.__getitem__, map(id, listed)), np.int64, reports), np.array(lines))


def _line(corruption: Any) -> Line:
    """Return a mask as a line; refuse anything but randomised response."""
    line = getattr(corruption, "polyline", None)
    if not isinstance(line, Polyline) or line.means.size != 2 or isinstance(corruption, Noise):
        raise UserError("corruption of a report is not affine, or adds noise: give a RandomizedResponse")
    return float(line.flipped), float(line.feedbacks[0]), float(line.feedbacks[1])


_known_line = lru_cache(maxsize=1 << 10)(_line)


@inlined
def is_the_arms(state: Any, arm: int, mask: int, lines: NDArray[np.float64], honest: float) -> bool:
    """Return whether a mask is that of the arm."""
    if state.last_node[arm] != state.first_node[arm] + 1 or lines[mask, 0] != float(state.flips[arm]):
        return False
    low, high = honest * lines[mask, 1], honest * lines[mask, 2]
    return low == state.lows[arm] and 1.0 / (high - low) == state.rates[arm]


@inlined
def as_seen(
    state: Any, arm: int, feedback: float, mask: int, lines: NDArray[np.float64], honest: float
) -> tuple[float, float, float, float]:
    """Return a feedback, the low end and the span of its mask, and the number for a detector."""
    arms_low, arms_span = state.lows[arm] / honest, 1.0 / (state.rates[arm] * honest)
    if mask == ARMS_OWN:
        flips, low, span = state.flips[arm] != 0, arms_low, arms_span
    else:
        flips, low, span = lines[mask, 0] != 0.0, lines[mask, 1], lines[mask, 2] - lines[mask, 1]
    value = 1.0 - feedback if flips else feedback
    return value, honest * low, honest * span, _mask_further(value, low, span, arms_low, arms_span)


@inlined
def _mask_further(feedback: float, low: float, span: float, arms_low: float, arms_span: float) -> float:
    """Return the mean of a report that is masked further, from its own mask to the arm's.

    So a detector sees one mean, whatever masks the reports have. A report that is masked more than the arm's mask would
    do cannot be masked less. It gives NaN, and is not shown to the detector.
    """
    share = arms_span / span
    lowest = arms_low - share * low
    if lowest < -1e-12 or lowest + share > 1.0 + 1e-12:
        return math.nan
    return min(max(lowest + share * feedback, 0.0), 1.0)
