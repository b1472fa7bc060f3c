import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import Problem, RandomizedResponse
from maskedbandits.problems import GENERATORS, generators
from naive import generators as naive_generators

RR = RandomizedResponse.from_epsilon(1.0)

ABRUPT = ["random-segments", "one-arm-at-a-time", "one-ahead", "best-stays-best", "some-arms-change"]
WITH_GAP = ABRUPT[:-1]
DRIFTS = ["sinusoid", "random-walk", "linear"]
ROUNDING = 1e-12

seeds = st.integers(0, 2**32)


def draw(name: str, **parameters: Any) -> Problem:
    segments = {"segments": 5} if name in ABRUPT else {}
    return GENERATORS[name](**{"arms": 4, "horizon": 3000, "corruption": RR, **segments, **parameters})


def leads(problem: Problem) -> list[float]:
    """Return the lead of the best arm in each segment."""
    return list(np.sort(problem.gaps, axis=1)[:, 1])


class TestEveryGenerator:
    def test_table_lists_all_generators(self) -> None:
        made = [f for f in vars(generators).values() if inspect.isfunction(f) and not f.__name__.startswith("_")]
        named = [f.__name__ for f in made if f.__annotations__["return"] is Problem]
        assert [name.replace("-", "_") for name in GENERATORS] == named
        assert list(GENERATORS) == ABRUPT + DRIFTS

    @pytest.mark.parametrize("name", GENERATORS)
    def test_generators_share_parameters(self, name: str) -> None:
        parameters = inspect.signature(GENERATORS[name]).parameters
        assert list(parameters)[:3] == ["arms", "horizon", "corruption"]
        by_place = [key for key, value in parameters.items() if value.kind is value.POSITIONAL_OR_KEYWORD]
        assert by_place == ["arms", "horizon"]
        assert parameters["seed"].default == 0

    @pytest.mark.parametrize("name", GENERATORS)
    @given(arms=st.integers(2, 30), horizon=st.integers(100, 5000), seed=seeds)
    def test_problem_has_requested_shape(self, name: str, arms: int, horizon: int, seed: int) -> None:
        problem = draw(name, arms=arms, horizon=horizon, seed=seed)
        assert (problem.arms, problem.horizon, problem.corruption) == (arms, horizon, (RR,) * arms)
        assert problem.lengths.sum() == horizon
        assert np.all((problem.means >= 0.0) & (problem.means <= 1.0))

    @pytest.mark.parametrize("name", GENERATORS)
    @given(seed=seeds)
    def test_seed_fixes_problem(self, name: str, seed: int) -> None:
        one, same, other = draw(name, seed=seed), draw(name, seed=seed), draw(name, seed=seed + 1)
        np.testing.assert_array_equal(one.means, same.means)
        np.testing.assert_array_equal(one.starts, same.starts)
        assert not (np.array_equal(one.means, other.means) and np.array_equal(one.starts, other.starts))

    @pytest.mark.parametrize(
        ("name", "first", "last", "starts"),
        [
            ("random-segments", [0.0047, 0.8862, 0.7391, 0.7174], [0.4634, 0.9255, 0.4196, 0.5663], [0, 638, 1538]),
            ("one-arm-at-a-time", [0.0042, 0.7988, 0.6570, 0.6377], [0.0042, 0.4262, 0.7941, 0.6377], [0, 638, 1538]),
            ("one-ahead", [0.3, 0.4, 0.3, 0.3], [0.3, 0.3, 0.3, 0.4], [0, 638, 1538]),
            ("best-stays-best", [0.0047, 0.8862, 0.7391, 0.7174], [0.1442, 0.6513, 0.0395, 0.0321], [0, 638, 1538]),
            ("some-arms-change", [0.3002, 0.8736, 0.0053, 0.8212], [0.2098, 0.5338, 0.0801, 0.3741], [0, 638, 1538]),
            ("sinusoid", [0.1436, 0.6817, 0.3183, 0.8564], [0.1414, 0.6772, 0.3228, 0.8586], [0, 3, 6]),
            ("random-walk", [0.6251, 0.8972, 0.7757, 0.2252], [0.9002, 0.1877, 0.5977, 0.6911], [0, 3, 6]),
            ("linear", [0.2027, 0.6981, 0.9075, 0.2702], [0.0047, 0.8391, 0.7174, 0.4211], [0, 3, 6]),
        ],
    )
    def test_means_are_pinned(self, name: str, first: list[float], last: list[float], starts: list[int]) -> None:
        problem = draw(name, seed=7)
        assert problem.means[0] == pytest.approx(first, abs=1e-4)
        assert problem.means[-1] == pytest.approx(last, abs=1e-4)
        assert problem.starts[:3].tolist() == starts

    @pytest.mark.parametrize("name", GENERATORS)
    def test_each_arm_may_have_its_own_corruption(self, name: str) -> None:
        falling = RandomizedResponse(0.1, 0.2)
        problem = draw(name, arms=2, corruption=[RR, falling])
        assert problem.corruption == (RR, falling)
        np.testing.assert_array_equal(problem.means, draw(name, arms=2).means)


