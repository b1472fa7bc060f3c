"""Page-Hinkley: as CUSUM from the first sample on, with the running mean (of the sample too) in place of the first."""

from maskedbandits._numba.jit import inner
from maskedbandits.policies.detectors.cusum import Deviations, deviates
from maskedbandits.policies.detectors.cusum import restart as restart

Detector = Deviations


@inner
def detects(state: Detector, arm: int, feedback: float, time: float) -> bool:
    """Cumulate deviations from the running mean."""
    state.lengths[arm] += 1.0
    state.totals[arm] += feedback
    return deviates(state, arm, feedback - state.totals[arm] / state.lengths[arm])
