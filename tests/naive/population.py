"""A population of people with their own randomised response, and a policy that takes their masks: slow and plain."""

from __future__ import annotations

import math

import numpy as np


class WeightedMeans:
    """Plays the arm with the highest weighted estimate, each arm once first; a report weighs as much as it tells."""

    def __init__(self, arms: int) -> None:
        self.arms = arms
        self.values = [0.0] * arms
        self.weights = [0.0] * arms

    def choose(self) -> int:
        for arm in range(self.arms):
            if self.weights[arm] == 0.0:
                return arm
        return max(range(self.arms), key=lambda arm: self.values[arm] / self.weights[arm])

    def observe(self, arm: int, feedback: float, p00: float, p11: float) -> None:
        span = p00 + p11 - 1.0
        self.values[arm] += span * (feedback - (1.0 - p00))
        self.weights[arm] += span * span


class Crowd:
    """People whose reports for an arm come in the same order, whatever is chosen between them."""

    def __init__(
        self,
        seeds: list[np.random.SeedSequence],
        means: list[float],
        masks: list[tuple[float, float]],
        shares: list[float],
    ) -> None:
        self.generators = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
        self.means, self.masks, self.shares = means, masks, shares

    def report(self, arm: int) -> tuple[int, int]:
        """Return who sends the next report for an arm, and the report."""
        draw, total, person = self.generators[arm].random(), 0.0, len(self.shares) - 1
        for number, share in enumerate(self.shares):
            total += share
            if draw < total:
                person = number
                break
        p00, p11 = self.masks[person]
        mean = p11 * self.means[arm] + (1.0 - p00) * (1.0 - self.means[arm])
        return person, int(self.generators[arm].random() < mean)


def logit(epsilon: float) -> float:
    """Return the probability of the truth at an epsilon."""
    return 1.0 / (1.0 + math.exp(-epsilon))
