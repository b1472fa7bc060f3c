"""Problems drawn from a seed: means that change abruptly, or drift.

- abrupt changes: ``random_segments`` (the best arm changes every time), ``one_arm_at_a_time`` (so it does, but a single
  arm moves), ``one_ahead`` (so it does, and all others are alike), ``best_stays_best`` (it never does);
- drifts: ``sinusoid``, ``random_walk``, ``linear``. A drift is a problem of many short segments; ``resolution`` is
  their length in steps.

Abrupt problems keep a ``gap``. In every segment the best arm is ahead of all others by at least that much, so where it
changes, going on with the old one costs as much in every step, and no change is idle. Whether the problem can be
solved is for the caller to see to: to tell a gap takes about log(T) / (2 s^2 gap^2) pulls of every arm, s the slope of
the corruption; a segment with fewer steps than that teaches nothing.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits.corruption import Corruption
from maskedbandits.errors import LARGEST, UserError, abbreviate, check_int, check_number
from maskedbandits.problems.problem import Floats, Ints, Problem

MOST_MEANS = 1 << 24  # a table of segments x arms; with its copies it takes a GiB
ROUNDING = 1e-9  # by how much numbers such as 0.7 and 0.3 may add up to more than 1


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
    """Draw all means anew in each segment, with another arm best than in the one before.

    The means are uniform in [0, 1], given that the best arm is ahead by the gap. No segment has fewer than
    ``shortest`` steps, by default half of what equal ones would have; apart from that, all times are alike.
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
    """Move a single arm at each change, so that another arm is best: one rises above the best, or the best falls.

    Chance decides between the two where both would keep the gap. The starts are those of ``random_segments``, the
    first means too but for leaving room for a rise.
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
    """Let one arm be ahead of all others, which are alike, by the gap: another one in each segment.

    All that is to be known of the world are two numbers, and every pull of a wrong arm costs the same: this is the
    world that a plan is made for. The starts are drawn as those of ``random_segments``.
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
    """Draw all means anew in each segment, as ``random_segments`` does, but with the same arm best in all of them.

    Who restarts at every change loses here: there is nothing new to learn.
    """
    arms, gap = check_int("arms", arms, 2, LARGEST), check_number("gap", gap, 0.0, 0.9)
    rng = _make_rng(seed)
    starts = _draw_starts(rng, arms, horizon, segments, shortest)
    best = _draw_index(rng, arms)
    means = [_draw_means(rng, arms, gap, best) for _ in starts]
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
    """Let all means swing around 1/2, so many periods within the horizon; arms are best in turn.

    Their phases are equally far apart, in random order from a random one on. The variation is about 4 times periods
    times amplitude with two arms, and 2 pi in place of 4 with many.
    """
    arms, amplitude = check_int("arms", arms, 1, LARGEST), check_number("amplitude", amplitude, 0.0, 0.5)
    rng = _make_rng(seed)
    starts = _space_starts(arms, horizon, resolution)
    periods = check_number(
        "periods", periods, 0.0, starts.size / 2
    )  # with fewer than two segments each, none is to be seen
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
    """Let each mean walk at random from a uniform first one, reflected at 0 and 1.

    ``spread`` is the standard deviation of where a walk that is not reflected ends. It does not depend on the
    resolution; the variation does, and grows as the square root of the number of segments.
    """
    arms, spread = check_int("arms", arms, 1, LARGEST), check_number("spread", spread, 0.0, 1e6)
    rng = _make_rng(seed)
    starts = _space_starts(arms, horizon, resolution)
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
    """Let each mean move on a straight line; another arm is best at the end than at the beginning.

    First and last means are drawn as two segments of ``random_segments``. The variation is the largest move of an arm.
    """
    arms, gap = check_int("arms", arms, 2, LARGEST), check_number("gap", gap, 0.0, 0.9)
    rng = _make_rng(seed)
    starts = _space_starts(arms, horizon, resolution)
    best = _draw_index(rng, arms)
    first = _draw_means(rng, arms, gap, best)
    last = _draw_means(rng, arms, gap, _draw_other_arm(rng, arms, best))
    share = np.linspace(0.0, 1.0, starts.size)[:, None]
    return Problem((1.0 - share) * first + share * last, starts, horizon, corruption)


def sample_means(means_at: Callable[[int], ArrayLike], horizon: int, resolution: int | None) -> tuple[Floats, Ints]:
    """Return the means that a function of time gives, and when they were asked for: ``Problem.from_function``."""
    if not callable(means_at):
        raise UserError(
            f"means_at = {abbreviate(means_at)}: give a function of the step that returns a mean for each arm"
        )
    arms = _call_means_at(means_at, 0).size
    starts = _space_starts(arms, horizon, resolution)
    rows = [_call_means_at(means_at, int(start)) for start in starts]
    for start, row in zip(starts, rows, strict=True):
        if row.size != arms:
            raise UserError(f"means_at({start}) has {row.size} means, means_at(0) has {arms}: give one for each arm")
    return np.array(rows), starts


