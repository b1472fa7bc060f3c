"""Regret of each group of people: who pays, in a table and in a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from maskedbandits.experiments.results import Cell
from maskedbandits.report import style, tables

FEW = 12  # groups that a table has columns for, and an axis names
ASIDE = 0.16  # how far policies stand apart, of the way from one group to the next


def are_few(cells: Sequence[Cell]) -> bool:
    """Tell whether there are groups, and not more than a table can show."""
    return 0 < len(cells[0].shares or ()) <= FEW


def regret(group: int, cell: Cell, _: float = 0.0) -> str:
    """Return what people of a group have lost in all, with its 95 % interval."""
    mean, half = (float(part[group]) for part in cell.by_group)
    return tables.number(mean) + ("" if math.isnan(half) else f" ± {tables.number(half)}")


def columns(cells: Sequence[Cell]) -> list[tables.Column]:
    """Return a column for each group, after epsilon and policy."""
    shares = cells[0].shares or []
    return [
        *tables.columns(cells)[:2],
        *(
            tables.Column(heading(group, share), partial(regret, group), partial(lost, group))
            for group, share in enumerate(shares)
        ),
    ]


def lost(group: int, cell: Cell, _: float) -> float:
    """Return what a column is sorted by."""
    return float(cell.by_group[0][group])


def heading(group: int, share: float) -> str:
    """Return what a group is called, and how large it is."""
    return f"group {group} ({share:.0%})"


def draw(panel: Axes, group: Sequence[Cell], drawn: dict[str, style.Look]) -> None:
    """Draw what a visitor of each group has lost on average, policies side by side."""
    shares = np.array(group[0].shares)
    places = np.arange(shares.size)
    for number, cell in enumerate(group):
        colour = drawn[cell.label.policy].colour
        mean, half = (part / (shares * cell.horizon) for part in cell.by_group)
        where = places + ASIDE * (number - (len(group) - 1) / 2)
        half = np.nan_to_num(half)
        [dots] = panel.plot(where, mean, "o", color=colour)
        bars = panel.vlines(where, np.maximum(mean - half, 0.0), mean + half, color=colour, linewidth=1.6)
        style.identify(panel, cell.label.policy, drawn, dots=dots, bars=bars)
    panel.set_title(style.setting_of(group), loc="left")
    panel.set_xlim(-0.5, shares.size - 0.5)
    panel.xaxis.set_major_locator(FixedLocator(places.tolist()) if shares.size <= FEW else MaxNLocator(integer=True))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def scale(groups: Sequence[Sequence[Cell]]) -> tuple[float, float]:
    """Return where a scale begins and ends that holds all groups of all policies: dots at 0 are seen whole."""
    ends = []
    for cell in (cell for group in groups for cell in group):
        mean, half = (part / (np.array(cell.shares) * cell.horizon) for part in cell.by_group)
        ends.append(float(np.max(mean + np.nan_to_num(half))))
    highest = max(ends) or 1.0
    return -0.03 * highest, 1.08 * highest


def figure(title: str, groups: Sequence[Sequence[Cell]], drawn: dict[str, style.Look]) -> Figure:
    """Return a panel for each corruption, on one scale."""
    count = min(len(groups), style.MOST_COLUMNS)
    rows = math.ceil(len(groups) / count)
    made = Figure(figsize=(max(2.7 * count, 6.4), 2.7 * rows + 1.0), layout="constrained")
    panels = made.subplots(rows, count, squeeze=False, sharex=True, sharey=True)
    for place, panel in enumerate(panels.flat):
        if place >= len(groups):
            panel.remove()
            continue
        draw(panel, groups[place], drawn)
        panel.set_ylim(scale(groups))
        panel.set_xlabel("group" if place + count >= len(groups) else "")
    for row in panels:
        row[0].set_ylabel("lost per visitor")
    style.finish(made, title, *style.entries([cell.label.policy for group in groups for cell in group], drawn))
    return made
