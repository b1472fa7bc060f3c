"""Gaussian and Laplace noise with mean 0 that is added to rewards: g is the identity, and feedback is any number.

The classes draw simulated noise from a seed. They do not protect real data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from maskedbandits.corruption import Corruption, Polyline
from maskedbandits.errors import check_number

MAX_NOISE = 1e6  # more noise leaves nothing to learn


class _Noise:
    """Base of additive noise with mean 0: the mean is unchanged."""

    increasing = True

    @property
    def polyline(self) -> Polyline:
        """Return the identity as data."""
        return Polyline(np.array([0.0, 1.0]), np.array([0.0, 1.0]), False)

    def __call__(self, mean: float) -> float:
        """Return the mean feedback for a mean reward.

        Parameters
        ----------
        mean : float
            Mean reward.

        Returns
        -------
        float
            Mean feedback, g(mean).

        """
        return mean

    def inverse(self, feedback_mean: float) -> float:
        """Return the mean reward for a mean feedback.

        Parameters
        ----------
        feedback_mean : float
            Mean feedback.

        Returns
        -------
        float
            Mean reward. It is not clipped to [0, 1].

        """
        return feedback_mean


@dataclass(frozen=True)
class GaussianNoise(_Noise):
    """Add normal noise to the reward.

    Parameters
    ----------
    sigma : float
        Standard deviation; 0 shows the reward as it is.

    Raises
    ------
    UserError
        If sigma is negative or above 1e6.

    Examples
    --------
    >>> round(GaussianNoise.from_epsilon(1.0, delta=1e-5).sigma, 4)
    3.7306

    """

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_number("sigma", self.sigma, 0.0, MAX_NOISE))

    @classmethod
    def from_epsilon(cls, epsilon: float, delta: float, sensitivity: float = 1.0) -> "GaussianNoise":
        """Return the least noise that is (epsilon, delta)-locally differentially private.

        It bisects the exact delta (Balle and Wang 2018, Improving the Gaussian mechanism for differential privacy,
        ICML, Theorem 8), and rounds up.

        Parameters
        ----------
        epsilon : float
            Privacy loss of one report, above 0 and at most 100.
        delta : float
            Probability of a larger loss, below 1.
        sensitivity : float, default 1.0
            Largest distance of two rewards.

        Returns
        -------
        GaussianNoise
            The noise.

        Raises
        ------
        UserError
            If a value is out of range.

        Examples
        --------
        >>> GaussianNoise.from_epsilon(1.0, delta=1e-5).delta(1.0) <= 1e-5
        True

        """
        epsilon = check_number("epsilon", epsilon, 0.0, 100.0, above=True)
        delta = check_number("delta", delta, 1e-100, 1.0, below=True)
        sensitivity = check_number("sensitivity", sensitivity, 0.0, MAX_NOISE, above=True)
        low, high = 0.0, 1.0
        while _compute_gaussian_delta(high, epsilon) > delta:
            low, high = high, 2.0 * high
        while True:
            middle = 0.5 * (low + high)
            if not low < middle < high:
                return cls(high * sensitivity)
            low, high = (middle, high) if _compute_gaussian_delta(middle, epsilon) > delta else (low, middle)

    def delta(self, epsilon: float) -> float:
        """Return the least delta for which a report of a reward in [0, 1] is (epsilon, delta)-private.

        Parameters
        ----------
        epsilon : float
            Privacy loss of one report, from 0 to 100.

        Returns
        -------
        float
            The delta.

        Raises
        ------
        UserError
            If epsilon is out of range.

        Examples
        --------
        >>> round(GaussianNoise(1.0).delta(1.0), 4)
        0.1269

        """
        epsilon = check_number("epsilon", epsilon, 0.0, 100.0)
        return _compute_gaussian_delta(self.sigma, epsilon) if self.sigma > 0.0 else 1.0

    def draw(self, generator: np.random.Generator) -> float:
        """Draw noise for a simulation.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of random numbers. It is seeded, so this protects no one's privacy.

        Returns
        -------
        float
            The noise.

        """
        return self.sigma * float(generator.standard_normal())


@dataclass(frozen=True)
class LaplaceNoise(_Noise):
    """Add Laplace noise to the reward, of variance 2 scale^2.

    Parameters
    ----------
    scale : float
        Scale of the noise, above 0.

    Raises
    ------
    UserError
        If the scale is not above 0, or above 1e6.

    Examples
    --------
    >>> LaplaceNoise.from_epsilon(0.5)
    LaplaceNoise(scale=2.0)

    """

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", check_number("scale", self.scale, 0.0, MAX_NOISE, above=True))

    @classmethod
    def from_epsilon(cls, epsilon: float, sensitivity: float = 1.0) -> "LaplaceNoise":
        """Return the least noise that is epsilon-locally differentially private.

        Parameters
        ----------
        epsilon : float
            Privacy loss of one report, above 0.
        sensitivity : float, default 1.0
            Largest distance of two rewards.

        Returns
        -------
        LaplaceNoise
            The noise.

        Raises
        ------
        UserError
            If a value is out of range.

        Examples
        --------
        >>> LaplaceNoise.from_epsilon(2.0).epsilon
        2.0

        """
        sensitivity = check_number("sensitivity", sensitivity, 0.0, MAX_NOISE, above=True)
        return cls(sensitivity / check_number("epsilon", epsilon, 0.0, above=True))

    @property
    def epsilon(self) -> float:
        """Privacy loss of one report of a reward in [0, 1]."""
        return 1.0 / self.scale

    def draw(self, generator: np.random.Generator) -> float:
        """Draw noise for a simulation.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of random numbers. It is seeded, so this protects no one's privacy.

        Returns
        -------
        float
            The noise.

        """
        return float(generator.laplace(0.0, self.scale))


Noise = GaussianNoise | LaplaceNoise


def _compute_gaussian_delta(sigma: float, epsilon: float) -> float:
    """Return P(x) - e^epsilon P(y), by which reports of two rewards 1 apart exceed a ratio of e^epsilon."""
    half, shift = 0.5 / sigma, epsilon * sigma
    return _compute_normal_cdf(half - shift) - math.exp(epsilon) * _compute_normal_cdf(-half - shift)


def _compute_normal_cdf(x: float) -> float:
    """Return the standard normal distribution function."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


