"""A slow, obvious reference for `uniform`; nothing of the package is imported."""

import numpy as np


class Uniform:
    def __init__(self, arms: int) -> None:
        self.arms = arms

    def choose(self, rng: np.random.Generator) -> int:
        return int(rng.random() * self.arms)

    def observe(self, arm: int, feedback: float, rng: np.random.Generator) -> None:
        pass
