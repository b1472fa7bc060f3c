"""A seeded suite of problems to compare policies on.

K in {2, 5, 10, 50}, eps in {0.5, 1, 2, inf}, T = 10^5, and

    abrupt     L in {1, 4, 10} segments, all means drawn again at each change;
    singly     10 segments, one arm alone moves at each change;
    drift      a sinusoid and a random walk. There the oracle restarts at equal distances, the best in hindsight;
    any gap    K in {2, 4, 12}, L in {1, 3, 7}, eps in {0.5, 1, 2.5}; means and times of changes are drawn uniformly, so
               that the best arms may be as good as alike. There the oracle's index has c = 0, the best in practice.

At T = 10^6 a quarter of the problems of the first three families.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maskedbandits import Problem, RandomizedResponse
from maskedbandits.problems import one_arm_at_a_time, random_segments, random_walk, sinusoid

ARMS, SEGMENTS, EPSILONS = (2, 5, 10, 50), (1, 4, 10), (0.5, 1.0, 2.0, math.inf)
HORIZON, LONG_HORIZON = 100_000, 1_000_000
LONG_ARMS, LONG_EPSILONS = (2, 10), (1.0, math.inf)  # of the suite, what is also played for longer
FREE_ARMS, FREE_SEGMENTS, FREE_EPSILONS = (2, 4, 12), (1, 3, 7), (0.5, 1.0, 2.5)
FAMILIES = ("abrupt", "singly", "drift", "any gap")


@dataclass(frozen=True)
class Case:
    """A problem of the suite and its coordinates."""

    family: str
    what: str
    epsilon: float
    problem: Problem

    @property
    def name(self) -> str:
        """What to call it in a table."""
        return f"K = {self.problem.arms}, {self.what}, eps = {self.epsilon:g}"


def cases(horizon: int) -> Iterator[Case]:
    """Yield every problem, or some of them at a long horizon; its seed depends on its place alone."""
    if horizon < LONG_HORIZON:
        yield from _with_any_gap(horizon)
    for i, arms in enumerate(ARMS):
        for j, epsilon in enumerate(EPSILONS):
            if horizon >= LONG_HORIZON and not (arms in LONG_ARMS and epsilon in LONG_EPSILONS):
                continue
            mask = RandomizedResponse.from_epsilon(epsilon)
            for k, segments in enumerate(SEGMENTS):
                seed = 100 * i + 10 * j + k
                drawn = random_segments(arms, horizon, corruption=mask, segments=segments, seed=seed)
                yield Case("abrupt", f"L = {segments}", epsilon, drawn)
            seed = 10 * i + j
            single = one_arm_at_a_time(arms, horizon, corruption=mask, segments=max(SEGMENTS), seed=seed)
            yield Case("singly", "one arm at a time", epsilon, single)
            yield Case("drift", "sinusoid", epsilon, sinusoid(arms, horizon, corruption=mask, seed=seed))
            yield Case("drift", "walk", epsilon, random_walk(arms, horizon, corruption=mask, seed=seed))


def _with_any_gap(horizon: int) -> Iterator[Case]:
    """Yield the problems with gaps of any size."""
    draws = np.random.default_rng(2026)
    for arms in FREE_ARMS:
        for segments in FREE_SEGMENTS:
            for epsilon in FREE_EPSILONS:
                starts = [0, *sorted(draws.choice(np.arange(1, horizon), segments - 1, replace=False).tolist())]
                means, mask = draws.random((segments, arms)).tolist(), RandomizedResponse.from_epsilon(epsilon)
                yield Case("any gap", f"L = {segments}, any gap", epsilon, Problem(means, starts, horizon, mask))
