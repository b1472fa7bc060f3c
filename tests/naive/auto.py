"""A slow, obvious reference for `auto`, Bayes' rule over the last change; nothing of the package is imported.

A hypothesis stores the time of the last change, and everything else is recounted from the whole history at every step.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from naive import draw_beta

Corruption = Callable[[float], float]
ALL, ONE, COARSE_STEP, FINE_STEP = range(4)


class Model(NamedTuple):
    """The numbers of the model."""

    each: int
    few: float
    fewer: float
    stays: float
    coarse: float
    fine: float
    wide: float
    narrow: float
    scant: float
    doubt: float
    max_doubt: float
    beat: float
    faint: float
    large: float
    stretch: float
    rounding: float


def prior(g: Corruption) -> tuple[float, float]:
    """The Beta distribution with the mean and the variance of g(U), U uniform, for an affine g."""
    mean, variance = (g(0.0) + g(1.0)) / 2, (g(1.0) - g(0.0)) ** 2 / 12
    weight = mean * (1 - mean) / variance - 1
    return mean * weight, (1 - mean) * weight


def draw_near(rng: np.random.Generator, a: float, b: float, width: float, large: float) -> float:
    """Width times as far from the mean as a draw from Beta(a, b), or as a normal one bent to its skew."""
    mean = a / (a + b)
    if min(a, b) < large:
        return mean + width * (draw_beta(rng, a, b) - mean)
    n = a + b
    deviation = math.sqrt(a * b / (n**2 * (n + 1)))
    skewness = 2 * (b - a) * math.sqrt(n + 1) / ((n + 2) * math.sqrt(a * b))
    z = rng.standard_normal()
    return mean + width * deviation * (z + skewness / 6 * (z**2 - 1))


class Report(NamedTuple):
    """What came of a pull, under an increasing mask."""

    arm: int
    feedback: float
    mask: Corruption
    worth: float  # how many observations under the arm's own mask it is worth
    value: float  # and what it would be as one of them


@dataclass
class Hypothesis:
    kind: int
    begin: int
    weight: float
    tallies: list[float]  # changes of each kind
    before: list[tuple[float, float]]  # count and sum of every arm, as known at the change
    moved: list[float]
    aside: dict[int, "Aside"] = field(default_factory=dict)  # by arm


@dataclass
class Aside:
    """Reports that favour a hypothesis, and may be lies: how many, and by how much they favour it."""

    count: float = 0.0
    total: float = 0.0

    def kept(self, gain: float, lies: float) -> float:
        """The part of a gain that counts: room for lies goes to gains until it is full, then to those above average."""
        average = self.total / self.count if self.count else 0.0
        new = min(1.0, max(0.0, lies - self.count))
        swapped = min(1.0 - new, self.count) if gain > average else 0.0
        kept = (1 - new - swapped) * gain + swapped * average
        self.count += new
        self.total += gain - kept
        return kept


class Switching:
    """Thompson sampling with a posterior over the last change, for arms with increasing affine g."""

    def __init__(
        self, corruption: list[Corruption], model: Model, lies: float = 0.0, expected: float | None = None
    ) -> None:
        self.g, self.model, self.lies = [self.lied_to(g, lies) for g in corruption], model, lies
        self.scale = 1.0 if expected is None else expected
        self.closed: set[int] = set()
        self.get_ready()
        arms = len(corruption)
        self.history: list[Report] = []
        first = Hypothesis(ALL, 0, 1.0, [0.0] * 4, [(0.0, 0.0)] * arms, [1.0] * arms)
        self.held: list[list[Hypothesis]] = [[first], [], [], []]  # by kind, the oldest first
        self.likeliest, self.singly = first, 0.0

    @staticmethod
    def lied_to(g: Corruption, lies: float) -> Corruption:
        """What at least remains of a feedback mean where a share of the reports are lies."""
        return lambda mean: (1 - lies) * g(mean)

    def get_ready(self) -> None:
        """What the masks of the arms decide."""
        self.priors = [prior(g) for g in self.g]
        self.worths = [(a + b + 1) / 3 for a, b in self.priors]  # 1 / s^2 for a fair mask
        self.beat = max(1, int(self.model.beat * sum(self.worths) / len(self.worths)))

    def add_arm(self, corruption: Corruption) -> int:
        """One more arm, of which no hypothesis knows anything."""
        self.g.append(self.lied_to(corruption, self.lies))
        self.get_ready()
        for one in self.everyone():
            one.before.append((0.0, 0.0))
            one.moved.append(1.0)
        return len(self.g) - 1

    def retire(self, arm: int) -> None:
        self.closed.add(arm)

    def open_arms(self, among: Iterable[int] | None = None) -> list[int]:
        """The arms that may be chosen, of some or of all."""
        return [arm for arm in range(len(self.g)) if arm not in self.closed and (among is None or arm in set(among))]

    def everyone(self) -> list[Hypothesis]:
        return [one for kind in self.held for one in kind]

    def report(self, arm: int, feedback: float, mask: Corruption) -> Report:
        arms = self.g[arm]
        ratio = (mask(1.0) - mask(0.0)) / (arms(1.0) - arms(0.0))
        return Report(arm, feedback, mask, ratio**2, arms(0.0) + (feedback - mask(0.0)) / ratio)

    def seen(self, one: Hypothesis, arm: int, *, all_of_it: bool) -> tuple[float, float]:
        """Count and sum of an arm since the last change, or of all that is known of it."""
        since = [each for each in self.history[one.begin :] if each.arm == arm]
        count, total = one.before[arm] if all_of_it else (0.0, 0.0)
        return count + math.fsum(each.worth for each in since), total + math.fsum(
            each.worth * each.value for each in since
        )

    def expected(self, one: Hypothesis, arm: int, *, all_of_it: bool) -> float:
        a, b = self.priors[arm]
        count, total = self.seen(one, arm, all_of_it=all_of_it)
        return (a + total) / (a + b + count)

    def mean(self, arm: int, feedback_mean: float) -> float:
        low, high = self.g[arm](0.0), self.g[arm](1.0)
        return (feedback_mean - low) / (high - low)

    def indices(self) -> list[float]:
        return [self.score(arm) if arm not in self.closed else -math.inf for arm in range(len(self.g))]

    def score(self, arm: int) -> float:
        """The mean of the arm's posterior."""
        expected = math.fsum(
            one.weight
            * (
                one.moved[arm] * self.expected(one, arm, all_of_it=False)
                + (1 - one.moved[arm]) * self.expected(one, arm, all_of_it=True)
            )
            for one in self.everyone()
        )
        return self.mean(arm, expected)

    @property
    def boost(self) -> float:
        return (1 - self.singly) + self.singly * self.model.doubt * math.sqrt(self.beat / self.model.beat)

    def drawn(self, rng: np.random.Generator) -> Hypothesis:
        others = 1 - self.likeliest.weight
        if rng.random() >= min(self.boost * others, max(self.model.max_doubt, others)):
            return self.likeliest
        rest = [one for one in self.everyone() if one is not self.likeliest]
        left = rng.random() * others
        below = np.cumsum([one.weight for one in rest])
        return rest[min(int(np.sum(below <= left)), len(rest) - 1)]

    def choose(self, rng: np.random.Generator, among: Iterable[int] | None = None) -> int:
        one = self.drawn(rng)
        draws = []
        eligible = self.open_arms(among)
        for arm in eligible:
            a, b = self.priors[arm]
            moved = one.moved[arm]
            stayed = moved < 1e-9 or (moved < 1 - 1e-9 and rng.random() >= moved)
            count, total = self.seen(one, arm, all_of_it=stayed)
            total = min(max(total, 0.0), count)
            width = self.model.narrow
            if one is self.likeliest or one.kind == ONE:
                width = 1.0 if count < self.model.scant * self.worths[arm] else self.model.wide
            draws.append(self.mean(arm, draw_near(rng, a + total, b + count - total, width, self.model.large)))
        return eligible[draws.index(max(draws))]

    def chance(self, report: Report, expected: float) -> float:
        """How likely the report is if this is the feedback mean under the arm's own mask."""
        feedback_mean = report.mask(0.0) + (report.mask(1.0) - report.mask(0.0)) * self.mean(report.arm, expected)
        chance = report.feedback * feedback_mean + (1 - report.feedback) * (1 - feedback_mean)
        return max(chance, self.model.faint)

    def observe(self, arm: int, feedback: float, rng: np.random.Generator, mask: Corruption | None = None) -> None:
        report = self.report(arm, feedback, self.lied_to(mask, self.lies) if mask else self.g[arm])
        lies = self.lies * min(self.known[arm][0], self.model.stretch) if self.lies else 0.0
        chances = {id(one): self.predicted(one, report) for one in self.everyone()}
        usual = chances[id(self.likeliest)]
        for one in self.everyone():
            gain = chances[id(one)] / usual - 1
            if self.lies and gain > self.model.rounding:
                gain = one.aside.setdefault(arm, Aside()).kept(gain, lies)
            one.weight *= usual * (1 + gain)
        self.history.append(report)
        total = sum(one.weight for one in self.everyone())
        for one in self.everyone():
            one.weight /= total
        if len(self.history) % self.beat == 0:
            self.renew(len(self.history))

    def predicted(self, one: Hypothesis, report: Report) -> float:
        """How likely a report is if a hypothesis holds; it learns from it whether the arm has moved."""
        arm = report.arm
        fresh, stayed = (self.chance(report, self.expected(one, arm, all_of_it=known)) for known in (False, True))
        if_moved = one.moved[arm] * fresh
        if_stayed = (1 - one.moved[arm]) * stayed
        one.moved[arm] = if_moved / (if_moved + if_stayed)
        return if_moved + if_stayed

    def few(self, kind: int) -> float:
        return self.scale * (self.model.few if kind == ALL else self.model.fewer)

    def renew(self, now: int) -> None:
        """Weight for the hypothesis that a change of the kind whose turn it is comes now."""
        kind = now // self.beat % 4
        tallies = [sum(one.weight * one.tallies[each] for one in self.everyone()) for each in range(4)]
        more = [tally + (each == kind) for each, tally in enumerate(tallies)]
        born = 0.0
        for one in self.everyone():
            rate = (one.tallies[kind] + self.few(kind)) / (now + 1)
            leaving = one.weight * min(0.5, rate * 4 * self.beat)
            one.weight -= leaving
            born += leaving
        if len(self.held[kind]) == self.model.each:
            self.merge(self.held[kind], now)
        self.likeliest = max(self.everyone(), key=lambda one: one.weight)
        seen = self.likeliest.tallies
        every = sum(seen) + sum(self.few(each) for each in range(4))
        self.singly = (seen[ONE] + self.few(ONE)) / every if every else 0.0
        arms = len(self.g)
        moved = {ALL: 1 - self.model.stays, ONE: 1 / len(self.open_arms())}.get(kind, 0.0)
        before = [self.inherited(kind, arm) for arm in range(arms)]
        self.held[kind].append(Hypothesis(kind, now, born, more, before, [moved] * arms))

    @property
    def known(self) -> list[tuple[float, float]]:
        """What counts of every arm if the likeliest hypothesis holds."""
        return [self.seen(self.likeliest, arm, all_of_it=self.likeliest.moved[arm] < 0.5) for arm in range(len(self.g))]

    def inherited(self, kind: int, arm: int) -> tuple[float, float]:
        """What is known before a change: after a step it is worth less."""
        count, total = self.known[arm]
        if kind in (ALL, ONE):
            return count, total
        step = (self.model.coarse if kind == COARSE_STEP else self.model.fine) * self.worths[arm]
        return step / (step + count) * count, step / (step + count) * total

    @staticmethod
    def merge(held: list[Hypothesis], now: int) -> None:
        """Make one of the two neighbours that are least apart and least likely; it is the likelier of them."""
        pairs = list(itertools.pairwise(held))
        losses = [
            min(older.weight, younger.weight) * ((younger.begin - older.begin) / (now - older.begin))
            for older, younger in pairs
        ]
        older, younger = pairs[losses.index(min(losses))]
        kept, dropped = (older, younger) if older.weight >= younger.weight else (younger, older)
        both = kept.weight + dropped.weight
        if both:
            kept.tallies = [
                (kept.weight * one + dropped.weight * other) / both
                for one, other in zip(kept.tallies, dropped.tallies, strict=True)
            ]
        kept.weight = both
        held.remove(dropped)
