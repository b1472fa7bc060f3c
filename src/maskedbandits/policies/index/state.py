"""What a policy on the axes keeps, beside what every policy does; memories, indices and detectors add their own."""

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import Floats, array, param, record, size, variable
from maskedbandits.policies.pending import FOREVER
from maskedbandits.policies.state import Arms, mean_behind
from maskedbandits.policies.validation import share_of_lies


@record
class Axes(Arms):
    """A policy made of a memory, an index, and what makes it forget at once."""

    mixed: int = size()  # 1 once reports come with corruptions of their own
    since: int = variable(0, most=FOREVER)  # when everything was last forgotten
    pulled: int = variable(0, most=lambda scalars: scalars.arms - 1)  # the arm of the last observation
    fractional: int = variable(0, most=1)  # 1 once a feedback was neither 0 nor 1
    contamination: float = param(0.0, share_of_lies, "the share of reports that may be lies")
    # Of reports with masks of their own (``report_masks.py``) the sums of 1, w, w^2, w y, w g(0) and w (g(1) - g(0)):
    mask_numbers: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=0.0, most=1e150)
    mask_weights: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)
    mask_squares: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)
    mask_sums: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)
    mask_lows: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)
    mask_spans: Floats = array(lambda scalars: scalars.arms * scalars.mixed, least=-1e150, most=1e150)


@inlined
def mean_of(state: Axes, arm: int, feedback_mean: float) -> float:
    """Return the mean that gives this feedback mean, as the reports that count were masked."""
    if state.scalars[0].mixed:  # the mean of affine functions is affine
        return (feedback_mean * state.mask_weights[arm] - state.mask_lows[arm]) / state.mask_spans[arm]
    return mean_behind(state, arm, feedback_mean)


@inlined
def evidence_of(state: Axes, arm: int) -> tuple[float, float]:
    """Return how many unmasked observations of an arm its reports are worth, and by how much they are above 1/2."""
    count, low, span = state.counts[arm], state.lows[arm], 1.0 / state.rates[arm]
    if state.scalars[0].mixed and count > 0.0:
        low, span = state.mask_lows[arm] / state.mask_weights[arm], state.mask_spans[arm] / state.mask_weights[arm]
    return count * span * span, (state.sums[arm] - low * count - 0.5 * count * span) * span


@inner
def forget_reports(state: Axes, first: int, last: int) -> None:
    """Forget what was seen of some arms, the last included."""
    mixed = state.scalars[0].mixed
    for arm in range(first, last + 1):  # slices would take long to compile
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
    """Count a report with a mask of its own so many times, and bring the arm's count and sum up to date.

    A report says the more the larger its span is, and weighs as much, a report under the arm's own mask 1. But where
    some may lie all weigh 1: a lie could claim to be hardly masked.
    """
    weight = 1.0 if state.scalars[0].contamination > 0.0 else span * state.rates[arm]
    state.mask_numbers[arm] += times
    if state.mask_numbers[arm] <= 0.0:
        forget_reports(state, arm, arm)  # without what rounding leaves
        return
    state.mask_weights[arm] += times * weight
    state.mask_squares[arm] += times * weight * weight
    state.mask_sums[arm] += times * weight * feedback
    state.mask_lows[arm] += times * weight * low
    state.mask_spans[arm] += times * weight * span
    state.counts[arm] = state.mask_weights[arm] * state.mask_weights[arm] / state.mask_squares[arm]
    state.sums[arm] = state.mask_sums[arm] * state.mask_weights[arm] / state.mask_squares[arm]
