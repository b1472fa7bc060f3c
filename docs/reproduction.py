"""Writes the tables of docs/reproduction.md: `python -m docs.reproduction`.

The experiments are run, or gone on with, in their usual places first, as `maskedbandits run` would.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from docs import blocks
from docs.experiments import results
from maskedbandits.experiments.results import Cell, Results

BLOCKS = {"": ("gajane2018", "gajane2018_others"), "published": ("published",)}
PAGE = Path(__file__).with_suffix(".md")


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


def main() -> None:
    """Write the tables into the page."""
    for block, names in BLOCKS.items():
        sections = [section(results(name, "python -m docs.reproduction")) for name in names]
        blocks.fill(PAGE, {block: "\n\n".join(sections)})


if __name__ == "__main__":
    main()
