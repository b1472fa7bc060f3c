"""Regret of contextual policies where each group has means of its own, beside their goals.

make bench-context               # or: python -m bench.context [--runs N]
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from maskedbandits import ContextualProblem, make_contextual, simulate

GROUPS = ARMS = 5
EPSILONS = (1.0, 2.0, 4.0)
PROBLEMS = 8
POLICIES: dict[str, tuple[str, bool | None]] = {
    "auto": ("auto", None),
    "auto, not pooled": ("auto", False),
    "auto, pooled": ("auto", True),
    "klucb-cf": ("klucb-cf", None),
}

Floats = NDArray[np.float64]


def drawn(generator: np.random.Generator) -> Floats:
    """Return means of every group, independent of each other."""
    return generator.uniform(0.05, 0.95, (GROUPS, ARMS))


def apart(generator: np.random.Generator, gap: float = 0.2) -> Floats:
    """Return means in which the best arm of each group is ahead by a gap at least."""
    while True:
        means = drawn(generator)
        best = np.sort(means, axis=1)
        if np.min(best[:, -1] - best[:, -2]) >= gap:
            return means


def independent(seed: int) -> ContextualProblem:
    """Return a world that stands still."""
    return ContextualProblem(drawn(np.random.default_rng(seed)), [0], 100_000)


def changing(seed: int) -> ContextualProblem:
    """Return a world that changes three times."""
    generator, horizon = np.random.default_rng(seed), 400_000
    return ContextualProblem([apart(generator) for _ in range(4)], np.arange(4) * horizon // 4, horizon)


def alike(seed: int) -> ContextualProblem:
    """Return a world in which all groups are alike."""
    row = np.random.default_rng(seed).uniform(0.05, 0.95, ARMS)
    return ContextualProblem(np.tile(row, (GROUPS, 1)), [0], 100_000)


WORLDS: dict[str, tuple[Callable[[int], ContextualProblem], Sequence[int]]] = {
    "independent groups, 100,000 steps": (independent, (2_800, 950, 230)),
    "the same, three changes, 400,000 steps": (changing, (19_000, 5_500, 1_900)),
    "groups all alike, 100,000 steps": (alike, (1_800,)),
}


def lost(policy: str, pool: bool | None, problem: ContextualProblem, epsilon: float, runs: int, seed: int) -> float:
    """Return the mean regret."""
    asks = make_contextual(policy, groups=GROUPS, arms=ARMS, epsilon=epsilon, pool=pool)
    return float(simulate(problem, asks, runs=runs, seed=seed, checkpoints=1).regret.mean())


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=4, help="of each of 8 problems")
    runs = parser.parse_args().runs
    print("| world | epsilon | goal | " + " | ".join(POLICIES) + " |")
    print("|---|--:|--:|" + "--:|" * len(POLICIES))
    for name, (world, goals) in WORLDS.items():
        for epsilon, goal in zip(EPSILONS, goals, strict=False):
            found = [
                [lost(*policy, world(seed), epsilon, runs, seed) for seed in range(PROBLEMS)]
                for policy in POLICIES.values()
            ]
            told = [f"{np.mean(each):,.0f} ± {2 * np.std(each) / PROBLEMS**0.5:,.0f}" for each in found]
            print(f"| {name} | {epsilon:g} | {goal:,} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()
