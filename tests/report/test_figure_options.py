"""Figures as a reader wants them: bands, a logarithmic scale, the width of a column, a dark variant."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import call
from made_up import results
from maskedbandits._util.curves import Band
from maskedbandits.report import style, summary
from maskedbandits.report.plots import PLOTS, Plot
from maskedbandits.report.plots.regret_over_time import RegretOverTime
from maskedbandits.report.style import FigureOptions
from maskedbandits.report.tables import choose_speed_unit
from small_experiment import run, write


def build_plots(options: FigureOptions) -> list[Plot]:
    made = results()
    [(problem, groups)] = summary.group_by_problem(made.cells)
    looks = style.assign_looks([label.policy for label in made.manifest.labels])
    return [plot("", problem, groups, looks, (), options) for plot in PLOTS if plot.applies_to(groups)]


def draw_over_time(options: FigureOptions) -> tuple[RegretOverTime, Any]:
    [plot] = [plot for plot in build_plots(options) if isinstance(plot, RegretOverTime)]
    with style.use_style(options):
        return plot, plot.draw_figure()


@pytest.mark.parametrize("band", ["ci", "quantile", "std", None])
def test_band_is_that_of_the_runs(band: Band | None) -> None:
    plot, figure = draw_over_time(FigureOptions(band))
    cell = plot.groups[0][0]
    last = cell.outcome.regret[:, -1]
    ends = {
        "ci": last.mean() + cell.half_width[-1],
        "quantile": np.quantile(last, 0.975),
        "std": last.mean() + last.std(ddof=1),
        None: last.mean(),
    }
    words = {"ci": "95 % intervals", "quantile": "95 % of the runs", "std": "standard deviation", None: "means"}
    [path] = figure.axes[0].collections[0].get_paths()
    at_the_end = path.vertices[path.vertices[:, 0] == cell.horizon, 1]
    assert at_the_end.max() == pytest.approx(ends[band])
    assert words[band] in plot.caption


def test_time_has_a_logarithmic_scale() -> None:
    plot, figure = draw_over_time(FigureOptions(is_log=True))
    cell = plot.groups[0][0]
    assert figure.axes[0].get_xscale() == "log"
    assert figure.axes[0].get_xlim() == (cell.outcome.times[0], cell.horizon)
    assert draw_over_time(FigureOptions())[1].axes[0].get_xscale() == "linear"


def test_axis_says_cumulative_regret() -> None:
    assert draw_over_time(FigureOptions())[1].axes[0].get_ylabel() == "cumulative regret"


def test_figures_fit_a_column() -> None:
    options = FigureOptions(is_column=True)
    for plot in build_plots(options):
        with style.use_style(options):
            figure: Any = plot.draw_figure()
        assert figure.get_figwidth() == style.COLUMN_INCHES
        assert figure.get_tightbbox(figure.canvas.get_renderer()).width <= 1.02 * style.COLUMN_INCHES


def test_svg_has_a_dark_variant_of_each_colour() -> None:
    _, figure = draw_over_time(FigureOptions())
    svg = style.render(figure, "svg").decode()
    [sheet] = re.findall(r"@media screen and .prefers-color-scheme: dark. {.*?\n}", svg, re.DOTALL)
    used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg.replace(sheet, "")))
    assert len(used) >= 4
    for colour in used - {style.PALE}:  # a grey that suits both
        assert f': {colour}"]' in sheet
    assert svg.count("<style") == svg.count("</style>")


def test_speeds_of_a_column_share_a_unit() -> None:
    assert [choose_speed_unit([4e6, 1.25e7])(speed) for speed in (4e6, 1.25e7)] == ["4.0 M", "12.5 M"]
    assert [choose_speed_unit([4e6, 1200])(speed) for speed in (4e6, 1200)] == ["4,000.0 k", "1.2 k"]
    assert choose_speed_unit([9.0, 4000])(9.0) == "9"


def test_regrets_of_a_column_have_the_same_decimals() -> None:
    assert summary.count_decimals([3.0, 999.4, math.nan]) == 1
    assert summary.count_decimals([3.0, 1000.0]) == 0
    assert summary.format_interval(3.25, 0.5, 0) == "3 ± 0"
    assert summary.format_interval(1234.5, 7.25) == "1,234 ± 7"


def test_report_takes_the_options(tmp_path: Path) -> None:
    run(write(tmp_path), tmp_path / "out")
    done = call("report", tmp_path / "out", "--band", "std", "--log", "--width", "column", "--problem", "still")
    assert done.exit_code == 0, done.output
    assert "standard deviation" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    refused = call("report", tmp_path / "out", "--csv", "--log")
    assert refused.exit_code != 0
    assert "--log" in refused.stderr
