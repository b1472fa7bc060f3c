"""Regret per visitor of each group of people, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from maskedbandits.experiments.results import Cell
from maskedbandits.report import style
from maskedbandits.report.plots.plot import Plot, Rows, new_panel
from maskedbandits.report.summary import Groups

MAX_TICKS = 12  # groups that an axis names one by one
OFFSET = 0.16  # between policies, as a share of the distance between groups


class RegretByGroup(Plot):
    """A panel for each corruption, on one scale, with policies side by side."""

    file_name = "groups"
    heading = "Regret by group"

    @classmethod
    def applies_to(cls, groups: Groups) -> bool:
        """Return whether the problem has groups."""
        return groups[0][0].shares is not None

    @property
    def caption(self) -> str:
        """Describe the plot."""
        return "Who pays: regret at the end by a visitor of each group, on average, with 95 % intervals."

    def draw_figure(self) -> Figure:
        """Return the figure for files."""
        groups = self.groups
        count = self.options.count_columns(len(groups))
        rows = math.ceil(len(groups) / count)
        figure = Figure(
            figsize=(self.options.choose_width(max(2.7 * count, 6.4)), 2.7 * rows + 1.0), layout="constrained"
        )
        panels = figure.subplots(rows, count, squeeze=False, sharex=True, sharey=True)
        for index, panel in enumerate(panels.flat):
            if index >= len(groups):
                panel.remove()
                continue
            self.draw(panel, groups[index])
            panel.set_ylim(self.limits())
            panel.set_xlabel("group" if index + count >= len(groups) else "")
        for row in panels:
            row[0].set_ylabel("regret per visitor")
        style.add_legend(figure, self.title, *style.legend_entries(self.policies, self.looks))
        return figure

    def draw_rows(self) -> Rows:
        """Return the panels for the page."""
        panels = []
        for index, group in enumerate(self.groups):
            figure, panel = new_panel()
            self.draw(panel, group)
            panel.set_ylim(self.limits())
            panel.set(xlabel="group", ylabel="regret per visitor")
            panels.append(self.render_panel(figure, f"{self.name}-{index}", style.panel_title(group)))
        return [("", panels)]

    def draw(self, panel: Axes, group: Sequence[Cell]) -> None:
        """Draw the mean regret of a visitor of each group."""
        shares = np.array(group[0].shares)
        places = np.arange(shares.size)
        for number, cell in enumerate(group):
            colour, _, marker = self.looks[cell.label.policy]
            mean, half = (part / (shares * cell.horizon) for part in cell.final_group_regret)
            where = places + OFFSET * (number - (len(group) - 1) / 2)
            half = np.nan_to_num(half)
            [dots] = panel.plot(where, mean, marker, color=colour)
            bars = panel.vlines(where, np.maximum(mean - half, 0.0), mean + half, color=colour, linewidth=1.6)
            style.set_ids(panel, cell.label.policy, self.looks, dots=dots, bars=bars)
        panel.set_title(style.panel_title(group), loc="left")
        panel.set_xlim(-0.5, shares.size - 0.5)
        has_ticks = shares.size <= MAX_TICKS
        panel.xaxis.set_major_locator(FixedLocator(places.tolist()) if has_ticks else MaxNLocator(integer=True))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))

    def limits(self) -> tuple[float, float]:
        """Return the ends of a scale for all groups and policies; it begins below 0 to show dots there whole."""
        ends = []
        for cell in self.cells:
            mean, half = (part / (np.array(cell.shares) * cell.horizon) for part in cell.final_group_regret)
            ends.append(float(np.max(mean + np.nan_to_num(half))))
        highest = max(ends) or 1.0
        return -0.03 * highest, 1.08 * highest