def _call_means_at(means_at: Callable[[int], ArrayLike], step: int) -> Floats:
    """Return the means at a step."""
    given = means_at(step)
    try:
        row = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        row = np.zeros(0)
    if row.ndim != 1 or not row.size or not np.all((row >= 0.0) & (row <= 1.0)):
        raise UserError(f"means_at({step}) = {abbreviate(given)}: give a list of numbers in [0, 1], one for each arm")
    return row


GENERATORS: dict[str, Callable[..., Problem]] = {
    "random-segments": random_segments,
    "one-arm-at-a-time": one_arm_at_a_time,
    "one-ahead": one_ahead,
    "best-stays-best": best_stays_best,
    "sinusoid": sinusoid,
    "random-walk": random_walk,
    "linear": linear,
}


def _refuse_too_many(arms: int, segments: int) -> None:
    """Refuse a table of means that would fill the machine."""
    if arms * segments > MOST_MEANS:
        raise UserError(
            f"{segments} segments of {arms} arms are too many: give at most {MOST_MEANS} means in all, "
            "by fewer arms or segments, or by a coarser resolution"
        )


def _make_rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(check_int("seed", seed, 0, LARGEST))


def _draw_index(rng: np.random.Generator, limit: int) -> int:
    return int(limit * rng.random())


def _draw_other_arm(rng: np.random.Generator, arms: int, arm: int) -> int:
    return (arm + 1 + _draw_index(rng, arms - 1)) % arms


def _draw_starts(rng: np.random.Generator, arms: int, horizon: int, segments: int, shortest: int | None) -> Ints:
    """Give every segment its least length, and scatter what is left."""
    horizon, segments = check_int("horizon", horizon, 1, LARGEST), check_int("segments", segments, 1, LARGEST)
    if segments > horizon:
        raise UserError(f"segments = {segments}: a horizon of {horizon} has room for {horizon}")
    _refuse_too_many(arms, segments)
    least = max(1, horizon // (2 * segments)) if shortest is None else check_int("shortest", shortest, 1, LARGEST)
    if least > horizon // segments:
        raise UserError(f"shortest = {least}: {segments} segments of {horizon} steps leave {horizon // segments} each")
    spare = horizon - segments * least
    scattered = np.sort(np.floor((spare + 1) * rng.random(segments - 1))).astype(np.int64)
    return np.asarray(least * np.arange(segments) + np.concatenate([[0], scattered]), dtype=np.int64)


def _space_starts(arms: int, horizon: int, resolution: int | None) -> Ints:
    """Cut the horizon into segments of so many steps, by default into about a thousand."""
    horizon = check_int("horizon", horizon, 1, LARGEST)
    steps = math.ceil(horizon / 1000) if resolution is None else check_int("resolution", resolution, 1, LARGEST)
    _refuse_too_many(arms, math.ceil(horizon / steps))
    return np.arange(0, horizon, steps, dtype=np.int64)


def _draw_means(rng: np.random.Generator, arms: int, gap: float, best: int) -> Floats:
    """Draw uniform means, given which is the largest and that it is ahead by the gap.

    The spacings of uniform numbers are uniform on a simplex. Given that one of them is at least the gap, what is left
    of it and the others are uniform on a smaller simplex: so shrink, and add the gap.
    """
    row = (1.0 - gap) * rng.random(arms)
    top = int(np.argmax(row))
    row[top], row[best] = row[best], row[top]
    row[best] = min(1.0, row[best] + gap)
    return row


def _move_one_arm(rng: np.random.Generator, row: Floats, gap: float) -> Floats:
    """Raise an arm above the best, or let the best fall below the second, either by the gap at least.

    There is room for one of them. After a rise the best may fall back: what is second now was best, ahead by the gap.
    After a fall an arm may rise to where the fallen one was.
    """
    order = np.argsort(row, kind="stable")
    best, second = int(order[-1]), int(order[-2])
    lowest, highest = row[best] + gap, row[second] - gap  # of a mean that has risen, and of one that has fallen
    may_fall = highest >= (row[order[-3]] if row.size > 2 else 0.0)
    chance, arm, share = rng.random(), _draw_other_arm(rng, row.size, best), rng.random()
    moved = row.copy()
    if lowest <= 1.0 and (chance < 0.5 or not may_fall):
        moved[arm] = min(1.0, lowest + (1.0 - lowest) * share)
    else:
        moved[best] = max(0.0, highest) * share
    return moved
