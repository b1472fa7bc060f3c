"""Seeded suites of problems to compare policies on: one to choose constants on, another to report.

K in {2, 5, 10, 50}, eps in {0.5, 1, 2, inf}, T = 10^5, and

    stationary  no change;
    abrupt      L in {4, 10} segments, all means drawn again at each change;
    singly      10 segments, one arm alone moves at each change;
    drift       a sinusoid and a random walk. There the oracle restarts at equal distances, the best in hindsight;
    any gap     K in {2, 4, 12}, L in {1, 3, 7}, eps in {0.5, 1, 2.5}; means and times of changes are drawn uniformly.
                So the best arms may be nearly equal. There the oracle's index has c = 0, the best in practice;
    many arms   K in {50, 100, 200}, T = 10^4, L in {1, 4}, eps in {1, inf}.

At T = 10^6 a quarter of the problems of the first four families.
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
MANY_ARMS, MANY_SEGMENTS, MANY_EPSILONS, SHORT_HORIZON = (50, 100, 200), (1, 4), (1.0, math.inf), 10_000
MANY_GAP = 0.02  # between the best of many arms and the next
TRAINING_SEED = 1_000_000  # added to the seeds of the problems on which constants are chosen
FAMILIES = ("stationary", "abrupt", "singly", "drift", "any gap", "many arms")


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


def cases(horizon: int, *, training: bool = False) -> Iterator[Case]:
    """Yield every problem, or some of them at a long horizon; its seed depends on its place alone."""
    first = TRAINING_SEED if training else 0
    if horizon < LONG_HORIZON:
        yield from _with_any_gap(horizon, first)
        yield from _with_many_arms(first)
    for i, arms in enumerate(ARMS):
        for j, epsilon in enumerate(EPSILONS):
            if horizon >= LONG_HORIZON and not (arms in LONG_ARMS and epsilon in LONG_EPSILONS):
                continue
            mask = RandomizedResponse.from_epsilon(epsilon)
            for k, segments in enumerate(SEGMENTS):
                seed = first + 100 * i + 10 * j + k
                drawn = random_segments(arms, horizon, corruption=mask, segments=segments, seed=seed)
                yield Case("abrupt" if segments > 1 else "stationary", f"L = {segments}", epsilon, drawn)
            seed = first + 10 * i + j
            single = one_arm_at_a_time(arms, horizon, corruption=mask, segments=max(SEGMENTS), seed=seed)
            yield Case("singly", "one arm at a time", epsilon, single)
            yield Case("drift", "sinusoid", epsilon, sinusoid(arms, horizon, corruption=mask, seed=seed))
            yield Case("drift", "walk", epsilon, random_walk(arms, horizon, corruption=mask, seed=seed))


def _with_any_gap(horizon: int, first: int) -> Iterator[Case]:
    """Yield the problems with gaps of any size."""
    draws = np.random.default_rng(first + 2026)
    for arms in FREE_ARMS:
        for segments in FREE_SEGMENTS:
            for epsilon in FREE_EPSILONS:
                starts = [0, *sorted(draws.choice(np.arange(1, horizon), segments - 1, replace=False).tolist())]
                means, mask = draws.random((segments, arms)).tolist(), RandomizedResponse.from_epsilon(epsilon)
                yield Case("any gap", f"L = {segments}, any gap", epsilon, Problem(means, starts, horizon, mask))


def _with_many_arms(first: int) -> Iterator[Case]:
    """Yield the short problems with many arms."""
    for i, arms in enumerate(MANY_ARMS):
        for j, segments in enumerate(MANY_SEGMENTS):
            for k, epsilon in enumerate(MANY_EPSILONS):
                mask, seed = RandomizedResponse.from_epsilon(epsilon), first + 10_000 + 100 * i + 10 * j + k
                drawn = random_segments(
                    arms, SHORT_HORIZON, corruption=mask, segments=segments, seed=seed, gap=MANY_GAP
                )
                yield Case("many arms", f"L = {segments}, T = {SHORT_HORIZON:,}", epsilon, drawn)
