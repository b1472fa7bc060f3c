"""The state of a policy on the axes, beside that of every policy. Memories, indices and detectors add to it."""

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import Floats, array, param, record, size, variable
from maskedbandits.policies.pending import FOREVER
from maskedbandits.policies.state import Arms, mean_behind
from maskedbandits.policies.validation import share_of_lies


@record
class Axes(Arms):
    """A policy made of a memory, an index, and restarts."""

    mixed: int = size()  # 1 once reports have their own masks
    since: int = variable(0, most=FOREVER)  # when everything was last forgotten
    pulled: int = variable(0, most=lambda scalars: scalars.arms - 1)  # the arm of the last observation
    fractional: int = variable(0, most=1)  # 1 once a feedback was neither 0 nor 1
    contamination: float = param(0.0, share_of_lies, "share of reports that may be lies")
    # Over reports with their own masks (``report_masks.py``), the sums of 1, w, w^2, w y, w g(0) and w (g(1) - g(0)):
    mask_numbers: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=0.0, most=1e150)
    mask_weights: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)
    mask_squares: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)
    mask_sums: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)
    mask_lows: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)
    mask_spans: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)


@inlined
def mean_of(state: Axes, arm: int, feedback_mean: float) -> float:
    """Return the mean behind a feedback mean, given the masks of the reports that count."""
    if state.scalars[0].mixed:  # the mean of affine functions is affine
        return (feedback_mean * state.mask_weights[arm] - state.mask_lows[arm]) / state.mask_spans[arm]
    return mean_behind(state, arm, feedback_mean)


@inlined
def evidence_of(state: Axes, arm: int) -> tuple[float, float]:
    """Return the evidence about an arm in unmasked observations, and their sum less half of their number."""
    count, low, span = state.counts[arm], state.lows[arm], 1.0 / state.rates[arm]
    if state.scalars[0].mixed and count > 0.0:
        low, span = state.mask_lows[arm] / state.mask_weights[arm], state.mask_spans[arm] / state.mask_weights[arm]
    return count * span * span, (state.sums[arm] - low * count - 0.5 * count * span) * span


@inner
def forget_reports(state: Axes, first: int, last: int) -> None:
    """Forget the reports of some arms, the last one included."""
    mixed = state.scalars[0].mixed
    for arm in range(first, last + 1):  # slices take longer to compile
        state.counts[arm] = 0.0
        state.sums[arm] = 0.0
        if mixed:
            state.mask_numbers[arm] = 0.0
            state.mask_weights[arm] = 0.0
            state.mask_squares[arm] = 0.0
            state.mask_sums[arm] = 0.0
            state.mask_lows[arm] = 0.0
            state.mask_spans[arm] = 0.0


@inner
def add_masked(state: Axes, arm: int, feedback: float, low: float, span: float, times: float) -> None:
    """Add a report with its own mask ``times`` times, and update the arm's count and sum.

    A report weighs as much as its span, and one under the arm's own mask 1. With contamination all reports weigh 1,
    because a lie could claim to be hardly masked.
    """
    weight = 1.0 if state.scalars[0].contamination > 0.0 else span * state.rates[arm]
    state.mask_numbers[arm] += times
    if state.mask_numbers[arm] <= 0.0:
        forget_reports(state, arm, arm)  # without rounding errors
        return
    state.mask_weights[arm] += times * weight
    state.mask_squares[arm] += times * weight * weight
    state.mask_sums[arm] += times * weight * feedback
    state.mask_lows[arm] += times * weight * low
    state.mask_spans[arm] += times * weight * span
    state.counts[arm] = state.mask_weights[arm] * state.mask_weights[arm] / state.mask_squares[arm]
    state.sums[arm] = state.mask_sums[arm] * state.mask_weights[arm] / state.mask_squares[arm]
