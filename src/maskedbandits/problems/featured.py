"""Problems with features: the best arm depends on public features of the visitor, and rewards are masked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import LARGEST, UserError, abbreviate, check_int
from maskedbandits.problems.problem import Ints, check_starts, describe_size


@dataclass(frozen=True, eq=False)
class FeaturedProblem:
    """A bandit with features: the mean of an arm is a logistic function of them.

    Features are drawn in every step: a constant 1, then d - 1 independent standard normal numbers. Arm ``a`` gives a
    reward of 1 with probability sigma(weights[i, a] @ features), where sigma is the logistic function. Regret is
    measured against the best arm for these features.

    Parameters
    ----------
    weights : array_like, shape (L, K, d)
        Weights by segment, arm and feature. A table (K, d) is one segment.
    starts : array_like, shape (L,)
        First step of each segment, increasing; the first is 0.
    horizon : int
        Number of steps.
    corruption : RandomizedResponse
        What masks the rewards.

    Attributes
    ----------
    weights : ndarray, shape (L, K, d)
        Weights by segment, arm and feature.
    starts : ndarray, shape (L,)
        First step of each segment.
    horizon : int
        Number of steps.
    corruption : RandomizedResponse
        What masks the rewards.

    Raises
    ------
    UserError
        If a value is out of range, or the shapes disagree.

    Examples
    --------
    >>> from maskedbandits import FeaturedProblem, RandomizedResponse
    >>> problem = FeaturedProblem([[0.0, 1.0], [0.5, -1.0]], [0], 1000, RandomizedResponse(0.9, 0.9))
    >>> problem.arms, problem.features
    (2, 2)

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

    def __setstate__(self, state: dict[str, object]) -> None:
        _validation.restore_read_only(self, state)

    def __repr__(self) -> str:
        features = f"{self.features:,} feature{'s' * (self.features != 1)}"
        return (
            f"<FeaturedProblem: {describe_size(self.arms, self.segments, self.horizon, features)}, {self.corruption!r}>"
        )

    @property
    def segments(self) -> int:
        """Number of segments: 1 if the weights never change."""
        return int(self.weights.shape[0])

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self.weights.shape[1])

    @property
    def features(self) -> int:
        """Number of features, d, including the constant."""
        return int(self.weights.shape[2])

    @property
    def columns(self) -> int:
        """Number of arms whose pulls are counted."""
        return self.arms
