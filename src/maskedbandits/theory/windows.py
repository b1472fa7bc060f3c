"""Windows for SW-KLUCB-CF that use no means: the paper's, the minimiser of its terms, and one for drifts."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import lambertw

from maskedbandits.errors import LARGEST, UserError, check_int, check_number
from maskedbandits.theory.bounds import exploration


def paper_window(horizon: int, changes: int) -> int:
    """Return the paper's window: sqrt(4 e T / (L + 4)) rounded down, and at least 1.

    Parameters
    ----------
    horizon : int
        Number of steps, T.
    changes : int
        Number of segments, L, including the first.

    Returns
    -------
    int
        The window in steps.

    Raises
    ------
    UserError
        If a value is out of range, or there are more segments than steps.

    Examples
    --------
    >>> paper_window(10_000, 4)
    116

    """
    return max(1, math.floor(math.sqrt(_compute_scale(horizon, changes))))


def lambert_window(horizon: int, changes: int) -> int:
    """Return the integer w >= 2 that minimises the printed leading terms, (L + 4) w + 4 e T / (w log w).

    The minimiser solves w^2 log w * log w / (log w + 1) = 4 e T / (L + 4). The paper drops the second factor, which
    lies between 1/2 and 1 from w = e on, to write w with Lambert's W function. That w is too small by a factor of at
    most sqrt(2). Here it brackets the exact one. The terms are convex, so bisection finds it.

    Parameters
    ----------
    horizon : int
        Number of steps, T.
    changes : int
        Number of segments, L, including the first.

    Returns
    -------
    int
        The window in steps.

    Raises
    ------
    UserError
        If a value is out of range, or there are more segments than steps.

    Examples
    --------
    >>> lambert_window(10_000, 4)
    64

    """
    scale = _compute_scale(horizon, changes)
    approximate = math.exp(lambertw(2.0 * scale).real / 2.0)
    low, high = max(2, math.floor(approximate)), max(3, math.ceil(math.sqrt(2.0) * approximate)) + 1
    while low < high:
        middle = (low + high) // 2
        saved = 1.0 / (middle * math.log(middle)) - 1.0 / ((middle + 1) * math.log(middle + 1))
        if scale * saved > 1.0:
            low = middle + 1
        else:
            high = middle
    return low


def variation_window(horizon: int, arms: int, variation: float, slope: ArrayLike = 1.0, *, c: float = 3.0) -> int:
    """Return the window for means that vary by V in total: (K F / 2)^(1/3) (T / (s V))^(2/3), within [K, T].

    It minimises the leading terms of a bound on regret, 2 w V + T sqrt(8 F K / w) / s, F = f(T). The orders are those
    of Cheung et al. (2022).

    Parameters
    ----------
    horizon : int
        Number of steps, T.
    arms : int
        Number of arms, K.
    variation : float
        Total variation V of the means: ``Problem.variation``, or an estimate. With 0 the window is the horizon.
    slope : float or array_like, default 1.0
        Slope of the corruption, of either sign: one for all arms, or one for each. With several, K / s^2 becomes the
        sum of 1 / s_a^2.
    c : float, default 3.0
        Factor of log log in the exploration function.

    Returns
    -------
    int
        The window in steps.

    Raises
    ------
    UserError
        If a value is out of range, or there are more arms than steps.

    Examples
    --------
    >>> variation_window(10_000, 2, 1.0)
    1167
    >>> variation_window(10_000, 2, 0.0)
    10000

    """
    horizon, arms = check_int("horizon", horizon, 1, LARGEST), check_int("arms", arms)
    variation, c = check_number("variation", variation, 0.0), check_number("c", c, 0.0)
    if arms > horizon:
        raise UserError(f"arms = {arms} is more than the horizon, {horizon}: not every arm could be tried")
    slopes = np.asarray(slope, dtype=np.float64)
    if slopes.ndim > 1 or slopes.size not in (1, arms):
        raise UserError(f"slope has shape {slopes.shape}: give one number, or one for each of {arms} arms")
    if not np.all((np.abs(slopes) > 0.0) & (np.abs(slopes) <= 1.0)):
        raise UserError(
            f"slope = {slopes.tolist()}: give numbers in [-1, 1] except 0, where feedback has no information"
        )
    hardness = float(np.broadcast_to(slopes**-2.0, (arms,)).sum())  # K / s^2
    longest = math.sqrt(0.5 * float(exploration(horizon, c)) * hardness) * horizon
    if longest >= variation * horizon**1.5:  # the minimiser is the horizon or beyond, also where V = 0
        return horizon
    return max(arms, math.ceil(math.pow(longest / variation, 2.0 / 3.0)))


def _compute_scale(horizon: int, changes: int) -> float:
    """Return 4 e T / (L + 4)."""
    horizon, changes = check_times(horizon, changes)
    return 4.0 * math.e * horizon / (changes + 4)


def check_times(horizon: int, changes: int) -> tuple[int, int]:
    """Check and return the numbers of steps and of segments."""
    horizon, changes = check_int("horizon", horizon, 1, LARGEST), check_int("changes", changes)
    if changes > horizon:
        raise UserError(f"changes = {changes} is more than the horizon, {horizon}: it counts segments")
    return horizon, changes
