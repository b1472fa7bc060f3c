"""Statistics of simulated worlds: means and ratios with intervals, how soon a change is followed, and what pays.

All functions take plain arrays with one sample from each world. Worlds are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from maskedbandits._util.intervals import mean_half_width

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TRAFFIC = 9, 10  # a change is followed once the best arm gets 9 of 10 people
MIN_STRETCH = 50  # people: among fewer, chance alone may give an arm nine of ten
STRETCHES = 200  # in a segment of average length
MIN_GAIN = 0.5  # share of the gain of the best choice over a blind one that learning must reach to pay


@dataclass(frozen=True)
class Estimate:
    """A mean over worlds with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Settling:
    """The speed at which changes are followed.

    Parameters
    ----------
    people
        The median number of people after a change until the best arm gets most traffic; None if fewer than half of
        the changes are followed.
    reached
        The share of changes that are followed before the next one.
    stretch
        The number of people over whom traffic is measured.

    """

    people: int | None
    reached: float
    stretch: int


def estimate(samples: Floats) -> Estimate:
    """Return the mean of samples with its 95 % interval (Student's t)."""
    mean, half = float(samples.mean()), float(mean_half_width(samples))
    return Estimate(mean, mean - half, mean + half)


def estimate_ratio(parts: Floats, wholes: Floats) -> Estimate | None:
    """Return the ratio of two means over the same worlds with its 95 % interval; None if the whole may be 0 or less.

    The interval has every r for which the mean of ``parts - r wholes`` may be 0, by Student's t (Fieller 1954). So its
    upper end is at most r if and only if the parts are surely at most r times the wholes.
    """
    count = len(parts)
    part, whole = float(parts.mean()), float(wholes.mean())
    (part_variance, covariance), (_, whole_variance) = np.cov(parts, wholes).tolist()
    errors = float(stdtrit(count - 1, 0.975)) ** 2 / count
    a, b, c = whole**2 - errors * whole_variance, part * whole - errors * covariance, part**2 - errors * part_variance
    if a <= 0.0 or whole <= 0.0:
        return None
    root = math.sqrt(max(b * b - a * c, 0.0))  # below 0 only by rounding, since the ratio of the means is a solution
    return Estimate(part / whole, (b - root) / a, (b + root) / a)


def choose_stretch(horizon: int, segments: int) -> int:
    """Return the number of people over whom traffic is measured."""
    return max(MIN_STRETCH, horizon // segments // STRETCHES)


def split_segment(start: int, end: int, stretch: int) -> Ints:
    """Return the ends of the stretches of a segment; a shorter rest at its end is left out."""
    return np.arange(start, end + 1, stretch, dtype=np.int64)


def find_settling(regret: Floats, gap: float, stretch: int) -> float:
    """Return the end of the first stretch in which the best arm gets most traffic, or infinity.

    ``regret`` is the cumulative regret at the ends of the stretches. It counts wrong choices: each costs the gap.
    """
    wrong = np.rint(np.diff(regret) / gap).astype(np.int64)
    share, of = TRAFFIC
    settled = np.flatnonzero(of * (stretch - wrong) >= share * stretch)
    return float(stretch * (settled[0] + 1)) if settled.size else math.inf


def summarize_settling(times: Sequence[float], stretch: int) -> Settling:
    """Return how soon half of all changes are followed, from the time that each took."""
    middle = sorted(times)[(len(times) - 1) // 2]  # at least half are as early
    reached = sum(math.isfinite(time) for time in times) / len(times)
    return Settling(int(middle) if math.isfinite(middle) else None, reached, stretch)


def bound_relative_loss(losses: Floats, blind: float) -> float:
    """Return the upper end of the loss as a share of the loss of a blind choice."""
    return estimate(losses).high / blind


def pays(share: float) -> bool:
    """Return whether learning pays if it surely loses at most this share of the loss of a blind choice."""
    return share <= 1.0 - MIN_GAIN


def find_bracket(shares: Mapping[int, float]) -> tuple[int, int] | None:
    """Return the largest audience that does not pay and the next larger one, if all larger ones pay.

    ``shares`` has the relative loss of ``bound_relative_loss`` by audience.
    """
    above = None
    for audience in sorted(shares, reverse=True):
        if not pays(shares[audience]):
            return None if above is None else (audience, above)
        above = audience
    return None


def find_break_even(shares: Mapping[int, float]) -> int | None:
    """Return the audience from which on learning pays; None if it does not pay even at the largest.

    Between the two audiences of the bracket the share is interpolated linearly in the logarithm of the audience, and
    the result is rounded up to two digits. If all audiences pay, the result is the smallest of them.
    """
    if not pays(shares[max(shares)]):
        return None
    ends = find_bracket(shares)
    if ends is None:
        return min(shares)
    small, large = ends
    fraction = (shares[small] - (1.0 - MIN_GAIN)) / (shares[small] - shares[large])
    between = small * math.pow(large / small, fraction)
    unit: int = 10 ** max(0, math.floor(math.log10(between)) - 1)
    return min(large, unit * math.ceil(between / unit))
