"""The share of each arm in the pulls over time, and above it the best arm."""

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
from maskedbandits.report.plots.plot import Margins, Plot, Rows, new_panel
from maskedbandits.report.summary import Groups

OTHER_COLOUR = "#b5b5b5"  # of arms without a colour of their own
MAX_INTERVALS, MIN_INTERVALS = 60, 12
TOTAL_INTERVALS = 960  # of all panels together, to keep the page small

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ArmShares(Plot):
    """A row of small panels for each policy, one for each corruption."""

    file_name = "shares"
    heading = "Which arms were pulled"
    panel_size = "small"

    @classmethod
    def applies_to(cls, groups: Groups) -> bool:
        """Return whether all cells know when arms were pulled; those of earlier versions and with groups do not."""
        if groups[0][0].shares is not None:
            return False
        return all(cell.outcome.pulls_over_time is not None for group in groups for cell in group)

    @property
    def caption(self) -> str:
        """Describe the plot."""
        first = self.groups[0][0]
        has_marks = 0 < len(first.changes) <= summary.MAX_CHANGES
        verticals = f" Dashed verticals are {summary.describe_marks(first)}." if has_marks else ""
        return (
            "The share of each arm in the pulls between checkpoints, over all runs. The strip above has the colour of "
            f"the arm that was best.{verticals}"
        )

    @property
    def policies(self) -> Sequence[str]:
        """No curves of policies can be hidden."""
        return []

    @property
    def colours(self) -> list[tuple[str, str]]:
        """The names of the arms, or their numbers, and their colours."""
        arms = self.list_arms()
        names = [self.arm_names[arm] if self.arm_names else f"arm {arm}" for arm in arms]
        entries = list(zip(names, style.COLOURS, strict=False))
        return entries + [("other arms", OTHER_COLOUR)] * (len(arms) < self.groups[0][0].arms)

    def list_arms(self) -> list[int]:
        """Return the arms with a colour of their own: all, or those with the most pulls, in their order."""
        pulls = sum(cell.outcome.pulls.sum(axis=0) for cell in self.cells)
        arms, colours = np.argsort(-np.asarray(pulls), kind="stable"), len(style.COLOURS)
        return sorted(int(arm) for arm in (arms if arms.size <= colours else arms[: colours - 1]))

    def draw_figure(self) -> Figure:
        """Return the figure for files."""
        policies = summary.list_policies(self.groups)
        columns = self.options.count_columns(len(self.groups))
        rows = -(-len(self.groups) // columns)
        height = 0.8 + len(policies) * (0.3 + 1.5 * rows)
        figure = Figure(figsize=(self.options.choose_width(max(2.4 * columns, 6.4)), height), layout="constrained")
        parts = figure.subfigures(len(policies), 1, squeeze=False)
        for policy, part in zip(policies, parts.flat, strict=True):
            panels = part.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
            cells = [cell for cell in self.cells if cell.label.policy == policy]
            for panel in panels.flat[len(cells) :]:
                panel.remove()
            for panel, cell in zip(panels.flat, cells, strict=False):
                self.draw(panel, cell)
                panel.set_title(cell.label.setting, loc="left", fontsize=9.5, fontweight="normal")
            heading = part.suptitle("policy", x=0.01, ha="left", fontsize=10.5, fontweight="bold")
            room = figure.get_figwidth() - style.MARGIN_INCHES
            style.set_literal(heading, style.fit_text(policy, room, heading.get_fontproperties()))
        patches = [Patch(facecolor=colour) for _, colour in self.colours]
        style.add_legend(figure, self.title, patches, [name for name, _ in self.colours])
        return figure

    def draw_rows(self) -> Rows:
        """Return the panels for the page."""
        rows = []
        for number, policy in enumerate(summary.list_policies(self.groups)):
            row = []
            for index, cell in enumerate(cell for cell in self.cells if cell.label.policy == policy):
                figure, panel = new_panel(2.9, 1.5, Margins(0.34, 0.24, 0.14, 0.06))
                self.draw(panel, cell)
                panel.tick_params(labelsize=8)
                row.append(
                    self.render_panel(
                        figure,
                        f"{self.name}-{number}-{index}",
                        cell.label.setting,
                        detail=f"{policy}, {cell.label.setting}",
                    )
                )
            rows.append((policy, row))
        return rows

    def draw(self, panel: Axes, cell: Cell) -> None:
        """Draw the shares on top of each other, and above them a strip in the colour of the best arm."""
        arms, intervals = self.list_arms(), count_intervals(len(self.cells))
        ends, shares = compute_shares(cell, intervals)
        others = [arm for arm in range(shares.shape[1]) if arm not in arms]
        heights = [*(shares[:, arm] for arm in arms), *([shares[:, others].sum(axis=1)] if others else [])]
        colours = [*style.COLOURS[: len(arms)], OTHER_COLOUR]
        floor = np.zeros(ends.size - 1)
        for height, colour in zip(heights, colours, strict=False):
            panel.stairs(floor + height, ends, baseline=floor, fill=True, facecolor=colour, edgecolor="none")
            floor = floor + height
        for start, end, arm in list_best_arms(cell):
            colour = colours[arms.index(arm)] if arm in arms else OTHER_COLOUR
            panel.fill_between([start, end], 1.05, 1.13, color=colour, linewidth=0)
        panel.set_xlim(0, cell.horizon)
        panel.set_ylim(0, 1.13)
        panel.grid(visible=False)
        panel.yaxis.set_major_locator(FixedLocator([0, 0.5, 1]))
        panel.xaxis.set_major_locator(MaxNLocator(4))
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        if not summary.has_many_changes(cell):
            for time in cell.changes:
                panel.axvline(time, color=style.INK, linewidth=0.9, linestyle=(0, (4, 3)))


def count_intervals(panels: int) -> int:
    """Return the number of intervals of time in each of ``panels`` panels."""
    return int(np.clip(TOTAL_INTERVALS // panels, MIN_INTERVALS, MAX_INTERVALS))


def compute_shares(cell: Cell, max_intervals: int) -> tuple[Ints, Floats]:
    """Return the ends of intervals, from 0 on, and the share of each arm in each interval."""
    pulls = np.asarray(cell.outcome.pulls_over_time)
    count = min(max_intervals, pulls.shape[0])
    last = np.arange(1, count + 1) * pulls.shape[0] // count - 1
    ends = np.append(0, cell.outcome.times[last])
    added = np.diff(pulls[last], axis=0, prepend=0)
    return ends, added / np.maximum(added.sum(axis=1, keepdims=True), 1)  # on a log an interval may have no pulls


def list_best_arms(cell: Cell) -> list[tuple[int, int, int]]:
    """Return intervals of time with their best arm; the first one of several."""
    best = cell.means.argmax(axis=1)
    starts = np.array([0, *cell.changes])
    is_new = np.append(True, np.diff(best) != 0)
    ends = np.append(starts[is_new][1:], cell.horizon)
    return [(int(a), int(b), int(arm)) for a, b, arm in zip(starts[is_new], ends, best[is_new], strict=True)]