class Spread(NamedTuple):
    """Limit on the deviation of feedback: E exp(l (y - mean)) <= exp(l^2 sigma^2 / (2 (1 - tail |l|))).

    With a tail of 0 it is sub-Gaussian, otherwise sub-gamma (Boucheron, Lugosi and Massart 2013, Concentration
    inequalities, section 2.4).
    """

    sigma: float
    tail: float


BOUNDED = 0.5  # the sigma of any distribution on [0, 1] (Hoeffding's lemma)


def compute_spread(each: Sequence[Corruption], rewards: float = BOUNDED) -> Spread | None:
    """Return the largest spread of noisy feedback over all arms; None if all feedback is bits.

    Rewards have their own sigma, by default that of rewards in [0, 1]. Laplace noise of scale b has
    log E exp(l y) = -log(1 - b^2 l^2) <= (2 b^2) l^2 / (2 (1 - b |l|)): it adds a variance of 2 b^2, and b is its tail.
    """
    found = [_compute_one_spread(one, rewards) for one in each if isinstance(one, Noise)]
    return Spread(max(one.sigma for one in found), max(one.tail for one in found)) if found else None


def _compute_one_spread(noise: Noise, rewards: float) -> Spread:
    """Return the spread of feedback under one noise."""
    if isinstance(noise, GaussianNoise):
        return Spread(math.hypot(rewards, noise.sigma), 0.0)
    return Spread(math.hypot(rewards, math.sqrt(2.0) * noise.scale), noise.scale)
