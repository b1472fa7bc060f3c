"""Figures: they show every policy under its own name, whatever it is, and how the world changes."""

from __future__ import annotations

import dataclasses
import math
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from fork_server import ForkServer
from helpers.boundaries import write_figures_as
from made_up import HORIZON, changing, named, outcome, results, sinusoid
from maskedbandits import report
from maskedbandits.experiments.results import Cell, Label, Results
from maskedbandits.report import style, summary
from maskedbandits.report.plots.arm_shares import ArmShares
from maskedbandits.report.plots.regret_by_epsilon import RegretByEpsilon, place_epsilons
from maskedbandits.report.plots.regret_over_time import RegretOverTime

# What people call their policies.
FORMULAS = ["costs $5", "$x_$ and $y$", "$\\frac{", "_hidden", "a^b_c^", "\\alpha \\"]
SCRIPTS = ["滑动窗口", "🎉 👩‍👩‍👧 ❤️", "שלום עולם", "مرحبا", "e\u0301 \u0335", "a\ud800"]
ORDERS = ["a\x1b[2J\x07", "two\nlines", "a \u202e b", " "]
LONG = ["x" * 3000, "W " * 2000]


def drawn(made: Results) -> list[Figure]:
    """The figures of regret over time, and against epsilon if there are several."""
    [(problem, groups)] = summary.group_by_problem(made.cells)
    looks = style.assign_looks([label.policy for label in made.manifest.labels])
    with style.use_style():
        plots = [plot for plot in (RegretOverTime, RegretByEpsilon) if plot.applies_to(groups)]
        return [plot("", problem, groups, looks).draw_figure() for plot in plots]


def legend(figure: Figure) -> list[str]:
    """What a figure's legend says: the title, then the policies."""
    [shown] = figure.legends
    return [text.get_text() for text in (shown.get_title(), *shown.get_texts())]


@pytest.mark.parametrize("names", [FORMULAS, SCRIPTS, ORDERS, LONG], ids=["formulas", "scripts", "orders", "long"])
def test_any_name_is_drawn_without_warnings(names: list[str], quick_fonts: None) -> None:
    made = named(names, " ".join(names))
    [(problem, groups)] = summary.group_by_problem(made.cells)
    looks = style.assign_looks(names)
    with warnings.catch_warnings(), style.use_style():
        warnings.simplefilter("error")
        for plot in (RegretOverTime("", problem, groups, looks), ArmShares("", problem, groups, looks)):
            figure = plot.draw_figure()
            assert all(style.render(figure, kind) for kind in ("pdf", "svg"))


@pytest.mark.parametrize("name", [*FORMULAS, "שלום עולם"])
def test_names_are_drawn_literally(name: str) -> None:
    [figure] = drawn(named([name, "other"], name))
    assert legend(figure) == [name, name, "other"]
    [shown] = figure.legends
    assert not any(text.get_parse_math() for text in (shown.get_title(), *shown.get_texts()))


def test_names_stay_within_the_figure() -> None:
    for figure in drawn(named(["W" * 500, "a " * 500, "short"], "M" * 500, (1.0, math.inf))):
        [shown] = figure.legends
        for text in (shown.get_title(), *shown.get_texts()):
            assert text.get_window_extent().x1 <= figure.bbox.x1
        assert [name[-1] for name in legend(figure)] == ["…", "…", "…", "t"]


def test_equal_names_are_numbered() -> None:
    [figure] = drawn(named(["x" * 500 + "a", "other", "x" * 500 + "b", "滑", "动"]))
    first, other, second, third, fourth = legend(figure)[1:]
    assert other == "other"
    assert first[:5] == "(1) x"
    assert second[:5] == "(3) x"
    assert (third, fourth) == ("(4) □", "(5) □")


def test_many_policies_leave_room_for_the_curves() -> None:
    [figure] = drawn(named([f"a policy with a rather long name, number {number}" for number in range(40)]))
    [panel] = figure.axes
    assert panel.get_position().height * figure.get_figheight() > 1.5  # inches
    assert figure.legends[0].get_window_extent().y0 >= panel.get_window_extent().y1


def test_short_names_share_a_line() -> None:
    assert style.count_legend_columns([1.0, 1.0, 1.0], room=5.8) == 3
    assert style.count_legend_columns([2.6, 1.5, 1.0], room=6.0) == 2
    assert style.count_legend_columns([9.0, 9.0], room=6.0) == 1


def test_font_has_all_letters_in_use() -> None:
    ours = "ε = ∞, no privacy × – … □ ± " + "".join(map(chr, range(32, 127)))
    assert style.replace_missing_glyphs(ours) == ours


# How the world changes


def test_few_changes_are_marked() -> None:
    [figure] = drawn(changing([[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]]))
    [panel] = figure.axes
    verticals = [line.get_xdata()[0] for line in panel.lines if line.get_linestyle() == "--"]  # type: ignore[index]
    assert verticals == [333, 666]


