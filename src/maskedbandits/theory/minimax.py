"""Bounds that know no means: a lower bound for every policy, upper bounds for EXP3.S and SW-KLUCB-CF.

Proofs are in ``docs/theory.md``. The mask is randomised response, the same for all arms, of slope s = p00 + p11 - 1.
"""

import math

from maskedbandits.errors import LARGEST, UserError, check_int, check_number
from maskedbandits.theory.bounds import bound_misses_from_start, exploration
from maskedbandits.theory.windows import check_times, variation_window


def hard_gap(arms: int, steps: int, slope: float = 1.0) -> float:
    """Return the gap at which so many steps with so many arms are hardest, as the proof of the lower bound has it."""
    arms, slope = check_int("arms", arms, 2), _check_slope(slope)
    return math.sqrt(3.0 * (arms - 1) / check_int("steps", steps)) / (8.0 * slope)


def minimax_lower_bound(horizon: int, segments: int, arms: int, slope: float = 1.0) -> float:
    """Return L sqrt((K-1) n) / (61 s), n = floor(T / L): some problem of L segments costs every policy at least that.

    The cost is mean regret. The mask must be symmetric (p00 = p11), and n at least 3 (K-1) max(1, 1 / (4 s^2)). If L
    divides T, the bound is sqrt((K-1) L T) / (61 s). Otherwise the last segment is longer: its last steps count as 0.
    """
    horizon, segments = check_times(horizon, segments)
    arms, slope = check_int("arms", arms, 2), _check_slope(slope)
    steps, least = horizon // segments, math.ceil(3.0 * (arms - 1) * max(1.0, 0.25 / slope**2))
    if steps < least:
        raise UserError(
            f"{segments} segments in {horizon} steps are too short for the proof: give at least {least} steps to each"
        )
    return segments * math.sqrt((arms - 1) * steps) / (61.0 * slope)


def exp3s_bound(horizon: int, segments: int, arms: int, slope: float = 1.0) -> float:
    """Return 2 sqrt((e-1) K T (L log(K T) + e)) / s, which the regret of ``exp3s`` does not pass if it is told L."""
    horizon, segments = check_times(horizon, segments)
    arms = check_int("arms", arms)
    effort = arms * horizon * (segments * math.log(arms * horizon) + math.e)
    return 2.0 * math.sqrt((math.e - 1.0) * effort) / _check_slope(slope)


def sw_klucb_bound(
    horizon: int, segments: int, arms: int, slope: float = 1.0, *, window: int | None = None, c: float = 3.0
) -> float:
    """Return an upper bound on the mean regret of ``sw-klucb-cf``, whatever the means and the L segments are.

    The leading terms are (L-1) w + T sqrt(2 (K-1) F / w) / s, F = f(w). The default window is
    ``variation_window(horizon, arms, segments - 1, slope)``, which nearly minimises them. They are then about
    3 ((K-1) (L-1) F T^2 / (2 s^2))^(1/3).
    """
    horizon, segments = check_times(horizon, segments)
    arms, slope, c = check_int("arms", arms, 2), _check_slope(slope), check_number("c", c, 0.0)
    if window is None:
        window = variation_window(horizon, arms, segments - 1, slope, c=c)
    window = check_int("window", window, arms, LARGEST)
    level = float(exploration(min(window, horizon), c))
    explored = (horizon + 0.5 * window) * math.sqrt(2.0 * (arms - 1) * level / window) / slope
    rest = (arms - 1) * (2.0 * horizon / window + 2.0) + bound_misses_from_start(horizon, horizon, window, c)
    return min(float(horizon), (segments - 1.0) * window + explored + rest)


def _check_slope(slope: float) -> float:
    return check_number("slope", slope, 0.0, 1.0, above=True)
