"""Summaries, frames and plots of simulations, against plain arithmetic."""

import math
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from maskedbandits import Problem, RandomizedResponse, Simulation, compare, make_contextual, simulate
from maskedbandits.errors import UserError
from maskedbandits.problems import ContextualProblem
from maskedbandits.simulation.results import RegretFormat

RR = RandomizedResponse.from_epsilon(1.0)
PROBLEM = Problem([[0.2, 0.7]], [0], 400, RR)
STUDENT_95 = 2.7764451051977987  # 97.5 % quantile of Student's t with 4 degrees of freedom
FIVE = [3.0, 5.0, 4.0, 8.0, 10.0]


def build_result(last: list[float], policy: str = "mine") -> Simulation:
    """Return results with two checkpoints, the second with these regrets."""
    regret = np.array([[value / 2, value] for value in last])
    pulls = np.tile([30, 70], (len(last), 1))
    return Simulation(np.array([50, 100]), regret, pulls, pulls, pulls[:2], seconds=0.5, policy=policy)


@pytest.fixture(autouse=True)
def _no_screen() -> None:
    mpl.use("agg")


def test_summary_is_plain_arithmetic() -> None:
    summary = build_result(FIVE).summary()
    mean = sum(FIVE) / 5
    spread = math.sqrt(sum((value - mean) ** 2 for value in FIVE) / 4)
    half = STUDENT_95 * spread / math.sqrt(5)
    assert summary.mean == mean
    assert summary.interval == pytest.approx((mean - half, mean + half), rel=1e-12)
    assert summary.median == 5.0
    assert summary.percentile_95 == pytest.approx(9.6)  # between 8 and 10, at 0.8
    assert summary.pulls.tolist() == [30.0, 70.0]


def test_interval_covers_the_mean_as_often_as_stated() -> None:
    """Of 2,000 samples of five normal numbers, 90 % intervals miss about 200 means; 5 deviations are 67."""
    samples = np.random.default_rng(1).normal(size=(2000, 5))
    found = [build_result(row.tolist()).summary(0.9).interval for row in samples]
    missed = sum(not low <= 0.0 <= high for low, high in found)
    assert abs(missed - 200) < 67


def test_interval_of_a_single_run_is_unknown() -> None:
    result = build_result([4.0])
    assert all(map(math.isnan, result.summary().interval))
    assert "– to –" in repr(result)


def test_repr_is_three_lines() -> None:
    text = repr(build_result(FIVE))
    assert len(text.splitlines()) == 3
    for word in ("5 runs of 100 steps, 2 arms", "mine", "6.0", "1 thousand steps/s"):
        assert word in text


def test_html_escapes_names() -> None:
    text = build_result(FIVE, policy="<b>&").summary()
    assert "<b>&" in repr(text)
    assert "&lt;b&gt;&amp;" in build_result(FIVE, policy="<b>&")._repr_html_()


def test_frame_has_a_row_for_each_run_and_checkpoint() -> None:
    result = simulate(PROBLEM, "klucb-cf", runs=3, checkpoints=[100, 400])
    frame = result.frame("pandas")
    assert list(frame.columns) == ["policy", "run", "checkpoint", "regret"]
    wide = frame.pivot(index="run", columns="checkpoint", values="regret")
    assert np.array_equal(wide.to_numpy(), result.regret)
    assert set(frame["policy"]) == {"klucb-cf"}


def test_frame_has_a_column_for_each_group() -> None:
    problem = ContextualProblem([[[0.2, 0.8], [0.8, 0.2]]], [0], 60, [0.5, 0.5], RR)
    result = simulate(problem, make_contextual("auto", groups=2, arms=2, epsilon=1), runs=2, checkpoints=3)
    frame = result.frame("pandas")
    groups = frame[["regret_group_0", "regret_group_1"]].to_numpy()
    assert np.allclose(groups.sum(axis=1), frame["regret"])
    assert "2 groups x 2 arms" in repr(result)


def test_unknown_library_is_refused() -> None:
    with pytest.raises(UserError, match="panda"):
        build_result(FIVE).frame("panda")


@pytest.mark.parametrize(
    ("band", "ends"),
    [("quantile", [3.2, 9.6]), ("std", [6 - math.sqrt(8.5), 6 + math.sqrt(8.5)])],
)
def test_band_is_what_it_says(band: Any, ends: list[float]) -> None:
    axes = build_result(FIVE).plot(band=band, level=0.9)
    heights = np.asarray(axes.collections[0].get_paths()[0].vertices)[:, 1]
    assert [heights.min() * 2, heights.max()] == pytest.approx([ends[0], ends[1]])
    assert np.asarray(axes.lines[0].get_ydata())[-1] == 6.0


