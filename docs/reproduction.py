"""Writes the table of docs/reproduction.md from a results folder: `python -m docs.reproduction [DIR]`.

The folder is what `maskedbandits run experiments/gajane2018.toml` has made; without one, the experiment is
run (or gone on with) in its usual place first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from maskedbandits import experiments
from maskedbandits.experiments.progress import watcher
from maskedbandits.results import Cell, Results, load

ROOT = Path(__file__).parent.parent
EXPERIMENT = ROOT / "experiments" / "gajane2018.toml"
PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- begin: python -m docs.reproduction -->", "<!-- end -->"


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


def results(folder: Path) -> Results:
    """Run what is missing in a results folder, and return all of it."""
    experiment = experiments.load(EXPERIMENT)
    with watcher(quiet=False) as watching:
        return experiments.run(experiment, folder, watching, command="python -m docs.reproduction")


def main() -> None:
    """Write the table into the page."""
    made = load(sys.argv[1]) if len(sys.argv) > 1 else results(ROOT / "results" / "gajane2018")
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    first = made.cells[0]
    facts = f"{first.runs} runs of {first.horizon:,} steps, maskedbandits {made.plan.version}."
    PAGE.write_text(f"{before}{BEGIN}\n{facts}\n\n{table(made.cells)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
