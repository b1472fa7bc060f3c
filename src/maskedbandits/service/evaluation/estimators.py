"""Off-policy estimators of fixed choices: each arm for all visitors, arms at random, and the logged decisions.

To add an estimator, add its sums to ``Sums`` and ``ReportsByArm.sum_arm``, its estimate to ``ChoiceEstimate`` and
``_estimate_choice``, and its column to ``text.py``. Policies that learn are in ``policy_trial.py``.

For a choice that shows arm a with probability pi(a), a report of that arm, shown with probability p, has the weight
w = pi(a) / p; h is the report's worth, r the debiased reward, H the sum of all worths.

    IPS                 sum of h w r / H
    self-normalised     sum of h w r / sum of h w
    doubly robust       sum of h (m(pi) + w (r - m(a))) / H

m(a) is the mean of the arm's earlier reports, with one more report of 1/2, and m(pi) its mean over pi. For any m the
term is unbiased (Dudik, Langford and Li 2011, Doubly robust policy evaluation and learning, ICML). It depends on the
past alone, as intervals.py requires. The interval of the self-normalised estimate has the means for which the sum of
h w (r - mean), whose expectation is 0 at the true mean, is within its bound.

Sums add up over arms, so arms at random are the sum of all arms. An arm is estimated only if each decision could show
it for sure: IPS counts rewards of the other decisions as 0. Counting them as 1 gives an upper limit of the truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.evaluation.intervals import (
    RHO_SHARE,
    EmpiricalBernstein,
    Interval,
    NormalApproximation,
    build_interval,
    invert_test,
)
from maskedbandits.service.evaluation.log import ArmSpan, Floats, Ints, ReportLog

MIN_REPORTS_FOR_NORMAL = 100
MISMATCH_DELTA = 0.001  # probability of a false alarm about logged probabilities, for all arms together
UNIFORM = "uniform"


class MeanEstimate(NamedTuple):
    """A mean reward with its interval, and an approximate interval if there are many reports."""

    value: float
    interval: Interval
    approximate: Interval | None


class ShowRatio(NamedTuple):
    """Frequency of an arm relative to its logged probabilities, with the limits of that ratio."""

    ratio: float
    low: float
    high: float
    fits: bool


@dataclass(frozen=True)
class ChoiceEstimate:
    """The estimates of a choice, or the limits of its value if the log does not support one."""

    name: str
    reports: int  # of the arms that it shows
    considered: int  # reports of all arms while it was open
    ips: MeanEstimate | None = None
    normalised: MeanEstimate | None = None
    robust: MeanEstimate | None = None
    limits: Interval | None = None
    unseen: float = 0.0  # estimated share of decisions that could not show it
    show_ratio: ShowRatio | None = None


class Sums(NamedTuple):
    """Sums over the reports of an arm, or of several."""

    reports: float = 0.0
    weight: float = 0.0  # h w
    rewards: float = 0.0  # h w r
    robust: float = 0.0  # h (m(pi) + w (r - m(a)))
    robust_squares: float = 0.0  # of h w (r - m(a))
    squares: float = 0.0  # of h w r
    crossed: float = 0.0  # (h w)^2 r
    weight_squares: float = 0.0  # (h w)^2
    weight_worth: float = 0.0  # h^2 w

    def squares_about(self, mean: float) -> float:
        """Return the sum of the squares of h w (r - mean)."""
        return max(0.0, self.squares - 2.0 * mean * self.crossed + mean * mean * self.weight_squares)


class FixedChoice:
    """A fixed choice: the reports to estimate it by, and its probability of an open arm at each."""

    def __init__(self, log: ReportLog, at: slice | Ints, shares: Floats) -> None:
        self.shares = shares
        self.considered = int(log.worth[at].size)
        self.worth = float(log.worth[at].sum())
        self.worth_squares = float((log.worth[at] ** 2).sum())
        self.cumulative_worth = np.append(0.0, np.cumsum(log.worth * shares))
        self.method = build_bound(log, at, WHOLE / log.min_probability * float(shares[at].max(initial=0.0)))


def build_bound(log: ReportLog, at: slice | Ints, max_weight: float) -> EmpiricalBernstein:
    """Return the bound for terms over some reports, with weights up to a largest one.

    The size of their squares is guessed: h (r - 1/2) has the same square for either bit, and weights are between 1 and
    the largest.
    """
    noise = float(((log.worth * (log.rewards - 0.5))[at] ** 2).sum())
    return EmpiricalBernstein(log.reach * max_weight, RHO_SHARE * noise * math.sqrt(max_weight))


def compute_earlier_means(rewards: Floats, worth: Floats) -> Floats:
    """Return the clipped mean of earlier rewards before each reward and after the last; 1/2 before the first."""
    totals, weights = np.append(0.0, np.cumsum(worth * rewards)), np.append(0.0, np.cumsum(worth))
    return np.clip((0.5 + totals) / (1.0 + weights), 0.0, 1.0)


class ReportsByArm:
    """The reports of each arm."""

    def __init__(self, log: ReportLog) -> None:
        self.log = log
        order = np.argsort(log.arm, kind="stable")
        ends = np.searchsorted(log.arm[order], np.arange(len(log.arms) + 1))
        self._reports = [order[start:end] for start, end in pairwise(ends)]

    def _find_while_open(self, arm: ArmSpan) -> Ints:
        found = self._reports[arm.index]
        return found[np.searchsorted(found, arm.start) : np.searchsorted(found, arm.end)]

    def has_reports(self, arm: ArmSpan) -> bool:
        """Tell whether an arm has reports while it was open."""
        return bool(self._find_while_open(arm).size)

    def sum_arm(self, arm: ArmSpan, choice: FixedChoice) -> Sums:
        """Return the sums of a choice over an arm's reports while it was open."""
        log, at = self.log, self._find_while_open(arm)
        if not at.size:  # m(a) is always 1/2
            worth_sum = choice.cumulative_worth[arm.end] - choice.cumulative_worth[arm.start]
            return Sums(robust=0.5 * float(worth_sum))
        worth, rewards = log.worth[at], log.rewards[at]
        weights = worth * choice.shares[at] * (WHOLE / log.probability[at])
        means = compute_earlier_means(rewards, worth)
        cuts = np.concatenate([[arm.start], at + 1, [arm.end]])  # m(a) is constant between them
        predicted = float((means * np.diff(choice.cumulative_worth[cuts])).sum())
        residuals, weighted = weights * (rewards - means[:-1]), weights * rewards
        return Sums(
            reports=at.size,
            weight=float(weights.sum()),
            rewards=float(weighted.sum()),
            robust=predicted + float(residuals.sum()),
            robust_squares=float((residuals**2).sum()),
            squares=float((weighted**2).sum()),
            crossed=float((weights * weighted).sum()),
            weight_squares=float((weights**2).sum()),
            weight_worth=float((weights * worth).sum()),
        )


