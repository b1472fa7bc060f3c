"""Which arms were pulled when: the share of each between checkpoints, over all runs, and above which one was best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FixedLocator, MaxNLocator
from numpy.typing import NDArray

from maskedbandits.experiments.results import Cell
from maskedbandits.report import style, summary

OTHERS = "#b5b5b5"  # the colour of arms that have none of their own
MOST_INTERVALS, FEWEST_INTERVALS = 60, 12
IN_ALL = 960  # intervals of all panels together: a page with many stays small

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def known(cells: Sequence[Cell]) -> bool:
    """Tell whether all cells know when arms were pulled: those of earlier versions do not."""
    return all(cell.outcome.pulls_over_time is not None for cell in cells)


def intervals(panels: int) -> int:
    """Return into how many intervals the time is divided in each of so many panels."""
    return int(np.clip(IN_ALL // panels, FEWEST_INTERVALS, MOST_INTERVALS))


def over_time(cell: Cell, most: int) -> tuple[Ints, Floats]:
    """Return the ends of at most so many intervals, from 0 on, and the share of each arm in each of them."""
    pulls = np.asarray(cell.outcome.pulls_over_time)
    count = min(most, pulls.shape[0])
    last = np.arange(1, count + 1) * pulls.shape[0] // count - 1
    ends = np.append(0, cell.outcome.times[last])
    pulled = np.diff(pulls[last], axis=0, prepend=0)
    return ends, pulled / np.maximum(pulled.sum(axis=1, keepdims=True), 1)  # of a log perhaps nothing was played


def coloured(cells: Sequence[Cell]) -> list[int]:
    """Return the arms with a colour of their own: all, or those that were pulled most, in their order."""
    pulled = sum(cell.outcome.pulls.sum(axis=0) for cell in cells)
    arms, most = np.argsort(-np.asarray(pulled), kind="stable"), len(style.COLOURS)
    return sorted(int(arm) for arm in (arms if arms.size <= most else arms[: most - 1]))


def legend(cells: Sequence[Cell], names: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return what each colour stands for: the names of the arms, or their numbers where they have none."""
    arms = coloured(cells)
    said = [(names[arm] if names else f"arm {arm}", style.COLOURS[place]) for place, arm in enumerate(arms)]
    return said + [("other arms", OTHERS)] * (len(arms) < cells[0].arms)


def draw(panel: Axes, cell: Cell, arms: Sequence[int], most: int) -> None:
    """Draw the shares on top of each other, and above them a strip in the colour of the best arm."""
    ends, shares = over_time(cell, most)
    rest = [arm for arm in range(shares.shape[1]) if arm not in arms]
    heights = [*(shares[:, arm] for arm in arms), *([shares[:, rest].sum(axis=1)] if rest else [])]
    colours = [*style.COLOURS[: len(arms)], OTHERS]
    floor = np.zeros(ends.size - 1)
    for height, colour in zip(heights, colours, strict=False):
        panel.stairs(floor + height, ends, baseline=floor, fill=True, facecolor=colour, edgecolor="none")
        floor = floor + height
    for start, end, arm in best_arms(cell):
        colour = colours[arms.index(arm)] if arm in arms else OTHERS
        panel.fill_between([start, end], 1.05, 1.13, color=colour, linewidth=0)
    panel.set_xlim(0, cell.horizon)
    panel.set_ylim(0, 1.13)
    panel.grid(visible=False)
    panel.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    if not summary.are_many(cell):
        for time in cell.changes:
            panel.axvline(time, color=style.INK, linewidth=0.9, linestyle=(0, (4, 3)))


def best_arms(cell: Cell) -> list[tuple[int, int, int]]:
    """Return from when to when which arm was best: of several equally good ones, the first."""
    best = cell.means.argmax(axis=1)
    starts = np.array([0, *cell.changes])
    kept = np.append(True, np.diff(best) != 0)
    ends = np.append(starts[kept][1:], cell.horizon)
    return [(int(a), int(b), int(arm)) for a, b, arm in zip(starts[kept], ends, best[kept], strict=True)]


def figure(title: str, groups: Sequence[Sequence[Cell]], names: Sequence[str] = ()) -> Figure:
    """Return the shares of all policies: a row of panels for each, one for each corruption."""
    cells = [cell for group in groups for cell in group]
    policies = list(dict.fromkeys(cell.label.policy for cell in cells))
    columns = min(len(groups), style.MOST_COLUMNS)
    rows = -(-len(groups) // columns)
    made = Figure(figsize=(max(2.4 * columns, 6.4), 0.8 + len(policies) * (0.3 + 1.5 * rows)), layout="constrained")
    parts = made.subfigures(len(policies), 1, squeeze=False)
    for policy, part in zip(policies, parts.flat, strict=True):
        panels = part.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        own = [cell for cell in cells if cell.label.policy == policy]
        for panel in panels.flat[len(own) :]:
            panel.remove()
        for panel, cell in zip(panels.flat, own, strict=False):
            draw(panel, cell, coloured(cells), intervals(len(cells)))
            panel.set_title(cell.label.setting, loc="left", fontsize=9.5, fontweight="normal")
        heading = part.suptitle("policy", x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        room = made.get_figwidth() - style.MARGIN
        style.literal(heading, style.fitted(policy, room, heading.get_fontproperties()))
    said = legend(cells, names)
    style.finish(made, title, [Patch(facecolor=colour) for _, colour in said], [name for name, _ in said])
    return made
