"""Write the tables of docs/reproduction.md: `python -m docs.reproduction`.

The experiments are run, or resumed, in their usual places first, as `maskedbandits run` would. With the names of
blocks, such as `ren2020`, it writes these alone.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from docs import blocks
from docs.evaluation import results
from maskedbandits.experiments.results import Cell, Results

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


def sections(*names: str) -> str:
    """Run what is missing of some experiments, and return their tables."""
    return "\n\n".join(section(results(name, "python -m docs.reproduction")) for name in names)


TABLES: dict[str, Callable[[], str]] = {
    "gajane2018": functools.partial(sections, "gajane2018", "gajane2018_others"),
    "ren2020": functools.partial(sections, "ren2020"),
    "published": functools.partial(sections, "published"),
}


def main() -> None:
    """Write the tables into the page, or those that are named."""
    for block in sys.argv[1:] or TABLES:
        blocks.fill(PAGE, {block: TABLES[block]()})


if __name__ == "__main__":
    main()
