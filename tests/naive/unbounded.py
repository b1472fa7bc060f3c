"""Feedback that is no bits, slowly: divergences by their definitions, masks by integration, worlds by numpy's draws."""

import math

from numpy.random import Generator

from naive import Corruption, Twin, draw_gamma, largest


def gaussian_divergence(x: float, y: float, sigma: float) -> float:
    """Kullback-Leibler divergence between normal distributions of one standard deviation."""
    return (x - y) ** 2 / (2 * sigma**2)


def sub_gamma_divergence(x: float, y: float, sigma: float, tail: float) -> float:
    """The largest l (y - x) - l^2 sigma^2 / (2 (1 - tail l)) for an l below 1 / tail, by ternary search."""

    def gain(share: float) -> float:
        rate = share / tail
        return rate * abs(y - x) - rate**2 * sigma**2 / (2 * (1 - share))

    low, high = 0.0, 1.0
    for _ in range(45):  # near its top a gain is flat: its value is exact long before its place
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if right == 1.0 or gain(left) >= gain(right):
            high = right
        else:
            low = left
    return max(gain(low), 0.0)


def bound(mean: float, count: float, level: float, sigma: float, tail: float = 0.0) -> float:
    """max {u: N d(mean, u) <= level}."""

    def fits(u: float) -> bool:
        d = sub_gamma_divergence(mean, u, sigma, tail) if tail else gaussian_divergence(mean, u, sigma)
        return count * d <= level

    reach = 1.0
    while fits(mean + reach):
        reach *= 2
    return largest(fits, mean, mean + reach) if level > 0 else mean


class RealTwin(Twin):
    """A policy whose feedback is any number."""

    def __init__(self, arms: int, sigma: float, tail: float = 0.0, **given: float) -> None:
        identity: Corruption = lambda mean: mean  # noqa: E731 -- its type is what matters
        super().__init__([identity] * arms, **given)  # type: ignore[arg-type]
        self.sigma, self.tail = sigma, tail

    def score(self, arm: int) -> float:
        feedbacks, weights, _ = self.list_weighted(arm)
        count = math.fsum(weights)
        if count == 0:
            return math.inf
        mean = math.fsum(w * x for w, x in zip(weights, feedbacks, strict=True)) / count
        return bound(mean, count, self.level(arm), self.sigma, self.tail)


def gaussian_delta(sigma: float, epsilon: float, steps: int = 40_000) -> float:
    """The integral of p - e^epsilon q where that is above 0, p and q normal densities around 1 and 0."""
    low, high = -12 * sigma, 12 * sigma + 1
    width = (high - low) / steps
    total = 0.0
    for step in range(steps):
        x = low + (step + 0.5) * width
        p, q = (math.exp(-(((x - mean) / sigma) ** 2) / 2) for mean in (1.0, 0.0))
        total += max(p - math.exp(epsilon) * q, 0.0)
    return total * width / (sigma * math.sqrt(2 * math.pi))


def draw_log_gamma(rng: Generator, shape: float) -> float:
    """Marsaglia and Tsang 2000, the remark on shapes below 1: a Gamma number of one more, times U^(1 / shape)."""
    return math.log(draw_gamma(rng, shape + 1)) + math.log(1 - rng.random()) / shape


def draw_around(rng: Generator, mean: float, concentration: float) -> float:
    """A share of two Gamma variables, of any shape."""
    x = draw_log_gamma(rng, mean * concentration)
    y = draw_log_gamma(rng, (1 - mean) * concentration)
    return math.exp(x - max(x, y)) / (math.exp(x - max(x, y)) + math.exp(y - max(x, y)))


def draw_feedback(rng: Generator, mean: float, noise: str, scale: float) -> float:
    """A bit of this mean, and noise."""
    bit = float(rng.random() < mean)
    return bit + (rng.laplace(0, scale) if noise == "laplace" else scale * rng.standard_normal())


def simulate(
    means: list[list[float]], starts: list[int], horizon: int, policy: Twin, rng: Generator, noise: str, scale: float
) -> tuple[float, list[int]]:
    """One run: the regret, and the pulls of every arm."""
    regret, pulls = 0.0, [0] * len(means[0])
    for step in range(horizon):
        row = means[max(i for i, start in enumerate(starts) if start <= step)]
        arm = policy.choose()
        policy.observe(arm, draw_feedback(rng, row[arm], noise, scale))
        regret += max(row) - row[arm]
        pulls[arm] += 1
    return regret, pulls
