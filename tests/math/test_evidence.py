import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.math import confidence
from naive import confidence as naive
from trials import examples


@examples(60)
@given(st.floats(0.1, 400), st.floats(0, 1), st.floats(0.01, 0.99))
def test_evidence_is_the_average_likelihood_ratio(count: float, share: float, mean: float) -> None:
    total = share * count
    expected = naive.evidence_above(count, total, mean)
    above = confidence.evidence_above(count, total, mean)
    if above == -math.inf:  # where it underflows there is none
        assert expected < 0
        return
    assert above == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert confidence.evidence_below(count, count - total, 1 - mean) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_ends_of_the_scale() -> None:
    assert confidence.evidence_above(5, 5, 1.0) == 0.0  # nothing is above 1
    assert confidence.evidence_above(5, 0, 0.0) == 0.0
    assert confidence.evidence_above(5, 1, 0.0) == math.inf
    assert confidence.evidence_above(0, 0, 0.5) == 0.0
    assert confidence.evidence_above(1e6, 1e5, 0.9) == -math.inf  # so far below that it underflows


@examples(100)
@given(st.floats(0.5, 1e5), st.floats(0, 1), st.sampled_from([0.5, 0.05, 1e-6]))
def test_an_interval_ends_where_the_evidence_is_just_too_strong(count: float, share: float, delta: float) -> None:
    total = share * count
    low, high = confidence.interval(count, total, delta)
    assert 0.0 <= low <= share <= high <= 1.0
    level, step = math.log(2 / delta), 1e-9
    if high < 1.0 - step:
        inside, outside = (confidence.evidence_below(count, total, end) for end in (high - step, high + step))
        assert inside < level < outside
    if low > step:
        inside, outside = (confidence.evidence_above(count, total, end) for end in (low + step, low - step))
        assert inside < level < outside


def test_interval_contains_the_mean_at_all_times() -> None:
    """300 streams of 1,000 bits, looked at 15 times each: at most delta = 10 % of them may ever exclude the mean.

    Were it 10 % exactly, more than 22 % would be seen with a probability below 1e-8 (binomial).
    """
    rng = np.random.default_rng(5)
    sums = (rng.random((300, 1000)) < 0.3).cumsum(axis=1)
    looks = np.unique(np.geomspace(2, 1000, 15).astype(int))
    missed = 0
    for row in sums:
        kept = (confidence.interval(n, float(row[n - 1]), 0.1) for n in looks)
        missed += any(not low <= 0.3 <= high for low, high in kept)
    assert 0 < missed < 0.22 * 300


@examples(15)
@given(st.floats(1e-3, 1e6), st.sampled_from([0.5, 0.05, 1e-6]))
def test_a_sum_may_stray_until_the_evidence_is_just_too_strong(squares: float, delta: float) -> None:
    stray = confidence.radius(squares, delta)
    assert naive.evidence_of_stray(stray, squares, 0.75) == pytest.approx(-math.log(delta), rel=1e-9)


def test_weighted_sums_stay_within_the_radius() -> None:
    """2,000 plays, looked at after every feedback: at most 5 % ever stray further (with 4 standard errors, 7 %)."""
    rng = np.random.default_rng(3)
    weights = rng.choice([0.05, 0.5, 1.0, 3.0], size=(2000, 200))
    strays = np.cumsum(weights * ((rng.random((2000, 200)) < 0.3) - 0.3), axis=1)
    squares = np.cumsum(weights**2, axis=1)
    allowed = np.vectorize(confidence.radius)(squares, 0.05)
    assert np.mean(np.any(np.abs(strays) > allowed, axis=1)) < 0.07
