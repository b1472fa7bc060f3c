"""A slow, obvious reference for LDP-UCB-L; nothing of the package is imported."""

import math

import numpy as np


class LaplaceUCB:
    """LDP-UCB-L."""

    def __init__(self, arms: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self.noisy: list[list[float]] = [[] for _ in range(arms)]

    def choose(self, rng: np.random.Generator) -> int:
        step = sum(map(len, self.noisy)) + 1
        for arm, seen in enumerate(self.noisy):
            if len(seen) <= 4 * math.log(step + 1):
                return arm
        log = math.log(step)
        scores = [
            sum(seen) / len(seen) + math.sqrt(2 * log / len(seen)) + math.sqrt(32 * log / (self.epsilon**2 * len(seen)))
            for seen in self.noisy
        ]
        return scores.index(max(scores))

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        self.noisy[arm].append(feedback + rng.laplace(0, 1 / self.epsilon))
