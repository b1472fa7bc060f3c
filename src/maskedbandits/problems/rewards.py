"""How rewards are drawn around the mean of an arm: bits, numbers in [0, 1], or any numbers.

What a policy is shown depends on the corruption. Randomised response reports bits, so a reward in [0, 1] is first
rounded to 0 or 1 at random with that mean: whatever its distribution, the report is a bit of mean g(mean), in law the
same as with Bernoulli rewards, and simulated as such. Only under noise does the distribution of rewards make a
difference.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maskedbandits.corruption import BOUNDED
from maskedbandits.errors import WrongValueError, check_number


@dataclass(frozen=True)
class Bernoulli:
    """0 or 1."""

    sigma: ClassVar[float] = BOUNDED

    def draw(self, generator: np.random.Generator, mean: float) -> float:
        """Draw a reward."""
        return float(generator.random() < mean)


@dataclass(frozen=True)
class Beta:
    """Numbers in [0, 1], from Beta(mean c, (1 - mean) c): the larger the concentration c, the closer to the mean."""

    concentration: float
    sigma: ClassVar[float] = BOUNDED  # all that a policy knows of them is that they are in [0, 1]

    def __post_init__(self) -> None:
        value = check_number("concentration", self.concentration, 1e-3, 1e9)
        object.__setattr__(self, "concentration", value)

    def draw(self, generator: np.random.Generator, mean: float) -> float:
        """Draw a reward."""
        if mean in (0.0, 1.0):
            return mean
        return float(generator.beta(mean * self.concentration, (1.0 - mean) * self.concentration))


@dataclass(frozen=True)
class Gaussian:
    """Any numbers: normal ones of a standard deviation around the mean. They cannot be rounded to bits."""

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", check_number("sigma", self.sigma, 0.0, 1e6, above=True))

    def draw(self, generator: np.random.Generator, mean: float) -> float:
        """Draw a reward."""
        return mean + self.sigma * float(generator.standard_normal())


Rewards = Bernoulli | Beta | Gaussian


def check_rewards(rewards: object) -> Rewards:
    """Return how rewards are drawn; "bernoulli" is the usual way."""
    if isinstance(rewards, Rewards):
        return rewards
    if isinstance(rewards, str) and rewards == "bernoulli":
        return Bernoulli()
    raise WrongValueError("rewards", rewards, "'bernoulli', Beta(concentration) or Gaussian(sigma)")
