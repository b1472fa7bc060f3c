"""Suboptimal pulls of SW-KLUCB-CF beside the bounds of theory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FixedFormatter, FixedLocator, LogLocator, NullLocator

from maskedbandits import theory
from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits._util.intervals import mean_half_width
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.experiments.results import Cell
from maskedbandits.problems import Problem
from maskedbandits.report import style, summary
from maskedbandits.report.plots.plot import Plot, Rows, horizontal_places, new_panel, series_numbers
from maskedbandits.report.summary import Groups

OFFSET = 0.13  # between policies, as a share of the distance between corruptions
MARKERS = {"measured": "o", "published bound": "x", "proved bound": "_"}


@dataclass(frozen=True)
class PullCounts:
    """Suboptimal pulls of a run of a cell: the mean, half the width of its 95 % interval, and the bounds."""

    cell: Cell
    measured: float
    half_width: float  # NaN with a single run
    published: float
    proved: float


class PullsAndBounds(Plot):
    """Three marks for each cell on a log scale, corruptions side by side, and a line for all steps."""

    file_name = "pulls"
    heading = "Pulls against the bounds"

    @classmethod
    def applies_to(cls, groups: Groups) -> bool:
        """Return whether the bounds hold for any of the cells."""
        return any(has_bounds(cell) for group in groups for cell in group)

    @lockfree_cached_property
    def counts(self) -> list[PullCounts]:
        """The pulls and bounds of the cells that have bounds."""
        return [count_pulls(cell) for cell in self.cells if has_bounds(cell)]

    @property
    def settings(self) -> list[str]:
        """The corruptions."""
        return [group[0].label.setting for group in self.groups]

    @property
    def policies(self) -> list[str]:
        """The policies with bounds."""
        return summary.list_policies([[count.cell for count in self.counts]])

    @property
    def caption(self) -> str:
        """Describe the plot, and how often a published bound is exceeded."""
        above = [count for count in self.counts if count.measured > count.published]
        exceeded = f" Measured pulls exceed the published bound in {len(above)} of {len(self.counts)} cells."
        return (
            "Pulls of worse arms in a run of SW-KLUCB-CF: dots are measured (95 % intervals), crosses the published "
            "bound, bars the bound that is proved. The dashed line is all steps: a bound above it says nothing."
            + (exceeded if above else "")
        )

    def draw_figure(self) -> Figure:
        """Return the figure for files, with legends for colours and marks."""
        figure = Figure(figsize=self.options.choose_size(6.4, 4.4), layout="constrained")
        self.draw(figure.subplots())
        handles, names = style.legend_entries(self.policies, self.looks)
        markers = [Line2D([], [], color=style.INK, marker=marker, linestyle="") for marker in MARKERS.values()]
        style.add_legend(figure, self.title, [*handles, *markers], [*names, *MARKERS])
        return figure

    def draw_rows(self) -> Rows:
        """Return the panel for the page."""
        figure, panel = new_panel(6.0, 3.6)
        self.draw(panel)
        series = []
        for policy in self.policies:
            by_setting = {each.cell.label.setting: each for each in self.counts if each.cell.label.policy == policy}
            counts = [by_setting.get(setting) for setting in self.settings]
            halves = [math.nan if count is None else count.half_width for count in counts]
            for name, values in (
                ("measured", [math.nan if count is None else count.measured for count in counts]),
                ("published bound", [math.nan if count is None else count.published for count in counts]),
                ("proved bound", [math.nan if count is None else count.proved for count in counts]),
            ):
                shown_halves = halves if name == "measured" else None
                series.append(series_numbers(self.looks, policy, values, shown_halves, f", {name}"))
        places = horizontal_places(panel, list(range(len(self.settings))))
        numbers = {"places": places, "heads": self.settings, "series": series}
        return [("", [self.render_panel(figure, self.name, "", numbers)])]

    def draw(self, panel: Axes) -> None:
        """Draw the marks of all cells."""
        for count in self.counts:
            self.draw_marks(panel, count)
        panel.axhline(self.groups[0][0].horizon, color=style.PALE, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0.5)
        panel.set_yscale("log")
        panel.set_xlim(-0.5, len(self.settings) - 0.5)
        panel.xaxis.set_major_locator(FixedLocator(range(len(self.settings))))
        panel.xaxis.set_major_formatter(FixedFormatter(self.settings))
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if spread(self.counts) < 100 else (1,)))
        panel.yaxis.set_major_formatter(EngFormatter(sep=""))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.set_ylabel("pulls of worse arms")

    def draw_marks(self, panel: Axes, count: PullCounts) -> None:
        """Draw the marks of one cell."""
        policy, setting = count.cell.label.policy, self.settings.index(count.cell.label.setting)
        place = setting + OFFSET * (self.policies.index(policy) - (len(self.policies) - 1) / 2)
        colour = self.looks[policy].colour
        heights = (count.measured, count.published, count.proved)
        for (name, marker), height in zip(MARKERS.items(), heights, strict=True):
            size, width = (13, 2.2) if marker == "_" else (6, 1.6)
            shown = [height if 0.0 < height < math.inf else math.nan]  # a log scale has no other place
            [mark] = panel.plot([place], shown, marker, color=colour, markersize=size, markeredgewidth=width)
            style.set_ids(panel, policy, self.looks, **{f"{setting}-{name.replace(' ', '-')}": mark})
        half = 0.0 if math.isnan(count.half_width) else count.half_width
        bar = panel.vlines(place, max(count.measured - half, 0.5), max(count.measured + half, 0.5), color=colour)
        style.set_ids(panel, policy, self.looks, **{f"{setting}-bar": bar})


def has_bounds(cell: Cell) -> bool:
    """Return whether the bounds hold for a cell: SW-KLUCB-CF as in the paper, on bits that change now and then."""
    spec = cell.outcome.spec
    if spec["policy"] != "sw-klucb-cf" or not set(spec["parameters"]) <= {"window", "c"}:
        return False
    if {"record", "noise", "population"} & spec.keys() or cell.shares is not None:
        return False
    return isinstance(cell.window, int) and cell.window >= cell.arms and not summary.has_many_changes(cell)


def count_pulls(cell: Cell) -> PullCounts:
    """Return the measured pulls of a cell, and its bounds."""
    spec = cell.outcome.spec
    masks = [RandomizedResponse(p00, p11) for p00, p11 in zip(spec["p00"], spec["p11"], strict=True)]
    problem = Problem(spec["means"], spec["starts"], cell.horizon, masks)
    pulls = cell.outcome.suboptimal_pulls.sum(axis=1)
    window = int(spec["parameters"]["window"])
    return PullCounts(
        cell=cell,
        measured=float(pulls.mean()),
        half_width=float(mean_half_width(pulls)),
        published=float(theory.published_bound(problem, window).sum()),
        proved=float(theory.corrected_bound(problem, window, spec["parameters"].get("c", 3.0)).sum()),
    )


def spread(counts: Sequence[PullCounts]) -> float:
    """Return the ratio of the highest mark to the lowest."""
    heights = [height for count in counts for height in (count.measured, count.published, count.proved)]
    finite = [height for height in heights if 0.0 < height < math.inf]
    return max(finite, default=1.0) / min(finite, default=1.0)
