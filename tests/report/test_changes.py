"""How a problem changes: few words say it, and its means are drawn as they were."""

from __future__ import annotations

import numpy as np
import pytest

from made_up import HORIZON, TWO_SEGMENTS, changing, sinusoid
from maskedbandits.corruption import IDENTITY
from maskedbandits.experiments.results import Cell
from maskedbandits.problems import GENERATORS, Problem
from maskedbandits.report import summary


def cell_of(problem: Problem) -> Cell:
    return changing(problem.means, problem.starts.tolist()).cells[0]


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ([[0.9, 0.1]], "no change"),
        (TWO_SEGMENTS, "changes at 500"),
        ([[0.9, 0.1], [0.1, 0.9]] * 6, "changes at 83, 166, 250, 333, 416, 500, 583, 666, 750, 833, 916"),
        ([[0.9, 0.1], [0.1, 0.9]] * 7, "13 changes (variation 10.4)"),
        (sinusoid(), "drifts (variation 3.17)"),  # twice up and down by 0.8, but for the last step
    ],
)
def test_words(means: object, words: str) -> None:
    [cell] = changing(np.asarray(means)).cells
    assert summary.describe_changes(cell) == words


def test_variation_is_the_problems() -> None:
    problem = GENERATORS["random-walk"](4, HORIZON, corruption=IDENTITY)
    assert cell_of(problem).variation == problem.variation


def test_curves_hold_what_the_means_were() -> None:
    [cell] = changing([[0.9, 0.1], [0.2, 0.3], [0.4, 0.8]], [0, 10, 700]).cells
    times, means = summary.sample_means(cell)
    assert times.tolist() == [0, 10, 700, HORIZON]
    assert means.tolist() == [[0.9, 0.1], [0.2, 0.3], [0.4, 0.8], [0.4, 0.8]]


def test_curves_have_no_more_points_than_a_panel_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MAX_POINTS", 7)
    [cell] = changing(sinusoid(100)).cells
    times, means = summary.sample_means(cell)
    assert times.size <= 8
    held = np.array([sinusoid(100)[min(time // 10, 99)] for time in times])
    assert means == pytest.approx(held)
