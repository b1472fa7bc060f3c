"""Slow, obvious references for policies over features; nothing of the package is imported.

Numpy multiplies and inverts matrices; discounted sums are recomputed from the whole history at every step.
"""

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Policy(Protocol):
    def choose(self, x: Array, rng: np.random.Generator) -> int: ...

    def observe(self, x: Array, arm: int, feedback: float) -> None: ...

    def estimate(self, x: Array, arm: int) -> float: ...


def sigma(z: float) -> float:
    return 1 / (1 + math.exp(-z))


class LogisticTS:
    """Thompson sampling with the known link, its slope averaged over what is not known."""

    def __init__(self, arms: int, d: int, p00: float, p11: float, prior: float = 1.0, gamma: float = 1.0) -> None:
        self.low, self.slope, self.prior, self.gamma = 1 - p00, p00 + p11 - 1, prior, gamma
        self.means = [np.zeros(d) for _ in range(arms)]
        self.covariances = [np.eye(d) * prior**2 for _ in range(arms)]

    def choose(self, x: Array, rng: np.random.Generator) -> int:
        drawn = [
            float(x @ mean) + math.sqrt(x @ covariance @ x) * rng.standard_normal()
            for mean, covariance in zip(self.means, self.covariances, strict=True)
        ]
        return drawn.index(max(drawn))

    def observe(self, x: Array, arm: int, feedback: float) -> None:
        self.covariances = [self.aged(each) for each in self.covariances]
        mean, covariance = self.means[arm], self.covariances[arm]
        flatter = 1 / math.sqrt(1 + math.pi * float(x @ covariance @ x) / 8)
        z = flatter * float(x @ mean)
        chance = self.low + self.slope * sigma(z)
        # the reward's law and that of x'w together: how a report and x'w go along with each other
        along = flatter * self.slope * sigma(z) * sigma(-z) * covariance @ x
        noise = chance * (1 - chance)
        self.means[arm] = mean + along / noise * (feedback - chance)
        self.covariances[arm] = covariance - np.outer(along, along) / noise

    def aged(self, covariance: Array) -> Array:
        """The covariance over gamma; a weight whose variance would pass the prior's is scaled down to it."""
        grown = covariance / self.gamma
        scale = np.diag([min(1.0, math.sqrt(self.prior**2 / own)) for own in np.diag(grown)])
        return np.asarray(scale @ grown @ scale)

    def estimate(self, x: Array, arm: int) -> float:
        return sigma(float(x @ self.means[arm]))


class DiscountedLinUCB:
    """D-LinUCB of Russac et al. 2019, arm by arm; its ridge fades, and is back after d steps or when half is gone."""

    def __init__(
        self,
        arms: int,
        d: int,
        p00: float,
        p11: float,
        gamma: float,
        size: float = 1.0,
        ridge: float = 1.0,
        delta: float = 0.05,
    ) -> None:
        self.arms, self.d, self.p00, self.slope = arms, d, p00, p00 + p11 - 1
        self.gamma, self.size, self.ridge, self.delta = gamma, size, ridge, delta
        self.seen: list[tuple[Array, int, float]] = []

    def left(self) -> float:
        """What is left of the ridge."""
        left, since = self.ridge, 0
        for _ in self.seen:
            left, since = left * self.gamma, since + 1
            if since == self.d or left < self.ridge / 2:
                left, since = self.ridge, 0
        return left

    def sums(self, arm: int, power: int) -> tuple[Array, Array, float]:
        """Sums of x x', of x times the debiased report, and of x'x; weights to a power."""
        square, both, lengths = np.zeros((self.d, self.d)), np.zeros(self.d), 0.0
        for age, (x, pulled, feedback) in enumerate(reversed(self.seen)):
            if pulled == arm:
                weight = self.gamma ** (power * age)
                square += weight * np.outer(x, x)
                both += weight * x * (feedback - (1 - self.p00)) / self.slope
                lengths += weight * float(x @ x)
        return square, both, lengths

    def interval(self, x: Array, arm: int) -> tuple[float, float]:
        """The estimated mean, and how far it may be off."""
        left = self.left()
        square, both, _ = self.sums(arm, 1)
        inverse = np.linalg.inv(square + left * np.eye(self.d))
        twice, _, lengths = self.sums(arm, 2)
        floor = left**2 / self.ridge
        beta = math.sqrt(self.ridge) * self.size + math.sqrt(
            2 * math.log(self.arms / self.delta) + self.d * math.log(1 + lengths / (self.d * floor))
        ) / (2 * abs(self.slope))
        spread = x @ inverse @ (twice + floor * np.eye(self.d)) @ inverse @ x
        return float(x @ inverse @ both), beta * math.sqrt(spread)

    def choose(self, x: Array, rng: np.random.Generator) -> int:
        scores = [sum(self.interval(x, arm)) for arm in range(self.arms)]
        return scores.index(max(scores))

    def observe(self, x: Array, arm: int, feedback: float) -> None:
        self.seen.append((x, arm, feedback))

    def estimate(self, x: Array, arm: int) -> float:
        return min(max(self.interval(x, arm)[0], 0.0), 1.0)
