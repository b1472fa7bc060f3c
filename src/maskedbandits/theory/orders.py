"""Orders of growth, to compare settings by: the paper's corollaries, and the share of liars that turns a policy."""

import math

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits.errors import UserError, check_int, check_number
from maskedbandits.theory.windows import check_times


def corollary_1(horizon: int, changes: int, p00: ArrayLike, p11: ArrayLike, arms: int | None = None) -> float:
    """Return K sqrt(L T) + L sum_a log(sqrt(T / L)) / (p00 + p11 - 1)^2, the expression of Corollary 1.

    The paper leaves out constants and logarithmic factors: this is an order of growth, to compare settings
    by, and no bound to hold a measurement against; and it inherits the fault of the published proof.
    ``p00`` and ``p11`` hold a number per arm, or one for all ``arms``. Which arm is best is not known, so
    the sum leaves out the smallest term.
    """
    horizon, changes = check_times(horizon, changes)
    first, second = np.broadcast_arrays(np.asarray(p00, dtype=np.float64), np.asarray(p11, dtype=np.float64))
    if first.ndim == 0 and arms is None:
        raise UserError("one p00 and one p11 do not tell how many arms share them: give arms=...")
    count = first.size if arms is None else check_int("arms", arms)
    if first.ndim > 1 or first.size not in (1, count):
        raise UserError(f"p00 and p11 must be one number, or one for each of {count} arms; got {first.shape}")
    slope = np.broadcast_to(first + second - 1.0, (count,))
    valid = (first >= 0.0) & (first <= 1.0) & (second >= 0.0) & (second <= 1.0)
    if not (valid.all() and slope.all()):
        raise UserError("p00 and p11 must lie in [0, 1] and not sum to 1, where feedback tells nothing")
    terms = 0.5 * math.log(horizon / changes) / slope**2
    return float(count * math.sqrt(changes * horizon) + changes * (terms.sum() - terms.min()))


def corollary_2(horizon: int, changes: int, arms: int, epsilon: float) -> float:
    """Return the expression of Corollary 2: that of Corollary 1 at the optimal epsilon-private matrix.

    Its slope is (e^epsilon - 1) / (e^epsilon + 1); infinite epsilon is no privacy, and slope 1.
    """
    epsilon = check_number("epsilon", epsilon, 0.0, above=True, infinite=True)
    keep = 0.5 + 0.5 * math.tanh(0.5 * epsilon)  # e^epsilon / (1 + e^epsilon), without overflow
    return corollary_1(horizon, changes, keep, keep, arms)


def turning_share(gap: float, slope: float = 1.0) -> float:
    """Return the share of liars from which on an arm can be made to look better than one that is better by the gap.

    A share a of lies, against the one and for the other, hides (1 - a) s gap, s the mask's slope, once that is a.
    """
    seen = abs(check_number("gap", gap, -1.0, 1.0) * check_number("slope", slope, -1.0, 1.0))
    return seen / (1.0 + seen)
