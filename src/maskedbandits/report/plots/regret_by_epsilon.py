"""Regret at the horizon against epsilon: the cost of privacy, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, FixedFormatter, FixedLocator, LogLocator, NullLocator

from maskedbandits.experiments.results import Cell
from maskedbandits.report import style
from maskedbandits.report.plots.plot import (
    Margins,
    Plot,
    Rows,
    horizontal_places,
    new_panel,
    series_numbers,
)
from maskedbandits.report.summary import Groups


class RegretByEpsilon(Plot):
    """Regret at the horizon against epsilon on log axes, with no privacy at the right."""

    file_name = "epsilon"
    heading = "Regret against ε"

    @classmethod
    def applies_to(cls, groups: Groups) -> bool:
        """Return whether there are several corruptions."""
        return len(groups) > 1

    @property
    def caption(self) -> str:
        """Describe the plot, and the policies that a log scale cannot show."""
        text = "What privacy costs: regret at the end against ε, both on log scales, with 95 % intervals."
        missing = [cell.label.policy for cell in self.cells if cell.mean[-1] <= 0.0]
        return f"{text} Left out where it lost nothing: {', '.join(dict.fromkeys(missing))}." if missing else text

    def draw_figure(self) -> Figure:
        """Return the figure for files."""
        figure = Figure(figsize=self.options.choose_size(6.4, 4.4), layout="constrained")
        self.draw(figure.subplots())
        style.add_legend(figure, self.title, *style.legend_entries(self.policies, self.looks))
        return figure

    def draw_rows(self) -> Rows:
        """Return the panel for the page."""
        figure, panel = new_panel(6.0, 3.8, Margins(bottom=0.72))
        self.draw(panel)
        series = []
        for policy in self.looks:
            cells = [next((cell for cell in group if cell.label.policy == policy), None) for group in self.groups]
            if any(cells):
                means = [math.nan if cell is None else float(cell.mean[-1]) for cell in cells]
                halves = [math.nan if cell is None else float(cell.half_width[-1]) for cell in cells]
                series.append(series_numbers(self.looks, policy, means, halves))
        heads = [style.panel_title(group) for group in self.groups]
        places = place_epsilons(self.groups)
        at = horizontal_places(panel, [places[epsilon_of(group[0])] for group in self.groups])
        numbers = {"places": at, "heads": heads, "series": series}
        return [("", [self.render_panel(figure, self.name, "", numbers)])]

    def draw(self, panel: Axes) -> None:
        """Draw the regret of every policy at the horizon against epsilon."""
        groups = self.groups
        places = place_epsilons(groups)
        positive = [float(cell.mean[-1]) for cell in self.cells if cell.mean[-1] > 0.0]
        floor = min(positive, default=1.0) / 2  # intervals end there, because a log scale has no 0
        for policy in self.looks:
            cells = [cell for cell in self.cells if cell.label.policy == policy]
            finite = [cell for cell in cells if math.isfinite(epsilon_of(cell))]
            self.draw_policy(panel, "finite", finite, places, floor)
            self.draw_policy(panel, "infinite", [cell for cell in cells if cell not in finite], places, floor)
        panel.set_yscale("log")
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(FixedLocator(list(places.values())))
        panel.xaxis.set_major_formatter(FixedFormatter([format_tick(epsilon) for epsilon in places]))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter(EngFormatter(sep=""))
        panel.yaxis.set_minor_locator(NullLocator())
        panel.set_xlabel("ε: more privacy to the left, less to the right")
        panel.set_ylabel(f"cumulative regret after {groups[0][0].horizon:,} {groups[0][0].unit}")

    def draw_policy(
        self, panel: Axes, name: str, cells: Sequence[Cell], places: dict[float, float], floor: float
    ) -> None:
        """Draw one policy at finite epsilons, or at infinity, which is not connected because it has no true place."""
        cells = [cell for cell in cells if cell.mean[-1] > 0.0]
        if not cells:
            return
        policy = cells[0].label.policy
        look = self.looks[policy]
        where = [places[epsilon_of(cell)] for cell in cells]
        mean = np.array([cell.mean[-1] for cell in cells])
        half = np.nan_to_num([cell.half_width[-1] for cell in cells])
        low, high = np.maximum(mean - half, floor), mean + half
        [line] = panel.plot(where, mean, color=look.colour, linestyle=look.linestyle, marker=look.marker)
        bars = panel.vlines(where, low, high, color=look.colour, linewidth=1.6)
        band = panel.fill_between(where, low, high, color=look.colour, alpha=0.25, linewidth=0)
        style.set_ids(panel, policy, self.looks, **{f"{name}-line": line, f"{name}-bars": bars, f"{name}-band": band})


def epsilon_of(cell: Cell) -> float:
    """Return the epsilon of a cell; a problem with a mask of its own has one corruption, and no such plot."""
    return math.nan if cell.label.epsilon is None else cell.label.epsilon


def place_epsilons(groups: Groups) -> dict[float, float]:
    """Return the place of each epsilon on the axis; infinity is one step beyond the last."""
    epsilons = [epsilon_of(group[0]) for group in groups]
    finite = sorted(epsilon for epsilon in epsilons if math.isfinite(epsilon))
    places = {epsilon: epsilon for epsilon in finite}
    if len(finite) < len(epsilons):
        step = (finite[-1] / finite[0]) ** (1 / (len(finite) - 1)) if len(finite) > 1 else 2.0
        places[math.inf] = (finite[-1] if finite else 1.0) * step
    return places


def format_tick(epsilon: float) -> str:
    """Return the label of a tick."""
    return "∞\n(no privacy)" if math.isinf(epsilon) else f"{epsilon:g}"
