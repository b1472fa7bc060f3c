import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import maskedbandits as mb
from maskedbandits import Problem, RandomizedResponse, make_policy
from maskedbandits.problems import GENERATORS

RR = RandomizedResponse.from_epsilon(1.0)
GOOD: dict[str, Any] = {"means": [[0.9, 0.4], [0.4, 0.9]], "starts": [0, 50], "horizon": 100, "corruption": RR}


def test_problem_has_shape_of_means() -> None:
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


def test_flat_list_is_one_segment() -> None:
    assert Problem([0.1, 0.2, 0.3], [0], 10, RR).means.shape == (1, 3)


def test_arrays_are_read_only() -> None:
    means = np.array([[0.9, 0.4]])
    problem = Problem(means, [0], 10, RR)
    means[0, 0] = 0.0
    assert problem.means[0, 0] == 0.9
    with pytest.raises(ValueError, match="read-only"):
        problem.means[0, 0] = 0.0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"means": [[0.9, 1.2], [0.4, 0.9]]}, "arm 1.*1.2.*segment 0"),
        ({"means": [[0.9, -0.1], [0.4, 0.9]]}, r"\[0, 1\]"),
        ({"means": [[0.9, math.nan], [0.4, 0.9]]}, r"\[0, 1\]"),
        ({"means": [[0.9, 0.4], [0.4]]}, "equally long"),
        ({"means": [["a", "b"]]}, "numbers"),
        ({"means": []}, "shape"),
        ({"means": [[], []]}, "shape"),
        ({"means": [[[0.1]]]}, "shape"),
        ({"starts": [0]}, "one start per segment"),
        ({"starts": [1, 50]}, "begin with 0"),
        ({"starts": [0, 0]}, "increasing"),
        ({"starts": [0, -5]}, "increasing"),
        ({"starts": [0, 100]}, "100.*before the end"),
        ({"starts": [0, 50.5]}, "whole"),
        ({"starts": [0, math.nan]}, "whole"),
        ({"horizon": 1}, "horizon 1"),
        ({"horizon": 10.5}, "whole"),
        ({"horizon": "long"}, "whole"),
        ({"horizon": 10**30}, "horizon = 1000000000000000000000000000000: .*most"),
        ({"starts": [0, 10**30]}, "whole numbers below"),
        ({"means": [[0.9, 10**400], [0.4, 0.9]]}, "numbers"),
        ({"corruption": [RR]}, "1 corruptions for 2"),
        ({"corruption": [RR, 0.5]}, "corruption of arm 1"),
    ],
)
def test_wrong_values_are_refused_in_one_line(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Problem(**{**GOOD, **change})
    assert "\n" not in str(caught.value)


@given(means=st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=8))
def test_variation_sums_largest_moves(means: list[list[float]]) -> None:
    total = 0.0
    for before, after in itertools.pairwise(means):
        total += max(abs(a - b) for a, b in zip(before, after, strict=True))
    assert Problem(means, range(len(means)), 100, RR).variation == pytest.approx(total, abs=1e-12)


def test_liars_report_against_best_arm() -> None:
    rising, falling = RandomizedResponse(0.8, 0.8), RandomizedResponse(0.1, 0.2)
    honest = Problem([[0.9, 0.4], [0.2, 0.7]], [0, 10], 20, [rising, falling])
    lied = Problem(honest.means, honest.starts, 20, honest.corruption, liars=0.25)
    expected = [[rising(0.9), falling(0.4)], [rising(0.2), falling(0.7)]]
    says = [[0.0, 0.0], [1.0, 1.0]]  # a 0 speaks for an arm with a decreasing mask
    assert lied.feedback_means == pytest.approx(0.75 * np.array(expected) + 0.25 * np.array(says))
    assert np.array_equal(honest.feedback_means, Problem(honest.means, [0, 10], 20, honest.corruption).feedback_means)
    for share in (-0.1, 1.1, math.nan, "many"):
        with pytest.raises(ValueError, match="liars"):
            Problem([[0.9, 0.4]], [0], 20, rising, liars=share)  # type: ignore[arg-type]


def test_horizon_may_be_1e6() -> None:
    assert Problem([0.1, 0.2], [0], 1e6, RR).horizon == 10**6  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [mb.privacy.Randomizer(1), [mb.privacy.Randomizer(1)] * 2])
