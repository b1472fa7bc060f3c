"""What is measured of simulated worlds: means and ratios with intervals, how soon a change is followed, what pays.

All functions are of plain arrays. A sample is what came out in one world; worlds are independent of each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from maskedbandits.experiments.results import half_width

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TRAFFIC = 9, 10  # the best arm has settled in once it gets so many of so many people
SHORTEST_STRETCH = 50  # people: among fewer, chance alone may give an arm nine of ten
STRETCHES = 200  # in a segment of usual length
WON = 0.5  # of what the best choice gains over a blind one: so much must be won if it is to pay


@dataclass(frozen=True)
class Estimate:
    """A mean over worlds with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Settling:
    """How soon changes are followed."""

    people: int | None  # after a change, until in half of all changes the best arm has settled in; None: in fewer
    reached: float  # the share of changes in which it does before the next one
    stretch: int  # people over whom traffic is measured


def estimate(samples: Floats) -> Estimate:
    """Return the mean of samples with its 95 % interval (Student's t)."""
    mean, half = float(samples.mean()), float(half_width(samples))
    return Estimate(mean, mean - half, mean + half)


def ratio(parts: Floats, wholes: Floats) -> Estimate | None:
    """Return the ratio of two means over the same worlds with its 95 % interval; None if the whole may be 0 or less.

    The interval holds every r for which the mean of ``parts - r wholes`` may be 0, by Student's t (Fieller 1954): so
    its upper end is at most r if and only if the parts are surely at most r times the wholes.
    """
    count = len(parts)
    part, whole = float(parts.mean()), float(wholes.mean())
    (parts_vary, both_vary), (_, wholes_vary) = np.cov(parts, wholes).tolist()
    errors = float(stdtrit(count - 1, 0.975)) ** 2 / count
    a, b, c = whole**2 - errors * wholes_vary, part * whole - errors * both_vary, part**2 - errors * parts_vary
    if a <= 0.0 or whole <= 0.0:
        return None
    root = math.sqrt(max(b * b - a * c, 0.0))  # the ratio of the means solves it: below 0 by rounding alone
    return Estimate(part / whole, (b - root) / a, (b + root) / a)


def stretch_of(horizon: int, segments: int) -> int:
    """Return over how many people traffic is measured."""
    return max(SHORTEST_STRETCH, horizon // segments // STRETCHES)


def marks_of(start: int, end: int, stretch: int) -> Ints:
    """Return where the stretches of a segment begin and end; what is left at its end is too short for one."""
    return np.arange(start, end + 1, stretch, dtype=np.int64)


def settled_after(regret: Floats, gap: float, stretch: int) -> float:
    """Return the end of the first stretch in which the best arm has its traffic, or infinity.

    ``regret`` is the cumulative one at the marks of a segment. Each wrong choice costs the gap, so it counts them.
    """
    wrong = np.rint(np.diff(regret) / gap).astype(np.int64)
    share, of = TRAFFIC
    settled = np.flatnonzero(of * (stretch - wrong) >= share * stretch)
    return float(stretch * (settled[0] + 1)) if settled.size else math.inf


def settling(times: Sequence[float], stretch: int) -> Settling:
    """Return how soon half of all changes are followed, of the times that each took."""
    middle = sorted(times)[(len(times) - 1) // 2]  # at least half are as soon
    reached = sum(math.isfinite(time) for time in times) / len(times)
    return Settling(int(middle) if math.isfinite(middle) else None, reached, stretch)


def loses(losses: Floats, blind: float) -> float:
    """Return the upper end of the loss as a share of what a blind choice loses."""
    return estimate(losses).high / blind


def pays(share: float) -> bool:
    """Tell whether it pays to learn if surely no more than this share of a blind choice's loss is lost."""
    return share <= 1.0 - WON


def bracket(shares: Mapping[int, float]) -> tuple[int, int] | None:
    """Return the largest audience that does not pay and the next larger one, from which on all pay; None if none is so.

    ``shares`` are those of the loss, as ``loses`` returns them, by audience.
    """
    above = None
    for audience in sorted(shares, reverse=True):
        if not pays(shares[audience]):
            return None if above is None else (audience, above)
        above = audience
    return None


def pays_from(shares: Mapping[int, float]) -> int | None:
    """Return the audience from which on it pays; None if it does not even at the largest.

    Between the two audiences of the bracket the share is taken to fall evenly with the logarithm of the audience; the
    answer is rounded up to two digits. If all audiences pay, it is the smallest of them.
    """
    if not pays(shares[max(shares)]):
        return None
    ends = bracket(shares)
    if ends is None:
        return min(shares)
    small, large = ends
    way = (shares[small] - (1.0 - WON)) / (shares[small] - shares[large])
    between = small * math.pow(large / small, way)
    unit: int = 10 ** max(0, math.floor(math.log10(between)) - 1)
    return min(large, unit * math.ceil(between / unit))
