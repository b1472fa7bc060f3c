"""Results of an experiment as a short table and as a figure."""

from __future__ import annotations

import html
import math
from itertools import groupby
from typing import TYPE_CHECKING

from maskedbandits._util import extras
from maskedbandits._util.curves import Band, check_band
from maskedbandits.errors import UserError
from maskedbandits.experiments.results import Cell, Results
from maskedbandits.simulation.results import regret_format, table_heads

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 40  # of the table; more cells are counted
MAX_PANELS = 30
PANEL_INCHES = (4.8, 3.6)


def format_results(results: Results) -> str:
    """Return the table as text."""
    rows = list_rows(results)
    if not rows:
        return describe_size(results)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = 3  # columns of names
    lines = []
    for row in rows:
        names = map(str.ljust, row[:left], widths)
        lines.append("  ".join([*names, *map(str.rjust, row[left:], widths[left:])]).rstrip())
    return "\n".join([describe_size(results), *lines, *describe_rest(results)])


def render_results(results: Results) -> str:
    """Return the table for a notebook."""
    head, *body = list_rows(results) or [[]]
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    rows = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in body)
    caption = html.escape(" ".join([describe_size(results), *describe_rest(results)]))
    return f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def list_rows(results: Results) -> list[list[str]]:
    """Return the head and the first rows of the table; none without cells."""
    if not results.cells:
        return []
    shown = results.cells[:MAX_ROWS]
    summaries = [cell.outcome.simulation(cell.label.policy).summary() for cell in shown]
    show = regret_format(summaries)
    rows = [["problem", "mask", *table_heads(0.95)]]
    rows += [
        [cell.label.problem, cell.label.setting, *one.cells(show)] for cell, one in zip(shown, summaries, strict=True)
    ]
    return rows


def describe_size(results: Results) -> str:
    """Return the title, the number of cells and that of runs."""
    cells, planned = len(results.cells), len(results.manifest.labels)
    counts = sorted({cell.runs for cell in results.cells})
    shown = "-".join(f"{count:,}" for count in counts[:: max(len(counts) - 1, 1)])
    runs = f" of {shown} {'run' if counts == [1] else 'runs'}" if counts else ""
    unfinished = f"; {planned - cells:,} not finished" if planned > cells else ""
    return f"{results.manifest.title}: {cells:,} {'cell' if cells == 1 else 'cells'}{runs}{unfinished}"


def describe_rest(results: Results) -> list[str]:
    """Return a line about cells that the table has no room for."""
    rest = len(results.cells) - MAX_ROWS
    return [f"... and {rest:,} more; see .select(), .summary(), .frame()"] if rest > 0 else []


def plot_results(results: Results, band: Band | None, level: float, *, log: bool) -> Figure:
    """Return a figure with a panel for each problem and epsilon."""
    level = check_band(band, level)
    extras.require("a plot", ["matplotlib"])
    import matplotlib.pyplot as plt

    panels = [list(cells) for _, cells in groupby(results.cells, key=name_panel)]
    if not panels:
        raise UserError("no cell is finished yet, so there is nothing to plot")
    if len(panels) > MAX_PANELS:
        raise UserError(f"{len(panels)} panels are too many for a figure: choose cells with select()")
    columns = min(len(panels), max(2, math.isqrt(len(panels))))
    rows = -(-len(panels) // columns)
    size = (PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows)
    figure, grid = plt.subplots(rows, columns, squeeze=False, figsize=size, layout="constrained")
    for axes, cells in zip(grid.flat, panels, strict=False):
        for cell in cells:
            cell.outcome.simulation(cell.label.policy).plot(axes, band, level, log=log)
        axes.set_title(", ".join(name_panel(cells[0])))
    for axes in list(grid.flat)[len(panels) :]:
        axes.remove()
    return figure


def name_panel(cell: Cell) -> tuple[str, str]:
    """Return the problem and the mask of a cell."""
    return cell.label.problem, cell.label.setting
