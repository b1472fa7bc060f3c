"""A log as it is judged by: reports in the order in which they came, which arms were open, and what could be shown.

A report says which arm was shown, a masked bit, how it was masked, and how probable that arm was when it was chosen, in
65,536ths. Nothing is known of how probable the others were, but what the settings of the experiment guarantee: with a
floor, every open arm can be shown at every decision; with a holdout, the default arm.

A bit that is true with probability p tells (bit - (1 - p)) / (2p - 1) of a reward: never a number within (0, 1), and on
average the reward itself. Reports with an epsilon of their own weigh as much as they tell, (2p - 1)^2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.service.state import mask_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NOBODY = -1


class Arm(NamedTuple):
    """An arm, and among which reports it is judged: from start, up to end."""

    place: int
    name: str
    start: int
    end: int


class Stretch(NamedTuple):
    """From which report on it is sure that every open arm, or this one, could be shown."""

    start: int
    every: bool
    one: int  # the default arm, if there is a holdout; else NOBODY

    def shows(self, place: int) -> bool:
        """Tell whether it is sure of an arm."""
        return self.every or (place != NOBODY and self.one == place)

    def and_also(self, other: Stretch) -> Stretch:
        """Return what is sure under both."""
        if self.every:
            return other._replace(start=self.start)
        return Stretch(self.start, False, self.one if other.shows(self.one) else NOBODY)


@dataclass(frozen=True, eq=False)
class Log:
    """Reports, one an element of each array, with the arms and what is sure of them."""

    name: str
    arms: tuple[Arm, ...]
    stretches: tuple[Stretch, ...]
    least: int  # in 65,536ths: no arm that could be shown was less probable
    epsilon: int  # in millionths, of the experiment as it was created
    left_out: int  # reports of decisions among eligible arms
    held_back: int  # reports over a source limit, which are left out, too
    seq: Ints
    hour: Ints
    arm: Ints
    bit: Ints
    epsilons: Ints
    probability: Ints
    flags: Ints
    rewards: Floats  # what reports tell on average
    worth: Floats  # how much they tell: 1 for those that tell most
    reach: float  # how far a reward may be from anything in [0, 1], times its worth

    @property
    def size(self) -> int:
        """How many reports there are to judge by."""
        return self.seq.size

    def part(self, start: int, end: int) -> Log:
        """Return the reports from start up to end, as a log of their own."""
        cut = {name: getattr(self, name)[start:end] for name in ARRAYS}
        arms = [(_clipped(arm.start, start, end), _clipped(arm.end, start, end)) for arm in self.arms]
        within = tuple(arm._replace(start=a, end=b) for arm, (a, b) in zip(self.arms, arms, strict=True))
        met = [stretch._replace(start=stretch.start - start) for stretch in self.stretches if stretch.start < end]
        first = max(place for place, stretch in enumerate(met) if stretch.start <= 0)
        return replace(self, arms=within, stretches=(met[first]._replace(start=0), *met[first + 1 :]), **cut)

    def is_sure(self, arm: Arm) -> bool:
        """Tell whether it is sure that an arm could be shown at every decision while it was open."""
        ends = [stretch.start for stretch in self.stretches[1:]] + [self.size]
        met = [each for each, end in zip(self.stretches, ends, strict=True) if each.start < arm.end and end > arm.start]
        return all(stretch.shows(arm.place) for stretch in met)

    def open_arms(self) -> Ints:
        """Return how many arms were open at each report."""
        steps = np.zeros(self.size + 1, dtype=np.int64)
        np.add.at(steps, [arm.start for arm in self.arms], 1)
        np.add.at(steps, [arm.end for arm in self.arms], -1)
        return np.cumsum(steps)[:-1]


ARRAYS = ("seq", "hour", "arm", "bit", "epsilons", "probability", "flags", "rewards", "worth")


def _clipped(place: int, start: int, end: int) -> int:
    return min(max(place, start), end) - start


def debiased(bits: Ints, epsilons: Ints) -> tuple[Floats, Floats, float]:
    """Return what reports tell on average, how much each tells, and how far it may be from anything in [0, 1]."""
    known, each = np.unique(epsilons, return_inverse=True)
    masks = [mask_of(int(epsilon)) for epsilon in known]
    lows, slopes = np.array([1.0 - mask.p00 for mask in masks]), np.array([mask.slope for mask in masks])
    worth = (slopes / slopes.max()) ** 2
    reach = float(np.max(worth * (lows + slopes) / slopes))
    return (bits - lows[each]) / slopes[each], worth[each], reach
