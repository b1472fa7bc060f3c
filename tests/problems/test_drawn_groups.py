"""Generators of problems with groups."""

import inspect
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.errors import UserError
from maskedbandits.problems import GENERATORS, GROUP_GENERATORS, groups

seeds = st.integers(0, 2**32)


def test_table_lists_all_generators() -> None:
    made = [f for f in vars(groups).values() if inspect.isfunction(f) and not f.__name__.startswith("_")]
    named = [f.__name__ for f in made if f.__annotations__["return"] == "ContextualProblem"]
    assert [name.replace("-", "_") for name in GROUP_GENERATORS] == named
    assert not set(GENERATORS) & set(GROUP_GENERATORS)


@pytest.mark.parametrize("name", GROUP_GENERATORS)
@given(many=st.integers(1, 6), arms=st.integers(2, 6), segments=st.integers(1, 5), seed=seeds)
def test_problem_has_requested_shape(name: str, many: int, arms: int, segments: int, seed: int) -> None:
    draw = GROUP_GENERATORS[name]
    one, same, other = (draw(many, arms, 1000, segments=segments, seed=each) for each in (seed, seed, seed + 1))
    assert one.means.shape == (segments, many, arms)
    assert np.all((one.means >= 0.0) & (one.means <= 1.0))
    assert one.starts.tolist() == [place * 1000 // segments for place in range(segments)]
    np.testing.assert_array_equal(one.means, same.means)
    assert not np.array_equal(one.means, other.means)


@pytest.mark.parametrize("name", GROUP_GENERATORS)
@given(seed=seeds)
def test_best_arm_of_every_group_keeps_gap(name: str, seed: int) -> None:
    problem = GROUP_GENERATORS[name](3, 3, 1000, segments=2, gap=0.2, seed=seed)
    assert np.sort(problem.gaps, axis=2)[:, :, 1].min() >= 0.2 - 1e-12


@given(apart=st.floats(0.0, 1.0), seed=seeds)
def test_similar_groups_respect_apart(apart: float, seed: int) -> None:
    problem = groups.similar_groups(4, 3, 1000, apart=apart, seed=seed)
    assert np.ptp(problem.means, axis=1).max() <= 2 * apart + 1e-12


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"groups": 0}, "groups = 0"),
        ({"arms": 1}, "arms = 1"),
        ({"segments": 200}, "give at most the horizon, 100"),
        ({"groups": 1 << 20}, "are too many: give fewer"),
        ({"gap": 0.95}, "gap = 0.95"),
        ({"gap": 0.9, "groups": 4}, "draws never had it"),
        ({"shares": [0.5, 0.6]}, "add up to 1"),
    ],
)
def test_wrong_values_are_refused(given: dict[str, Any], complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "MAX_DRAWS", 100)
    with pytest.raises(UserError, match=complaint):
        groups.independent_groups(**{"groups": 2, "arms": 3, "horizon": 100, **given})
