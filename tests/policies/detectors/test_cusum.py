"""CUSUM and Page-Hinkley add deviations up as their papers say."""

from hypothesis import example, given
from hypothesis import strategies as st

from maskedbandits.policies.detectors import cusum, page_hinkley
from naive import detectors as naive
from single_detector import first_alarm, fresh
from streams import drifts, dyadic, thresholds


@given(dyadic, drifts, thresholds, st.sampled_from([1, 4, 16]))
@example([0.0] * 20 + [1.0] * 9, 0.0, 8.01, 16)
@example([1.0] * 20 + [0.0] * 9, 0.0, 8.01, 16)
@example([0.0] * 20 + [1.0] * 9, 0.0, 8.0, 16)  # reaching the threshold is enough
def test_cusum(stream: list[float], drift: float, threshold: float, samples: int) -> None:
    when = first_alarm(fresh(cusum, drift=drift, threshold=threshold, samples=samples), stream)
    assert when == naive.first_alarm(stream, lambda past: naive.cusum(past, drift, threshold, samples))


@given(dyadic, drifts, thresholds)
@example([0.0] * 20 + [1.0] * 12, 0.05, 5.0)
@example([1.0] * 20 + [0.0] * 12, 0.05, 5.0)
def test_page_hinkley(stream: list[float], drift: float, threshold: float) -> None:
    when = first_alarm(fresh(page_hinkley, drift=drift, threshold=threshold), stream)
    assert when == naive.first_alarm(stream, lambda past: naive.page_hinkley(past, drift, threshold))
