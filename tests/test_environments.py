import math
from typing import Any

import numpy as np
import pytest

from maskedbandits import Problem, RandomizedResponse

RR = RandomizedResponse.from_epsilon(1.0)
GOOD: dict[str, Any] = {"means": [[0.9, 0.4], [0.4, 0.9]], "starts": [0, 50], "horizon": 100, "corruption": RR}


def test_a_problem_knows_its_shape() -> None:
    problem = Problem(**GOOD)
    assert (problem.segments, problem.arms, problem.horizon) == (2, 2, 100)
    assert problem.lengths.tolist() == [50, 50]
    assert problem.best.tolist() == [0.9, 0.9]
    assert np.allclose(problem.gaps, [[0, 0.5], [0.5, 0]])
    assert np.allclose(problem.feedback_means, RR(np.array(GOOD["means"])))  # type: ignore[arg-type]


def test_each_arm_may_have_its_own_corruption() -> None:
    falling = RandomizedResponse(0.1, 0.2)
    problem = Problem([[0.9, 0.4]], [0], 10, [RR, falling])
    assert problem.corruption == (RR, falling)
    assert problem.feedback_means[0].tolist() == [RR(0.9), falling(0.4)]


def test_a_flat_list_of_means_never_changes() -> None:
    assert Problem([0.1, 0.2, 0.3], [0], 10, RR).means.shape == (1, 3)


def test_its_arrays_cannot_be_changed_behind_its_back() -> None:
    means = np.array([[0.9, 0.4]])
    problem = Problem(means, [0], 10, RR)
    means[0, 0] = 0.0
    assert problem.means[0, 0] == 0.9
    with pytest.raises(ValueError, match="read-only"):
        problem.means[0, 0] = 0.0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"means": [[0.9, 1.2], [0.4, 0.9]]}, r"arm 1 in segment 0 is 1.2.*\[0, 1\]"),
        ({"means": [[0.9, -0.1], [0.4, 0.9]]}, r"\[0, 1\]"),
        ({"means": [[0.9, math.nan], [0.4, 0.9]]}, r"\[0, 1\]"),
        ({"means": [[0.9, 0.4], [0.4]]}, "equally long"),
        ({"means": [["a", "b"]]}, "numbers"),
        ({"means": []}, "shape"),
        ({"means": [[], []]}, "shape"),
        ({"means": [[[0.1]]]}, "shape"),
        ({"starts": [0]}, "one start per segment"),
        ({"starts": [1, 50]}, "first 0"),
        ({"starts": [0, 0]}, "increasing"),
        ({"starts": [0, -5]}, "increasing"),
        ({"starts": [0, 100]}, "before the horizon"),
        ({"starts": [0, 50.5]}, "whole"),
        ({"starts": [0, math.nan]}, "whole"),
        ({"horizon": 1}, "horizon 1"),
        ({"horizon": 10.5}, "whole"),
        ({"horizon": "long"}, "whole"),
        ({"corruption": [RR]}, "1 corruptions for 2 arms"),
        ({"corruption": [RR, 0.5]}, "corruption of arm 1"),
    ],
)
def test_what_is_not_a_problem_is_refused_in_one_line(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Problem(**{**GOOD, **change})
    assert "\n" not in str(caught.value)
