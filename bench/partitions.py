"""Regret with private features of people: a tree of grids beside grids, and published numbers.

python -m bench.partitions [--runs N] [--choosing | --epsilons [--problems NAME ...] [--rule NAME]]

Features are uniform on [0, 1]^2, there are three arms. The tree is one for all problems, horizons and epsilons; which
grid is best differs from one to the next. Within a cell features are uniform, so a reward there is a one with the mean
over the cell: what a policy sees is played exactly. Regret is against the best arm for the features themselves: to that
against the best arm of a cell is added, for every visitor, what the best arm of a cell gives less than the best arm at
each of its points, an integral that no policy changes. Of the tree that is so at its finest cells; what coarser ones
cannot tell is part of what is played.

The problem "exponential" is one of Ma, Jiang, Zhao, Yang and Yu (2025), Locally private nonparametric contextual
multi-armed bandits, arXiv 2503.08098. The published regret of 240,000 visitors is that of the published logs of their
code, 30 seeds, and not from the paper; beside it the tree has 30 runs, too.

``--epsilons`` plays the tree on problems with two arms, from epsilon 0.5 to 8. The rule "prediction" lets the level
decide that predicts answers best, as soon as it has seen enough. The rule "choice", the default, also requires that
finer cells are seen to have other best arms.

The values of the tree's constants (``policies/groups.py``) were chosen on the problems that ``--choosing`` plays, at
24,000 visitors. That there is a constant ``ripe``, and that axes are halved, was decided after "exponential" had been
seen.
"""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from maskedbandits import Contextual, ContextualProblem, make_contextual, simulate
from maskedbandits.contextual import hierarchy
from maskedbandits.policies.groups import TREE as HABITS
from maskedbandits.privacy import Partition

HORIZONS = (24_000, 240_000)
EPSILONS = (1.0, 2.0, 4.0, 8.0)
GRIDS = tuple(Partition([many, many]) for many in (1, 2, 3, 4, 6))
TREE = Partition.tree(axes=2, depth=3)
PUBLISHED = {1.0: 44_578, 2.0: 25_979, 4.0: 14_518, 8.0: 7_569}
SEEDS = 30  # of the published numbers, and runs of the tree beside them
POINTS = 720  # on an axis, for integrals: the middles of small intervals, which no cut of a grid divides

Floats = NDArray[np.float64]
Law = Callable[[Floats, Floats], Floats]  # the means of all arms, along a last axis, by the two features


def _either(first: NDArray[np.bool_], one: list[float], other: list[float]) -> Floats:
    return np.where(first[..., None], np.array(one), np.array(other))


def _constant(means: list[float]) -> Law:
    return lambda x, y: np.broadcast_to(np.array(means), (*x.shape, len(means)))


def exponential(x: Floats, y: Floats) -> Floats:
    """Return three peaks along the first feature."""
    peaks = np.exp(-18.0 * (x[..., None] - np.arange(1, 4) / 4.0) ** 2)
    return np.asarray(2.0 * peaks / (1.0 + peaks))


def waves(seed: int) -> Law:
    """Return means that change smoothly, in directions drawn by lot."""

    def law(x: Floats, y: Floats) -> Floats:
        generator, found = np.random.default_rng(seed), []
        for _ in range(3):
            height = np.zeros_like(x)
            for _ in range(3):
                along, across = generator.normal(size=2) * 2.5
                height = height + np.sin(along * x + across * y + generator.uniform(0, 6.28))
            found.append(1 / (1 + np.exp(-height)))
        return np.stack(found, axis=-1)

    return law


def _tiles(means: Floats) -> Law:
    many = len(means)
    return lambda x, y: means[np.floor(many * x).astype(int), np.floor(many * y).astype(int)]


PROBLEMS: dict[str, Law] = {
    "no difference": _constant([0.3, 0.5, 0.7]),
    "two halves": lambda x, y: _either(x < 0.5, [0.7, 0.5, 0.3], [0.3, 0.5, 0.7]),
    "exponential": exponential,
    "slanting": lambda x, y: _either(x + 0.6 * y < 0.7, [0.7, 0.3, 0.4], [0.2, 0.45, 0.7]),
    "checkerboard of 4 x 4": lambda x, y: _either(
        (np.floor(4 * x) + np.floor(4 * y)) % 2 == 0, [0.8, 0.2, 0.5], [0.2, 0.8, 0.5]
    ),
}
CHOOSING: dict[str, Law] = {
    "no difference": _constant([0.6, 0.45, 0.35]),
    "quarters": _tiles(np.array([[[0.7, 0.2, 0.45], [0.2, 0.6, 0.3]], [[0.5, 0.4, 0.8], [0.8, 0.3, 0.4]]])),
    "stripes": lambda x, y: _either(np.floor(4 * y) % 2 == 0, [0.75, 0.35, 0.5], [0.3, 0.7, 0.5]),
    "waves": waves(1),
    "tiles": _tiles(np.random.default_rng(77).uniform(0.05, 0.95, (4, 4, 3))),
}
ALL_EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
_HEIGHTS = np.random.default_rng(5).uniform(0.1, 0.8, (8, 8, 1))  # of tiles, the same for both arms
TWO_ARMS: dict[str, Law] = {
    "disc": lambda x, y: _either((x - 0.5) ** 2 + (y - 0.5) ** 2 < 0.16, [0.7, 0.4], [0.4, 0.7]),
    "diagonal": lambda x, y: _either(x + y < 1, [0.7, 0.4], [0.4, 0.7]),
    "tiles, one best arm": _tiles(_HEIGHTS + np.array([0.08, 0.0])),
    "checkerboard, one best arm": _tiles(np.where(np.indices((8, 8)).sum(0) % 2, 0.3, 0.7)[..., None] + [0.03, -0.03]),
    "checkerboard, best arms by halves": lambda x, y: (
        np.where((np.floor(8 * x) + np.floor(8 * y)) % 2 == 0, 0.65, 0.35)[..., None]
        + np.where(x < 0.5, 0.1, -0.1)[..., None] * np.array([1.0, -1.0])
    ),
}
RULES = {"prediction": HABITS._replace(trial=0.0, proof=-np.inf), "choice": HABITS}