def test_plot_draws_on_given_axes() -> None:
    axes = build_result(FIVE).plot(log=True, label="name")
    again = build_result(FIVE).plot(axes, band=None, linestyle=":")
    assert again is axes
    assert (axes.get_xscale(), axes.get_ylabel(), len(axes.lines), len(axes.collections)) == (
        "log",
        "cumulative regret",
        2,
        1,
    )


WRONG_PLOTS: list[tuple[dict[str, Any], str]] = [
    ({"band": "sd"}, "band = 'sd': give one of 'ci'"),
    ({"band": []}, "band = "),
    ({"level": 1.0}, "level = 1.0"),
    ({"level": "high"}, "level = 'high'"),
    ({"ax": "quantile"}, "write band='quantile'"),
    ({"ax": 3}, "ax = 3: give one Axes"),
    ({"ax": np.array(["several", "axes"])}, "ax = .*: give one Axes"),
]


@pytest.mark.parametrize(("given", "complaint"), WRONG_PLOTS, ids=lambda value: str(value)[:30])
def test_wrong_plot_is_one_line_and_no_figure(given: dict[str, Any], complaint: str) -> None:
    open_figures = plt.get_fignums()
    for plot in (build_result(FIVE).plot, compare(PROBLEM, ["uniform"], runs=2).plot):
        with pytest.raises(UserError, match=complaint) as caught:
            plot(**given)
        assert "\n" not in str(caught.value)
    assert plt.get_fignums() == open_figures


@pytest.mark.parametrize(
    "line", [{"colour": "red"}, {"linestyle": "wavy"}, {"color": "no colour"}, {"lw": 1, "linewidth": 2}]
)
def test_wrong_option_of_a_line_is_refused(line: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(line))}.*options of matplotlib"):
        build_result(FIVE).plot(**line)


def test_options_of_a_line_may_be_abbreviated() -> None:
    [drawn] = build_result(FIVE).plot(c="red", lw=3, label="thick").lines
    assert (drawn.get_color(), drawn.get_linewidth(), drawn.get_label()) == ("red", 3, "thick")


def test_numbers_of_a_table_have_equal_digits() -> None:
    assert [RegretFormat([3.0, 999.9])(value) for value in (3.0, 999.9, math.nan)] == ["3.0", "999.9", "–"]
    assert [RegretFormat([3.0, 1000.0])(value) for value in (3.0, 12345.6)] == ["3", "12,346"]


def test_frames_are_those_of_pandas() -> None:
    assert isinstance(build_result(FIVE).frame("pandas"), pd.DataFrame)


def test_dataset_has_the_arrays_by_name() -> None:
    pytest.importorskip("xarray")
    result = simulate(PROBLEM, "auto", runs=3, checkpoints=[100, 400], trace=True)
    dataset = result.to_xarray()
    assert dict(dataset.sizes) == {"run": 3, "time": 2, "arm": 2}
    assert dataset.regret.sel(time=400).values.tolist() == result.regret[:, 1].tolist()
    assert dataset.run_pulls.sel(run=1, time=400).values.tolist() == result.pulls[1].tolist()
    assert dataset.switches.dims == ("run",)
    assert dataset.attrs["policy"] == "auto"


def test_dataset_of_groups_has_their_axis() -> None:
    pytest.importorskip("xarray")
    problem = ContextualProblem([[0.9, 0.1], [0.2, 0.8]], [0], 200)
    result = simulate(problem, make_contextual("auto", groups=2, arms=2, epsilon=2.0), runs=2, checkpoints=4)
    dataset = result.to_xarray()
    assert dataset.pulls.dims == ("run", "group", "arm")
    assert dataset.group_regret.dims == ("run", "time", "group")
    assert "switches" not in dataset


def test_dataset_without_xarray_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskedbandits._util.extras.list_missing", lambda modules: list(modules))
    with pytest.raises(UserError, match="pip install xarray"):
        build_result(FIVE).to_xarray()


def test_checkpoints_before_horizon_are_named() -> None:
    problem = Problem([0.9, 0.4], [0], 1000, RandomizedResponse(0.9, 0.9))
    result = simulate(problem, "uniform", runs=2, checkpoints=[5, 10])
    assert result.horizon == 1000 == result.pulls[0].sum()
    assert (result.summary().step, result.summary().horizon) == (10, 1000)
    assert "2 runs of 1,000 steps" in repr(result)
    assert "regret at step 10" in repr(result.summary())
    compared = compare(problem, ["uniform", "oracle"], runs=2, checkpoints=[5, 10])
    assert repr(compared).startswith("2 runs of 1,000 steps, regret at step 10\n")
