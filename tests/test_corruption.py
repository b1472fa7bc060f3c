import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.corruption import Monotone, RandomizedResponse
from maskedbandits.noise import GaussianNoise, LaplaceNoise, compute_spread
from monotone import FUNCTIONS
from naive.unbounded import gaussian_delta

probability = st.floats(0, 1)


@given(probability, probability, st.floats(-1, 2))
def test_randomized_response_is_affine_and_invertible(p00: float, p11: float, mean: float) -> None:
    if abs(p00 + p11 - 1) < 1e-3:
        return
    g = RandomizedResponse(p00, p11)
    assert g(mean) == pytest.approx(1 - p00 + (p00 + p11 - 1) * mean, abs=1e-12)
    assert g.inverse(g(mean)) == pytest.approx(mean, abs=1e-9)


@given(st.floats(0.01, 15))
def test_epsilon_of_the_private_response(epsilon: float) -> None:
    g = RandomizedResponse.from_epsilon(epsilon)
    assert g.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert g.p00 == g.p11 == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)))
    assert g.slope == pytest.approx(math.tanh(epsilon / 2))


@given(probability, probability)
def test_epsilon_is_the_largest_of_four_log_ratios(p00: float, p11: float) -> None:
    if abs(p00 + p11 - 1) < 1e-11:
        return
    pairs = [(p00, 1 - p11), (1 - p11, p00), (p11, 1 - p00), (1 - p00, p11)]
    ratios = [0.0 if a == b else math.log(a) - math.log(b) if a > 0 and b > 0 else math.inf for a, b in pairs]
    assert RandomizedResponse(p00, p11).epsilon == pytest.approx(max(ratios), rel=1e-9, abs=1e-12)


def test_certain_report_is_not_private() -> None:
    assert RandomizedResponse(1.0, 0.5).epsilon == math.inf
    assert RandomizedResponse(1.0, 1.0).epsilon == math.inf
    assert RandomizedResponse.from_epsilon(math.inf) == RandomizedResponse(1.0, 1.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_monotone_function_is_followed_within_1e_9(name: str) -> None:
    function = FUNCTIONS[name]
    g = Monotone(function)
    assert g.error < 1e-9
    assert g.increasing == (function(1.0) > function(0.0))
    for mean in np.random.default_rng(0).random(2000):
        y = function(float(mean))
        # where g is flat, the rounding of y alone moves the mean: then compare on the feedback scale
        assert abs(g.inverse(y) - mean) < 1e-9 or abs(function(g.inverse(y)) - y) < 1e-14


@pytest.mark.parametrize("name", FUNCTIONS)
def test_outside_it_continues_with_secant_slope(name: str) -> None:
    function = FUNCTIONS[name]
    g = Monotone(function)
    secant = function(1.0) - function(0.0)
    for mean in (-0.7, -0.1, 1.2, 3.0):
        y = function(0.0) + secant * mean if mean < 0 else function(1.0) + secant * (mean - 1)
        assert g(mean) == pytest.approx(y)
        assert g.inverse(y) == pytest.approx(mean)


def test_given_inverse_is_used_and_checked() -> None:
    calls = []

    def root(y: float) -> float:
        calls.append(y)
        return math.sqrt(y)

    g = Monotone(lambda x: x * x, inverse=root)
    calls.clear()
    assert g.inverse(0.25) == 0.5
    assert calls == [0.25]
    with pytest.raises(ValueError, match="the inverse of g"):
        Monotone(lambda x: x * x, inverse=lambda y: y)


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (lambda x: 0.5, "monotone"),
        (lambda x: abs(x - 0.3), "monotone"),
        (lambda x: x / 2 if x < 0.4 else x / 2 + 0.1, "monotone|jumps"),
        (lambda x: 2 * x, r"into \[0, 1\]"),
        (lambda x: math.nan, r"into \[0, 1\]"),
        (lambda x: "much", "not a number"),
    ],
)
def test_invalid_function_is_refused(function: Callable[[float], float], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Monotone(function)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("p00", "p11"),
    [
        (0.5, 0.5),
        (0.3, 0.7),
        (0.7, 0.3),
        (0.9, 0.1),
        (0.55, 0.45),
        (-0.1, 0.9),
        (0.9, 1.1),
        (math.nan, 0.9),
        (0.9, math.inf),
        ("x", 0.9),
        (0.9, None),
        ([0.9], 0.9),
    ],
)
def test_invalid_probabilities_are_refused(p00: Any, p11: Any) -> None:
    with pytest.raises(ValueError, match=r"give|change either"):
        RandomizedResponse(p00, p11)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, 1e-20, "x", None, [1]])
