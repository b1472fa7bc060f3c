"""Problems of a file, given or drawn from a seed, under their corruptions."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest

from maskedbandits import experiments
from maskedbandits.errors import UserError
from maskedbandits.problems import GENERATORS
from small_experiment import GOOD, run, write

DRAWN = 'generator = "random-segments"\narms = 2\nsegments = 3\ngap = 0.2'


@pytest.mark.parametrize("generator", GENERATORS)
def test_generators_draw_problems_from_a_seed(tmp_path: Path, generator: str) -> None:
    segments = {"segments": 3} if "segments" in inspect.signature(GENERATORS[generator]).parameters else {}
    lines = [f'generator = "{generator}"', "arms = 2", "seed = 7", *(f"{key} = {n}" for key, n in segments.items())]
    drawn = GOOD.replace("means = [0.8, 0.3]", "\n".join(lines))
    task = experiments.load(write(tmp_path, drawn)).tasks[-1]
    expected = GENERATORS[generator](2, 400, corruption=task.condition.masks, seed=7, **segments)
    np.testing.assert_array_equal(task.condition.problem.means, expected.means)
    np.testing.assert_array_equal(task.condition.problem.starts, expected.starts)
    np.testing.assert_array_equal(task.condition.averaged_problem.feedback_means, expected.feedback_means)


def test_generated_problem_is_independent_of_file_seed(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("means = [0.8, 0.3]", DRAWN))
    assert run(path, tmp_path / "out").complete
    one, other = (experiments.load(path, seed=seed).tasks[-1].condition.problem for seed in (1, 2))
    np.testing.assert_array_equal(one.means, other.means)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"random-segments"', '"random-segment"', "generator: unknown generator 'random-segment'; did you mean 'rand"),
        ('"random-segments"', "3", "generator: "),
        ("arms = 2", "", "arms: "),
        ("arms = 2", "arms = 2.5", "arms: "),
        ("arms = 2", "arms = 1", "arms: "),
        ("segments = 3", "", "segments: "),
        ("segments = 3", "segmnets = 3", "segmnets: unknown parameter; did you mean 'segments'?"),
        ("segments = 3", "segments = 401", " segments = 401: give at most the horizon, 400"),
        ("gap = 0.2", "gap = 2", "gap: "),
        ("gap = 0.2", 'gap = "wide"', "gap: "),
        ("gap = 0.2", "gap = [0.1, 0.2]", "gap: "),
        ("gap = 0.2", "amplitude = 0.2", "amplitude: "),
        ("gap = 0.2", "corruption = 0.2", "corruption: "),
        ("gap = 0.2", "seed = -1", "seed: "),
        ("gap = 0.2", "means = [0.1, 0.2]", "means: "),
        ("gap = 0.2", "starts = [0]", "starts: "),
    ],
)
def test_bad_generators_are_one_line_errors(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert DRAWN.count(old) == 1
    path = write(tmp_path, GOOD.replace("means = [0.8, 0.3]", DRAWN.replace(old, new)))
    with pytest.raises(UserError) as caught:
        experiments.load(path)
    assert str(caught.value).startswith(f"{path}: problems[1]{':' if complaint.startswith(' ') else '.'}{complaint}")
    assert "\n" not in str(caught.value)
