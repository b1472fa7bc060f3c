"""Writes the tables of docs/experiments.md and the README's figure: `python -m docs.experiments`.

The experiments are run, or gone on with, in their usual places first, as `maskedbandits run` would. What sweeps cost is
what `make bench-sweep` has left; where it has left nothing, the page keeps the figures that it has.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from docs import blocks
from maskedbandits import experiments, report
from maskedbandits.experiments.progress import watcher
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.report.tables import stands_out

PAGE = Path(__file__).with_suffix(".md")
ROOT = PAGE.parent.parent
MEASURED = ROOT / "results" / "sweep.md"
FIGURE = PAGE.parent / "figures" / "regret.png"


def results(name: str, command: str) -> Results:
    """Run what is missing of an experiment, and return all of it."""
    experiment = experiments.load(ROOT / "experiments" / f"{name}.toml")
    with watcher(quiet=False) as watching:
        return experiments.run(experiment, ROOT / "results" / name, watching, command=command)


def regret(cell: Cell, group: Sequence[Cell]) -> str:
    """Return a cell's regret with its interval and its window, bold where it is the lowest."""
    text = f"{cell.mean[-1]:,.0f} ± {cell.half_width[-1]:,.0f}"
    window = "" if cell.window is None else f" (w = {cell.window:,})"
    return (f"**{text}**" if stands_out(cell, group) else text) + window


def table(made: Results) -> str:
    """Return one problem's regret, a row for every epsilon and a column for every policy."""
    ((_, groups),) = report.problems(made.cells)
    policies = [cell.label.policy for cell in groups[0]]
    rows = [[group[0].label.setting.removeprefix("ε = "), *(regret(cell, group) for cell in group)] for group in groups]
    lines = [["ε", *policies], ["--:"] * (len(policies) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Write the tables into the page, and copy the figure."""
    command = "maskedbandits run experiments/{}.toml"
    made = {name: results(name, command.format(name)) for name in ("paper", "collapse")}
    blocks.fill(PAGE, {name: table(found) for name, found in made.items()})
    if MEASURED.exists():
        blocks.fill(PAGE, {"sweep": MEASURED.read_text(encoding="utf-8").strip("\n")})
    report.write(made["paper"], ROOT / "results" / "paper")
    shutil.copy(ROOT / "results" / "paper" / "figures" / "regret.png", FIGURE)


if __name__ == "__main__":
    main()
