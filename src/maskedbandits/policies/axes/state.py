"""What a policy on the axes keeps, beside what every policy does; memories, indices and detectors add their own."""

from maskedbandits.compiled import inlined
from maskedbandits.policies.checks import share_of_lies
from maskedbandits.policies.state import FOREVER, Arms, mean_behind
from maskedbandits.record import Floats, gathered, given, record, section, size


@record
class Axes(Arms):
    """A policy made of a memory, an index, and what makes it forget at once."""

    mixed: int = size()  # 1 once reports come with corruptions of their own
    since: int = gathered(0, most=FOREVER)  # when everything was last forgotten
    pulled: int = gathered(0, most=lambda own: own.arms - 1)  # the arm of the last observation
    fractional: int = gathered(0, most=1)  # 1 once a feedback was neither 0 nor 1
    contamination: float = given(0.0, share_of_lies, "the share of reports that may be lies", stored=False)
    low_sums: Floats = section(lambda own: own.arms * own.mixed)  # of each observation's own g(0)
    span_sums: Floats = section(lambda own: own.arms * own.mixed)  # of its g(1) - g(0)


@inlined
def mean_of(state: Axes, arm: int, feedback_mean: float) -> float:
    """Return the mean that gives this feedback mean, as the reports that count were masked."""
    if state.own[0].mixed:  # the mean of affine functions is affine
        count = state.counts[arm]
        return (feedback_mean - state.low_sums[arm] / count) / (state.span_sums[arm] / count)
    return mean_behind(state, arm, feedback_mean)
