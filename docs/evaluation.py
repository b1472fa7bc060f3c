"""Writes the tables of docs/evaluation.md and draws its figure: `python -m docs.evaluation`.

The experiments are run, or gone on with, in their usual places first, as `maskedbandits run` would; those on real data
need `maskedbandits data get` of retail, movielens-100k and open-bandit-small before. With the names of blocks, such as
`movielens`, it writes these alone.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from docs import blocks
from docs.experiments import ROOT, results
from maskedbandits import report
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.experiments.results import Cell, Results

PAGE = Path(__file__).with_suffix(".md")
FIGURE = PAGE.parent / "figures" / "retail.png"


def of_problem(made: Results, problem: str) -> list[Cell]:
    """Return the cells of one problem."""
    return [cell for cell in made.cells if cell.label.problem == problem]


def format_regret(cell: Cell) -> str:
    """Return a cell's regret with its interval, to a tenth where it is small."""
    places = 1 if cell.mean[-1] < 100.0 else 0
    return f"{round(cell.mean[-1], places) + 0.0:,.{places}f} ± {cell.half_width[-1]:,.{places}f}"


def by_epsilon(cells: Sequence[Cell]) -> str:
    """Return one problem's regret, a row for every policy and a column for every epsilon."""
    settings = list(dict.fromkeys(cell.label.setting for cell in cells))
    found = {(cell.label.policy, cell.label.setting): cell for cell in cells}
    policies = list(dict.fromkeys(cell.label.policy for cell in cells))
    lines = [["policy", *settings], ["---", *["--:"] * len(settings)]]
    lines += [[policy, *(format_regret(found[policy, setting]) for setting in settings)] for policy in policies]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def by_problem(made: Results) -> str:
    """Return the regret of all problems, a row for every policy and a column for every problem and epsilon."""
    policies = list(dict.fromkeys(cell.label.policy for cell in made.cells))
    places = list(dict.fromkeys((cell.label.problem, cell.label.setting) for cell in made.cells))
    found = {(cell.label.problem, cell.label.setting, cell.label.policy): cell for cell in made.cells}
    lines = [["policy", *(", ".join(place) for place in places)], ["---", *["--:"] * len(places)]]
    lines += [[policy, *(format_regret(found[*place, policy]) for place in places)] for policy in policies]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def laws(made: Results) -> str:
    """Return how many times as much is lost as without privacy, beside 1/s and 1/s^2."""
    policies = list(dict.fromkeys(cell.label.policy for cell in made.cells))
    plain = {cell.label.policy: cell.mean[-1] for cell in made.cells if cell.label.epsilon == math.inf}
    lines = [["ε", "1/s", "1/s²", *policies], ["--:"] * (3 + len(policies))]
    for epsilon in dict.fromkeys(cell.label.epsilon for cell in made.cells):
        slope = RandomizedResponse.from_epsilon(epsilon or math.inf).slope
        cells = {cell.label.policy: cell for cell in made.cells if cell.label.epsilon == epsilon}
        times = [f"{cells[policy].mean[-1] / plain[policy]:.1f}" for policy in policies]
        shown = "∞" if epsilon == math.inf else f"{epsilon:g}"
        lines.append([shown, f"{1 / slope:.1f}", f"{1 / slope**2:.1f}", *times])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def exponent(cells: Sequence[Cell], along: str) -> float:
    """Return the slope on log axes of the mean regret, over all problems, against the horizon or the segments."""
    values = sorted({value_of(cell, along) for cell in cells})
    means = [np.mean([cell.mean[-1] for cell in cells if value_of(cell, along) == value]) for value in values]
    return float(np.polyfit(np.log(values), np.log(means), 1)[0])


def value_of(cell: Cell, along: str) -> int:
    """Return a cell's horizon or number of segments."""
    return cell.horizon if along == "T" else len(cell.changes) + 1


def growth(made: Results) -> str:
    """Return the exponents, a row for every policy."""
    lines = [["policy", "with T", "with L"], ["---", "--:", "--:"]]
    for policy in dict.fromkeys(cell.label.policy for cell in made.cells):
        cells = [cell for cell in made.cells if cell.label.policy == policy]
        lines.append([policy, *(f"{exponent(cells, along):.2f}" for along in ("T", "L"))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def of_nth(place: int) -> Callable[[Results], str]:
    """Return what makes the table of one of the problems of an experiment."""

    def made_of(made: Results) -> str:
        problems = list(dict.fromkeys(cell.label.problem for cell in made.cells))
        return by_epsilon(of_problem(made, problems[place]))

    return made_of


# Each block of the page: the experiment that it shows, and what makes its table.
TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "retail": ("retail", of_nth(0)),
    "retail-blind": ("retail", of_nth(1)),
    "movielens": ("control", of_nth(0)),
    "clicks": ("clicks", of_nth(0)),
    "changing": ("changing", by_problem),
    "drift": ("drift", by_problem),
    "privacy": ("privacy", laws),
    "scaling": ("scaling", growth),
}


def main() -> None:
    """Write the tables into the page, and copy the figure."""
    for name in sys.argv[1:] or TABLES:
        experiment, table = TABLES[name]
        made = results(experiment, f"maskedbandits run experiments/{experiment}.toml")
        blocks.fill(PAGE, {name: table(made)})
        if name == "retail":
            report.write_report(made, ROOT / "results" / "retail")
            shutil.copy(ROOT / "results" / "retail" / "figures" / "seasonal-families-regret.png", FIGURE)


if __name__ == "__main__":
    main()
