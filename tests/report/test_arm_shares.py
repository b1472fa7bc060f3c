"""Shares of the arms: what was pulled between checkpoints, counted by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from made_up import changing, named
from maskedbandits.experiments.results import Cell
from maskedbandits.report import style
from maskedbandits.report.plots.arm_shares import ArmShares, compute_shares, count_intervals, list_best_arms


def pulled(chosen: list[list[int]], times: list[int], arms: int) -> Cell:
    """A cell in whose runs these arms were chosen, step by step."""
    means = np.linspace(0.1, 0.9, arms)
    [cell] = changing([means.tolist(), means[::-1].tolist()], [0, len(chosen[0]) // 2]).cells
    over_time = np.array([[sum(run[:time].count(arm) for run in chosen) for arm in range(arms)] for time in times])
    totals = np.array([[run.count(arm) for arm in range(arms)] for run in chosen])
    outcome = dataclasses.replace(
        cell.outcome,
        spec={**cell.outcome.spec, "horizon": len(chosen[0])},
        times=np.array(times),
        pulls=totals,
        pulls_over_time=over_time,
    )
    return Cell(cell.label, outcome)


def plot_of(groups: Sequence[Sequence[Cell]], arm_names: Sequence[str] = ()) -> ArmShares:
    return ArmShares("", "problem", groups, {}, arm_names)


@pytest.mark.parametrize("most", [1, 3, 4, 100])
def test_arm_shares_match_hand_count(most: int) -> None:
    rng = np.random.default_rng(most)
    chosen = rng.integers(0, 3, size=(4, 60)).tolist()
    times = [1, 2, 7, 20, 21, 30, 44, 60]
    ends, found = compute_shares(pulled(chosen, times, 3), most)
    assert ends[0] == 0
    assert ends[-1] == 60
    assert len(ends) - 1 == min(most, len(times))
    assert set(ends[1:].tolist()) <= set(times)
    for start, end, row in zip(ends[:-1], ends[1:], found, strict=True):
        within = [arm for run in chosen for arm in run[start:end]]
        assert row.tolist() == pytest.approx([within.count(arm) / len(within) for arm in range(3)])


def test_arm_shares_are_zero_without_pulls() -> None:
    cell = pulled([[0, 1, 1, 0]], [2, 4], 2)
    late = dataclasses.replace(cell.outcome, pulls_over_time=np.array([[0, 0], [1, 1]]))
    assert compute_shares(Cell(cell.label, late), 2)[1].tolist() == [[0, 0], [0.5, 0.5]]


def test_most_pulled_arms_have_a_colour() -> None:
    chosen = [[arm for arm in range(12) for _ in range(1 + (arm * 5) % 12)]]
    cell = pulled(chosen, [len(chosen[0])], 12)
    counts = [chosen[0].count(arm) for arm in range(12)]
    most = sorted(range(12), key=lambda arm: -counts[arm])[: len(style.COLOURS) - 1]
    plot = plot_of([[cell]])
    assert plot.list_arms() == sorted(most)
    assert [name for name, _ in plot.colours][-1] == "other arms"
    panel = Figure().subplots()
    plot.draw(panel, cell)
    steps = [patch.get_data() for patch in panel.patches if isinstance(patch, StepPatch)]
    assert len(steps) == len(most) + 1
    values, _, baseline = steps[-1]
    rest = sum(count for arm, count in enumerate(counts) if arm not in most) / sum(counts)
    assert (values - baseline).tolist() == pytest.approx([rest])
    assert values.tolist() == pytest.approx([1.0])


def test_few_arms_have_a_colour_each() -> None:
    [cell] = changing([[0.9, 0.1]]).cells
    assert plot_of([[cell]]).colours == [("arm 0", style.COLOURS[0]), ("arm 1", style.COLOURS[1])]


def test_legend_uses_arm_names() -> None:
    made = changing([[0.9, 0.1]])
    names = ["85123A WHITE HANGING HEART T-LIGHT HOLDER", "$x_1$"]
    plot = plot_of([made.cells], names)
    assert [name for name, _ in plot.colours] == names
    with style.use_style():
        [legend] = plot.draw_figure().legends
    assert [text.get_text() for text in legend.get_texts()] == names


def test_best_arms_cover_their_intervals() -> None:
    [cell] = changing([[0.9, 0.1], [0.8, 0.1], [0.1, 0.9], [0.5, 0.5]], [0, 10, 300, 400]).cells
    assert list_best_arms(cell) == [(0, 300, 0), (300, 400, 1), (400, 1000, 0)]


def test_changes_are_marked() -> None:
    [cell] = changing([[0.9, 0.1], [0.1, 0.9]], [0, 400]).cells
    panel = Figure().subplots()
    plot_of([[cell]]).draw(panel, cell)
    assert [line.get_xdata()[0] for line in panel.lines] == [400]  # type: ignore[index]


def test_many_panels_have_few_intervals() -> None:
    assert count_intervals(1) == count_intervals(16) == 60
    assert count_intervals(1000) == 12


def test_partly_finished_policy_is_drawn() -> None:
    cells = named(["one", "two"], epsilons=(0.5, 1.0, 2.0, 4.0, 8.0)).cells[:-1]
    groups = [cells[place : place + 2] for place in range(0, len(cells), 2)]
    with style.use_style():
        figure = plot_of(groups).draw_figure()
    assert len(figure.axes) == len(cells)
