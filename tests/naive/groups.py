"""A slow, obvious reference for groups that are asked at several levels; nothing of the package is imported."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np


class Pooled:
    """Levels with a policy for every part; everything is recomputed from all answers."""

    def __init__(
        self,
        parts: list[list[int]],
        shares: list[float],
        slopes: list[list[float]],
        make: Callable[[float], Any],
        arms: int,
        tree: bool = False,
    ) -> None:
        self.parts, self.shares, self.slopes, self.arms = parts, shares, slopes, arms
        self.policies = [[make(slope) for slope in row] for row in slopes]
        self.seen: list[list[list[tuple[int, float, float]]]] = [[[] for _ in row] for row in slopes]  # with its slope
        self.tree = tree
        self.weights = [-2.0 * level for level in range(len(parts))] if tree else [-2.0] * (len(parts) - 1) + [0.0]

    @property
    def settled(self) -> bool:
        return all(weight == -math.inf for weight in self.weights[:-1])

    def known(self, level: int) -> float:
        """How many unmasked observations a part of a level has seen, on average."""
        each = [sum(slope**2 for _, _, slope in history) for history in self.seen[level]]
        return sum(each) / len(each)

    def may_decide(self) -> list[int]:
        """The coarsest level that is left, and in a tree those whose parts have seen enough."""
        left = [level for level, weight in enumerate(self.weights) if weight > -math.inf]
        return [g for g in left if not self.tree or g == left[0] or self.known(g) >= 4 * self.arms]

    def drawn(self, rng: np.random.Generator) -> int:
        """The level that decides."""
        finest = len(self.parts) - 1
        if self.settled:
            return finest
        if len(self.seen[0][0]) < 3 * self.arms / self.slopes[0][0] ** 2:
            return 0
        may = self.may_decide()
        best, draw, curious = max(may, key=lambda level: self.weights[level]), rng.random(), 0.01 if self.tree else 0.03
        if draw < curious and best < finest:
            return best + 1 + int(draw / curious * (finest - best))
        chances = [math.exp(self.weights[level] - self.weights[best]) for level in may]
        return may[int(np.searchsorted(np.cumsum(chances), sum(chances) * rng.random(), side="right"))]

    def listening(self, level: int, rng: np.random.Generator) -> int:
        """The level that learns from what this one decides."""
        finer = len(self.parts) - 1 - level
        if not self.tree or finer == 0:
            return level
        draw, chance = rng.random(), 0.9 * self.known(level) / (self.known(level) + 50)
        return level if draw >= chance else level + 1 + int(draw / chance * finer)

    def decided(self, level: int, listening: int) -> list[int]:
        """The arm of each part of the level that listens: that of the part of the deciding one in which it lies."""
        arms = [policy.choose() for policy in self.policies[level]]
        groups = [self.parts[listening].index(part) for part in range(len(self.policies[listening]))]
        return [arms[self.parts[level][group]] for group in groups]

    def mean(self, level: int, group: int, arm: int) -> float:
        """What a level takes a mean to be: unmasked feedbacks, by what they are worth, and what is expected before."""
        within = [other for other, part in enumerate(self.parts[level]) if part == self.parts[level][group]]
        seen = [
            (feedback, slope)
            for finer in range(level, len(self.parts))
            if self.weights[finer] > -math.inf
            for place in {self.parts[finer][other] for other in within}
            for each, feedback, slope in self.seen[finer][place]
            if each == arm
        ]
        before, times = (0.5, 3.0) if level == 0 else (self.mean(level - 1, group, arm), 8.0)
        total = sum(slope**2 * (0.5 + (feedback - 0.5) / slope) for feedback, slope in seen)
        return (total + times * before) / (sum(slope**2 for _, slope in seen) + times)

    def weigh(self, chance: Callable[[int], float]) -> None:
        """Every level is weighed by the chance that it gave to what came."""
        if self.settled:
            return
        feedbacks = [
            weight + math.log(chance(level)) if weight > -math.inf else weight
            for level, weight in enumerate(self.weights)
        ]
        best = feedbacks.index(max(feedbacks))
        ahead = max(self.may_decide(), key=lambda level: feedbacks[level])
        for level, weight in enumerate(feedbacks):
            behind = weight - feedbacks[best]
            if level > best:
                self.weights[level] = max(behind, -6.0)
            else:
                self.weights[level] = -math.inf if level < ahead and weight < feedbacks[ahead] - 7.0 else behind

    def learn(self, level: int, part: int, arm: int, feedback: float, slope: float | None) -> None:
        """With a slope, it has a mask of its own."""
        more = () if slope is None else (slope,)
        self.policies[level][part].observe(arm, feedback, *more)
        self.seen[level][part].append((arm, feedback, self.slopes[level][part] if slope is None else slope))

    def take_in_bit(
        self, level: int, slope: float, table: list[int], feedbacks: list[float], slopes: list[float] | None = None
    ) -> None:
        """A bit, as it looks to each part of the level; slopes are those of the parts, if they are not as usual."""
        part = self.parts[level]

        def chance(other: int) -> float:
            means = [self.mean(other, group, table[part[group]]) for group in range(len(part))]
            signs = [1 if feedbacks[part[group]] == 1 else -1 for group in range(len(part))]
            return 0.5 + slope * sum(
                share * sign * (mean - 0.5) for share, sign, mean in zip(self.shares, signs, means, strict=True)
            )

        self.weigh(chance)
        for place, feedback in enumerate(feedbacks):
            self.learn(level, place, table[place], feedback, None if slopes is None else slopes[place])

    def take_in_one(self, level: int, named: int, arm: int, feedback: float, slope: float | None = None) -> None:
        """An answer that names a part of the level."""
        groups = [group for group, part in enumerate(self.parts[level]) if part == named]

        def chance(other: int) -> float:
            total = sum(self.shares[group] for group in groups)
            mean = sum(self.shares[group] * self.mean(other, group, arm) for group in groups) / total
            one = 0.5 + (self.slopes[level][named] if slope is None else slope) * (mean - 0.5)
            return one if feedback == 1 else 1 - one

        self.weigh(chance)
        self.learn(level, named, arm, feedback, slope)
