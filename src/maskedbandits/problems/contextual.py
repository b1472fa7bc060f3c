"""A problem in which each group of people has means of its own, and nobody may learn who is in which."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits.corruption import RandomizedResponse, expand_per_arm
from maskedbandits.errors import LARGEST, UserError, abbreviate, check_int
from maskedbandits.problems.problem import Floats, Ints, Problem, Rows, check_starts, compute_feedback_means

MOST_MEANS = 1 << 20


@dataclass(frozen=True, eq=False)
class ContextualProblem:
    """A bandit with groups: ``means[i, g, a]`` holds for arm a in group g from step ``starts[i]`` on.

    A visitor is of group g with probability ``shares[g]``. Regret is what the best arm of the visitor's own group would
    have given more. The ``corruption`` masks the rewards of a policy without groups, which plays one arm for everybody;
    the questions of others carry an epsilon of their own.
    """

    means: Floats
    starts: Ints
    horizon: int
    shares: Floats
    corruption: tuple[RandomizedResponse, ...] | None
    best: Floats = field(init=False, repr=False)

    def __init__(
        self,
        means: ArrayLike,
        starts: ArrayLike,
        horizon: int,
        shares: ArrayLike | None = None,
        corruption: RandomizedResponse | Sequence[RandomizedResponse] | None = None,
    ) -> None:
        cube = _validation.check_cube("means", means)
        steps = check_int("horizon", horizon, 1, LARGEST)
        begins = check_starts(starts, cube.shape[0], steps)
        groups = cube.shape[1]
        own = (
            np.full(groups, 1.0 / groups)
            if shares is None
            else _validation.check_parts_of_one("shares", shares, groups)
        )
        if groups * cube.shape[2] > MOST_MEANS:
            raise UserError("a million means are more than can be played: give fewer groups, or fewer arms")
        values = {
            "means": cube,
            "starts": begins,
            "horizon": steps,
            "shares": own,
            "corruption": None if corruption is None else _check_responses(corruption, cube.shape[2]),
            "best": cube.max(axis=2),
        }
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def segments(self) -> int:
        """Number of segments: 1 if nothing ever changes."""
        return int(self.means.shape[0])

    @property
    def groups(self) -> int:
        """Number of groups, G."""
        return int(self.means.shape[1])

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self.means.shape[2])

    @property
    def gaps(self) -> NDArray[np.float64]:
        """What a pull of each arm costs in each group and segment, (L, G, K)."""
        return np.asarray(self.best[:, :, None] - self.means)

    @property
    def columns(self) -> int:
        """Number of means in a row: of one group after the other."""
        return self.groups * self.arms

    @property
    def is_noisy(self) -> bool:
        """Tell that answers are no rewards with noise."""
        return False

    def rows(self, *, masked: bool) -> Rows:
        """Return what is played, a row for each segment, in it the arms of one group after the other's.

        Masked, it is what a policy without groups is shown.
        """
        gaps, means = (each.reshape(self.segments, -1) for each in (self.gaps, self.means))
        if masked and self.corruption is not None:
            means = compute_feedback_means(self.corruption * self.groups, means)
        return Rows(np.append(self.starts, self.horizon), means.copy(), gaps, gaps > 0.0)

    def averaged(self) -> Problem:
        """Return the problem that a policy without groups meets: means are those over all visitors."""
        if self.corruption is None:
            raise missing_corruption_error()
        return Problem(self.shares @ self.means, self.starts, self.horizon, self.corruption)


def missing_corruption_error() -> UserError:
    """Return what is said where a policy without groups is to play, and nothing masks its rewards."""
    return UserError(
        "the problem says nothing of what masks rewards, as a policy without groups sees them: give ContextualProblem "
        "a corruption, or play a policy of make_contextual"
    )


def _check_responses(
    corruption: RandomizedResponse | Sequence[RandomizedResponse], arms: int
) -> tuple[RandomizedResponse, ...]:
    """Return the randomised response of every arm."""
    found = list(corruption) if isinstance(corruption, Iterable) else [corruption] * arms
    for one in found:
        if not isinstance(one, RandomizedResponse):
            raise UserError(f"corruption = {abbreviate(one)}: give a RandomizedResponse, or one for each arm")
    expand_per_arm(found, arms)
    return tuple(found)