def world(law: Law, grid: Partition, horizon: int) -> tuple[ContextualProblem, float]:
    """Return the problem of a partition's cells, and what all visitors lose to the partition alone."""
    middles = (np.arange(POINTS) + 0.5) / POINTS
    at_points = law(*np.meshgrid(middles, middles, indexing="ij"))
    first, second = grid.intervals
    blocks = at_points.reshape(first, POINTS // first, second, POINTS // second, -1)
    means = blocks.mean(axis=(1, 3)).reshape(grid.cells, -1)
    return ContextualProblem(means, [0], horizon), horizon * float(at_points.max(-1).mean() - means.max(-1).mean())


def measure_regret(law: Law, grid: Partition, horizon: int, epsilon: float, runs: int) -> Floats:
    """Return the regret of each run."""
    problem, unavoidable = world(law, grid, horizon)
    policy: Contextual = make_contextual("auto", partition=grid, arms=problem.arms, epsilon=epsilon)
    played = simulate(problem, policy, runs=runs, seed=1, checkpoints=1, progress=lambda done, steps: None)
    return np.asarray(played.regret[:, -1] + unavoidable)


def row(name: str, law: Law, horizon: int, epsilon: float, runs: int) -> tuple[str, Floats]:
    """Return a row of the table, and how many times as much as the best grid each grid loses, and last the tree."""
    fixed = [float(measure_regret(law, grid, horizon, epsilon, runs).mean()) for grid in GRIDS]
    published = PUBLISHED[epsilon] if law is exponential and horizon == HORIZONS[-1] else None
    tree = measure_regret(law, TREE, horizon, epsilon, SEEDS if published else runs)
    times = np.array([*fixed, tree.mean()]) / min(fixed)
    cells = [
        name,
        f"{horizon:,}",
        f"{epsilon:g}",
        *(f"{each:,.0f}" for each in fixed),
        f"{tree.mean():,.0f} ± {2.0 * tree.std(ddof=1) / tree.size**0.5:,.0f}",
        f"{times[-1]:.1f}",
        f"{published:,}" if published else "",
    ]
    return f"| {' | '.join(cells)} |", times


@contextlib.contextmanager
def play_by(rule: str) -> Iterator[None]:
    """Let trees play by another rule for a while."""
    with mock.patch.object(hierarchy, "TREE", RULES[rule]):
        yield


def print_epsilons(names: list[str], rule: str, runs: int) -> None:
    """Print the regret of the tree by epsilon, a row for each problem with two arms."""
    print(f"| problem | rule | {' | '.join(f'ε = {epsilon:g}' for epsilon in ALL_EPSILONS)} |")
    print("|---|---|" + "--:|" * len(ALL_EPSILONS))
    for name in names:
        cells = []
        for epsilon in ALL_EPSILONS:
            with play_by(rule):
                regret = measure_regret(TWO_ARMS[name], TREE, HORIZONS[-1], epsilon, runs)
            cells.append(f"{regret.mean():,.0f} ± {2.0 * regret.std(ddof=1) / runs**0.5:,.0f}")
        print(f"| {name} | {rule} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3, help="but of the tree 30 beside published numbers")
    parser.add_argument("--choosing", action="store_true", help="the problems on which constants were chosen")
    parser.add_argument("--epsilons", action="store_true", help="two arms, and epsilon from 0.5 to 8")
    parser.add_argument("--problems", nargs="+", choices=TWO_ARMS, default=list(TWO_ARMS), help="with --epsilons")
    parser.add_argument("--rule", choices=RULES, default="choice", help="with --epsilons: which level decides")
    given = parser.parse_args()
    if given.epsilons:
        print_epsilons(given.problems, given.rule, given.runs)
        return
    grids = [" x ".join(map(str, grid.intervals)) for grid in GRIDS]
    print(f"| problem | visitors | ε | {' | '.join(grids)} | tree | to best grid | published |")
    print("|---|--:|--:|" + "--:|" * (len(grids) + 3))
    every = []
    for name, law in (CHOOSING if given.choosing else PROBLEMS).items():
        for horizon in HORIZONS:
            for epsilon in EPSILONS:
                line, times = row(name, law, horizon, epsilon, given.runs)
                every.append(times)
                print(line, flush=True)
    for name, found in (
        ("to best grid, geometric mean", np.exp(np.log(every).mean(axis=0))),
        ("to best grid, worst", np.max(every, axis=0)),
    ):
        print(f"| {name} | | | {' | '.join(f'{each:,.1f}' for each in found)} | | |")


if __name__ == "__main__":
    main()
