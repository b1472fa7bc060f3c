"""Problems with groups drawn from a seed: groups that have nothing in common, or little that sets them apart.

``independent_groups`` draws the means of every group by themselves, ``similar_groups`` moves means that all have in
common; both draw anew in every segment, and segments are equally long. With a ``gap`` the best arm of every group is
ahead of its others by at least that much: means are drawn until it is.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits.corruption import RandomizedResponse
from maskedbandits.errors import LARGEST, UserError, check_int, check_number
from maskedbandits.problems.contextual import MOST_MEANS, ContextualProblem
from maskedbandits.problems.problem import Floats

LEAST, MOST = 0.05, 0.95  # means are drawn between them
TRIES = 100_000  # draws of means, until it is given up

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
    """Draw all means of all groups uniformly, and independently of each other."""
    shape = _check_shape(groups, arms)
    return _draw_means(
        lambda rng: rng.uniform(LEAST, MOST, shape), shape, (horizon, segments, seed, gap), shares, corruption
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
    """Draw means that all groups have in common, and move each of them in every group by at most ``apart``.

    With 0 all groups are alike. A mean that would leave [0, 1] stays at its end.
    """
    shape, far = _check_shape(groups, arms), check_number("apart", apart, 0.0, 1.0)

    def draw(rng: np.random.Generator) -> Floats:
        common = rng.uniform(LEAST, MOST, shape[1])
        return np.clip(common + far * rng.uniform(-1.0, 1.0, shape), 0.0, 1.0)

    return _draw_means(draw, shape, (horizon, segments, seed, gap), shares, corruption)


GROUP_GENERATORS: dict[str, Callable[..., ContextualProblem]] = {
    "independent-groups": independent_groups,
    "similar-groups": similar_groups,
}


def _check_shape(groups: int, arms: int) -> tuple[int, int]:
    """Return how many groups and arms there are."""
    return check_int("groups", groups, 1, LARGEST), check_int("arms", arms, 2, LARGEST)


def _draw_means(
    draw: Callable[[np.random.Generator], Floats],
    shape: tuple[int, int],
    about: tuple[int, int, int, float],
    shares: ArrayLike | None,
    corruption: Corruption,
) -> ContextualProblem:
    """Draw means for every segment; about it are known the horizon, the number of segments, the seed and the gap."""
    horizon, segments = check_int("horizon", about[0], 1, LARGEST), check_int("segments", about[1], 1, LARGEST)
    if segments > horizon:
        raise UserError(f"segments = {segments}: a horizon of {horizon} has room for {horizon}")
    if segments * shape[0] * shape[1] > MOST_MEANS:
        raise UserError(f"{segments} segments of {shape[0]} groups and {shape[1]} arms are too many: give fewer")
    rng, gap = np.random.default_rng(check_int("seed", about[2], 0, LARGEST)), check_number("gap", about[3], 0.0, 0.9)
    means = [_draw_with_gap(draw, rng, gap) for _ in range(segments)]
    return ContextualProblem(means, np.arange(segments) * horizon // segments, horizon, shares, corruption)


def _draw_with_gap(draw: Callable[[np.random.Generator], Floats], rng: np.random.Generator, gap: float) -> Floats:
    """Draw means until the best arm of each group is ahead by the gap."""
    for _ in range(TRIES if gap > 0.0 else 1):
        means = draw(rng)
        best = np.sort(means, axis=1)
        if gap == 0.0 or np.min(best[:, -1] - best[:, -2]) >= gap:
            return means
    raise UserError(
        f"gap = {gap:g}: {TRIES:,} draws had none in every group; give a smaller one, or fewer groups or arms"
    )
