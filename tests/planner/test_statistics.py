"""What the planner measures is what its slow twin does."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from maskedbandits.planner import statistics
from maskedbandits.planner.plans import Advice, advise
from maskedbandits.planner.statistics import Estimate
from naive import planner as naive

numbers = st.floats(-100, 100).map(lambda value: round(value, 3))
samples = st.lists(st.tuples(numbers, numbers), min_size=2, max_size=12)


@given(st.lists(numbers, min_size=2, max_size=12))
def test_estimate_is_a_mean_with_its_interval(values: list[float]) -> None:
    found = statistics.estimate(np.array(values))
    assert (found.low, found.high) == pytest.approx(naive.interval(values), abs=1e-6)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)


@given(samples)
def test_ratio_interval_matches_tests(pairs: list[tuple[float, float]]) -> None:
    parts, wholes = [part for part, _ in pairs], [whole for _, whole in pairs]
    found = statistics.estimate_ratio(np.array(parts), np.array(wholes))
    low = naive.interval(wholes)[0]
    assume(abs(low) > 1e-3)
    assert (found is None) == (low < 0)
    if found is None:
        return
    width = found.high - found.low
    assume(1e-4 < width < 1e4)
    for inside in (0.01, 0.5, 0.99):
        assert naive.may_be(found.low + inside * width, parts, wholes)
    for outside in (0.01, 1.0, 100.0):
        assert not naive.may_be(found.low - outside * width, parts, wholes)
        assert not naive.may_be(found.high + outside * width, parts, wholes)


def test_ratio_without_variance_is_a_point() -> None:
    assert statistics.estimate_ratio(np.full(3, 2.0), np.full(3, 8.0)) == Estimate(0.25, 0.25, 0.25)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=8), st.integers(1, 40), st.floats(1e-4, 1))
def test_settling_matches_naive_count(plays: list[tuple[bool, int]], stretch: int, gap: float) -> None:
    right = [shown for shown, times in plays for _ in range(times)]
    regret = np.concatenate([[0.0], np.cumsum([0.0 if shown else gap for shown in right])])
    marks = statistics.split_segment(0, len(right), stretch)
    assert statistics.find_settling(regret[marks], gap, stretch) == naive.settled_after(right, stretch)


def test_nine_of_ten_people_are_enough() -> None:
    assert statistics.find_settling(np.array([0.0, 5 * 0.1]), 0.1, 50) == 50
    assert statistics.find_settling(np.array([0.0, 6 * 0.1]), 0.1, 50) == math.inf


@given(st.lists(st.sampled_from([50.0, 100.0, 150.0, math.inf]), min_size=1, max_size=9))
def test_settling_is_the_median(times: list[float]) -> None:
    found, half = statistics.summarize_settling(times, 50), naive.half_within(times)
    assert found.people == (None if math.isinf(half) else half)
    assert found.reached == pytest.approx(sum(map(math.isfinite, times)) / len(times))


@given(st.dictionaries(st.integers(1, 10**6), st.floats(0, 1.5), min_size=1, max_size=6))
def test_break_even_is_at_half_the_loss(shares: dict[int, float]) -> None:
    assume(all(abs(share - 0.5) > 1e-6 for share in shares.values()))
    found, exact = statistics.find_break_even(shares), naive.pays_from(shares)
    if exact is None:
        assert found is None
        return
    assert found is not None
    rounding = 0.1 * exact if exact >= 10 else 1.0  # up to two digits, or to the next whole number
    assert exact * (1 - 1e-9) <= found + 1e-9 <= exact + rounding + 1e-6
    assert found in shares or found < 100 or found % 10 ** (len(str(found)) - 2) == 0


@given(
    st.dictionaries(
        st.sampled_from([0.1, 0.5, 1.0, 2.0, 4.0]), st.tuples(st.floats(-1, 1), st.floats(0, 1)), min_size=1
    ),
    st.floats(0.01, 0.99),
)
def test_advice_is_smallest_epsilon_within_tolerance(costs: dict[float, Any], tolerance: float) -> None:
    estimates = {epsilon: Estimate(mean, mean - half, mean + half) for epsilon, (mean, half) in costs.items()}
    found = advise(estimates, tolerance)
    assert found.gains
    assert found.epsilon == naive.advised({key: each.high for key, each in estimates.items()}, tolerance)
    if found.refused is None:
        assert found.epsilon == min(costs)
    else:
        refused = estimates[found.refused]
        assert refused.high > tolerance
        assert found.in_doubt == (refused.low <= tolerance)


def test_no_advice_without_gain() -> None:
    assert advise({1.0: None, 2.0: None}, 0.1) == Advice(None, None, in_doubt=False, gains=False)