@pytest.mark.parametrize("means", [sinusoid(), np.array([[0.9, 0.1], [0.1, 0.9]] * 20)], ids=["drift", "jumps"])
@pytest.mark.parametrize("epsilons", [(1.0,), (0.5, 1.0, 2.0, 4.0, 8.0, math.inf)], ids=["one", "two rows"])
def test_means_are_drawn_for_many_changes(means: np.ndarray, epsilons: tuple[float, ...]) -> None:
    figure = drawn(changing(means, epsilons=epsilons))[0]
    columns = min(len(epsilons), 4)
    assert len(figure.axes) == len(epsilons) + columns
    for panel in figure.axes:
        assert len(panel.lines) + len(panel.collections) <= 4, "no line for every change"
    below = figure.axes[-1]
    assert below.get_xlim() == figure.axes[0].get_xlim() == (0, HORIZON)
    low, high = below.get_ylim()
    assert low < means.min() < means.max() < high
    assert figure.axes[-columns].get_ylabel() == "means"


def test_drift_is_drawn_as_means() -> None:
    [figure] = drawn(changing(sinusoid()))
    one, other, best = figure.axes[1].lines
    assert np.asarray(one.get_ydata())[:-1] == pytest.approx(sinusoid()[:, 0])
    assert np.asarray(other.get_ydata())[:-1] == pytest.approx(sinusoid()[:, 1])
    assert np.asarray(best.get_ydata())[:-1] == pytest.approx(sinusoid().max(axis=1))


def test_shared_scale_contains_all_curves() -> None:
    # the curves of the second panel are higher than those of the first, by less than what parts the scales
    cells = [Cell(Label(str(e), "one", "policy", e), outcome(scale)) for e, scale in ((1.0, 1.0), (math.inf, 2.0))]
    made = named(["policy"])
    figure = drawn(Results(made.manifest, tuple(cells)))[0]
    for panel, cell in zip(figure.axes, cells, strict=True):
        low, high = panel.get_ylim()
        assert low == 0
        assert high > float(cell.mean[-1] + cell.half_width[-1])


def test_negative_regret_is_within_panel() -> None:
    won = dataclasses.replace(outcome(1.0), regret=-outcome(1.0).regret)
    cells = [Cell(Label(policy, "one", policy, 1.0), each) for policy, each in (("a", won), ("b", outcome(1.0)))]
    made = Results(named(["a", "b"]).manifest, tuple(cells))
    assert drawn(made)[0].axes[0].get_ylim()[0] < won.regret.mean(axis=0).min()


def test_zero_regret_is_left_out_of_log_scale() -> None:
    nothing = dataclasses.replace(outcome(1.0), regret=0.0 * outcome(1.0).regret)
    cells = [
        Cell(Label(f"{policy}{e}", "one", policy, e), each)
        for e in (1.0, 2.0)
        for policy, each in (("a", nothing), ("b", outcome(1.0)))
    ]
    panel = drawn(Results(named(["a", "b"]).manifest, tuple(cells)))[1].axes[0]
    assert {str(part.get_gid()).split("-")[3] for part in panel.get_children() if part.get_gid()} == {"1"}
    assert panel.get_ylim()[0] > 0


# Looks


def test_many_policies_look_different() -> None:
    look = style.assign_looks([f"policy {number}" for number in range(20)])
    assert len(set(look.values())) == 20


@pytest.mark.parametrize(
    ("epsilons", "places"),
    [
        ([0.5, 1, 2, math.inf], [0.5, 1, 2, 4]),
        ([1, math.inf], [1, 2]),
        ([math.inf], [2]),
        ([0.5, 1], [0.5, 1]),
    ],
)
def test_infinity_is_one_step_beyond_last_epsilon(epsilons: list[float], places: list[float]) -> None:
    cells = [[Cell(Label("", "", "", epsilon), outcome(1.0))] for epsilon in epsilons]
    assert list(place_epsilons(cells).values()) == pytest.approx(places)


def test_drawing_restores_matplotlib_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_figures_as(monkeypatch, "svg")
    before = dict(mpl.rcParams)
    report.write_report(results(epsilons=(1.0,)), tmp_path)
    assert dict(mpl.rcParams) == before


def test_every_series_has_a_unique_id() -> None:
    for figure in drawn(results()):
        ids = [part.get_gid() for panel in figure.axes for part in panel.get_children() if part.get_gid()]
        assert len(set(ids)) == len(ids)
        assert {str(found).split("-")[3] for found in ids} == {"0", "1"}
        assert {str(found).split("-")[1] for found in ids} == {str(place) for place in range(len(figure.axes))}


def test_wide_interval_ends_at_floor_of_log_scale() -> None:
    runs = np.array([[0.0] * 10, [40.0] * 10])  # 20 on average, and an interval far below 0
    wide = dataclasses.replace(outcome(1.0, runs=2), regret=runs)
    cells = [Cell(Label(str(e), "one", "policy", e), wide) for e in (1.0, 2.0)]
    panel = drawn(Results(named(["policy"]).manifest, tuple(cells)))[1].axes[0]
    assert panel.get_ylim()[0] > 5
    [band] = [part for part in panel.collections if "band" in str(part.get_gid())]
    assert min(float(np.asarray(path.vertices)[:, 1].min()) for path in band.get_paths()) == 10


def test_pyplot_is_not_imported(fork_server: ForkServer) -> None:
    script = "import sys, maskedbandits.report; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert fork_server.run("-c", script).returncode == 0
