"""Regret with context divided by regret without, against the number of visitors, on all problems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullLocator

from maskedbandits.report import style
from maskedbandits.report.plots.plot import Plot, Rows, new_panel
from maskedbandits.report.summary import ContextPair, ContextPairs, list_settings

MAX_COLUMNS = 3
MAX_RATIO = 1024.0  # that a panel shows, and its inverse
LABEL = "regret with context : without"


class ContextRatio(Plot):
    """A panel for each problem, on one scale, with a curve for each corruption."""

    file_name = "context"
    heading = "Regret with context beside regret without"
    panel_size = "three"

    def __init__(self, title: str, problems: ContextPairs) -> None:
        super().__init__("", title, [], {})
        self.problems = problems

    @property
    def caption(self) -> str:
        """Describe the plot."""
        first = self.problems[0][1][0]
        return (
            f"How many times the regret of “{first.plain.label.policy}” that of “{first.grouped.label.policy}” is, by "
            "the number of visitors so far, on log scales. Below 1× context has lost less; from a dot on it pays, the "
            "95 % intervals apart."
        )

    @property
    def colours(self) -> list[tuple[str, str]]:
        """The corruptions and their colours."""
        return [(setting, self.colour_of(setting)) for setting in list_settings(self.problems)]

    def colour_of(self, setting: str) -> str:
        """Return the colour of a corruption."""
        return style.COLOURS[list_settings(self.problems).index(setting) % len(style.COLOURS)]

    def draw_figure(self) -> Figure:
        """Return the figure for files."""
        problems = self.problems
        count = min(len(problems), MAX_COLUMNS)
        rows = -(-len(problems) // count)
        figure = Figure(figsize=(max(3.3 * count, 6.4), 3.0 * rows + 1.0), layout="constrained")
        panels = figure.subplots(rows, count, squeeze=False, sharey=True)
        for index, panel in enumerate(panels.flat):
            if index >= len(problems):
                panel.remove()
                continue
            problem, pairs = problems[index]
            self.draw(panel, pairs)
            title = panel.set_title("problem", loc="left", fontsize=10.5)
            room = figure.get_figwidth() / count - 0.5
            style.set_literal(title, style.fit_text(problem, room, title.get_fontproperties()))
            panel.set_xlabel("visitors so far" if index + count >= len(problems) else "")
        for row in panels:
            row[0].set_ylabel(LABEL)
        lines = [Line2D([], [], color=colour) for _, colour in self.colours]
        style.add_legend(figure, self.title, lines, [setting for setting, _ in self.colours])
        return figure

    def draw_rows(self) -> Rows:
        """Return the panels for the page."""
        panels = []
        for index, (problem, pairs) in enumerate(self.problems):
            figure, panel = new_panel(3.9, 2.9)
            self.draw(panel, pairs)
            panel.set(xlabel="visitors so far", ylabel=LABEL)
            panels.append(self.render_panel(figure, f"{self.name}-{index}", problem))
        return [("", panels)]

    def draw(self, panel: Axes, pairs: Sequence[ContextPair]) -> None:
        """Draw the ratio on one problem, with a dot from which on context pays."""
        low, high = self.limits()
        panel.axhspan(low, 1.0, color="#009E73", alpha=0.12, linewidth=0)
        panel.axhline(1.0, color=style.INK, linewidth=1.2)
        for pair in pairs:
            times, colour = pair.grouped.outcome.times, self.colour_of(pair.grouped.label.setting)
            panel.plot(times, np.clip(pair.ratio, low, high), color=colour)
            if (first := pair.pays_from) is not None:
                index = int(np.searchsorted(times, first))
                panel.plot([first], [np.clip(pair.ratio[index], low, high)], "o", color=colour, markersize=7)
        panel.set_xscale("log")
        panel.set_yscale("log", base=2)
        panel.set_ylim(low, high)
        panel.set_xlim(int(pairs[0].grouped.outcome.times[0]), pairs[0].grouped.horizon)
        panel.xaxis.set_major_locator(LogLocator())
        panel.xaxis.set_major_formatter(EngFormatter(sep=""))
        panel.xaxis.set_minor_locator(NullLocator())
        panel.yaxis.set_major_locator(LogLocator(base=4))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_ratio(value)))
        panel.yaxis.set_minor_locator(NullLocator())
        for height, text, side in ((0.98, "context costs", "top"), (0.03, "context pays", "bottom")):
            panel.text(0.03, height, text, transform=panel.transAxes, va=side, fontsize=9.5, color="#666666")

    def limits(self) -> tuple[float, float]:
        """Return the ends of the scale, the same in all panels."""
        ratios = np.concatenate([pair.ratio for _, pairs in self.problems for pair in pairs])
        low = 2.0 ** np.floor(np.log2(max(min(float(ratios.min()), 0.5), 1.0 / MAX_RATIO)))
        high = 2.0 ** np.ceil(np.log2(min(max(float(ratios.max()), 2.0), MAX_RATIO)))
        return float(low), float(high)


def format_ratio(value: float) -> str:
    """Return the label of a tick."""
    return f"{value:g}×" if value >= 1.0 else f"1/{1.0 / value:g}×"
