"""Write the tables of docs/reproduction.md: `python -m docs.reproduction`.

The experiments are run, or resumed, in their usual places first, as `maskedbandits run` would. With the names of
blocks, such as `ren2020`, it writes these alone. The tables `random` and `exponential` are computed in place.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench import partitions
from numpy.typing import NDArray

from docs import blocks
from docs.evaluation import results
from docs.privacy import markdown
from maskedbandits import Problem, RandomizedResponse, simulate
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.privacy import Partition
from maskedbandits.problems import some_arms_change

PAGE = Path(__file__).with_suffix(".md")
RANDOM_PROBLEMS, RUNS_EACH = 100, 4
BREAKS, RANDOM_HORIZON = 6, 20_000
TREE_RUNS = 10


def row(cell: Cell) -> str:
    """Return one cell as a row: where, which policy, published, ours, distance."""
    ours = f"{cell.mean[-1]:,.1f} ± {cell.half_width[-1]:,.1f}"
    published = cell.label.published
    beside = ("–", "–") if published is None else (f"{published:,g}", f"{cell.mean[-1] / published - 1:+.1%}")
    setting = cell.label.setting.removeprefix("ε = ")
    return f"| {cell.label.problem} | {setting} | {cell.label.policy} | {beside[0]} | {ours} | {beside[1]} |"


def table(cells: Sequence[Cell]) -> str:
    """Return the table in Markdown, published cells first."""
    heading = "| problem | ε | policy | published | ours, 95 % interval | distance |"
    ordered = sorted(cells, key=lambda cell: cell.label.published is None)
    return "\n".join([heading, "|---|---|---|---|---|---|", *map(row, ordered)])


def section(made: Results) -> str:
    """Return what an experiment was, and its table."""
    first = made.cells[0]
    horizons = " or ".join(f"{horizon:,}" for horizon in sorted({cell.horizon for cell in made.cells}))
    facts = f"{first.runs:,} runs of {horizons} steps, maskedbandits {made.manifest.version}."
    return f"{facts}\n\n{table(made.cells)}"


def sections(*names: str) -> str:
    """Run what is missing of some experiments, and return their tables."""
    return "\n\n".join(section(results(name, "python -m docs.reproduction")) for name in names)


def random_problem(seed: int) -> Problem:
    """Return a problem with the settings of the sampler of Besson et al., without privacy."""
    return some_arms_change(
        5,
        RANDOM_HORIZON,
        corruption=RandomizedResponse(1, 1),
        segments=BREAKS + 1,
        seed=seed,
        probability=0.5,
        smallest=0.05,
        largest=0.3,
        shortest=1_000,
    )


def random_policies() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the policies of the table: a label, a name and parameters."""
    window = int(2.0 * np.sqrt(RANDOM_HORIZON * np.log(RANDOM_HORIZON) / BREAKS))
    return {
        "klUCB": ("klucb-cf", {"c": 0}),
        f"SW-klUCB, window {window:,}": ("sw-klucb-cf", {"c": 0, "window": window}),
        "GLR-klUCB, our own, global": ("glr-klucb-cf", {"c": 0}),
        "GLR-klUCB, our own, local": ("glr-klucb-cf", {"c": 0, "local": True}),
        "GLR-TS, our own": ("glr-ts-cf", {}),
        "`auto`": ("auto", {}),
        "klUCB that knows all changes": ("oracle-klucb-cf", {"c": 0}),
    }


def random_changes() -> str:
    """Return the mean regret of policies over random problems, with intervals over the problems."""
    rows = []
    for label, (name, parameters) in random_policies().items():
        means = np.array(
            [_mean_regret(random_problem(seed), name, parameters, seed) for seed in range(RANDOM_PROBLEMS)]
        )
        rows.append([label, with_interval(means), f"{np.median(means):,.0f}", f"{means.max():,.0f}"])
    heading = ["policy", "mean regret, 95 % interval", "median problem", "worst problem"]
    facts = f"{RANDOM_PROBLEMS} problems, {RUNS_EACH} runs each of {RANDOM_HORIZON:,} steps."
    return f"{facts}\n\n{markdown(heading, rows)}"


def _mean_regret(problem: Problem, name: str, parameters: dict[str, Any], seed: int) -> float:
    """Return the mean regret of a policy on a problem."""
    played = simulate(problem, name, runs=RUNS_EACH, seed=seed, checkpoints=1, **parameters)
    return float(played.regret[:, -1].mean())


def with_interval(values: NDArray[np.float64]) -> str:
    """Return a mean, with its 95 % interval."""
    return f"{values.mean():,.0f} ± {1.96 * values.std(ddof=1) / values.size**0.5:,.0f}"


def exponential() -> str:
    """Return the regret of `auto` with a tree and with two grids beside the published one."""
    grids = {"tree": partitions.TREE, "2 x 2": Partition([2, 2]), "3 x 3": Partition([3, 3])}
    horizon, rows = partitions.HORIZONS[-1], []
    for epsilon, published in partitions.PUBLISHED.items():
        regrets = [
            partitions.measure_regret(partitions.exponential, grid, horizon, epsilon, TREE_RUNS)
            for grid in grids.values()
        ]
        distance = f"{regrets[0].mean() / published - 1:+.0%}"
        rows.append([f"{epsilon:g}", f"{published:,}", *map(with_interval, regrets), distance])
    facts = f"{TREE_RUNS} runs of {horizon:,} visitors."
    heading = ["ε", "published", *(f"`auto`, {name}" for name in grids), "distance of the tree"]
    return f"{facts}\n\n{markdown(heading, rows)}"


TABLES: dict[str, Callable[[], str]] = {
    "gajane2018": functools.partial(sections, "gajane2018", "gajane2018_others"),
    "ren2020": functools.partial(sections, "ren2020"),
    "exponential": exponential,
    "published": functools.partial(sections, "published"),
    "random": random_changes,
}


def main() -> None:
    """Write the tables into the page, or those that are named."""
    for block in sys.argv[1:] or TABLES:
        blocks.fill(PAGE, {block: TABLES[block]()})


if __name__ == "__main__":
    main()
