"""Regret against time, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator, NullFormatter

from maskedbandits._util.curves import Band, compute_band
from maskedbandits.experiments.results import Cell
from maskedbandits.report import style, summary
from maskedbandits.report.plots.plot import (
    Panel,
    Plot,
    Rows,
    horizontal_places,
    new_panel,
    series_numbers,
)

BANDS: dict[Band | None, str] = {  # the end of the caption
    "ci": ", bands their 95 % intervals",
    "quantile": ", bands hold the central 95 % of the runs",
    "std": ", bands are one standard deviation of the runs on either side",
    None: "",
}


class RegretOverTime(Plot):
    """A panel for each corruption, and one of the means if they change often."""

    file_name = "regret"
    heading = "Regret over time"

    @property
    def caption(self) -> str:
        """Describe the plot."""
        first = self.groups[0][0]
        best = "the best arm of every period" if "record" in first.outcome.spec else "the best arm"
        best = best if first.shares is None else "the best arm of each visitor's own group"
        parts = [f"Regret against time: what was lost so far by not knowing {best}."]
        if summary.has_many_changes(first):
            parts += [f"Lines are means over runs{BANDS[self.options.band]}."]
            parts += ["Below: the mean rewards of the arms, and bold the best of them."]
        else:
            verticals = f", dashed verticals {summary.describe_marks(first)}" if first.changes else ""
            parts += [f"Lines are means{BANDS[self.options.band]}{verticals}."]
        if len(self.groups) > 1:
            shared = self.shares_scale()
            parts += ["All panels share a scale." if shared else "Each panel has a scale of its own."]
        return " ".join(parts)

    def shares_scale(self) -> bool:
        """Return whether the panels share a scale: not if the curves of one would be flat."""
        tops = [max(float(cell.mean[-1]) for cell in group) for group in self.groups]
        return max(tops) <= 3 * min(tops)

    def draw_figure(self) -> Figure:
        """Return the figure for files."""
        groups = self.groups
        count = self.options.count_columns(len(groups))
        rows = math.ceil(len(groups) / count)
        with_means = summary.has_many_changes(groups[0][0])
        heights = [2.7] * rows + [1.2] * with_means
        figure = Figure(
            figsize=(self.options.choose_width(max(2.7 * count, 6.4)), sum(heights) + 1.0), layout="constrained"
        )
        panels = figure.subplots(len(heights), count, squeeze=False, sharex=True, height_ratios=heights)
        curves = list(panels[:rows].flat)
        if self.shares_scale():
            share_scale(curves[: len(groups)], count)
        for index, panel in enumerate(curves):
            if index >= len(groups):
                panel.remove()
                continue
            self.draw(panel, groups[index], label_changes=index == 0)
            is_above = with_means or index + count < len(groups)  # another panel; a gap in the last row is none
            panel.tick_params(labelbottom=not is_above)
            panel.set_xlabel("" if is_above else "step")
        for panel in curves[: len(groups)]:  # once all are drawn, because this ends the search for a common scale
            panel.set_ylim(bottom=lowest_value(groups))
        if with_means:
            share_scale(list(panels[-1]), count)
            for panel in panels[-1]:
                draw_means(panel, groups[0][0])
            panels[-1][0].set_ylabel("means")
        for row in panels[:rows]:
            row[0].set_ylabel("cumulative regret")
        style.add_legend(figure, self.title, *style.legend_entries(self.policies, self.looks))
        return figure

    def draw_rows(self) -> Rows:
        """Return the panels for the page."""
        panels: list[Panel] = []
        tops = [max(float(np.nanmax(self.list_ends(cell))) for cell in group) for group in self.groups]
        shared = self.shares_scale()
        for index, group in enumerate(self.groups):
            figure, panel = new_panel()
            self.draw(panel, group, label_changes=True)
            panel.set_ylim(lowest_value([group]), 1.05 * (max(tops) if shared else tops[index]) or 1.0)
            panel.set(xlabel="step", ylabel="cumulative regret")
            numbers = self.list_numbers(panel, group)
            title = style.panel_title(group)
            panels.append(self.render_panel(figure, f"{self.name}-{index}", title, numbers))
        if summary.has_many_changes(self.groups[0][0]):
            panels.append(self.draw_means_panel())
        return [("", panels)]

    def list_ends(self, cell: Cell) -> list[float]:
        """Return the last mean of a cell, and the upper end of its band."""
        _, mean, high = compute_band(cell.outcome.regret[:, -1:], self.options.band)
        return [float(mean[0]), float(high[0])]

    def draw_means_panel(self) -> Panel:
        """Return the panel of the means."""
        figure, panel = new_panel()
        first = self.groups[0][0]
        draw_means(panel, first)
        panel.set_xlim(0, first.horizon)
        panel.xaxis.set_major_locator(MaxNLocator(4))
        panel.set_ylabel("means")
        title = "Means of the arms, the best one bold"
        return self.render_panel(figure, f"{self.name}-means", title)

    def list_numbers(self, panel: Axes, group: Sequence[Cell]) -> dict[str, Any]:
        """Return the numbers behind the curves of one corruption."""
        times = [int(time) for time in group[0].outcome.times]

        def halves(cell: Cell) -> list[float] | None:
            return cell.half_width.tolist() if self.options.band == "ci" else None

        series = [series_numbers(self.looks, cell.label.policy, cell.mean.tolist(), halves(cell)) for cell in group]
        heads = [f"step {time:,}" for time in times]
        return {
            "places": horizontal_places(panel, times),
            "heads": heads,
            "series": series,
            "shared": len(self.groups) > 1 and self.shares_scale(),
        }

    def draw(self, panel: Axes, group: Sequence[Cell], *, label_changes: bool) -> None:
        """Draw the policies of one corruption: a line for the mean, and a band."""
        start = np.zeros(0 if self.options.is_log else 1)
        for cell in group:
            look = self.looks[cell.label.policy]
            parts = compute_band(cell.outcome.regret, self.options.band)
            times, low, mean, high = (np.concatenate([start, part]) for part in (cell.outcome.times, *parts))
            [line] = panel.plot(times, mean, **style.line_options(cell.label.policy, self.looks))
            band = panel.fill_between(times, low, high, color=look.colour, alpha=0.25, linewidth=0)
            style.set_ids(panel, cell.label.policy, self.looks, line=line, band=band)
        panel.set_title(style.panel_title(group), loc="left")
        if self.options.is_log:
            panel.set_xscale("log")
            panel.set_xlim(left=int(group[0].outcome.times[0]) if group[0].outcome.times.size > 1 else 1)
            panel.set_xlim(right=group[0].horizon)
            panel.xaxis.set_minor_formatter(NullFormatter())
        else:
            panel.set_xlim(0, group[0].horizon)
            panel.xaxis.set_major_locator(MaxNLocator(4))
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(EngFormatter(sep=""))
        if not summary.has_many_changes(group[0]):
            word = "period" if "record" in group[0].outcome.spec else "change"
            mark_changes(panel, group[0].changes, word if label_changes else "")


def lowest_value(groups: Sequence[Sequence[Cell]]) -> float:
    """Return the lower end of a scale of regret: 0, or less if a policy won on recorded data."""
    return 1.05 * min(0.0, *(float(cell.mean.min()) for group in groups for cell in group))


def share_scale(panels: Sequence[Axes], count: int) -> None:
    """Give the panels of a row one scale, with labels at the left of each row."""
    for index, panel in enumerate(panels):
        if index:
            panel.sharey(panels[0])
            panel.tick_params(labelleft=index % count == 0)


def mark_changes(panel: Axes, times: Sequence[int], word: str) -> None:
    """Draw a dashed vertical at each change, with a label beside the first."""
    for time in times:
        panel.axvline(time, color=style.PALE, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0.5)
    if word and times:
        panel.annotate(
            word,
            (times[0], 1),
            xycoords=panel.get_xaxis_transform(),
            xytext=(3, -3),
            textcoords="offset points",
            rotation=90,
            va="top",
            fontsize=8.5,
            color="#666666",
        )


def draw_means(panel: Axes, cell: Cell) -> None:
    """Draw the means of the arms over time, thin, and on top the best at each time."""
    times, means = summary.sample_means(cell)
    best = means.reshape(len(means), -1, cell.arms).max(axis=2)  # of each group
    for heights, colour, width in ((means, style.PALE, 0.8), (best, style.INK, 1.3)):
        if cell.drifts:
            panel.plot(times, heights, color=colour, linewidth=width)
        else:  # the verticals of jumps would cover the panel
            left, right = (np.repeat(ends, heights.shape[1]) for ends in (times[:-1], times[1:]))
            panel.hlines(heights[:-1].ravel(), left, right, color=colour, linewidth=width)
    panel.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.set_xlabel("step")
