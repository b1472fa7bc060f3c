import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maskedbandits.math import kl
from naive import divergence as naive_divergence

mpmath.mp.dps = 50

probabilities = st.one_of(
    st.floats(0, 1),
    st.integers(0, 40).map(lambda k: k / 40),
    st.floats(-18, 0).map(lambda e: 10.0**e),
    st.floats(-16, 0).map(lambda e: 1 - 10.0**e),
)
thresholds = st.one_of(st.floats(0, 800), st.floats(-20, 3).map(lambda e: 10.0**e))


def exact_divergence(p: float, q: mpmath.mpf) -> mpmath.mpf:
    p = mpmath.mpf(p)
    if q == 1 and p < 1:
        return mpmath.inf
    left = p * mpmath.log(p / q) if p > 0 else 0
    right = (1 - p) * mpmath.log((1 - p) / (1 - q)) if p < 1 else 0
    return left + right


def exact_upper(p: float, x: float) -> mpmath.mpf:
    if p == 1:
        return mpmath.mpf(1)
    low, high = mpmath.mpf(p), mpmath.mpf(1)
    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if exact_divergence(p, middle) <= x else (low, middle)
    return low


@given(probabilities, st.floats(0, 1))
@example(0.0, 0.0)
@example(1.0, 1.0)
@example(1.0, 0.0)
@example(0.5, 1.0)
def test_divergence_is_that_of_arbitrary_precision(p: float, q: float) -> None:
    expected = naive_divergence(p, q)
    if math.isfinite(expected):
        expected = float(exact_divergence(p, mpmath.mpf(q)))
    assert kl.divergence(p, q) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@given(probabilities, thresholds)
@example(0.0, 0.0)
@example(0.0, 1e-20)
@example(1.0, 5.0)
@example(0.5, 1e-20)
@example(1e-300, 1e-9)
@example(5e-324, 700.0)
@example(1 - 2**-53, 1e-3)
@example(2**-53, 800.0)
@example(0.2689, 19.0)  # 1 - q is hardly more than rounding
@example(0.2689, 23.5)
def test_inverses_are_exact_to_1e_10(p: float, x: float) -> None:
    assert abs(kl.upper(p, x) - exact_upper(p, x)) < 1e-12
    # the lower inverse at p is the upper at 1 - p, where 1 - p is rounded: compare there
    assert abs(kl.lower(p, x) - (1 - exact_upper(1 - p, x))) < 1e-12


@given(probabilities, thresholds)
def test_inverse_stays_in_range(p: float, x: float) -> None:
    assert p <= kl.upper(p, x) <= 1
    assert 0 <= kl.lower(p, x) <= p + 1e-15


def test_few_steps_are_enough() -> None:
    """The residual of the solution on a dense grid, where a search that gave up early would show."""
    for p in np.linspace(0.001, 0.999, 97):
        for x in 10.0 ** np.linspace(-8, 1, 91):
            q = kl.upper(float(p), float(x))
            if q < 1 - 1e-6:
                assert kl.divergence(float(p), q) == pytest.approx(x, rel=1e-6, abs=1e-14)
