"""The compiled polyline is the inverse of every corruption, as a policy computes it."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maskedbandits.corruption import Corruption, Monotone, RandomizedResponse
from maskedbandits.math import piecewise
from monotone import FUNCTIONS
from trials import examples

probability = st.floats(0, 1)
increasing = st.lists(st.integers(1, 100), min_size=2, max_size=12).map(lambda steps: np.cumsum(steps) / 1200)


def inverse_of(g: Corruption, y: float) -> float:
    """What a policy computes: the polyline's inverse of the feedback, flipped if need be."""
    means, feedbacks, flipped = g.polyline
    return piecewise.inverse(1 - y if flipped else y, means, feedbacks, 0, means.size - 1)


@examples(200)
@given(increasing, st.integers(0, 5), st.integers(0, 5), st.floats(-0.5, 1.5))
@example(np.array([0.1, 0.2, 0.7]), 1, 2, 0.7005)  # just outside
@example(np.array([0.1, 0.2, 0.7]), 1, 2, 0.0995)
@example(np.array([0.1, 0.2, 0.7]), 0, 0, 0.2)
def test_between_nodes_it_is_a_straight_line(
    feedbacks: np.ndarray[tuple[int], np.dtype[np.float64]], before: int, after: int, y: float
) -> None:
    """Against numpy's interpolation; what lies before and after among the nodes belongs to other arms."""
    means = np.linspace(0, 1, feedbacks.size) ** 2
    low, high = feedbacks[0], feedbacks[-1]
    expected = float(np.interp(y, feedbacks, means)) + (min(y - low, 0) + max(y - high, 0)) / (high - low)
    x_nodes, y_nodes = (np.concatenate([np.full(before, 7.0), own, np.full(after, -7.0)]) for own in (means, feedbacks))
    got = piecewise.inverse(y, x_nodes, y_nodes, before, before + feedbacks.size - 1)
    assert got == pytest.approx(expected, abs=1e-12)


@given(probability, probability, st.floats(-1, 2))
def test_randomized_response_is_inverted(p00: float, p11: float, mean: float) -> None:
    if abs(p00 + p11 - 1) < 1e-3:
        return
    g = RandomizedResponse(p00, p11)
    assert inverse_of(g, g(mean)) == pytest.approx(mean, abs=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_monotone_function_is_inverted_within_1e_9(name: str) -> None:
    function = FUNCTIONS[name]
    g = Monotone(function)
    for mean in np.random.default_rng(0).random(2000):
        y = function(float(mean))
        # where g is flat, the rounding of y alone moves the mean: then compare on the feedback scale
        inverse = inverse_of(g, y)
        assert abs(inverse - mean) < 1e-9 or abs(function(inverse) - y) < 1e-14


@pytest.mark.parametrize("name", FUNCTIONS)
def test_outside_it_goes_on_with_the_secant_slope(name: str) -> None:
    function = FUNCTIONS[name]
    g = Monotone(function)
    secant = function(1.0) - function(0.0)
    for mean in (-0.7, -0.1, 1.2, 3.0):
        y = function(0.0) + secant * mean if mean < 0 else function(1.0) + secant * (mean - 1)
        assert inverse_of(g, y) == pytest.approx(mean)
