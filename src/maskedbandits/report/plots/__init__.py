"""Plots of results: each is one class in one file, with a figure for papers, panels for the page, and a caption."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from maskedbandits.report.plots.arm_shares import ArmShares
from maskedbandits.report.plots.context_ratio import ContextRatio
from maskedbandits.report.plots.plot import Panel, Plot
from maskedbandits.report.plots.pulls_and_bounds import PullsAndBounds
from maskedbandits.report.plots.regret_by_epsilon import RegretByEpsilon
from maskedbandits.report.plots.regret_by_group import RegretByGroup
from maskedbandits.report.plots.regret_over_time import RegretOverTime
from maskedbandits.report.style import USUAL, FigureOptions, Looks
from maskedbandits.report.summary import Groups

__all__ = ["PLOTS", "ContextRatio", "Panel", "Plot", "build_plots"]

# The plots of a problem, in the order of the page. A new plot is a file beside this one and an entry here.
PLOTS: tuple[type[Plot], ...] = (RegretOverTime, RegretByEpsilon, RegretByGroup, ArmShares, PullsAndBounds)


def build_plots(
    prefix: str,
    problem: str,
    groups: Groups,
    looks: Looks,
    arm_names: Sequence[str] = (),
    options: FigureOptions = USUAL,
) -> Iterator[Plot]:
    """Yield the plots of a problem that apply to its cells."""
    for plot in PLOTS:
        if plot.applies_to(groups):
            yield plot(prefix, problem, groups, looks, arm_names, options)
