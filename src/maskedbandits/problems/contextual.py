"""A problem in which each group of people has means of its own, and nobody may learn who is in which."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import arrays
from maskedbandits.errors import LARGEST, UserError, whole
from maskedbandits.problems.problem import Floats, Ints, Rows, checked_starts


@dataclass(frozen=True, eq=False)
class ContextualProblem:
    """A bandit with groups: ``means[i, g, a]`` holds for arm a in group g from step ``starts[i]`` on.

    A visitor is of group g with probability ``shares[g]``. Regret is what the best arm of the visitor's own group would
    have given more.
    """

    means: Floats
    starts: Ints
    horizon: int
    shares: Floats
    best: Floats = field(init=False, repr=False)

    def __init__(self, means: ArrayLike, starts: ArrayLike, horizon: int, shares: ArrayLike | None = None) -> None:
        cube = arrays.cube("means", means)
        steps = whole("horizon", horizon, 1, LARGEST)
        begins = checked_starts(starts, cube.shape[0], steps)
        groups = cube.shape[1]
        own = np.full(groups, 1.0 / groups) if shares is None else arrays.parts_of_one("shares", shares, groups)
        if groups * cube.shape[2] > 1 << 20:
            raise UserError("a million means are more than can be played: give fewer groups, or fewer arms")
        values = {"means": cube, "starts": begins, "horizon": steps, "shares": own, "best": cube.max(axis=2)}
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
        """Return what is played, a row for each segment, in it the arms of one group after the other's."""
        gaps = self.gaps.reshape(self.segments, -1)
        return Rows(
            np.append(self.starts, self.horizon), self.means.reshape(self.segments, -1).copy(), gaps, gaps > 0.0
        )
