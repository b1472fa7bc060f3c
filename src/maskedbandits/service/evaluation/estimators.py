"""What the log says of choices that learn nothing: each arm for everybody, arms at random, and how it went as it was.

For a choice that shows arm a with probability pi(a), a report of that arm, shown with probability p, has the weight
w = pi(a) / p; h is the report's worth, r the debiased reward, H the sum of all worths.

    IPS                 sum of h w r / H
    self-normalised     sum of h w r / sum of h w
    doubly robust       sum of h (m(pi) + w (r - m(a))) / H

m(a) is the mean of the arm's earlier reports (with a half, of the weight of one, before the first), m(pi) its mean over
pi. Whatever m says, the term is right on average (Dudik, Langford and Li 2011, Doubly robust policy evaluation and
learning, ICML); and since it rests on the past alone, the sums are such as intervals.py needs. For the self-normalised
estimate, a mean is believed if the sum of h w (r - mean) could be 0 but for chance: at the true mean, it is on average.

Sums add up over arms, so that arms at random are the sum of all of them. An arm is not judged unless it is sure that
every decision could have shown it: IPS takes the rewards of those that could not for zeros. Taken for ones, they give
what it could be at the most; the truth lies in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.evaluation.intervals import TUNED, Interval, Normal, Sure, around, where_believed
from maskedbandits.service.evaluation.log import Arm, Floats, Ints, Log

MANY = 100  # reports from which on the approximation is given
DOUBT = 0.001  # how probable it may be that probabilities which are right are called wrong, of all arms together
UNIFORM = "uniform"


class Estimate(NamedTuple):
    """A mean reward, with a sure interval, and an approximate one if there are many reports."""

    value: float
    sure: Interval
    approximate: Interval | None


class Shown(NamedTuple):
    """How often an arm was shown, as a ratio to what the probabilities say, and what that ratio may be."""

    ratio: float
    low: float
    high: float
    fits: bool


@dataclass(frozen=True)
class Judged:
    """What the log says of a choice; of one that is not judged, between what its value lies."""

    name: str
    reports: int  # of what it shows
    considered: int  # of all arms, while it was open
    ips: Estimate | None = None
    normalised: Estimate | None = None
    robust: Estimate | None = None
    limits: Interval | None = None
    unseen: float = 0.0  # about which share of decisions could not have shown it
    shown: Shown | None = None


class Sums(NamedTuple):
    """What is summed up over the reports of arms."""

    reports: float = 0.0
    weight: float = 0.0  # h w
    told: float = 0.0  # h w r
    robust: float = 0.0  # h (m(pi) + w (r - m(a)))
    robust_squares: float = 0.0  # of h w (r - m(a))
    squares: float = 0.0  # of h w r
    crossed: float = 0.0  # (h w)^2 r
    weight_squares: float = 0.0  # (h w)^2
    leaning: float = 0.0  # h^2 w

    def squares_about(self, mean: float) -> float:
        """Return the sum of the squares of h w (r - mean)."""
        return max(0.0, self.squares - 2.0 * mean * self.crossed + mean * mean * self.weight_squares)


class Choice:
    """A choice that learns nothing: where it is judged, and with which probability it shows an open arm there."""

    def __init__(self, log: Log, at: slice | Ints, shares: Floats) -> None:
        self.shares = shares
        self.considered = int(log.worth[at].size)
        self.whole = float(log.worth[at].sum())
        self.whole_squares = float((log.worth[at] ** 2).sum())
        self.parts = np.append(0.0, np.cumsum(log.worth * shares))
        self.method = sure_method(log, at, WHOLE / log.least * float(shares[at].max(initial=0.0)))


def sure_method(log: Log, at: slice | Ints, heaviest: float) -> Sure:
    """Return the sure method for terms with weights of up to the heaviest, over some reports.

    About how large their squares will be is guessed: h (r - 1/2) has the same square for either bit, and weights are
    between 1 and the heaviest.
    """
    noise = float(((log.worth * (log.rewards - 0.5))[at] ** 2).sum())
    return Sure(log.reach * heaviest, TUNED * noise * math.sqrt(heaviest))


def earlier_means(rewards: Floats, worth: Floats) -> Floats:
    """Return the mean of earlier rewards, before each and after the last: in [0, 1], a half before the first."""
    told, weight = np.append(0.0, np.cumsum(worth * rewards)), np.append(0.0, np.cumsum(worth))
    return np.clip((0.5 + told) / (1.0 + weight), 0.0, 1.0)


class Ledger:
    """The reports of each arm, and what they add to sums."""

    def __init__(self, log: Log) -> None:
        self.log = log
        order = np.argsort(log.arm, kind="stable")
        ends = np.searchsorted(log.arm[order], np.arange(len(log.arms) + 1))
        self._reports = [order[start:end] for start, end in pairwise(ends)]

    def _while_open(self, arm: Arm) -> Ints:
        found = self._reports[arm.place]
        return found[np.searchsorted(found, arm.start) : np.searchsorted(found, arm.end)]

    def has_reports(self, arm: Arm) -> bool:
        """Tell whether an arm has any while it was open."""
        return bool(self._while_open(arm).size)

    def sums(self, arm: Arm, choice: Choice) -> Sums:
        """Return what an arm's reports add to the sums of a choice, while it was open."""
        log, at = self.log, self._while_open(arm)
        if not at.size:  # m(a) is a half throughout
            return Sums(robust=0.5 * float(choice.parts[arm.end] - choice.parts[arm.start]))
        worth, rewards = log.worth[at], log.rewards[at]
        heavy = worth * choice.shares[at] * (WHOLE / log.probability[at])
        means = earlier_means(rewards, worth)
        cuts = np.concatenate([[arm.start], at + 1, [arm.end]])  # between which m(a) stays as it is
        foreseen = float((means * np.diff(choice.parts[cuts])).sum())
        left, told = heavy * (rewards - means[:-1]), heavy * rewards
        return Sums(
            reports=at.size,
            weight=float(heavy.sum()),
            told=float(told.sum()),
            robust=foreseen + float(left.sum()),
            robust_squares=float((left**2).sum()),
            squares=float((told**2).sum()),
            crossed=float((heavy * told).sum()),
            weight_squares=float((heavy**2).sum()),
            leaning=float((heavy * worth).sum()),
        )


