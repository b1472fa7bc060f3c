"""Two windows are compared as their paper says, and their sums stay those of what is in them."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maskedbandits.policies.detectors import two_windows
from naive import detectors as naive
from single_detector import first_alarm, fresh
from streams import dyadic, thresholds


@given(dyadic, thresholds, st.integers(1, 20))
@example([0.0] * 20 + [1.0] * 6, 5.01, 8)
@example([1.0] * 20 + [0.0] * 6, 5.01, 10)
@example([1.0] * 20 + [0.0] * 6, 4.0, 4)  # reaching the threshold is not
@example([1.0] * 20 + [0.0] * 6, 4.0, 5)
def test_two_windows(stream: list[float], threshold: float, half: int) -> None:
    when = first_alarm(fresh(two_windows, threshold=threshold, width=2 * half), stream)
    assert when == naive.first_alarm(stream, lambda past: naive.two_windows(past, 2 * half, threshold))


def test_two_windows_of_fractions_do_not_drift() -> None:
    rng = np.random.default_rng(5)
    state, stream = fresh(two_windows, threshold=5.0, width=10), rng.random(3003)
    assert first_alarm(state, stream) == 0
    assert state.recent[0] == pytest.approx(stream[-5:].sum(), abs=1e-14)
    assert state.older[0] == pytest.approx(stream[-10:-5].sum(), abs=1e-14)


@given(dyadic, st.integers(1, 10))
def test_odd_width_is_rounded_down(stream: list[float], half: int) -> None:
    even, odd = (fresh(two_windows, threshold=1.01, width=width) for width in (2 * half, 2 * half + 1))
    assert first_alarm(odd, stream) == first_alarm(even, stream)