def test_invalid_epsilon_is_refused(epsilon: Any) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        RandomizedResponse.from_epsilon(epsilon)


class TestMechanisms:
    """Noise is as private as claimed."""

    @pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-2), (1.0, 1e-5), (4.0, 1e-3)])
    def test_gaussian_noise_has_exactly_its_delta(self, epsilon: float, delta: float) -> None:
        """Integrate the two densities; a thousandth less noise does not suffice."""
        sigma = GaussianNoise.from_epsilon(epsilon, delta).sigma
        assert gaussian_delta(sigma, epsilon) == pytest.approx(delta, rel=1e-4)
        assert gaussian_delta(0.999 * sigma, epsilon) > delta
        assert GaussianNoise(sigma).delta(epsilon) <= delta * (1 + 1e-9)
        assert GaussianNoise.from_epsilon(epsilon, delta, sensitivity=3).sigma == pytest.approx(3 * sigma)

    @given(st.floats(0.05, 10), st.floats(1e-12, 0.5))
    def test_more_privacy_needs_more_noise(self, epsilon: float, delta: float) -> None:
        sigma = GaussianNoise.from_epsilon(epsilon, delta).sigma
        assert GaussianNoise.from_epsilon(epsilon / 2, delta).sigma > sigma
        assert GaussianNoise.from_epsilon(epsilon, delta / 2).sigma > sigma
        classic = math.sqrt(2 * math.log(1.25 / delta)) / epsilon  # Dwork and Roth 2014, for epsilon below 1
        assert epsilon >= 1 or sigma < classic

    @given(st.floats(0.01, 20), st.floats(-30, 30))
    def test_laplace_noise_has_exactly_its_epsilon(self, epsilon: float, report: float) -> None:
        """No report is more than e^epsilon times as likely under a reward of 1 than under one of 0; some are."""
        noise = LaplaceNoise.from_epsilon(epsilon)
        logs = [-abs(report - reward) / noise.scale for reward in (0.0, 1.0)]
        assert abs(logs[0] - logs[1]) <= epsilon * (1 + 1e-9)
        if not 0 < report < 1:
            assert abs(logs[0] - logs[1]) == pytest.approx(epsilon, rel=1e-6)
        assert noise.epsilon == pytest.approx(epsilon)

    @given(st.floats(0.05, 5), st.floats(-0.99, 0.99))
    def test_laplace_noise_is_sub_gamma(self, scale: float, share: float) -> None:
        """E exp(l y) = 1 / (1 - scale^2 l^2) is at most the limit of its spread, for constant rewards."""
        known = compute_spread([LaplaceNoise(scale)], rewards=0.0)
        assert known is not None
        rate = share / scale
        allowed = rate**2 * known.sigma**2 / (2 * (1 - known.tail * abs(rate)))
        assert -math.log(1 - scale**2 * rate**2) <= allowed + 1e-12

    @pytest.mark.parametrize(
        ("make", "complaint"),
        [
            (lambda: GaussianNoise(-1), "sigma"),
            (lambda: GaussianNoise(math.nan), "sigma"),
            (lambda: LaplaceNoise(0), "scale"),
            (lambda: LaplaceNoise(math.inf), "scale"),
            (lambda: LaplaceNoise.from_epsilon(0), "epsilon"),
            (lambda: LaplaceNoise.from_epsilon(1, sensitivity=0), "sensitivity"),
            (lambda: GaussianNoise.from_epsilon(0, 0.1), "epsilon"),
            (lambda: GaussianNoise.from_epsilon(1, 0), "delta"),
            (lambda: GaussianNoise.from_epsilon(1, 1), "delta"),
        ],
    )
    def test_invalid_noise_is_refused(self, make: Any, complaint: str) -> None:
        with pytest.raises(ValueError, match=f"{complaint} = ") as caught:
            make()
        assert "\n" not in str(caught.value)
