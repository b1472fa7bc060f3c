"""Problems with groups: each group of visitors has its own means, and group membership is private."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits.corruption import RandomizedResponse, expand_per_arm
from maskedbandits.errors import LARGEST, UserError, abbreviate, check_int
from maskedbandits.problems.problem import (
    Floats,
    Ints,
    Problem,
    Rows,
    check_starts,
    compute_feedback_means,
    describe_size,
)

MAX_MEANS = 1 << 20


@dataclass(frozen=True, eq=False)
class ContextualProblem:
    """A bandit with groups of visitors, each with its own means.

    ``means[i, g, a]`` is the mean of arm ``a`` in group ``g`` from step ``starts[i]`` on. Regret is measured against
    the best arm of the visitor's group.

    Parameters
    ----------
    means : array_like, shape (L, G, K)
        Mean reward by segment, group and arm, in [0, 1]. A table (G, K) is one segment.
    starts : array_like, shape (L,)
        First step of each segment, increasing; the first is 0.
    horizon : int
        Number of steps.
    shares : array_like, shape (G,), optional
        Share of visitors in each group. By default all groups are equally large.
    corruption : RandomizedResponse or sequence of RandomizedResponse, optional
        What masks rewards for a policy without groups, which plays one arm for all visitors. Questions of contextual
        policies have their own epsilon.

    Attributes
    ----------
    means : ndarray, shape (L, G, K)
        Mean reward by segment, group and arm.
    starts : ndarray, shape (L,)
        First step of each segment.
    horizon : int
        Number of steps.
    shares : ndarray, shape (G,)
        Share of visitors in each group.
    corruption : tuple of RandomizedResponse or None
        What masks rewards for a policy without groups, arm by arm.
    best : ndarray, shape (L, G)
        Mean of the best arm of each group in each segment.

    Raises
    ------
    UserError
        If a value is out of range, the shapes disagree, or there are too many means.

    Examples
    --------
    >>> from maskedbandits import ContextualProblem
    >>> problem = ContextualProblem([[0.9, 0.1], [0.2, 0.8]], [0], 1000)
    >>> problem.groups, problem.arms, problem.shares.tolist()
    (2, 2, [0.5, 0.5])

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
        if groups * cube.shape[2] > MAX_MEANS:
            raise UserError("more than a million means: give fewer groups or arms")
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
        """Number of segments: 1 if the means never change."""
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
        """Cost of a pull of each arm in each group and segment, (L, G, K)."""
        return np.asarray(self.best[:, :, None] - self.means)

    def __setstate__(self, state: dict[str, object]) -> None:
        _validation.restore_read_only(self, state)

    def __repr__(self) -> str:
        groups = f"{self.groups:,} group{'s' * (self.groups != 1)}"
        return f"<ContextualProblem: {describe_size(self.arms, self.segments, self.horizon, groups)}>"

    @property
    def columns(self) -> int:
        """Number of means in a row: those of one group after the other."""
        return self.groups * self.arms

    @property
    def is_noisy(self) -> bool:
        """Whether feedback has additive noise: never."""
        return False

    def rows(self, *, masked: bool) -> Rows:
        """Return the values that are played, row by row, one group after the other in a row.

        Parameters
        ----------
        masked : bool
            Whether to mask them as for a policy without groups.

        Returns
        -------
        Rows
            Starts, means, costs, and whether another arm is better.

        """
        gaps, means = (each.reshape(self.segments, -1) for each in (self.gaps, self.means))
        if masked and self.corruption is not None:
            means = compute_feedback_means(self.corruption * self.groups, means)
        return Rows(np.append(self.starts, self.horizon), means.copy(), gaps, gaps > 0.0)

    def average_groups(self) -> Problem:
        """Return the problem of a policy without groups: the means over all visitors.

        Returns
        -------
        Problem
            The problem without groups.

        Raises
        ------
        UserError
            If the problem has no corruption.

        Examples
        --------
        >>> from maskedbandits import ContextualProblem, RandomizedResponse
        >>> problem = ContextualProblem([[0.9, 0.1], [0.2, 0.8]], [0], 1000, corruption=RandomizedResponse(0.9, 0.9))
        >>> problem.average_groups().means.round(2).tolist()
        [[0.55, 0.45]]

        """
        if self.corruption is None:
            raise missing_corruption_error()
        return Problem(self.shares @ self.means, self.starts, self.horizon, self.corruption)


def missing_corruption_error() -> UserError:
    """Return the error for a policy without groups on a problem without a corruption."""
    return UserError(
        "a policy without groups requires the problem's corruption: give ContextualProblem a corruption, or use a "
        "policy "
        "of make_contextual"
    )


def _check_responses(
    corruption: RandomizedResponse | Sequence[RandomizedResponse], arms: int
) -> tuple[RandomizedResponse, ...]:
    """Check and return the randomised response of every arm."""
    found = list(corruption) if isinstance(corruption, Iterable) else [corruption] * arms
    for one in found:
        if not isinstance(one, RandomizedResponse):
            raise UserError(f"corruption = {abbreviate(one)}: give a RandomizedResponse, or one for each arm")
    expand_per_arm(found, arms)
    return tuple(found)