def estimate_arms(log: ReportLog) -> list[ChoiceEstimate]:
    """Estimate each arm that was open, by index, and last all of them at random."""
    by_arm, ones = ReportsByArm(log), np.ones(log.size)
    arms = [arm for arm in log.arms if arm.start < arm.end]
    choices = {window: FixedChoice(log, slice(*window), ones) for window in {(arm.start, arm.end) for arm in arms}}
    found, without_reports = [], dict[tuple[int, int, bool], ChoiceEstimate]()  # many arms may share one estimate
    for arm in arms:
        choice, key = choices[arm.start, arm.end], (arm.start, arm.end, log.is_supported(arm))
        if by_arm.has_reports(arm) or key not in without_reports:
            sums = by_arm.sum_arm(arm, choice)
            ratio = _compute_show_ratio(sums, choice, WHOLE / log.min_probability, key[-1], MISMATCH_DELTA / len(arms))
            found.append(_estimate_choice(arm.name, sums, choice, key[-1], ratio))
            if not by_arm.has_reports(arm):
                without_reports[key] = found[-1]
        else:
            found.append(replace(without_reports[key], name=arm.name))
    return [*found, _estimate_uniform(by_arm, arms)]


def _estimate_uniform(by_arm: ReportsByArm, arms: list[ArmSpan]) -> ChoiceEstimate:
    """Estimate a choice that shows every open arm with the same probability."""
    log, open_arms = by_arm.log, by_arm.log.count_open_arms()
    at = np.flatnonzero(open_arms)
    shares = np.zeros(log.size)
    shares[at] = 1.0 / open_arms[at]
    choice = FixedChoice(log, at, shares)
    each = [by_arm.sum_arm(arm, choice) for arm in arms]
    sums = Sums(*(math.fsum(column) for column in zip(*each, strict=True)))
    return _estimate_choice(UNIFORM, sums, choice, all(log.is_supported(arm) for arm in arms))


