"""Generators of problems from a seed: means that change abruptly, or drift.

- Abrupt changes: ``random_segments`` changes all means and the best arm, ``one_arm_at_a_time`` moves a single arm,
  ``one_ahead`` has one good arm among equals, ``best_stays_best`` never changes the best arm. ``some_arms_change``
  moves each arm with some probability, and keeps no gap.
- Drifts: ``sinusoid``, ``random_walk``, ``linear``. A drift is a problem of many short segments. Their length in steps
  is ``resolution``.

The others with abrupt changes keep a ``gap``: in every segment the best arm is ahead by at least that much. Where the
best arm changes, staying with the former one costs at least the gap in every step.

The generators do not check whether a problem can be solved. To detect a gap takes about log(T) / (2 s^2 gap^2) pulls of
every arm, where s is the slope of the corruption. Policies learn nothing in a segment with fewer steps.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from maskedbandits.corruption import Corruption
from maskedbandits.errors import LARGEST, UserError, check_int, check_number
from maskedbandits.problems.problem import Floats, Ints, Problem

MAX_MEANS = 1 << 24  # segments x arms; a table of this size and its copies take a GiB
ROUNDING = 1e-9  # 0.7 and 0.3 may add up to more than 1 by this much


def random_segments(
    arms: int,
    horizon: int,
    *,
    corruption: Corruption | Sequence[Corruption],
    segments: int,
    seed: int = 0,
    gap: float = 0.1,
    shortest: int | None = None,
) -> Problem:
    """Draw all means again in each segment; the best arm changes every time.

    The means are uniform in [0, 1], conditioned on the gap. All change times that respect ``shortest`` are equally
    likely.

    Parameters
    ----------
    arms : int
        Number of arms, at least 2.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each.
    segments : int
        Number of segments, so there is one change fewer.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    gap : float, default 0.1
        Least distance between the best arm and the second best, at most 0.9.
    shortest : int, optional
        Least length of a segment in steps. By default half of the average length.

    Returns
    -------
    Problem
        The problem that was drawn.

    Raises
    ------
    UserError
        If a value is out of range, or the segments do not fit into the horizon.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse
    >>> problem = random_segments(3, 1000, corruption=RandomizedResponse(0.9, 0.9), segments=4, seed=1)
    >>> problem.segments, problem.arms
    (4, 3)

    """
    arms, gap = check_int("arms", arms, 2, LARGEST), check_number("gap", gap, 0.0, 0.9)
    rng = _make_rng(seed)
    starts = _draw_starts(rng, arms, horizon, segments, shortest)
    best = _draw_index(rng, arms)
    means = [_draw_means(rng, arms, gap, best)]
    for _ in starts[1:]:
        best = _draw_other_arm(rng, arms, best)
        means.append(_draw_means(rng, arms, gap, best))
    return Problem(means, starts, horizon, corruption)


def one_arm_at_a_time(
    arms: int,
    horizon: int,
    *,
    corruption: Corruption | Sequence[Corruption],
    segments: int,
    seed: int = 0,
    gap: float = 0.1,
    shortest: int | None = None,
) -> Problem:
    """Move a single arm at each change, so that another arm becomes best.

    Either one arm rises above the best, or the best falls. Where both would keep the gap, each has probability 1/2. The
    starts are those of ``random_segments``; the first means are too, but leave room for a rise.

    Parameters
    ----------
    arms : int
        Number of arms, at least 2.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each.
    segments : int
        Number of segments, so there is one change fewer.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    gap : float, default 0.1
        Least distance between the best arm and the second best, at most 0.4.
    shortest : int, optional
        Least length of a segment in steps. By default half of the average length.

    Returns
    -------
    Problem
        The problem that was drawn.

    Raises
    ------
    UserError
        If a value is out of range, or the segments do not fit into the horizon.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse
    >>> problem = one_arm_at_a_time(3, 1000, corruption=RandomizedResponse(0.9, 0.9), segments=4, seed=1)
    >>> problem.segments, problem.arms
    (4, 3)

    """
    arms, gap = check_int("arms", arms, 2, LARGEST), check_number("gap", gap, 0.0, 0.4)
    rng = _make_rng(seed)
    starts = _draw_starts(rng, arms, horizon, segments, shortest)
    means = [(1.0 - gap) * _draw_means(rng, arms, gap / (1.0 - gap), _draw_index(rng, arms))]
    for _ in starts[1:]:
        means.append(_move_one_arm(rng, means[-1], gap))
    return Problem(means, starts, horizon, corruption)


def one_ahead(
    arms: int,
    horizon: int,
    *,
    corruption: Corruption | Sequence[Corruption],
    segments: int,
    seed: int = 0,
    gap: float = 0.1,
    base_rate: float = 0.3,
    shortest: int | None = None,
) -> Problem:
    """Put one arm ahead of all others, which are equal; another one in each segment.

    Two numbers describe this problem, and every pull of a wrong arm costs the same. The planner assumes this problem.
    The starts are drawn as in ``random_segments``.

    Parameters
    ----------
    arms : int
        Number of arms, at least 2.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each.
    segments : int
        Number of segments, so there is one change fewer.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    gap : float, default 0.1
        Least distance between the best arm and the second best, at most 1 - base_rate.
    base_rate : float, default 0.3
        Mean of all arms but the best.
    shortest : int, optional
        Least length of a segment in steps. By default half of the average length.

    Returns
    -------
    Problem
        The problem that was drawn.

    Raises
    ------
    UserError
        If a value is out of range, or the segments do not fit into the horizon.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse
    >>> problem = one_ahead(3, 1000, corruption=RandomizedResponse(0.9, 0.9), segments=4, seed=1)
    >>> problem.segments, problem.arms
    (4, 3)

    """
    arms, gap = check_int("arms", arms, 2, LARGEST), check_number("gap", gap, 0.0, 1.0)
    base_rate = check_number("base_rate", base_rate, 0.0, 1.0)
    if base_rate + gap > 1.0 + ROUNDING:
        raise UserError(f"base_rate = {base_rate:g} and gap = {gap:g} add up to more than 1: lower either")
    rng = _make_rng(seed)
    starts = _draw_starts(rng, arms, horizon, segments, shortest)
    best = [_draw_index(rng, arms)]
    for _ in starts[1:]:
        best.append(_draw_other_arm(rng, arms, best[-1]))
    means = np.full((starts.size, arms), base_rate)
    means[np.arange(starts.size), best] = min(1.0, base_rate + gap)
    return Problem(means, starts, horizon, corruption)


def best_stays_best(
    arms: int,
    horizon: int,
    *,
    corruption: Corruption | Sequence[Corruption],
    segments: int,
    seed: int = 0,
    gap: float = 0.1,
    shortest: int | None = None,
) -> Problem:
    """Draw all means again in each segment, with the same arm best in all of them.

    Policies that restart at every change lose here, because the best arm stays the same.

    Parameters
    ----------
    arms : int
        Number of arms, at least 2.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each.
    segments : int
        Number of segments, so there is one change fewer.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    gap : float, default 0.1
        Least distance between the best arm and the second best, at most 0.9.
    shortest : int, optional
        Least length of a segment in steps. By default half of the average length.

    Returns
    -------
    Problem
        The problem that was drawn.

    Raises
    ------
    UserError
        If a value is out of range, or the segments do not fit into the horizon.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse
    >>> problem = best_stays_best(3, 1000, corruption=RandomizedResponse(0.9, 0.9), segments=4, seed=1)
    >>> problem.segments, problem.arms
    (4, 3)

    """
    arms, gap = check_int("arms", arms, 2, LARGEST), check_number("gap", gap, 0.0, 0.9)
    rng = _make_rng(seed)
    starts = _draw_starts(rng, arms, horizon, segments, shortest)
    best = _draw_index(rng, arms)
    means = [_draw_means(rng, arms, gap, best) for _ in starts]
    return Problem(means, starts, horizon, corruption)


def some_arms_change(
    arms: int,
    horizon: int,
    *,
    corruption: Corruption | Sequence[Corruption],
    segments: int,
    seed: int = 0,
    probability: float = 0.5,
    smallest: float = 0.05,
    largest: float = 0.3,
    shortest: int | None = None,
) -> Problem:
    """Move each arm with some probability at each change, up or down.

    The first means are uniform. A mean that would leave [0, 1] moves the other way. The best arm need not change.

    Parameters
    ----------
    arms : int
        Number of arms.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each.
    segments : int
        Number of segments, so there is one change fewer.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    probability : float, default 0.5
        Probability that an arm moves at a change.
    smallest, largest : float, default 0.05 and 0.3
        Limits of a move, which is uniform between them. ``largest`` is at most 0.5.
    shortest : int, optional
        Least length of a segment in steps. By default half of the average length.

    Returns
    -------
    Problem
        The problem that was drawn.

    Raises
    ------
    UserError
        If a value is out of range, or the segments do not fit into the horizon.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse
    >>> problem = some_arms_change(5, 20_000, corruption=RandomizedResponse(1, 1), segments=7, shortest=1000)
    >>> problem.segments, int(problem.lengths.min()) >= 1000
    (7, True)

    """
    arms, probability = check_int("arms", arms, 1, LARGEST), check_number("probability", probability, 0.0, 1.0)
    rng, largest = _make_rng(seed), check_number("largest", largest, 0.0, 0.5)
    smallest = check_number("smallest", smallest, 0.0, largest)
    starts = _draw_starts(rng, arms, horizon, segments, shortest)
    means = [rng.random(arms)]
    for _ in starts[1:]:
        is_moved, is_down = rng.random(arms) < probability, rng.random(arms) < 0.5
        steps = np.where(is_down, -1.0, 1.0) * (smallest + (largest - smallest) * rng.random(arms))
        there = means[-1] + steps
        inside = np.where((there < 0.0) | (there > 1.0), means[-1] - steps, there)
        means.append(np.where(is_moved, inside, means[-1]))
    return Problem(means, starts, horizon, corruption)


def sinusoid(
    arms: int,
    horizon: int,
    *,
    corruption: Corruption | Sequence[Corruption],
    seed: int = 0,
    periods: float = 2.0,
    amplitude: float = 0.4,
    resolution: int | None = None,
) -> Problem:
    """Let all means oscillate around 1/2, so that arms are best in turn.

    The phases are equally spaced, in random order and with a random offset. The variation is about 4 * periods *
    amplitude with two arms, and 2 pi * periods * amplitude with many.

    Parameters
    ----------
    arms : int
        Number of arms.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    periods : float, default 2.0
        Number of periods within the horizon.
    amplitude : float, default 0.4
        Largest distance from 1/2, at most 0.5.
    resolution : int, optional
        Length of a segment in steps. By default there are about a thousand segments.

    Returns
    -------
    Problem
        The problem that was drawn, as many short segments.

    Raises
    ------
    UserError
        If a value is out of range.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse
    >>> problem = sinusoid(3, 1000, corruption=RandomizedResponse(0.9, 0.9), resolution=10)
    >>> problem.segments, problem.drifts
    (100, True)

    """
    arms, amplitude = check_int("arms", arms, 1, LARGEST), check_number("amplitude", amplitude, 0.0, 0.5)
    rng = _make_rng(seed)
    starts = space_starts(arms, horizon, resolution)
    periods = check_number("periods", periods, 0.0, starts.size / 2)  # a period needs two segments
    phases = (np.argsort(rng.random(arms), kind="stable") + rng.random()) / arms
    angles = 2.0 * math.pi * (periods * starts[:, None] / horizon + phases)
    means = np.round(0.5 + amplitude * np.sin(angles), 9)  # the last bits of a sine depend on the machine
    return Problem(means, starts, horizon, corruption)


def random_walk(
    arms: int,
    horizon: int,
    *,
    corruption: Corruption | Sequence[Corruption],
    seed: int = 0,
    spread: float = 0.5,
    resolution: int | None = None,
) -> Problem:
    """Let each mean walk at random from a uniform first value, reflected at 0 and 1.

    The variation depends on the resolution: it grows as the square root of the number of segments.

    Parameters
    ----------
    arms : int
        Number of arms.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    spread : float, default 0.5
        Standard deviation of the end of a walk without reflection. It does not depend on the resolution.
    resolution : int, optional
        Length of a segment in steps. By default there are about a thousand segments.

    Returns
    -------
    Problem
        The problem that was drawn, as many short segments.

    Raises
    ------
    UserError
        If a value is out of range.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse
    >>> problem = random_walk(3, 1000, corruption=RandomizedResponse(0.9, 0.9), resolution=10)
    >>> problem.segments, problem.drifts
    (100, True)

    """
    arms, spread = check_int("arms", arms, 1, LARGEST), check_number("spread", spread, 0.0, 1e6)
    rng = _make_rng(seed)
    starts = space_starts(arms, horizon, resolution)
    first = rng.random((1, arms))
    moves = spread * np.sqrt(np.diff(starts) / horizon)[:, None] * rng.standard_normal((starts.size - 1, arms))
    unfolded = np.cumsum(np.concatenate([first, moves]), axis=0)
    means = np.abs(unfolded - 2.0 * np.round(unfolded / 2.0))  # the distance from the nearest even number
    return Problem(means, starts, horizon, corruption)


def linear(
    arms: int,
    horizon: int,
    *,
    corruption: Corruption | Sequence[Corruption],
    seed: int = 0,
    gap: float = 0.1,
    resolution: int | None = None,
) -> Problem:
    """Move each mean on a straight line; the best arm at the end is not the first best arm.

    The first and last means are drawn as two segments of ``random_segments``. The variation is the largest move of an
    arm.

    Parameters
    ----------
    arms : int
        Number of arms, at least 2.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each.
    seed : int, default 0
        Seed of the draw. The same seed gives the same problem on every machine.
    gap : float, default 0.1
        Least distance between the best arm and the second best, at the start and at the end.
    resolution : int, optional
        Length of a segment in steps. By default there are about a thousand segments.

    Returns
    -------
    Problem
        The problem that was drawn, as many short segments.

    Raises
    ------
    UserError
        If a value is out of range.

    Examples
    --------
    >>> from maskedbandits import RandomizedResponse
    >>> problem = linear(3, 1000, corruption=RandomizedResponse(0.9, 0.9), resolution=10)
    >>> problem.segments, problem.drifts
    (100, True)

    """
    arms, gap = check_int("arms", arms, 2, LARGEST), check_number("gap", gap, 0.0, 0.9)
    rng = _make_rng(seed)
    starts = space_starts(arms, horizon, resolution)
    best = _draw_index(rng, arms)
    first = _draw_means(rng, arms, gap, best)
    last = _draw_means(rng, arms, gap, _draw_other_arm(rng, arms, best))
    share = np.linspace(0.0, 1.0, starts.size)[:, None]
    return Problem((1.0 - share) * first + share * last, starts, horizon, corruption)


GENERATORS: dict[str, Callable[..., Problem]] = {
    "random-segments": random_segments,
    "one-arm-at-a-time": one_arm_at_a_time,
    "one-ahead": one_ahead,
    "best-stays-best": best_stays_best,
    "some-arms-change": some_arms_change,
    "sinusoid": sinusoid,
    "random-walk": random_walk,
    "linear": linear,
}


def _refuse_too_many(arms: int, segments: int) -> None:
    """Refuse a table of means that would fill the memory."""
    if arms * segments > MAX_MEANS:
        raise UserError(
            f"{segments} segments of {arms} arms are too many: give at most {MAX_MEANS} means in all, "
            "by fewer arms or segments, or by a coarser resolution"
        )


def _make_rng(seed: int) -> np.random.Generator:
    """Return a generator of random numbers for a seed."""
    return np.random.default_rng(check_int("seed", seed, 0, LARGEST))


def _draw_index(rng: np.random.Generator, limit: int) -> int:
    """Draw an index below a limit, all equally likely."""
    return int(limit * rng.random())


def _draw_other_arm(rng: np.random.Generator, arms: int, arm: int) -> int:
    """Draw an arm other than this one."""
    return (arm + 1 + _draw_index(rng, arms - 1)) % arms


def _draw_starts(rng: np.random.Generator, arms: int, horizon: int, segments: int, shortest: int | None) -> Ints:
    """Give every segment its least length, and distribute the remaining steps at random."""
    horizon, segments = check_int("horizon", horizon, 1, LARGEST), check_int("segments", segments, 1, LARGEST)
    if segments > horizon:
        raise UserError(f"segments = {segments}: give at most the horizon, {horizon}")
    _refuse_too_many(arms, segments)
    least = max(1, horizon // (2 * segments)) if shortest is None else check_int("shortest", shortest, 1, LARGEST)
    if least > (most := horizon // segments):
        raise UserError(f"shortest = {least}: {segments} segments in {horizon} steps allow at most {most}")
    spare = horizon - segments * least
    scattered = np.sort(np.floor((spare + 1) * rng.random(segments - 1))).astype(np.int64)
    return np.asarray(least * np.arange(segments) + np.concatenate([[0], scattered]), dtype=np.int64)


def space_starts(arms: int, horizon: int, resolution: int | None) -> Ints:
    """Cut the horizon into segments of ``resolution`` steps, by default into about a thousand."""
    horizon = check_int("horizon", horizon, 1, LARGEST)
    steps = math.ceil(horizon / 1000) if resolution is None else check_int("resolution", resolution, 1, LARGEST)
    _refuse_too_many(arms, math.ceil(horizon / steps))
    return np.arange(0, horizon, steps, dtype=np.int64)


def _draw_means(rng: np.random.Generator, arms: int, gap: float, best: int) -> Floats:
    """Draw uniform means, conditioned on the best arm and its lead of at least the gap.

    The spacings of uniform numbers are uniform on a simplex. Given that one of them is at least the gap, its rest and
    the other spacings are uniform on a smaller simplex. So shrink all means, and add the gap to the best.
    """
    row = (1.0 - gap) * rng.random(arms)
    top = int(np.argmax(row))
    row[top], row[best] = row[best], row[top]
    row[best] = min(1.0, row[best] + gap)
    return row


def _move_one_arm(rng: np.random.Generator, row: Floats, gap: float) -> Floats:
    """Raise an arm above the best, or lower the best below the second, by at least the gap.

    There is always room for one of the two. After a rise the best can fall back, because the second best was best
    before with the same lead. After a fall an arm can rise to the level of the fallen one.
    """
    order = np.argsort(row, kind="stable")
    best, second = int(order[-1]), int(order[-2])
    lowest, highest = row[best] + gap, row[second] - gap  # limits of a risen mean and of a fallen one
    may_fall = highest >= (row[order[-3]] if row.size > 2 else 0.0)
    chance, arm, share = rng.random(), _draw_other_arm(rng, row.size, best), rng.random()
    moved = row.copy()
    if lowest <= 1.0 and (chance < 0.5 or not may_fall):
        moved[arm] = min(1.0, lowest + (1.0 - lowest) * share)
    else:
        moved[best] = max(0.0, highest) * share
    return moved
