"""Distributions of rewards around the mean of an arm: bits, numbers in [0, 1], or any numbers.

Randomised response reports bits, so a reward in [0, 1] is first rounded to 0 or 1 at random with that mean. Whatever
the distribution of rewards, the report is a bit with mean g(mean). It is simulated as if rewards were bits. Only under
noise does the distribution of rewards matter.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maskedbandits.errors import WrongValueError, check_number
from maskedbandits.noise import BOUNDED


@dataclass(frozen=True)
class Bernoulli:
    """Rewards 0 or 1."""

    sigma: ClassVar[float] = BOUNDED

    def draw(self, generator: np.random.Generator, mean: float) -> float:
        """Draw a reward.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of random numbers.
        mean : float
            Mean of the reward.

        Returns
        -------
        float
            The reward.

        """
        return float(generator.random() < mean)


@dataclass(frozen=True)
class Beta:
    """Rewards in [0, 1] with a beta distribution, Beta(mean c, (1 - mean) c).

    Parameters
    ----------
    concentration : float
        The number c: the larger it is, the closer rewards are to their mean.

    Examples
    --------
    >>> import numpy as np
    >>> Beta(4.0).draw(np.random.default_rng(0), 1.0)
    1.0

    """

    concentration: float
    sigma: ClassVar[float] = BOUNDED  # policies know only that rewards are in [0, 1]

    def __post_init__(self) -> None:
        value = check_number("concentration", self.concentration, 1e-3, 1e9)
        object.__setattr__(self, "concentration", value)

    def draw(self, generator: np.random.Generator, mean: float) -> float:
        """Draw a reward.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of random numbers.
        mean : float
            Mean of the reward.

        Returns
        -------
        float
            The reward.

        """
        if mean in (0.0, 1.0):
            return mean
        return float(generator.beta(mean * self.concentration, (1.0 - mean) * self.concentration))


@dataclass(frozen=True)
class Gaussian:
    """Rewards with a normal distribution around the mean; randomised response cannot mask them.

    Parameters
    ----------
    sigma : float
        Standard deviation.

    Examples
    --------
    >>> Gaussian(0.5).sigma
    0.5

    """

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_number("sigma", self.sigma, 0.0, 1e6, above=True))

    def draw(self, generator: np.random.Generator, mean: float) -> float:
        """Draw a reward.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of random numbers.
        mean : float
            Mean of the reward.

        Returns
        -------
        float
            The reward.

        """
        return mean + self.sigma * float(generator.standard_normal())


Rewards = Bernoulli | Beta | Gaussian


def check_rewards(rewards: object) -> Rewards:
    """Check and return the distribution of rewards; "bernoulli" is the default."""
    if isinstance(rewards, Rewards):
        return rewards
    if isinstance(rewards, str) and rewards == "bernoulli":
        return Bernoulli()
    raise WrongValueError("rewards", rewards, "'bernoulli', Beta(concentration) or Gaussian(sigma)")
