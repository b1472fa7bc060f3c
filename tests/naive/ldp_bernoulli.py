"""A slow, obvious reference for LDP-UCB-B; nothing of the package is imported."""

import math


class BernoulliUCB:
    """LDP-UCB-B: reports are bits flipped with probability 1 / (1 + e^epsilon), and never unflipped."""

    def __init__(self, arms: int) -> None:
        self.bits: list[list[float]] = [[] for _ in range(arms)]

    def scores(self) -> list[float]:
        log = math.log(max(1, sum(map(len, self.bits))))
        return [sum(seen) / len(seen) + math.sqrt(2 * log / len(seen)) if seen else math.inf for seen in self.bits]

    def observe(self, arm: int, feedback: float) -> None:
        self.bits[arm].append(feedback)
