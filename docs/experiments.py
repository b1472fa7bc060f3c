"""Writes the tables of docs/experiments.md, and figures of this and other pages: `python -m docs.experiments`.

The experiments are run, or gone on with, in their usual places first, as `maskedbandits run` would. What sweeps cost is
what `make bench-sweep` has left; where it has left nothing, the page keeps the figures that it has. With the names of
blocks, such as `context`, it writes these alone.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from docs import blocks
from maskedbandits import experiments, report
from maskedbandits.experiments.progress_bar import choose_watcher
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.report.summary import is_best, list_settings, pair_contexts

PAGE = Path(__file__).with_suffix(".md")
ROOT = PAGE.parent.parent
MEASURED = ROOT / "results" / "sweep.md"
FIGURES = PAGE.parent / "figures"
DRAWN = {"paper": "regret.png", "context": "context.png"}  # of each experiment, the figure that pages show


def results(name: str, command: str) -> Results:
    """Run what is missing of an experiment, and return all of it."""
    experiment = experiments.load(ROOT / "experiments" / f"{name}.toml")
    with choose_watcher(quiet=False) as watching:
        return experiments.run(experiment, ROOT / "results" / name, watching, command=command)


def regret(cell: Cell, group: Sequence[Cell]) -> str:
    """Return a cell's regret with its interval and its window, bold where it is the lowest."""
    text = f"{cell.mean[-1]:,.0f} ± {cell.half_width[-1]:,.0f}"
    window = "" if cell.window is None else f" (w = {cell.window:,})"
    return (f"**{text}**" if is_best(cell, group) else text) + window


def table(made: Results) -> str:
    """Return one problem's regret, a row for every epsilon and a column for every policy."""
    ((_, groups),) = report.group_by_problem(made.cells)
    policies = [cell.label.policy for cell in groups[0]]
    rows = [[group[0].label.setting.removeprefix("ε = "), *(regret(cell, group) for cell in group)] for group in groups]
    lines = [["ε", *policies], ["--:"] * (len(policies) + 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def when_context_pays(made: Results) -> str:
    """Return from how many visitors on context pays, a row for every problem and a column for every epsilon."""
    found = pair_contexts(made.cells)
    rows = [[problem, *(pair.verdict for pair in own)] for problem, own in found]
    settings = list_settings(found)
    lines = [["context pays from", *settings], ["---", *["--:"] * len(settings)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES = {"paper": table, "collapse": table, "context": when_context_pays}


def main() -> None:
    """Write the tables into the page, and copy the figures."""
    wanted = sys.argv[1:] or [*TABLES, "sweep"]
    for name in TABLES:
        if name in wanted:
            made = results(name, f"maskedbandits run experiments/{name}.toml")
            blocks.fill(PAGE, {name: TABLES[name](made)})
            if name in DRAWN:
                report.write_report(made, ROOT / "results" / name)
                shutil.copy(ROOT / "results" / name / "figures" / DRAWN[name], FIGURES / DRAWN[name])
    if "sweep" in wanted and MEASURED.exists():
        blocks.fill(PAGE, {"sweep": MEASURED.read_text(encoding="utf-8").strip("\n")})


if __name__ == "__main__":
    main()
