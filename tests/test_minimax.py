"""Bounds for the hardest problems: the steps of their proofs, and plays."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate, theory
from maskedbandits.problems import random_segments
from naive import divergence
from naive import theory as naive
from trials import examples


@examples(200)
@given(st.integers(2, 50), st.floats(0.02, 1.0), st.floats(1.0, 1e4))
def test_constants_of_proof_suffice(arms: int, slope: float, longer: float) -> None:
    """The feedback of the two problems differs by a divergence of at most 1/2, and the constant 61 suffices."""
    steps = math.ceil(longer * 3 * (arms - 1) * max(1.0, 0.25 / slope**2))
    gap = theory.hard_gap(arms, steps, slope)
    assert 0.5 + 2 * gap <= 1 + 1e-12
    assert steps / (arms - 1) * divergence(0.5, 0.5 + 2 * slope * gap) <= 0.5 + 1e-9
    one_segment = steps * gap * math.exp(-0.5) / 8
    assert theory.minimax_lower_bound(steps, 1, arms, slope) <= one_segment
    assert theory.minimax_lower_bound(7 * steps, 7, arms, slope) == pytest.approx(
        7 * theory.minimax_lower_bound(steps, 1, arms, slope)
    )


@pytest.mark.parametrize("name", ["klucb-cf", "ts-cf", "auto", "uniform"])
@pytest.mark.parametrize("epsilon", [1.0, math.inf])
def test_no_policy_beats_bound_on_both_hard_problems(name: str, epsilon: float) -> None:
    """The mean regret of 200 plays is several times the bound."""
    mask = RandomizedResponse.from_epsilon(epsilon)
    steps, slope = 2000, mask.slope
    gap = theory.hard_gap(2, steps, slope)
    lost = []
    for second in (0.5, 0.5 + 2 * gap):
        problem = Problem([[0.5 + gap, second]], [0], steps, mask)
        policy = make_policy(name, arms=2, corruption=mask)
        lost.append(simulate(problem, policy, runs=200, checkpoints=1).regret.mean())
    assert max(lost) >= theory.minimax_lower_bound(steps, 1, 2, slope)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, math.inf])
def test_exp3s_stays_below_its_bound(epsilon: float) -> None:
    mask = RandomizedResponse.from_epsilon(epsilon)
    for segments in (1, 5):
        problem = random_segments(4, 20_000, corruption=mask, segments=segments, seed=segments)
        policy = make_policy("exp3s", arms=4, corruption=mask, horizon=20_000, changes=segments)
        lost = simulate(problem, policy, runs=20, checkpoints=1).regret.mean()
        assert lost <= theory.exp3s_bound(20_000, segments, 4, mask.slope)
        assert theory.exp3s_bound(20_000, segments, 4, mask.slope) == pytest.approx(
            theory.exp3s_bound(20_000, segments, 4) / mask.slope
        )


def test_unproved_cases_are_refused() -> None:
    with pytest.raises(ValueError, match="too short"):
        theory.minimax_lower_bound(100, 10, 10)
    for slope in (0.0, -0.5, 1.5, np.nan):
        with pytest.raises(ValueError, match="slope"):
            theory.minimax_lower_bound(10_000, 1, 2, slope)
    with pytest.raises(ValueError, match="arms"):
        theory.minimax_lower_bound(10_000, 1, 1)
    with pytest.raises(ValueError, match="at least 4 steps"):  # 3.7 steps each
        theory.minimax_lower_bound(11, 3, 2, slope=math.sqrt(3 / 4 / 3.5))


def test_uneven_segments_count_whole_steps() -> None:
    assert theory.minimax_lower_bound(10, 3, 2) == pytest.approx(3 * math.sqrt(3) / 61)  # not sqrt(3 * 10) / 61


@examples(200)
@given(st.integers(2, 20), st.integers(1, 30), st.floats(0.05, 1.0), st.integers(0, 29), st.floats(1.0, 100.0))
def test_lower_bound_counts_equal_segments_only(
    arms: int, segments: int, slope: float, beyond: int, longer: float
) -> None:
    steps = math.ceil(longer * 3 * (arms - 1) * max(1.0, 0.25 / slope**2))
    horizon = segments * steps + beyond % segments
    bound = theory.minimax_lower_bound(horizon, segments, arms, slope)
    assert bound == theory.minimax_lower_bound(segments * steps, segments, arms, slope)
    assert bound == pytest.approx(math.sqrt((arms - 1) * segments * (segments * steps)) / (61 * slope))
    assert bound <= math.sqrt((arms - 1) * segments * horizon) / (61 * slope) * (1 + 1e-12)


# The cost of a sliding window


@st.composite
def windowed(draw: st.DrawFn) -> tuple[Problem, float, int, float]:
    """A problem with gaps and lengths of any size, the slope of its mask, a window, and c."""
    arms, segments = draw(st.integers(2, 4)), draw(st.integers(1, 6))
    lengths = [draw(st.integers(arms if i == 0 else 1, 500)) for i in range(segments)]
    worst = [draw(st.sampled_from([0.001, 0.02, 0.1, 1.0])) for _ in range(segments)]
    means = [[0.5 + gap * (draw(st.integers(0, 1000)) / 1000 - 0.5) for _ in range(arms)] for gap in worst]
    mask = RandomizedResponse(*draw(st.sampled_from([(1.0, 1.0), (0.9, 0.6), (0.55, 0.55), (0.2, 0.3)])))
    problem = Problem(means, np.cumsum([0, *lengths[:-1]]), sum(lengths), mask)
    return problem, mask.slope, draw(st.integers(arms, 1000)), draw(st.sampled_from([0.0, 3.0]))


def gaps_of(problem: Problem) -> list[list[float]]:
    return [[gap for gap in row if gap > 0.0] for row in problem.gaps.tolist()]


@examples(300)
@given(windowed())
def test_window_cost_is_bounded_by_gaps(drawn: tuple[Problem, float, int, float]) -> None:
    problem, slope, window, c = drawn
    stated = naive.regret_with_gaps(gaps_of(problem), problem.lengths.tolist(), slope, window, c)
    assert theory.corrected_regret_bound(problem, window, c, capped=False) <= stated + 1e-9


@examples(300)
@given(windowed())
def test_window_cost_is_bounded_for_any_gaps(drawn: tuple[Problem, float, int, float]) -> None:
    problem, slope, window, c = drawn
    bound = theory.sw_klucb_bound(problem.horizon, problem.segments, problem.arms, abs(slope), window=window, c=c)
    dearest = naive.dearest_regret(gaps_of(problem), problem.lengths.tolist(), slope, window, c)
    assert min(dearest, problem.horizon) <= bound + 1e-9
    if problem.arms == 2:
        assert theory.corrected_regret_bound(problem, window, c) <= bound + 1e-9


@pytest.mark.parametrize("window", [5, 60, 2000, 30_000])
@pytest.mark.parametrize(("segments", "arms", "slope", "c"), [(1, 2, 1.0, 3.0), (7, 5, 0.5, 0.0)])
def test_bound_for_any_gaps_is_its_formula(segments: int, arms: int, slope: float, c: float, window: int) -> None:
    expected = naive.regret_with_any_gaps(20_000, segments, arms, slope, window, c)
    bound = theory.sw_klucb_bound(20_000, segments, arms, slope, window=window, c=c)
    assert expected <= bound * (1 + 1e-12) <= 1.01 * expected


def test_default_window_uses_no_means() -> None:
    chosen = theory.sw_klucb_bound(10**8, 10, 2, 0.5)
    assert chosen == theory.sw_klucb_bound(10**8, 10, 2, 0.5, window=theory.variation_window(10**8, 2, 9, 0.5))
    assert chosen <= 1.05 * min(theory.sw_klucb_bound(10**8, 10, 2, 0.5, window=2**k) for k in range(1, 28))
    assert theory.sw_klucb_bound(10**12, 10, 2) / theory.sw_klucb_bound(10**9, 10, 2) == pytest.approx(100, rel=0.15)


def alternating(gaps: tuple[float, float], segments: int, horizon: int, mask: RandomizedResponse) -> Problem:
    """Return two arms around 1/2 that swap means, with a large and a small gap in turns."""
    means = [[0.5 + gaps[i % 2] / 2 * (-1) ** (i + arm) for arm in (0, 1)] for i in range(segments)]
    return Problem(means, np.arange(segments) * (horizon // segments), horizon, mask)


def test_unequal_gaps_cost_more_than_equal_ones() -> None:
    """The counterexample to sqrt(8 F L T) / s, which holds where all gaps are equal."""
    horizon = 10**8

    def at_best(gaps: tuple[float, float]) -> tuple[float, float]:
        problem = alternating(gaps, 10, horizon, RandomizedResponse(1, 1))
        window = theory.corrected_window(problem)
        equal = math.sqrt(8 * naive.exploration(window, 3.0) * 10 * horizon)
        return theory.corrected_regret_bound(problem, window), equal

    bound, equal = at_best((0.9, 0.02))
    assert (round(bound, -4), round(equal, -4)) == (880_000, 390_000)
    for gap in (0.9, 0.02):
        bound, equal = at_best((gap, gap))
        assert bound < equal


@examples(60)
@given(
    st.integers(1, 10),
    st.sampled_from([1.0, 0.6, 0.25]),
    st.floats(1.0, 1e4),
    st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5),
)
def test_some_gaps_leave_the_bound_at_two_thirds(pairs: int, slope: float, longer: float, places: list[float]) -> None:
    """For every window: those up to W pay for the small gaps, longer ones for the changes."""
    segments, steps = 2 * pairs, math.ceil(longer * 84 / slope**2)
    longest = (10.5 * (steps / slope) ** 2) ** (1 / 3)
    small = math.sqrt(21 / 8 / longest) / slope
    rows = [[0.5 + (small if i % 2 == 0 else 0.5), 0.5][:: (-1) ** (i // 2)] for i in range(segments)]
    mask = RandomizedResponse((1 + slope) / 2, (1 + slope) / 2)
    problem = Problem(rows, np.arange(segments) * steps, segments * steps, mask)
    least = 0.5 * (segments * problem.horizon**2 / slope**2) ** (1 / 3)
    around = [2, 5, 6, 33, int(longest), math.ceil(longest), steps, problem.horizon]
    for window in [*around, *(round(2 * (problem.horizon / 2) ** place) for place in places)]:
        assert theory.corrected_regret_bound(problem, window) >= least


def test_plays_stay_below_the_bound_for_any_gaps() -> None:
    mask = RandomizedResponse.from_epsilon(2.0)
    for arms, segments in ((2, 2), (5, 3)):
        problem = random_segments(arms, 200_000, corruption=mask, segments=segments, seed=segments)
        window = theory.variation_window(200_000, arms, segments - 1, mask.slope)
        policy = make_policy("sw-klucb-cf", arms=arms, corruption=mask, window=window)
        lost = simulate(problem, policy, runs=4, checkpoints=1).regret.mean()
        assert lost <= theory.sw_klucb_bound(200_000, segments, arms, mask.slope) < 0.9 * 200_000


def test_window_bound_refuses_wrong_values() -> None:
    for wrong, reason in (
        ({"window": 1}, "window"),
        ({"slope": 0.0}, "slope"),
        ({"c": -1.0}, "c"),
        ({"arms": 1}, "arms"),
    ):
        with pytest.raises(ValueError, match=f"{reason} = ") as refusal:
            theory.sw_klucb_bound(**{"horizon": 100, "segments": 2, "arms": 2, **wrong})  # type: ignore[arg-type]
        assert "\n" not in str(refusal.value)
