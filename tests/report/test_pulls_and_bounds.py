"""Pulls against the bounds: measured as counted by hand, bounded as theory says, and only where it speaks."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from made_up import outcome, sinusoid
from maskedbandits import Problem, RandomizedResponse, theory
from maskedbandits.experiments.results import Cell, Label
from maskedbandits.report import style
from maskedbandits.report.plots.pulls_and_bounds import PullsAndBounds, count_pulls, has_bounds


def cell(**changes: Any) -> Cell:
    made = outcome(1.0, runs=3, window=50)
    wasted = np.array([[10, 20], [30, 40], [50, 60]])
    spec = {**made.spec, **changes}
    return Cell(Label("key", "one", "policy", 1.0), dataclasses.replace(made, spec=spec, suboptimal_pulls=wasted))


def test_measured_pulls_match_hand_count() -> None:
    found = count_pulls(cell())
    assert found.measured == (30 + 70 + 110) / 3
    # 4.302653 is the 97.5 % point of Student's t with two degrees of freedom
    assert found.half_width == pytest.approx(4.302653 * 40 / math.sqrt(3), rel=1e-6)


def test_bounds_match_theory() -> None:
    mask = RandomizedResponse(0.8, 0.8)
    problem = Problem([[0.9, 0.1], [0.1, 0.9]], [0, 400], 1000, mask)
    found = count_pulls(cell(parameters={"window": 50, "c": 1.0}))
    assert found.published == pytest.approx(float(sum(theory.published_bound(problem, 50))))
    assert found.proved == pytest.approx(float(sum(theory.corrected_bound(problem, 50, 1.0))))
    assert found.proved != pytest.approx(float(sum(theory.corrected_bound(problem, 50))))


@pytest.mark.parametrize(
    ("changes", "spoken_of"),
    [
        ({}, True),
        ({"policy": "klucb-cf", "parameters": {}}, False),
        ({"policy": "sw-ts-cf"}, False),
        ({"parameters": {"window": "inf"}}, False),
        ({"parameters": {"window": 1}}, False),
        ({"parameters": {"window": 50, "restarts": "doubling"}}, False),
        ({"means": sinusoid().tolist(), "starts": list(range(0, 1000, 5))}, False),
    ],
)
def test_bounds_apply_to_the_policy_of_the_paper(changes: dict[str, Any], spoken_of: bool) -> None:
    assert has_bounds(cell(**changes)) == spoken_of


def test_marks_are_drawn_at_their_numbers() -> None:
    row = dataclasses.replace(count_pulls(cell()), published=math.inf)
    plot = PullsAndBounds("", "one", [[cell()]], style.assign_looks(["policy"]))
    plot.counts = [row]
    panel = Figure().subplots()
    plot.draw(panel)
    heights = [float(np.asarray(line.get_ydata())[0]) for line in panel.lines]
    assert heights[0] == row.measured
    assert math.isnan(heights[1])  # a log scale has no place for infinity
    assert heights[2] == row.proved
    assert heights[3] == 1000  # all steps
