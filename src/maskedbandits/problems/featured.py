"""A problem in which the best arm depends on features that everybody may see, and rewards are masked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import LARGEST, UserError, abbreviate, check_int
from maskedbandits.problems.problem import Ints, check_starts


@dataclass(frozen=True, eq=False)
class FeaturedProblem:
    """A bandit with features: ``weights[i, a]`` are those of arm a from step ``starts[i]`` on.

    In every step features are drawn anew: first a constant 1, then d - 1 independent standard normal numbers. Arm a
    gives a reward of 1 with probability sigma(weights x features), sigma the logistic function; the corruption masks
    it. Regret is what the best arm for these features would have given more.
    """

    weights: NDArray[np.float64]
    starts: Ints
    horizon: int
    corruption: RandomizedResponse

    def __init__(self, weights: ArrayLike, starts: ArrayLike, horizon: int, corruption: RandomizedResponse) -> None:
        steps = check_int("horizon", horizon, 1, LARGEST)
        block = _validation.check_weights("weights", weights)
        if not isinstance(corruption, RandomizedResponse):
            raise UserError(f"corruption = {abbreviate(corruption)}: give a RandomizedResponse")
        begins = check_starts(starts, block.shape[0], steps)
        for array in (block, begins):
            array.flags.writeable = False
        for name, value in (("weights", block), ("starts", begins), ("horizon", steps), ("corruption", corruption)):
            object.__setattr__(self, name, value)

    @property
    def segments(self) -> int:
        """Number of segments: 1 if nothing ever changes."""
        return int(self.weights.shape[0])

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self.weights.shape[1])

    @property
    def features(self) -> int:
        """Number of features, d, the constant among them."""
        return int(self.weights.shape[2])

    @property
    def columns(self) -> int:
        """Number of arms that are counted."""
        return self.arms