class TestAbruptChanges:
    @pytest.mark.parametrize("name", ABRUPT)
    @given(segments=st.integers(1, 40), horizon=st.integers(40, 4000), seed=seeds)
    def test_segments_have_half_the_average_length(self, name: str, segments: int, horizon: int, seed: int) -> None:
        problem = draw(name, segments=segments, horizon=horizon, seed=seed)
        assert problem.segments == segments
        assert problem.lengths.min() >= max(1, horizon // (2 * segments))

    @pytest.mark.parametrize("name", ABRUPT)
    @given(shortest=st.integers(1, 600), seed=seeds)
    def test_segments_respect_shortest(self, name: str, shortest: int, seed: int) -> None:
        assert draw(name, shortest=shortest, seed=seed).lengths.min() >= shortest

    def test_segments_may_fill_the_horizon(self) -> None:
        assert draw("random-segments", segments=5, shortest=600).lengths.tolist() == [600] * 5
        assert draw("random-segments", segments=3000).lengths.tolist() == [1] * 3000

    @pytest.mark.parametrize("name", WITH_GAP)
    @given(arms=st.integers(2, 30), segments=st.integers(1, 40), gap=st.floats(0, 0.4), seed=seeds)
    def test_best_arm_is_ahead_by_gap(self, name: str, arms: int, segments: int, gap: float, seed: int) -> None:
        problem = draw(name, arms=arms, segments=segments, gap=gap, seed=seed)
        assert min(leads(problem)) >= gap - ROUNDING

    @pytest.mark.parametrize("name", ["random-segments", "one-arm-at-a-time", "one-ahead"])
    @given(arms=st.integers(2, 30), gap=st.floats(0.01, 0.4), seed=seeds)
    def test_every_change_moves_best_arm(self, name: str, arms: int, gap: float, seed: int) -> None:
        best = draw(name, arms=arms, segments=20, gap=gap, seed=seed).means.argmax(axis=1)
        assert np.all(best[1:] != best[:-1])

    @given(arms=st.integers(2, 30), gap=st.floats(0.01, 0.4), seed=seeds)
    def test_one_arm_moves_by_gap(self, arms: int, gap: float, seed: int) -> None:
        moves = np.abs(np.diff(draw("one-arm-at-a-time", arms=arms, segments=20, gap=gap, seed=seed).means, axis=0))
        assert np.all((moves > 0).sum(axis=1) == 1)
        assert moves.max(axis=1).min() >= gap - ROUNDING

    def test_arms_rise_and_fall(self) -> None:
        moves = np.diff(draw("one-arm-at-a-time", arms=10, segments=200).means, axis=0).sum(axis=1)
        assert min((moves > 0).sum(), (moves < 0).sum()) > 60

    @given(arms=st.integers(2, 30), base=st.floats(0, 0.6), gap=st.floats(0.01, 0.4), seed=seeds)
    def test_all_other_arms_are_equal(self, arms: int, base: float, gap: float, seed: int) -> None:
        means = draw("one-ahead", arms=arms, segments=20, base_rate=base, gap=gap, seed=seed).means
        assert np.all((means == base).sum(axis=1) == arms - 1)
        assert means.max(axis=1) == pytest.approx(min(1.0, base + gap))

    @given(arms=st.integers(2, 30), gap=st.floats(0.01, 0.9), seed=seeds)
    def test_best_stays_best_while_means_change(self, arms: int, gap: float, seed: int) -> None:
        problem = draw("best-stays-best", arms=arms, segments=20, gap=gap, seed=seed)
        assert len(set(problem.means.argmax(axis=1).tolist())) == 1
        assert np.all(np.diff(problem.means, axis=0) != 0.0)

    @given(
        arms=st.integers(1, 8),
        segments=st.integers(1, 12),
        seed=seeds,
        probability=st.floats(0, 1),
        moves=st.tuples(st.floats(0, 0.5), st.floats(0, 0.5)).map(sorted),
    )
    def test_some_arms_change_equals_twin(
        self, arms: int, segments: int, seed: int, probability: float, moves: list[float]
    ) -> None:
        smallest, largest = moves
        how: dict[str, Any] = {"probability": probability, "smallest": smallest, "largest": largest, "shortest": 100}
        problem = draw("some-arms-change", arms=arms, segments=segments, seed=seed, **how)
        means, starts = naive_generators.some_arms_change(arms, 3000, segments, seed, **how)
        assert problem.starts.tolist() == starts
        assert problem.means == pytest.approx(np.array(means), abs=ROUNDING)

    def test_arms_change_with_their_probability_and_by_documented_steps(self) -> None:
        moves = np.diff(draw("some-arms-change", arms=200, segments=50, probability=0.3).means, axis=0)
        sizes = np.abs(moves[moves != 0])
        assert (moves != 0).mean() == pytest.approx(0.3, abs=0.02)  # four standard errors
        assert sizes.min() >= 0.05 - ROUNDING
        assert sizes.max() <= 0.3 + ROUNDING
        assert sizes.mean() == pytest.approx(0.175, abs=0.006)

    def test_means_are_uniform_given_gap(self) -> None:
        # compare with rejection sampling: the means of each rank agree to four standard errors
        rng = np.random.default_rng(0)
        rows = np.sort(rng.random((60_000, 3)), axis=1)
        kept = rows[rows[:, 2] - rows[:, 1] >= 0.3]
        drawn = np.sort(draw("random-segments", arms=3, horizon=20_000, segments=20_000, gap=0.3).means, axis=1)
        error = np.sqrt(kept.var(axis=0) / len(kept) + drawn.var(axis=0) / len(drawn))
        assert np.all(np.abs(kept.mean(axis=0) - drawn.mean(axis=0)) < 4 * error)
        assert drawn.std(axis=0) == pytest.approx(kept.std(axis=0), rel=0.05)


class TestDrifts:
    @pytest.mark.parametrize("name", DRIFTS)
    @pytest.mark.parametrize(("horizon", "segments"), [(50, 50), (1000, 1000), (100_000, 1000), (123_456, 996)])
    def test_default_is_a_thousand_segments(self, name: str, horizon: int, segments: int) -> None:
        assert draw(name, horizon=horizon).segments == segments

    @pytest.mark.parametrize("name", DRIFTS)
    @given(resolution=st.integers(1, 500))
    def test_resolution_is_segment_length(self, name: str, resolution: int) -> None:
        problem = draw(name, resolution=resolution)
        assert set(problem.lengths[:-1].tolist()) <= {resolution}
        assert 1 <= problem.lengths[-1] <= resolution

    @pytest.mark.parametrize("name", DRIFTS)
    @given(seed=seeds)
    def test_steps_of_drifts_are_small(self, name: str, seed: int) -> None:
        assert np.abs(np.diff(draw(name, seed=seed).means, axis=0)).max() < 0.12

    @given(arms=st.integers(1, 20), amplitude=st.floats(0, 0.5), periods=st.floats(0, 20), seed=seeds)
    def test_sinusoid_respects_amplitude(self, arms: int, amplitude: float, periods: float, seed: int) -> None:
        problem = draw("sinusoid", arms=arms, amplitude=amplitude, periods=periods, seed=seed)
        assert np.abs(problem.means - 0.5).max() <= amplitude + 1e-9
        assert problem.variation <= 2 * math.pi * amplitude * periods + 1e-6

    @given(arms=st.integers(2, 8), seed=seeds)
    def test_every_arm_of_sinusoid_is_best_once_a_period(self, arms: int, seed: int) -> None:
        best = draw("sinusoid", arms=arms, periods=1, seed=seed).means.argmax(axis=1)
        assert set(best.tolist()) == set(range(arms))

    def test_sinusoid_has_documented_variation(self) -> None:
        two, many = (draw("sinusoid", arms=arms, periods=3, amplitude=0.3).variation for arms in (2, 30))
        assert two == pytest.approx(4 * 3 * 0.3, rel=0.01)
        assert many == pytest.approx(2 * math.pi * 3 * 0.3, rel=0.01)

    def test_two_arms_of_sinusoid_are_opposite(self) -> None:
        np.testing.assert_allclose(draw("sinusoid", arms=2).means.sum(axis=1), 1.0, atol=1e-8)

    @given(spread=st.floats(0, 50), seed=seeds)
    def test_random_walk_is_reflected(self, spread: float, seed: int) -> None:
        means = draw("random-walk", spread=spread, seed=seed).means
        assert np.all((means >= 0.0) & (means <= 1.0))

    def test_random_walk_has_spread_at_any_resolution(self) -> None:
        for resolution in (1, 50):  # small enough that hardly any of 1000 walks is reflected
            means = draw("random-walk", arms=1000, spread=0.01, resolution=resolution).means
            assert (means[-1] - means[0]).std() == pytest.approx(0.01, rel=0.1)

    def test_long_random_walk_becomes_uniform(self) -> None:
        means = draw("random-walk", arms=2000, spread=5.0, resolution=300).means[-1]
        assert np.histogram(means, bins=4, range=(0, 1))[0] == pytest.approx(500, abs=80)

    @given(arms=st.integers(2, 20), gap=st.floats(0.01, 0.9), seed=seeds)
    def test_linear_means_lead_to_another_best_arm(self, arms: int, gap: float, seed: int) -> None:
        problem = draw("linear", arms=arms, gap=gap, seed=seed)
        first, last = problem.means[0], problem.means[-1]
        np.testing.assert_allclose(np.diff(problem.means, n=2, axis=0), 0.0, atol=1e-12)
        assert first.argmax() != last.argmax()
        assert min(leads(problem)[0], leads(problem)[-1]) >= gap - ROUNDING
        assert problem.variation == pytest.approx(np.abs(last - first).max())

    def test_one_arm_may_drift(self) -> None:
        assert draw("sinusoid", arms=1).arms == draw("random-walk", arms=1).arms == 1


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("random-segments", {"arms": 1}, "arms = 1: give a whole number of at least 2"),
        ("one-arm-at-a-time", {"arms": 1}, "arms = 1: give a whole number of at least 2"),
        ("best-stays-best", {"arms": "two"}, "arms = 'two': give a whole number of at least 2"),
        ("linear", {"arms": [2, 3]}, "arms = .2, 3.: give a whole number"),
        ("random-walk", {"arms": 0}, "arms = 0: give a whole number of at least 1"),
        ("random-segments", {"horizon": 0}, "horizon = 0: give a whole number of at least 1"),
        ("sinusoid", {"horizon": 10.5}, "horizon = 10.5: give a whole number of at least 1"),
        ("linear", {"horizon": 3}, "horizon 3 is shorter than the number of arms 4"),
        ("random-segments", {"segments": 0}, "segments = 0: give a whole number of at least 1"),
        ("random-segments", {"segments": 3001}, "segments = 3001: give at most the horizon, 3000"),
        ("best-stays-best", {"shortest": 601}, "shortest = 601: 5 segments in 3000 steps allow at most 600"),
        ("best-stays-best", {"shortest": 0}, "shortest = 0: give a whole number of at least 1"),
        ("random-segments", {"seed": -1}, "seed = -1: give a whole number of at least 0"),
        ("random-segments", {"seed": None}, "seed = None: give a whole number of at least 0"),
        ("random-segments", {"gap": 0.91}, r"gap = 0.91: give a number in \[0, 0.9\]"),
        ("one-arm-at-a-time", {"gap": 0.41}, r"gap = 0.41: give a number in \[0, 0.4\]"),
        ("one-ahead", {"arms": 1}, "arms = 1: give a whole number of at least 2"),
        ("one-ahead", {"base_rate": 0.95}, "base_rate = 0.95 and gap = 0.1 add up to more than 1: lower either"),
        ("one-ahead", {"base_rate": -0.1}, r"base_rate = -0.1: give a number in \[0, 1\]"),
        ("linear", {"gap": -0.1}, r"gap = -0.1: give a number in \[0, 0.9\]"),
        ("linear", {"gap": math.nan}, r"gap = nan: give a number in \[0, 0.9\]"),
        ("linear", {"gap": "big"}, r"gap = 'big': give a number in \[0, 0.9\]"),
        ("linear", {"gap": True}, r"gap = True: give a number in \[0, 0.9\]"),
        ("linear", {"resolution": 0}, "resolution = 0: give a whole number of at least 1"),
        ("sinusoid", {"amplitude": 0.6}, r"amplitude = 0.6: give a number in \[0, 0.5\]"),
        ("sinusoid", {"periods": 501}, r"periods = 501: give a number in \[0, 500\]"),
        ("random-walk", {"spread": -1}, r"spread = -1: give a number in \[0, 1e\+06\]"),
        ("random-walk", {"spread": math.inf}, r"spread = inf: give a number in \[0, 1e\+06\]"),
        ("random-walk", {"corruption": [RR]}, "1 corruptions for 4 arms"),
        ("random-segments", {"horizon": 2**54}, "horizon = .*: give a whole number of at most 9007199254740992"),
        ("random-segments", {"horizon": 10**5000}, "horizon = a number of thousands of digits: give a whole number"),
        ("random-segments", {"horizon": 2**53, "segments": 2**52}, "are too many: give at most 16777216 means"),
        ("best-stays-best", {"arms": 2**40}, "are too many: give at most 16777216 means"),
        ("linear", {"horizon": 2**50, "resolution": 1}, "1125899906842624 segments of 4 arms are too many"),
        ("random-walk", {"spread": 1e308}, r"spread = 1e\+308: give a number in"),
        ("sinusoid", {"amplitude": 10**400}, "amplitude = 1000.*: give a number in"),
    ],
)
def test_wrong_values_are_refused_in_one_line(name: str, change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        draw(name, **change)
    assert "\n" not in str(caught.value)
