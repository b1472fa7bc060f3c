"""A slow, obvious reference for groups that are asked at several levels; nothing of the package is imported."""

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

TRIAL, PROOF = 0.02, 3.0  # of a tree


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

    def is_ripe(self, level: int) -> bool:
        """Return whether the parts of a level have seen enough to decide."""
        return not self.tree or self.known(level) >= 4 * self.arms

    def best_ripe(self, weights: list[float]) -> int:
        """Return the likeliest level among the coarsest one left and those that may decide instead of it."""
        best = next(level for level, weight in enumerate(self.weights) if weight > -math.inf)
        for level in range(best + 1, len(weights)):
            if weights[level] > weights[best] and self.is_ripe(level) and self.chooses_better(best, level):
                best = level
        return best

    def drawn(self, rng: np.random.Generator) -> int:
        """The level that decides."""
        finest = len(self.parts) - 1
        if self.settled:
            return finest
        if len(self.seen[0][0]) < 3 * self.arms / self.slopes[0][0] ** 2:
            return 0
        best, draw, curious = self.best_ripe(self.weights), rng.random(), 0.01 if self.tree else 0.03
        if draw < curious and best < finest:
            return best + 1 + int(draw / curious * (finest - best))
        ripe = [level for level in range(finest + 1) if level <= best or self.is_ripe(level)]
        candidate = max((level for level in ripe if level >= best), key=lambda level: self.weights[level])
        if self.weights[candidate] > self.weights[best] and draw < curious + TRIAL:
            return candidate
        may = [level for level in ripe if level <= best or self.weights[level] <= self.weights[best]]
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

    def evidence(self, level: int, group: int, arm: int) -> tuple[float, float]:
        """Return how much was seen of an arm in a group's part, in unmasked observations, and their sum."""
        within = [other for other, part in enumerate(self.parts[level]) if part == self.parts[level][group]]
        seen = [
            (feedback, slope)
            for finer in range(level, len(self.parts))
            if self.weights[finer] > -math.inf
            for place in {self.parts[finer][other] for other in within}
            for each, feedback, slope in self.seen[finer][place]
            if each == arm
        ]
        total = sum(slope**2 * (0.5 + (feedback - 0.5) / slope) for feedback, slope in seen)
        return sum(slope**2 for _, slope in seen), total

    def mean(self, level: int, group: int, arm: int) -> float:
        """What a level takes a mean to be: unmasked feedbacks, by what they are worth, and what is expected before."""
        before, times = (0.5, 3.0) if level == 0 else (self.mean(level - 1, group, arm), 8.0)
        worth, total = self.evidence(level, group, arm)
        return (total + times * before) / (worth + times)

    def informed(self, coarse: int, level: int, group: int) -> list[float]:
        """Return the means of all arms, if a part may differ from the part around it in all arms alike."""
        if level == coarse:
            return [self.mean(level, group, arm) for arm in range(self.arms)]
        around = self.informed(coarse, level - 1, group)
        seen = [self.evidence(level, group, arm) for arm in range(self.arms)]
        more = sum(total - worth * mean for (worth, total), mean in zip(seen, around, strict=True))
        times = sum(worth for worth, _ in seen)
        common = more / times if times > 0 else 0.0
        return [(total + 8 * (mean + common)) / (worth + 8) for (worth, total), mean in zip(seen, around, strict=True)]

    def usual_arm(self, level: int, part: int) -> int:
        """Return the arm that is best by what the policy of a part has seen itself."""
        means = []
        for arm in range(self.arms):
            seen = [(feedback, slope) for each, feedback, slope in self.seen[level][part] if each == arm]
            above = sum(slope * (feedback - 0.5) for feedback, slope in seen)
            means.append(above / (sum(slope**2 for _, slope in seen) + 3))
        return means.index(max(means))

    def chooses_better(self, coarse: int, fine: int) -> bool:
        """Return whether other arms are better in finer parts, by more than they would seem to be by chance."""
        if not self.tree:
            return True
        gain, variance = 0.0, 0.0
        for part in range(len(self.policies[fine])):
            groups = [group for group, own in enumerate(self.parts[fine]) if own == part]
            share = sum(self.shares[group] for group in groups)
            around, within = self.informed(coarse, coarse, groups[0]), self.informed(coarse, fine, groups[0])
            usual = self.usual_arm(coarse, self.parts[coarse][groups[0]])
            gain += share * (max(within) - within[usual])
            for arm in set(range(self.arms)) - {usual}:
                worths = [self.evidence(fine, groups[0], each)[0] for each in (arm, usual)]
                deviation = 0.5 * math.sqrt(sum(worth / (worth + 8) ** 2 for worth in worths))
                if deviation > 0:
                    behind = around[usual] - around[arm]
                    chance = NormalDist(-behind, deviation)
                    above, density = 1 - chance.cdf(0), deviation**2 * chance.pdf(0)
                    gain -= share * (density - behind * above)
                    variance += share**2 * ((deviation**2 + behind**2) * above - behind * density)
        return gain > PROOF * math.sqrt(variance)

    def weigh(self, chance: Callable[[int], float]) -> None:
        """Every level is weighed by the chance that it gave to what came."""
        if self.settled:
            return
        feedbacks = [
            weight + math.log(chance(level)) if weight > -math.inf else weight
            for level, weight in enumerate(self.weights)
        ]
        best = feedbacks.index(max(feedbacks))
        ahead = self.best_ripe(feedbacks)
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
