"""Levels of confidence are the published formulas."""

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.math.confidence import exploration, plus_level
from trials import examples

counts = st.one_of(st.floats(1, 1e7), st.integers(1, 1000).map(float))


@examples(100)
@given(st.floats(1, 1e15), st.floats(0, 5))
def test_exploration_is_log_and_c_loglog(x: float, c: float) -> None:
    log = mpmath.log(x)
    assert exploration(x, c) == pytest.approx(float(log + (c * mpmath.log(log) if log > 1 else 0)), rel=1e-12)


def test_exploration_begins_at_nothing() -> None:
    assert exploration(1.0, 3.0) == 0.0
    assert exploration(math.e**2, 3.0) == pytest.approx(2 + 3 * math.log(2))


@examples(100)
@given(counts, st.integers(1, 1000), st.floats(1, 1e9))
def test_the_level_of_kl_ucb_plus_plus(count: float, arms: int, horizon: float) -> None:
    """g(n) = log+((T / (K n)) (log+(T / (K n))^2 + 1)), Ménard and Garivier 2017."""
    ratio = mpmath.mpf(horizon) / (arms * mpmath.mpf(count))
    log = max(mpmath.mpf(0), mpmath.log(ratio))
    expected = max(mpmath.mpf(0), mpmath.log(ratio * (log**2 + 1)))
    assert plus_level(count, float(arms), horizon) == pytest.approx(float(expected), rel=1e-9, abs=1e-12)
