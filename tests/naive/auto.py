"""A slow, obvious reference for `auto`, Bayes' rule over the last change; nothing of the package is imported.

A hypothesis keeps when the last change came, and everything else is counted anew from the whole history at every step.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from naive import draw_beta

Corruption = Callable[[float], float]


def prior(g: Corruption) -> tuple[float, float]:
    """The Beta distribution with the mean and the variance of g(U), U uniform, for an affine g."""
    mean, variance = (g(0.0) + g(1.0)) / 2, (g(1.0) - g(0.0)) ** 2 / 12
    weight = mean * (1 - mean) / variance - 1
    return mean * weight, (1 - mean) * weight


@dataclass
class Hypothesis:
    begin: int
    weight: float
    changes: float
    before: list[tuple[float, float]]  # count and sum of every arm, as known at the change
    moved: list[float]


class Switching:
    """Thompson sampling with a posterior over the last change, for arms with increasing affine g."""

    def __init__(self, corruption: list[Corruption], room: int, few: float, moves: float) -> None:
        self.g, self.room, self.few, self.moves = corruption, room, few, moves
        self.priors = [prior(g) for g in corruption]
        arms = len(corruption)
        self.history: list[tuple[int, float]] = []
        self.held = [Hypothesis(0, 1.0, 0.0, [(0.0, 0.0)] * arms, [1.0] * arms)]

    def seen(self, one: Hypothesis, arm: int, *, all_of_it: bool) -> tuple[float, float]:
        """Count and sum of an arm since the last change, or of all that is known of it."""
        since = [feedback for chosen, feedback in self.history[one.begin :] if chosen == arm]
        count, total = one.before[arm] if all_of_it else (0.0, 0.0)
        return count + len(since), total + math.fsum(since)

    def expected(self, one: Hypothesis, arm: int, *, all_of_it: bool) -> float:
        a, b = self.priors[arm]
        count, total = self.seen(one, arm, all_of_it=all_of_it)
        return (a + total) / (a + b + count)

    def mean(self, arm: int, feedback_mean: float) -> float:
        low, high = self.g[arm](0.0), self.g[arm](1.0)
        return (feedback_mean - low) / (high - low)

    def indices(self) -> list[float]:
        return [
            self.mean(
                arm,
                math.fsum(
                    one.weight
                    * (
                        one.moved[arm] * self.expected(one, arm, all_of_it=False)
                        + (1 - one.moved[arm]) * self.expected(one, arm, all_of_it=True)
                    )
                    for one in self.held
                ),
            )
            for arm in range(len(self.g))
        ]

    def choose(self, rng: np.random.Generator) -> int:
        below = np.cumsum([one.weight for one in self.held])
        one = self.held[min(int(np.sum(below <= rng.random())), len(self.held) - 1)]
        draws = []
        for arm, (a, b) in enumerate(self.priors):
            stayed = one.moved[arm] < 1 and rng.random() >= one.moved[arm]
            count, total = self.seen(one, arm, all_of_it=stayed)
            draws.append(self.mean(arm, draw_beta(rng, a + total, b + count - total)))
        return draws.index(max(draws))

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        for one in self.held:
            fresh, stayed = (self.expected(one, arm, all_of_it=known) for known in (False, True))
            if_moved = one.moved[arm] * (feedback * fresh + (1 - feedback) * (1 - fresh))
            if_stayed = (1 - one.moved[arm]) * (feedback * stayed + (1 - feedback) * (1 - stayed))
            one.moved[arm] = if_moved / (if_moved + if_stayed)
            one.weight *= if_moved + if_stayed
        self.history.append((arm, feedback))
        now = len(self.history)
        total = sum(one.weight for one in self.held)
        rates = [min(0.5, (one.changes + self.few) / (now + 1)) for one in self.held]
        born = [one.weight / total * rate for one, rate in zip(self.held, rates, strict=True)]
        changes = sum(share * (one.changes + 1) for one, share in zip(self.held, born, strict=True)) / sum(born)
        for one, share in zip(self.held, born, strict=True):
            one.weight = one.weight / total - share
        likeliest = max(self.held, key=lambda one: one.weight)
        arms = range(len(self.g))
        self.known = [self.seen(likeliest, each, all_of_it=likeliest.moved[each] < 0.5) for each in arms]
        if len(self.held) == self.room:
            self.merge(now)
        self.held.append(Hypothesis(now, sum(born), changes, self.known, [self.moves] * len(self.g)))

    def merge(self, now: int) -> None:
        """Make one of the two neighbours that are least apart and least likely; it is the likelier of them."""
        pairs = list(zip(self.held, self.held[1:], strict=False))
        losses = [
            min(older.weight, younger.weight) * ((younger.begin - older.begin) / (now - older.begin))
            for older, younger in pairs
        ]
        older, younger = pairs[losses.index(min(losses))]
        kept, dropped = (older, younger) if older.weight >= younger.weight else (younger, older)
        both = kept.weight + dropped.weight
        kept.changes = (kept.weight * kept.changes + dropped.weight * dropped.changes) / both
        kept.weight = both
        self.held.remove(dropped)
