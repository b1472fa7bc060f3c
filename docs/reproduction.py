"""Writes the tables of docs/reproduction.md: `python -m docs.reproduction`.

The experiments are run, or gone on with, in their usual places first, as `maskedbandits run` would.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maskedbandits import experiments
from maskedbandits.experiments.progress import watcher
from maskedbandits.experiments.results import Cell, Results

ROOT = Path(__file__).parent.parent
EXPERIMENTS = ("gajane2018", "gajane2018_others")
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


def results(name: str) -> Results:
    """Run what is missing of an experiment, and return all of it."""
    experiment = experiments.load(ROOT / "experiments" / f"{name}.toml")
    with watcher(quiet=False) as watching:
        return experiments.run(experiment, ROOT / "results" / name, watching, command="python -m docs.reproduction")


def section(made: Results) -> str:
    """Return what an experiment was, and its table."""
    first = made.cells[0]
    facts = f"{first.runs:,} runs of {first.horizon:,} steps, maskedbandits {made.plan.version}."
    return f"{facts}\n\n{table(made.cells)}"


def main() -> None:
    """Write the tables into the page."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    _, after = rest.split(END)
    sections = "\n\n".join(section(results(name)) for name in EXPERIMENTS)
    PAGE.write_text(f"{before}{BEGIN}\n{sections}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
