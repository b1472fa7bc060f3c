"""Regret of contextual policies where each group has means of its own, beside their goals.

make bench-context               # or: python -m bench.context [--runs N] [--first-seed N]

The eight problems of each world are drawn from seeds 0 to 7, or from others: what was chosen on those may flatter it.

Means are uniform between 0.05 and 0.95, in some worlds drawn until the best arm of each group is ahead of its second by
a gap. An arm at random then loses 0.3 + 7 gap / 15 a visitor on average, of five: the spaces between means in their
order, and those to both ends, are alike in law, and with a gap that is given the rest is shared alike.
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np

from maskedbandits import ContextualProblem, RandomizedResponse, make_contextual, simulate
from maskedbandits.problems import independent_groups, similar_groups

GROUPS = ARMS = 5
EPSILONS = (1.0, 2.0, 4.0)
PROBLEMS = 8
POLICIES: dict[str, tuple[str, bool | None]] = {
    "auto": ("auto", None),
    "auto, not pooled": ("auto", False),
    "auto, pooled": ("auto", True),
    "klucb-cf": ("klucb-cf", None),
}


def independent(seed: int, gap: float = 0.0) -> ContextualProblem:
    """Return a world that stands still."""
    return independent_groups(GROUPS, ARMS, 100_000, gap=gap, seed=seed)


def ahead(gap: float) -> Callable[[int], ContextualProblem]:
    """Return worlds that stand still, in which the best arm of each group is ahead by a gap."""
    return lambda seed: independent(seed, gap)


def build_changing_world(seed: int) -> ContextualProblem:
    """Return a world that changes three times."""
    return independent_groups(GROUPS, ARMS, 400_000, segments=4, gap=0.2, seed=seed)


def alike(seed: int) -> ContextualProblem:
    """Return a world in which all groups are alike."""
    return similar_groups(GROUPS, ARMS, 100_000, apart=0.0, seed=seed)


STILL = (2_800, 950, 230)
WORLDS: dict[str, tuple[Callable[[int], ContextualProblem], Sequence[int | None]]] = {
    "means uniform": (independent, STILL),
    "means uniform, best arm at least 0.15 ahead in each group": (ahead(0.15), STILL),
    "means uniform, best arm at least 0.2 ahead in each group": (ahead(0.2), STILL),
    "the last, three changes, 400,000 steps": (build_changing_world, (19_000, 5_500, 1_900)),
    "groups all alike": (alike, (1_800, None, None)),
}


def mean_regret(
    policy: str, pool: bool | None, problem: ContextualProblem, epsilon: float, runs: int, seed: int
) -> float:
    """Return the mean regret."""
    asks = make_contextual(policy, groups=GROUPS, arms=ARMS, epsilon=epsilon, pool=pool)
    return float(simulate(problem, asks, runs=runs, seed=seed, checkpoints=1).regret.mean())


def without_groups(problem: ContextualProblem, epsilon: float, runs: int, seed: int) -> float:
    """Return the mean regret of one `auto` for everybody, against the best arm of each visitor's own group."""
    mask = RandomizedResponse.from_epsilon(epsilon)
    seen = ContextualProblem(problem.means, problem.starts, problem.horizon, problem.shares, mask)
    return float(simulate(seen, "auto", runs=runs, seed=seed, checkpoints=1).regret.mean())


def at_random(problem: ContextualProblem) -> float:
    """Return what an arm drawn by lot for every visitor loses, which is known without playing."""
    lengths = np.diff(np.append(problem.starts, problem.horizon))
    return float(lengths @ (problem.gaps.mean(axis=2) @ problem.shares))


def row(world: Callable[[int], ContextualProblem], epsilon: float, runs: int, first: int) -> list[str]:
    """Return what all lose in the worlds of eight seeds, with two standard errors over them."""
    seeds = range(first, first + PROBLEMS)
    found = [[mean_regret(*policy, world(seed), epsilon, runs, seed) for seed in seeds] for policy in POLICIES.values()]
    found.append([without_groups(world(seed), epsilon, runs, seed) for seed in seeds])
    found.append([at_random(world(seed)) for seed in seeds])
    return [f"{np.mean(each):,.0f} ± {2 * np.std(each, ddof=1) / PROBLEMS**0.5:,.0f}" for each in found]


def step(steps: int = 1_000_000) -> float:
    """Return how many microseconds of one processor a step of klucb-cf takes, with ten groups and ten arms."""
    problem = independent_groups(10, 10, steps, seed=1)
    asks = make_contextual("klucb-cf", groups=10, arms=10, epsilon=1.0, pool=False)
    simulate(problem, asks, runs=1, seed=1, checkpoints=1)  # what is compiled for it is not counted
    return 1e6 * simulate(problem, asks, runs=1, seed=1, checkpoints=1).kernel_seconds / steps


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=4, help="of each of 8 problems")
    parser.add_argument("--first-seed", type=int, default=0, help="of the problems")
    asked = parser.parse_args()
    columns = ["world", "ε", "goal", *POLICIES, "auto, without groups", "at random"]
    print(f"| {' | '.join(columns)} |")
    print("|---|" + "--:|" * (len(columns) - 1))
    for name, (world, goals) in WORLDS.items():
        for epsilon, goal in zip(EPSILONS, goals, strict=True):
            cells = row(world, epsilon, asked.runs, asked.first_seed)
            print(f"| {name} | {epsilon:g} | {f'{goal:,}' if goal else ''} | {' | '.join(cells)} |", flush=True)
    if asked.first_seed == 0:  # it is the same on any problems
        print(f"\nA step of klucb-cf with 10 groups and 10 arms takes {step():.2f} us (goal 3).")


if __name__ == "__main__":
    main()
