"""Orders of growth for comparing settings: the paper's corollaries, and the share of liars that misleads a policy."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits.errors import UserError, check_int, check_number
from maskedbandits.theory.windows import check_times


def corollary_1(horizon: int, changes: int, p00: ArrayLike, p11: ArrayLike, arms: int | None = None) -> float:
    """Return K sqrt(L T) + L sum_a log(sqrt(T / L)) / (p00 + p11 - 1)^2, the expression of Corollary 1.

    The paper leaves out constants and logarithmic factors. This is an order of growth for comparing settings, and not a
    bound on a measurement; it also inherits the error of the published proof. The best arm is not known, so the sum
    leaves out the smallest term.

    Parameters
    ----------
    horizon : int
        Number of steps, T.
    changes : int
        Number of segments, L, including the first.
    p00, p11 : float or array_like
        Probabilities of true reports of 0 and 1: one for each arm, or one for all ``arms``.
    arms : int, optional
        Number of arms, needed if one p00 and one p11 are given.

    Returns
    -------
    float
        The expression.

    Raises
    ------
    UserError
        If a value is out of range, or the number of arms is unknown.

    Examples
    --------
    >>> round(corollary_1(10_000, 4, 0.9, 0.9, arms=2), 1)
    424.5

    """
    horizon, changes = check_times(horizon, changes)
    first, second = np.broadcast_arrays(np.asarray(p00, dtype=np.float64), np.asarray(p11, dtype=np.float64))
    if first.ndim == 0 and arms is None:
        raise UserError("a single p00 and p11 require the number of arms: give arms=")
    count = first.size if arms is None else check_int("arms", arms)
    if first.ndim > 1 or first.size not in (1, count):
        raise UserError(f"p00 and p11 have shape {first.shape}: give one number, or one for each of {count} arms")
    slope = np.broadcast_to(first + second - 1.0, (count,))
    valid = (first >= 0.0) & (first <= 1.0) & (second >= 0.0) & (second <= 1.0)
    if not (valid.all() and slope.all()):
        raise UserError("p00 and p11 must be in [0, 1] and not add up to 1, where feedback has no information")
    terms = 0.5 * math.log(horizon / changes) / slope**2
    return float(count * math.sqrt(changes * horizon) + changes * (terms.sum() - terms.min()))


def corollary_2(horizon: int, changes: int, arms: int, epsilon: float) -> float:
    """Return the expression of Corollary 2: Corollary 1 with the optimal epsilon-private response.

    Its slope is (e^epsilon - 1) / (e^epsilon + 1).

    Parameters
    ----------
    horizon : int
        Number of steps, T.
    changes : int
        Number of segments, L, including the first.
    arms : int
        Number of arms.
    epsilon : float
        Privacy loss of one report; infinity means no privacy.

    Returns
    -------
    float
        The expression.

    Raises
    ------
    UserError
        If a value is out of range.

    Examples
    --------
    >>> round(corollary_2(10_000, 4, 2, 1.0), 1)
    473.3

    """
    epsilon = check_number("epsilon", epsilon, 0.0, above=True, infinite=True)
    keep = 0.5 + 0.5 * math.tanh(0.5 * epsilon)  # e^epsilon / (1 + e^epsilon), without overflow
    return corollary_1(horizon, changes, keep, keep, arms)


def turning_share(gap: float, slope: float = 1.0) -> float:
    """Return the share of liars that can make a worse arm look better.

    A share a of lies, against the better arm and for the other, hides a difference of (1 - a) s gap once that is at
    most a.

    Parameters
    ----------
    gap : float
        Difference of the two means.
    slope : float, default 1.0
        Slope s of the randomised response.

    Returns
    -------
    float
        The smallest such share.

    Raises
    ------
    UserError
        If a value is out of range.

    Examples
    --------
    >>> turning_share(0.25)
    0.2

    """
    seen = abs(check_number("gap", gap, -1.0, 1.0) * check_number("slope", slope, -1.0, 1.0))
    return seen / (1.0 + seen)