def test_randomizer_is_refused_with_hint(given: Any) -> None:
    with pytest.raises(ValueError, match=r"give randomizer\.corruption"):
        Problem([0.1, 0.2], [0], 10, given)
    with pytest.raises(ValueError, match=r"give randomizer\.corruption"):
        make_policy("klucb-cf", arms=2, corruption=given)


def test_report_is_refused_with_hint() -> None:
    report: Any = mb.privacy.Randomizer(1).report(1)
    with pytest.raises(ValueError, match=r"give report\.corruption"):
        Problem([0.1, 0.2, 0.3, 0.4], [0], 10, report)


def test_best_arms_fit_oracle() -> None:
    problem = Problem([[0.1, 0.6, 0.6], [0.7, 0.1, 0.2]], [0, 5], 10, RandomizedResponse(0.9, 0.9))
    assert problem.best_arms.tolist() == [1, 0]
    assert problem.best.tolist() == [0.6, 0.7]
    policy = make_policy("oracle", arms=3, restarts=problem.starts, best=problem.best_arms)
    assert policy.parameters["best"] == [1, 0]


def test_starts_fit_oracle() -> None:
    problem = Problem(**GOOD)
    best: Any = problem.means.argmax(axis=1)
    assert make_policy("oracle-klucb-cf", arms=2, corruption=RR, restarts=problem.starts).parameters["restarts"] == [
        0,
        50,
    ]
    assert make_policy("oracle", arms=2, restarts=problem.starts, best=best).parameters["best"] == [0, 1]


class TestDrifts:
    @pytest.mark.parametrize("name", sorted({*GENERATORS} - {"some-arms-change"}))  # whose many small moves are a drift
    @given(seed=st.integers(0, 2**32), segments=st.sampled_from([50, 200, 1000]), arms=st.integers(2, 30))
    def test_drift_generators_drift_and_others_do_not(self, name: str, seed: int, segments: int, arms: int) -> None:
        jumps = name in ("random-segments", "one-arm-at-a-time", "one-ahead", "best-stays-best")
        cut = {"segments": segments} if jumps else {"resolution": 3000 // segments}
        assert GENERATORS[name](arms, 3000, corruption=RR, seed=seed, **cut).drifts is not jumps

    def test_walk_of_leaps_does_not_drift(self) -> None:
        assert mb.problems.random_walk(5, 3000, corruption=RR, spread=1.0).drifts
        assert not mb.problems.random_walk(5, 3000, corruption=RR, spread=50.0).drifts

    def test_few_changes_are_no_drift(self) -> None:
        steps = np.linspace(0.1, 0.9, 40)
        for segments, drifts in [(31, False), (32, True)]:
            rows = np.stack([steps[:segments], steps[:segments][::-1]], axis=1)
            assert Problem(rows, range(segments), 100, RR).drifts is drifts

    def test_small_jumps_to_and_fro_do_not_drift(self) -> None:
        assert not Problem([[0.50, 0.5], [0.45, 0.5]] * 20, range(40), 100, RR).drifts

    def test_drift_with_one_jump_is_a_drift(self) -> None:
        means = np.linspace(0.1, 0.9, 100)[:, None] * [1.0, 0.5]
        means[50:] = 1.0 - means[50:]
        assert Problem(means, range(100), 1000, RR).drifts

    def test_means_that_never_move_do_not_drift(self) -> None:
        assert not Problem([[0.5, 0.4]] * 100, range(100), 1000, RR).drifts
        assert not Problem([0.5, 0.4], [0], 1000, RR).drifts


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (
            Problem([[0.1, 0.2], [0.2, 0.1]], [0, 5], 2000, RandomizedResponse(0.9, 0.8)),
            "<Problem: 2 arms, 2 segments, horizon 2,000, RandomizedResponse(p00=0.9, p11=0.8)>",
        ),
        (
            Problem([0.1, 0.2], [0], 9, [RandomizedResponse(0.9, 0.8), RandomizedResponse(0.8, 0.8)]),
            "<Problem: 2 arms, 1 segment, horizon 9, 2 different masks>",
        ),
        (mb.ContextualProblem([[0.1], [0.2]], [0], 9), "<ContextualProblem: 1 arm, 2 groups, 1 segment, horizon 9>"),
    ],
)
def test_problem_is_described_in_one_line(problem: Any, text: str) -> None:
    assert repr(problem) == text