def _estimate_choice(
    name: str, sums: Sums, choice: FixedChoice, is_supported: bool, show_ratio: ShowRatio | None = None
) -> ChoiceEstimate:
    reports, worth, method = int(sums.reports), choice.worth, choice.method
    if not is_supported or not reports:
        low = build_interval(method, sums.rewards, sums.squares, worth).low if reports else 0.0
        optimistic = worth + sums.rewards - sums.weight
        high = build_interval(method, optimistic, sums.squares_about(1.0), worth).high if reports else 1.0
        unseen = min(max(1.0 - sums.weight / worth, 0.0), 1.0) if worth else 1.0
        limits = Interval(low, high)
        return ChoiceEstimate(name, reports, choice.considered, limits=limits, unseen=unseen, show_ratio=show_ratio)
    ratio = sums.rewards / sums.weight

    def sum_at(mean: float) -> tuple[float, float]:
        return sums.rewards - mean * sums.weight, sums.squares_about(mean)

    has_normal = reports >= MIN_REPORTS_FOR_NORMAL
    normal = invert_test(NormalApproximation(), sum_at, ratio) if has_normal else None
    return ChoiceEstimate(
        name,
        reports,
        choice.considered,
        build_estimate(sums.rewards, sums.squares, worth, method, reports),
        MeanEstimate(ratio, invert_test(method, sum_at, ratio), normal),
        build_estimate(sums.robust, sums.robust_squares, worth, method, reports),
        show_ratio=show_ratio,
    )


def _compute_show_ratio(
    sums: Sums, choice: FixedChoice, max_weight: float, is_supported: bool, delta: float
) -> ShowRatio:
    """Compare how often an arm was shown with its probabilities: h (w - 1) is 0 on average.

    For an arm that some decisions could not show it is less, never more. The bound of intervals.py depends on the
    distance of a term from its prediction on one side: below for sums that are too high, above for those too low.
    """
    squares = max(0.0, sums.weight_squares - 2.0 * sums.weight_worth + choice.worth_squares)
    ratio = sums.weight / choice.worth

    def compute_radius(reach: float) -> float:
        method = EmpiricalBernstein(reach, RHO_SHARE * choice.worth_squares * math.sqrt(max_weight), delta)
        return method.radius(squares) / choice.worth

    low, high = max(0.0, ratio - compute_radius(1.0)), ratio + compute_radius(max(1.0, max_weight - 1.0))
    return ShowRatio(ratio, low, high, low <= 1.0 and (high >= 1.0 or not is_supported))


def estimate_mean(log: ReportLog, at: Ints) -> MeanEstimate:
    """Return the mean reward of some reports, selected at random or all."""
    worth, rewards = log.worth[at], log.rewards[at]
    residuals = worth * (rewards - compute_earlier_means(rewards, worth)[:-1])
    total, squares, weight = (float(column.sum()) for column in (worth * rewards, residuals**2, worth))
    return build_estimate(total, squares, weight, build_bound(log, at, 1.0), at.size)


def build_estimate(
    total: float, squares: float, weight: float, bound: EmpiricalBernstein, reports: int
) -> MeanEstimate:
    """Return a mean with its intervals, from the sum of all terms and the squares of their prediction errors."""
    has_normal = reports >= MIN_REPORTS_FOR_NORMAL
    normal = build_interval(NormalApproximation(), total, squares, weight) if has_normal else None
    return MeanEstimate(total / weight, build_interval(bound, total, squares, weight), normal)
