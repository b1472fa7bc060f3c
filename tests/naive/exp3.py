"""A slow, obvious reference for exponential weights: EXP3.S and REXP3; nothing of the package is imported."""

import math
from collections.abc import Callable

import numpy as np

Gain = Callable[[int, float], float]


def gains(matrices: list[tuple[float, float]]) -> Gain:
    """Debiased feedback over the range that it has over all arms, for arms with randomised responses (p00, p11)."""

    def debiased(arm: int, feedback: float) -> float:
        p00, p11 = matrices[arm]
        return (feedback - (1 - p00)) / (p00 + p11 - 1)

    ends = [debiased(arm, feedback) for arm in range(len(matrices)) for feedback in (0.0, 1.0)]
    return lambda arm, feedback: (debiased(arm, feedback) - min(ends)) / (max(ends) - min(ends))


def width(matrices: list[tuple[float, float]]) -> float:
    """How far debiased feedbacks reach."""
    ends = [(feedback - (1 - p00)) / (p00 + p11 - 1) for p00, p11 in matrices for feedback in (0.0, 1.0)]
    return max(ends) - min(ends)


class Exp3:
    """EXP3.S with a share alpha; with alpha = 0 and batches, REXP3."""

    def __init__(self, arms: int, gain: Gain, gamma: float, alpha: float, batch: float = math.inf) -> None:
        self.gain, self.gamma, self.alpha, self.batch = gain, gamma, alpha, batch
        self.weights = [1.0] * arms
        self.time = 0

    def probabilities(self) -> list[float]:
        arms, total = len(self.weights), sum(self.weights)
        return [(1 - self.gamma) * weight / total + self.gamma / arms for weight in self.weights]

    def choose(self, rng: np.random.Generator) -> int:
        draw = rng.random()
        below = np.cumsum(self.probabilities())
        return min(int(np.sum(below <= draw)), len(below) - 1)

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        arms, total = len(self.weights), sum(self.weights)
        estimate = [0.0] * arms
        estimate[arm] = self.gain(arm, feedback) / self.probabilities()[arm]
        self.weights = [
            weight * math.exp(self.gamma * gain / arms) + math.e * self.alpha / arms * total
            for weight, gain in zip(self.weights, estimate, strict=True)
        ]
        self.time += 1
        if self.time % self.batch == 0:
            self.weights = [1.0] * arms


def exp3s(arms: int, gain: Gain, horizon: int, changes: int) -> Exp3:
    gamma = math.sqrt(arms * (changes * math.log(arms * horizon) + math.e) / ((math.e - 1) * horizon))
    return Exp3(arms, gain, min(1.0, gamma), 1 / horizon)


def rexp3(arms: int, gain: Gain, horizon: int, variation: float) -> Exp3:
    """The variation is that of the gains."""
    batch = math.ceil((arms * math.log(arms)) ** (1 / 3) * (horizon / variation) ** (2 / 3))
    batch = min(batch, horizon)
    gamma = math.sqrt(arms * math.log(arms) / ((math.e - 1) * batch))
    return Exp3(arms, gain, min(1.0, gamma), 0.0, batch)
