"""A slow, obvious reference for groups that are asked one by one or as one; nothing of the package is imported."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np


class Pooled:
    """Grains with a policy for every part; all that they know is worked out anew from what was seen."""

    def __init__(
        self,
        parts: list[list[int]],
        shares: list[float],
        slopes: list[list[float]],
        make: Callable[[float], Any],
        arms: int,
    ) -> None:
        self.parts, self.shares, self.slopes, self.arms = parts, shares, slopes, arms
        self.policies = [[make(slope) for slope in row] for row in slopes]
        self.seen: list[list[list[tuple[int, float]]]] = [[[] for _ in row] for row in slopes]
        self.weights = [-2.0] * (len(parts) - 1) + [0.0]

    def drawn(self, lots: np.random.Generator) -> int:
        """The grain that is asked."""
        finest = len(self.parts) - 1
        if all(weight == -math.inf for weight in self.weights[:-1]):
            return finest
        if len(self.seen[0][0]) < 3 * self.arms / self.slopes[0][0] ** 2:
            return 0
        best = self.weights.index(max(self.weights))
        lot = lots.random()
        if lot < 0.03 and best < finest:
            return best + 1 + int(lot / 0.03 * (finest - best))
        chances = np.exp(self.weights)
        return int(np.searchsorted(np.cumsum(chances), chances.sum() * lots.random(), side="right"))

    def mean(self, grain: int, group: int, arm: int) -> float:
        """What a grain takes a mean to be: unmasked feedbacks, by what they are worth, and what is expected before."""
        part = self.parts[grain][group]
        if grain == 0:  # all that was seen, wherever
            seen = [
                (feedback, self.slopes[other][place])
                for other, row in enumerate(self.seen)
                for place, history in enumerate(row)
                for each, feedback in history
                if each == arm
            ]
            before, times = 0.5, 3.0
        else:
            seen = [(feedback, self.slopes[grain][part]) for each, feedback in self.seen[grain][part] if each == arm]
            before, times = self.mean(0, group, arm), 8.0
        total = sum(slope**2 * (0.5 + (feedback - 0.5) / slope) for feedback, slope in seen)
        return (total + times * before) / (sum(slope**2 for _, slope in seen) + times)

    def weigh(self, chance: Callable[[int], float]) -> None:
        """Every grain is weighed by the chance that it gave to what came."""
        if all(weight == -math.inf for weight in self.weights[:-1]):
            return
        told = [weight + math.log(chance(grain)) for grain, weight in enumerate(self.weights)]
        best = told.index(max(told))
        for grain, weight in enumerate(told):
            behind = weight - told[best]
            if grain > best:
                self.weights[grain] = max(behind, -6.0)
            else:
                self.weights[grain] = -math.inf if behind < -7.0 else behind

    def learn(self, grain: int, part: int, arm: int, feedback: float) -> None:
        self.policies[grain][part].observe(arm, feedback)
        self.seen[grain][part].append((arm, feedback))

    def take_in_bit(self, grain: int, slope: float, table: list[int], told: list[float]) -> None:
        """A bit, as it looks to each part of the grain."""
        part = self.parts[grain]

        def chance(other: int) -> float:
            means = [self.mean(other, group, table[part[group]]) for group in range(len(part))]
            signs = [1 if told[part[group]] == 1 else -1 for group in range(len(part))]
            return 0.5 + slope * sum(
                share * sign * (mean - 0.5) for share, sign, mean in zip(self.shares, signs, means, strict=True)
            )

        self.weigh(chance)
        for place, feedback in enumerate(told):
            self.learn(grain, place, table[place], feedback)

    def take_in_one(self, grain: int, named: int, arm: int, feedback: float) -> None:
        """An answer that names a part of the grain."""
        groups = [group for group, part in enumerate(self.parts[grain]) if part == named]

        def chance(other: int) -> float:
            total = sum(self.shares[group] for group in groups)
            mean = sum(self.shares[group] * self.mean(other, group, arm) for group in groups) / total
            one = 0.5 + self.slopes[grain][named] * (mean - 0.5)
            return one if feedback == 1 else 1 - one

        self.weigh(chance)
        self.learn(grain, named, arm, feedback)