def judge_arms(log: Log) -> list[Judged]:
    """Judge each arm that was open, in the order of their places, and all of them at random, last."""
    ledger, ones = Ledger(log), np.ones(log.size)
    arms = [arm for arm in log.arms if arm.start < arm.end]
    choices = {window: Choice(log, slice(*window), ones) for window in {(arm.start, arm.end) for arm in arms}}
    found, without_reports = [], dict[tuple[int, int, bool], Judged]()  # of which there may be many: all are alike
    for arm in arms:
        choice, alike = choices[arm.start, arm.end], (arm.start, arm.end, log.is_sure(arm))
        if ledger.has_reports(arm) or alike not in without_reports:
            sums = ledger.sums(arm, choice)
            shown = _shown(sums, choice, WHOLE / log.least, alike[-1], DOUBT / len(arms))
            found.append(_judged(arm.name, sums, choice, alike[-1], shown))
            if not ledger.has_reports(arm):
                without_reports[alike] = found[-1]
        else:
            found.append(replace(without_reports[alike], name=arm.name))
    return [*found, _at_random(ledger, arms)]


def _at_random(ledger: Ledger, arms: list[Arm]) -> Judged:
    """Judge a choice that shows every open arm with the same probability."""
    log, open_arms = ledger.log, ledger.log.open_arms()
    at = np.flatnonzero(open_arms)
    shares = np.zeros(log.size)
    shares[at] = 1.0 / open_arms[at]
    choice = Choice(log, at, shares)
    each = [ledger.sums(arm, choice) for arm in arms]
    sums = Sums(*(math.fsum(column) for column in zip(*each, strict=True)))
    return _judged(UNIFORM, sums, choice, all(log.is_sure(arm) for arm in arms))


def _judged(name: str, sums: Sums, choice: Choice, is_sure: bool, shown: Shown | None = None) -> Judged:
    """Return what sums say."""
    reports, whole, method = int(sums.reports), choice.whole, choice.method
    if not is_sure or not reports:
        low = around(method, sums.told, sums.squares, whole).low if reports else 0.0
        most = whole + sums.told - sums.weight
        high = around(method, most, sums.squares_about(1.0), whole).high if reports else 1.0
        unseen = min(max(1.0 - sums.weight / whole, 0.0), 1.0) if whole else 1.0
        return Judged(name, reports, choice.considered, limits=Interval(low, high), unseen=unseen, shown=shown)
    ratio = sums.told / sums.weight

    def sum_at(mean: float) -> tuple[float, float]:
        return sums.told - mean * sums.weight, sums.squares_about(mean)

    normal = where_believed(Normal(), sum_at, ratio) if reports >= MANY else None
    return Judged(
        name,
        reports,
        choice.considered,
        estimate(sums.told, sums.squares, whole, method, reports),
        Estimate(ratio, where_believed(method, sum_at, ratio), normal),
        estimate(sums.robust, sums.robust_squares, whole, method, reports),
        shown=shown,
    )


def _shown(sums: Sums, choice: Choice, heaviest: float, is_sure: bool, delta: float) -> Shown:
    """Compare how often an arm was shown with its probabilities: h (w - 1) is 0 on average.

    Of an arm that some decisions could not show it is less, never more. How far a term may be from its guess matters on
    one side each: see intervals.py, where it bounds what is added to a sum that is too high, or taken from it.
    """
    squares = max(0.0, sums.weight_squares - 2.0 * sums.leaning + choice.whole_squares)
    ratio = sums.weight / choice.whole

    def reach(furthest: float) -> float:  # of w - 1 below 0 for sums that are too high, above 0 for those too low
        method = Sure(furthest, TUNED * choice.whole_squares * math.sqrt(heaviest), delta)
        return method.radius(squares) / choice.whole

    low, high = max(0.0, ratio - reach(1.0)), ratio + reach(max(1.0, heaviest - 1.0))
    return Shown(ratio, low, high, low <= 1.0 and (high >= 1.0 or not is_sure))


def mean_of(log: Log, at: Ints) -> Estimate:
    """Return the mean reward of some reports, which nothing but lots has chosen."""
    worth, rewards = log.worth[at], log.rewards[at]
    left = worth * (rewards - earlier_means(rewards, worth)[:-1])
    total, squares, whole = (float(column.sum()) for column in (worth * rewards, left**2, worth))
    return estimate(total, squares, whole, sure_method(log, at, 1.0), at.size)


def estimate(total: float, squares: float, whole: float, sure: Sure, reports: int) -> Estimate:
    """Return a mean with its intervals: the total of all terms, the squares of what was not foreseen of them."""
    normal = around(Normal(), total, squares, whole) if reports >= MANY else None
    return Estimate(total / whole, around(sure, total, squares, whole), normal)
