"""What the hardest problems cost: at least, for whatever sees masked reports alone, and at most, for EXP3.S.

Proofs are in ``docs/theory.md``. The mask is randomised response, the same for all arms, of slope s = p00 + p11 - 1.
"""

import math

from maskedbandits.errors import UserError, number, whole
from maskedbandits.theory.windows import times


def hard_gap(arms: int, steps: int, slope: float = 1.0) -> float:
    """Return the gap at which so many steps with so many arms are hardest, as the proof of the lower bound has it."""
    arms, slope = whole("arms", arms, 2), _checked(slope)
    return math.sqrt(3.0 * (arms - 1) / whole("steps", steps)) / (8.0 * slope)


def minimax_lower_bound(horizon: int, segments: int, arms: int, slope: float = 1.0) -> float:
    """Return sqrt((K-1) L T) / (61 s): some problem of L segments costs every policy at least that, in the mean.

    For a symmetric mask (p00 = p11), and segments of at least 3 (K-1) max(1, 1 / (4 s^2)) steps.
    """
    horizon, segments = times(horizon, segments)
    arms, slope = whole("arms", arms, 2), _checked(slope)
    least = 3.0 * (arms - 1) * max(1.0, 0.25 / slope**2)
    if horizon < segments * least:
        raise UserError(
            f"{segments} segments in {horizon} steps are too short for the proof: give at least {math.ceil(least)} "
            "steps to each"
        )
    return math.sqrt((arms - 1) * segments * horizon) / (61.0 * slope)


def exp3s_bound(horizon: int, segments: int, arms: int, slope: float = 1.0) -> float:
    """Return 2 sqrt((e-1) K T (L log(K T) + e)) / s, which the regret of ``exp3s`` does not pass if it is told L."""
    horizon, segments = times(horizon, segments)
    arms = whole("arms", arms)
    effort = arms * horizon * (segments * math.log(arms * horizon) + math.e)
    return 2.0 * math.sqrt((math.e - 1.0) * effort) / _checked(slope)


def _checked(slope: float) -> float:
    return number("slope", slope, 0.0, 1.0, above=True)
