"""Slow, obvious references, straight from the paper; nothing of the package is imported.

Indices are found by bisection on q itself, the window is scanned anew at every step.
"""

import math
from collections.abc import Callable

Corruption = Callable[[float], float]


def divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence between Bernoulli distributions; infinite for a q that is no probability."""
    if not 0 <= q <= 1 or (p > 0 and q == 0) or (p < 1 and q == 1):
        return math.inf
    left = p * math.log(p / q) if p > 0 else 0.0
    right = (1 - p) * math.log((1 - p) / (1 - q)) if p < 1 else 0.0
    return left + right


def exploration(x: float, c: float) -> float:
    """f(x) = log x + c log(max(1, log x))."""
    return math.log(x) + c * math.log(max(1, math.log(x)))


def extended(g: Corruption) -> Corruption:
    """g, going on outside [0, 1] as a straight line with its secant slope."""
    secant = g(1.0) - g(0.0)

    def everywhere(mean: float) -> float:
        if mean < 0:
            return g(0.0) + secant * mean
        if mean > 1:
            return g(1.0) + secant * (mean - 1)
        return g(mean)

    return everywhere


def largest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest q for which a condition holds that is true at low and false from some q on."""
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def klucb_index(g: Corruption, feedbacks: list[float], level: float) -> float:
    """max {q: N d(mean of the feedbacks, g(q)) <= level}."""
    if not feedbacks:
        return math.inf
    line = extended(g)
    mean = math.fsum(feedbacks) / len(feedbacks)
    reach = 2 + 2 / abs(g(1.0) - g(0.0))  # beyond this, g is far outside [0, 1]
    rising = g(1.0) > g(0.0)
    inside = largest(lambda q: line(q) <= mean if rising else line(q) >= mean, -reach, reach)
    return largest(lambda q: len(feedbacks) * divergence(mean, line(q)) <= level, inside, reach)


class SlidingWindowKLUCB:
    """SW-KLUCB-CF; with an infinite window, KLUCB-CF."""

    def __init__(self, corruption: list[Corruption], window: float, c: float) -> None:
        self.corruption = corruption
        self.window = window
        self.c = c
        self.history: list[tuple[int, float]] = []

    def indices(self) -> list[float]:
        seen = len(self.history)
        remembered = self.history[max(0, seen - int(min(self.window, seen))) :]
        level = exploration(min(seen, self.window), self.c) if seen else 0.0
        return [
            klucb_index(g, [feedback for chosen, feedback in remembered if chosen == arm], level)
            for arm, g in enumerate(self.corruption)
        ]

    def choose(self) -> int:
        scores = self.indices()
        return scores.index(max(scores))

    def observe(self, arm: int, feedback: float) -> None:
        self.history.append((arm, feedback))


def simulate(
    means: list[list[float]],
    starts: list[int],
    horizon: int,
    policy: SlidingWindowKLUCB,
    draws: list[float],
) -> tuple[list[float], list[int], list[int]]:
    """One run: cumulative regret after every step, pulls, and pulls while suboptimal, of every arm."""
    regret, pulls, suboptimal = [0.0], [0] * len(means[0]), [0] * len(means[0])
    for step in range(horizon):
        row = means[max(i for i, start in enumerate(starts) if start <= step)]
        arm = policy.choose()
        policy.observe(arm, float(draws[step] < policy.corruption[arm](row[arm])))
        pulls[arm] += 1
        suboptimal[arm] += row[arm] < max(row)
        regret.append(regret[-1] + max(row) - row[arm])
    return regret[1:], pulls, suboptimal
