"""Generators of problems with groups from a seed: independent groups, or similar ones.

``independent_groups`` draws the means of every group separately. ``similar_groups`` draws common means and moves them a
little in every group. Both draw again in every segment, and segments have equal lengths. With a ``gap``, the best arm
of every group is ahead of the others by at least that much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import LARGEST, UserError, check_int, check_number
from maskedbandits.problems.contextual import MAX_MEANS, ContextualProblem
from maskedbandits.problems.problem import Floats

LOWEST_MEAN, HIGHEST_MEAN = 0.05, 0.95  # limits of drawn means
MAX_DRAWS = 100_000  # of means, to find the gap

Corruption = RandomizedResponse | Sequence[RandomizedResponse] | None


def independent_groups(
    groups: int,
    arms: int,
    horizon: int,
    *,
    corruption: Corruption = None,
    segments: int = 1,
    seed: int = 0,
    gap: float = 0.0,
    shares: ArrayLike | None = None,
) -> ContextualProblem:
    """Draw all means of all groups uniformly and independently.

    Parameters
    ----------
    groups : int
        Number of groups.
    arms : int
        Number of arms, at least 2.
    horizon : int
        Number of steps.
    corruption : RandomizedResponse or sequence of RandomizedResponse, optional
        What masks rewards for policies without groups.
    segments : int, default 1
        Number of segments.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    gap : float, default 0.0
        Least distance between the best arm and the second best in every group.
    shares : array_like, optional
        Share of visitors in each group. By default all groups are equally large.

    Returns
    -------
    ContextualProblem
        The problem that was drawn.

    Raises
    ------
    UserError
        If a value is out of range, or no draw has the gap.

    Examples
    --------
    >>> independent_groups(3, 2, 1000, segments=2).means.shape
    (2, 3, 2)

    """
    shape = _check_shape(groups, arms)
    return _draw_means(
        lambda rng: rng.uniform(LOWEST_MEAN, HIGHEST_MEAN, shape),
        shape,
        (horizon, segments, seed, gap),
        shares,
        corruption,
    )


def similar_groups(
    groups: int,
    arms: int,
    horizon: int,
    *,
    corruption: Corruption = None,
    segments: int = 1,
    seed: int = 0,
    gap: float = 0.0,
    apart: float = 0.1,
    shares: ArrayLike | None = None,
) -> ContextualProblem:
    """Draw means for all groups together, and move each by at most ``apart`` in every group.

    Means are clipped to [0, 1].

    Parameters
    ----------
    groups : int
        Number of groups.
    arms : int
        Number of arms, at least 2.
    horizon : int
        Number of steps.
    corruption : RandomizedResponse or sequence of RandomizedResponse, optional
        What masks rewards for policies without groups.
    segments : int, default 1
        Number of segments.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    gap : float, default 0.0
        Least distance between the best arm and the second best in every group.
    apart : float, default 0.1
        Largest distance of a group's mean from the common mean. With 0 all groups are equal.
    shares : array_like, optional
        Share of visitors in each group. By default all groups are equally large.

    Returns
    -------
    ContextualProblem
        The problem that was drawn.

    Raises
    ------
    UserError
        If a value is out of range, or no draw has the gap.

    Examples
    --------
    >>> similar_groups(3, 2, 1000, segments=2).means.shape
    (2, 3, 2)

    """
    shape, far = _check_shape(groups, arms), check_number("apart", apart, 0.0, 1.0)

    def draw(rng: np.random.Generator) -> Floats:
        common = rng.uniform(LOWEST_MEAN, HIGHEST_MEAN, shape[1])
        return np.clip(common + far * rng.uniform(-1.0, 1.0, shape), 0.0, 1.0)

    return _draw_means(draw, shape, (horizon, segments, seed, gap), shares, corruption)


GROUP_GENERATORS: dict[str, Callable[..., ContextualProblem]] = {
    "independent-groups": independent_groups,
    "similar-groups": similar_groups,
}


def _check_shape(groups: int, arms: int) -> tuple[int, int]:
    """Check and return the numbers of groups and arms."""
    return check_int("groups", groups, 1, LARGEST), check_int("arms", arms, 2, LARGEST)


def _draw_means(
    draw: Callable[[np.random.Generator], Floats],
    shape: tuple[int, int],
    about: tuple[int, int, int, float],
    shares: ArrayLike | None,
    corruption: Corruption,
) -> ContextualProblem:
    """Draw means for every segment; ``about`` holds horizon, number of segments, seed and gap."""
    horizon, segments = check_int("horizon", about[0], 1, LARGEST), check_int("segments", about[1], 1, LARGEST)
    if segments > horizon:
        raise UserError(f"segments = {segments}: give at most the horizon, {horizon}")
    if segments * shape[0] * shape[1] > MAX_MEANS:
        raise UserError(f"{segments} segments of {shape[0]} groups and {shape[1]} arms are too many: give fewer")
    rng, gap = np.random.default_rng(check_int("seed", about[2], 0, LARGEST)), check_number("gap", about[3], 0.0, 0.9)
    means = [_draw_with_gap(draw, rng, gap) for _ in range(segments)]
    return ContextualProblem(means, np.arange(segments) * horizon // segments, horizon, shares, corruption)


def _draw_with_gap(draw: Callable[[np.random.Generator], Floats], rng: np.random.Generator, gap: float) -> Floats:
    """Draw means until the best arm of each group is ahead by the gap."""
    for _ in range(MAX_DRAWS if gap > 0.0 else 1):
        means = draw(rng)
        best = np.sort(means, axis=1)
        if gap == 0.0 or np.min(best[:, -1] - best[:, -2]) >= gap:
            return means
    raise UserError(
        f"gap = {gap:g}: {MAX_DRAWS:,} draws never had it in every group; give a smaller gap, or fewer groups or arms"
    )
