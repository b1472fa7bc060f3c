"""A slow, obvious reference for DP-UCB; nothing of the package is imported."""

import math

import numpy as np


class CentralUCB:
    """DP-UCB: every public sum is recomputed from the noisy nodes that cover the rewards."""

    def __init__(self, arms: int, epsilon: float) -> None:
        self.epsilon = epsilon
        self.rewards: list[list[float]] = [[] for _ in range(arms)]
        self.noise: dict[tuple[int, int, int], tuple[float, float]] = {}  # (arm, first, end) -> noise and its scale

    def cover(self, arm: int) -> list[tuple[int, int, int]]:
        """The nodes that cover the rewards: one up to each power of two, then one for each bit of the rest."""
        count = len(self.rewards[arm])
        powers = [1 << k for k in range(count.bit_length())]
        nodes = [(arm, power // 2, power) for power in powers]
        place = powers[-1]
        for bit in reversed(range(count.bit_length() - 1)):
            if count >> bit & 1:
                nodes.append((arm, place, place + (1 << bit)))
                place += 1 << bit
        return nodes

    def score(self, arm: int) -> float:
        count = len(self.rewards[arm])
        if not count:
            return math.inf
        step = sum(map(len, self.rewards)) + 1
        nodes = self.cover(arm)
        public = sum(sum(self.rewards[arm][first:end]) + self.noise[arm, first, end][0] for _, first, end in nodes)
        scales = [self.noise[node][1] for node in nodes]
        log = math.log(2 * step**4)
        spread = max(math.hypot(*scales), max(scales) * math.sqrt(log)) * math.sqrt(8 * log)
        return public / count + math.sqrt(2 * math.log(step) / count) + spread / count

    def choose(self, rng: np.random.Generator) -> int:
        scores = [self.score(arm) for arm in range(len(self.rewards))]
        return scores.index(max(scores))

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        self.rewards[arm].append(feedback)
        count = len(self.rewards[arm])
        new = [node for node in self.cover(arm) if node not in self.noise]
        assert len(new) == 1
        levels = 1 if count & (count - 1) == 0 else count.bit_length() - 1
        scale = 2 * levels / self.epsilon
        self.noise[new[0]] = (rng.laplace(0, scale), scale)
