"""Bounds that use no means: a lower bound for every policy, upper bounds for EXP3.S and SW-KLUCB-CF.

Proofs are in ``docs/theory.md``. The mask is randomised response, the same for all arms, of slope s = p00 + p11 - 1.
"""

import math

from maskedbandits.errors import LARGEST, UserError, check_int, check_number
from maskedbandits.theory.bounds import bound_misses_from_start, exploration
from maskedbandits.theory.windows import check_times, variation_window


def hard_gap(arms: int, steps: int, slope: float = 1.0) -> float:
    """Return the gap that makes a segment hardest, as in the proof of the lower bound.

    Parameters
    ----------
    arms : int
        Number of arms, at least 2.
    steps : int
        Length of the segment.
    slope : float, default 1.0
        Slope of the randomised response.

    Returns
    -------
    float
        The gap.

    Raises
    ------
    UserError
        If a value is out of range.

    Examples
    --------
    >>> round(hard_gap(2, 1000), 4)
    0.0068

    """
    arms, slope = check_int("arms", arms, 2), _check_slope(slope)
    return math.sqrt(3.0 * (arms - 1) / check_int("steps", steps)) / (8.0 * slope)


def minimax_lower_bound(horizon: int, segments: int, arms: int, slope: float = 1.0) -> float:
    """Return a lower bound on the mean regret of every policy on its hardest problem.

    It is L sqrt((K-1) n) / (61 s) with n = floor(T / L). The mask must be symmetric (p00 = p11), and n at least
    3 (K-1) max(1, 1 / (4 s^2)). If L divides T, the bound is sqrt((K-1) L T) / (61 s). Otherwise the last segment is
    longer, and its last steps count as 0.

    Parameters
    ----------
    horizon : int
        Number of steps, T.
    segments : int
        Number of segments, L.
    arms : int
        Number of arms, K.
    slope : float, default 1.0
        Slope of the randomised response, p00 + p11 - 1.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    UserError
        If a value is out of range, or segments are too short for the proof.

    Examples
    --------
    >>> round(minimax_lower_bound(100_000, 10, 2), 2)
    16.39

    """
    horizon, segments = check_times(horizon, segments)
    arms, slope = check_int("arms", arms, 2), _check_slope(slope)
    steps, least = horizon // segments, math.ceil(3.0 * (arms - 1) * max(1.0, 0.25 / slope**2))
    if steps < least:
        raise UserError(
            f"{segments} segments in {horizon} steps are too short for the proof: give each at least {least} steps"
        )
    return segments * math.sqrt((arms - 1) * steps) / (61.0 * slope)


def exp3s_bound(horizon: int, segments: int, arms: int, slope: float = 1.0) -> float:
    """Return an upper bound on the regret of ``exp3s`` with the right number of segments.

    It is 2 sqrt((e-1) K T (L log(K T) + e)) / s.

    Parameters
    ----------
    horizon : int
        Number of steps, T.
    segments : int
        Number of segments, L.
    arms : int
        Number of arms, K.
    slope : float, default 1.0
        Slope of the randomised response, p00 + p11 - 1.

    Returns
    -------
    float
        The bound.

    Raises
    ------
    UserError
        If a value is out of range.

    Examples
    --------
    >>> round(exp3s_bound(100_000, 10, 2))
    13097

    """
    horizon, segments = check_times(horizon, segments)
    arms = check_int("arms", arms)
    effort = arms * horizon * (segments * math.log(arms * horizon) + math.e)
    return 2.0 * math.sqrt((math.e - 1.0) * effort) / _check_slope(slope)


def sw_klucb_bound(
    horizon: int, segments: int, arms: int, slope: float = 1.0, *, window: int | None = None, c: float = 3.0
) -> float:
    """Return an upper bound on the mean regret of ``sw-klucb-cf`` for any means.

    The leading terms are (L-1) w + T sqrt(2 (K-1) F / w) / s, F = f(w). With the default window they are about
    3 ((K-1) (L-1) F T^2 / (2 s^2))^(1/3).

    Parameters
    ----------
    horizon : int
        Number of steps, T.
    segments : int
        Number of segments, L.
    arms : int
        Number of arms, K.
    slope : float, default 1.0
        Slope of the randomised response, p00 + p11 - 1.
    window : int, optional
        Window w in steps. The default is ``variation_window(horizon, arms, segments - 1, slope)``, which nearly
        minimises the leading terms.
    c : float, default 3.0
        Factor of log log in the exploration function.

    Returns
    -------
    float
        The bound, at most the horizon.

    Raises
    ------
    UserError
        If a value is out of range.

    Examples
    --------
    >>> round(sw_klucb_bound(10**8, 2, 2))
    1459035

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
    """Check and return a slope."""
    return check_number("slope", slope, 0.0, 1.0, above=True)
