"""Problems to learn in: means that change abruptly or drift, seen through a corruption.

A ``Problem`` is given by its means. The functions below it draw one from a seed:

- abrupt changes: ``random_segments`` (the best arm changes every time), ``one_arm_at_a_time`` (so it does, but a single
  arm moves), ``best_stays_best`` (it never does);
- drifts: ``sinusoid``, ``random_walk``, ``linear``. A drift is a problem of many short segments; ``resolution`` is
  their length in steps.

Abrupt problems keep a ``gap``. In every segment the best arm is ahead of all others by at least that much, so where it
changes, going on with the old one costs as much in every step, and no change is idle. Whether the problem can be
solved is for the caller to see to: to tell a gap takes about log(T) / (2 s^2 gap^2) pulls of every arm, s the slope of
the corruption; a segment with fewer steps than that teaches nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits.corruption import Corruption, RandomizedResponse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def per_arm(corruption: Corruption | Sequence[Corruption], arms: int) -> tuple[Corruption, ...]:
    """Return one corruption for every arm, whether one was given for all or one for each."""
    if isinstance(corruption, Corruption):
        return (corruption,) * arms
    each = tuple(corruption) if isinstance(corruption, Sequence) else (corruption,) * arms
    if len(each) != arms:
        raise ValueError(f"{len(each)} corruptions for {arms} arms: give one for all, or one for each")
    for arm, one in enumerate(each):
        if not isinstance(one, Corruption):
            raise ValueError(f"corruption of arm {arm} is {one!r}: give a RandomizedResponse or a Monotone")
    return each


def _checked_means(means: ArrayLike) -> Floats:
    try:
        table = np.array(means, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("means are not a table of numbers: give one row per segment, all equally long") from None
    if table.ndim == 1:
        table = table[None, :]
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 1:
        raise ValueError(f"means have shape {table.shape}: give (segments, arms), at least one of each")
    if not np.all((table >= 0.0) & (table <= 1.0)):
        segment, arm = np.argwhere(~((table >= 0.0) & (table <= 1.0)))[0]
        raise ValueError(f"mean of arm {arm} in segment {segment} is {table[segment, arm]}: give numbers in [0, 1]")
    return table


def _whole(name: str, numbers: ArrayLike) -> Ints:
    given = np.asarray(numbers)
    try:
        with np.errstate(invalid="ignore"):  # NaN becomes some number, and then is not the same
            whole = given.astype(np.int64)
        same = bool(np.all(whole == given))
    except (TypeError, ValueError, OverflowError):
        same = False
    if not same or given.dtype == np.bool_:
        raise ValueError(f"{name} = {numbers!r}: give whole numbers")
    return whole


def _one(name: str, number: int) -> int:
    given = _whole(name, number)
    if given.ndim:
        raise ValueError(f"{name} = {number!r}: give one number")
    return int(given)


def _checked_starts(starts: ArrayLike, segments: int, horizon: int) -> Ints:
    whole = _whole("starts", starts)
    if whole.shape != (segments,):
        raise ValueError(f"starts have shape {whole.shape} but means have {segments} rows: give one start per segment")
    if whole[0] != 0 or np.any(np.diff(whole) <= 0):
        raise ValueError(f"starts = {whole.tolist()}: give them increasing, the first 0")
    if whole[-1] >= horizon:
        raise ValueError(f"start {whole[-1]} is not before the horizon {horizon}: drop it or play longer")
    return whole


def _seen_through(each: tuple[Corruption, ...], means: Floats) -> Floats:
    """Return the feedback means, arm by arm; all arms with one randomised response at once."""
    seen = np.empty_like(means)
    for g in {id(one): one for one in each}.values():
        columns = np.array([one is g for one in each])
        if isinstance(g, RandomizedResponse):
            seen[:, columns] = 1.0 - g.p00 + g.slope * means[:, columns]
        else:
            seen[:, columns] = [[g(float(mean)) for mean in row] for row in means[:, columns]]
    return seen


def _with_liars(seen: Floats, means: Floats, corruption: Sequence[Corruption], share: float) -> Floats:
    """Return the feedback means if a share of the reports are lies against the best arm, and for the others."""
    best = means == means.max(axis=1, keepdims=True)
    rising = np.array([one.increasing for one in corruption])
    return np.asarray((1.0 - share) * seen + share * (best != rising))


@dataclass(frozen=True, eq=False)
class Problem:
    """A Bernoulli bandit whose means change at given times: row i of means holds from step starts[i] on.

    One corruption serves all arms, or each arm has its own; one may increase where another decreases. A share of
    ``liars`` does its worst: they report what speaks against the best arm, and for every other.
    """

    means: Floats
    starts: Ints
    horizon: int
    corruption: tuple[Corruption, ...]
    liars: float
    lengths: Ints = field(init=False, repr=False)
    best: Floats = field(init=False, repr=False)
    feedback_means: Floats = field(init=False, repr=False)

    def __init__(
        self,
        means: ArrayLike,
        starts: ArrayLike,
        horizon: int,
        corruption: Corruption | Sequence[Corruption],
        *,
        liars: float = 0.0,
    ) -> None:
        table = _checked_means(means)
        steps = _one("horizon", horizon)
        if steps < table.shape[1]:
            raise ValueError(
                f"horizon {steps} is shorter than the number of arms {table.shape[1]}: not every arm could be tried"
            )
        begins = _checked_starts(starts, table.shape[0], steps)
        each = per_arm(corruption, table.shape[1])
        share = _number("liars", liars, 0.0, 1.0)
        seen = _with_liars(_seen_through(each, table), table, each, share)
        values = {
            "means": table,
            "starts": begins,
            "horizon": steps,
            "corruption": each,
            "liars": share,
            "lengths": np.diff(np.append(begins, steps)),
            "best": table.max(axis=1),
            "feedback_means": seen,
        }
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return int(self.means.shape[1])

    @property
    def segments(self) -> int:
        """Number of segments, L_T of the paper: 1 if nothing ever changes."""
        return int(self.means.shape[0])

    @property
    def gaps(self) -> Floats:
        """What a pull of each arm costs in each segment, (L, K)."""
        return np.asarray(self.best[:, None] - self.means)

    @property
    def variation(self) -> float:
        """How far the means move in all: over the changes, the sum of the largest move (Besbes et al. 2014)."""
        return float(np.abs(np.diff(self.means, axis=0)).max(axis=1).sum())


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
    arms, gap = _count("arms", arms, 2), _number("gap", gap, 0.0, 0.9)
    rng = _rng(seed)
    starts = _drawn_starts(rng, horizon, segments, shortest)
    best = _below(rng, arms)
    means = [_drawn_means(rng, arms, gap, best)]
    for _ in starts[1:]:
        best = _another(rng, arms, best)
        means.append(_drawn_means(rng, arms, gap, best))
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
    arms, gap = _count("arms", arms, 2), _number("gap", gap, 0.0, 0.4)
    rng = _rng(seed)
    starts = _drawn_starts(rng, horizon, segments, shortest)
    means = [(1.0 - gap) * _drawn_means(rng, arms, gap / (1.0 - gap), _below(rng, arms))]
    for _ in starts[1:]:
        means.append(_with_one_moved(rng, means[-1], gap))
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
    arms, gap = _count("arms", arms, 2), _number("gap", gap, 0.0, 0.9)
    rng = _rng(seed)
    starts = _drawn_starts(rng, horizon, segments, shortest)
    best = _below(rng, arms)
    means = [_drawn_means(rng, arms, gap, best) for _ in starts]
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
    arms, amplitude = _count("arms", arms, 1), _number("amplitude", amplitude, 0.0, 0.5)
    rng = _rng(seed)
    starts = _even_starts(horizon, resolution)
    periods = _number("periods", periods, 0.0, starts.size / 2)  # with fewer than two segments each, none is to be seen
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
    arms, spread = _count("arms", arms, 1), _number("spread", spread, 0.0, math.inf)
    rng = _rng(seed)
    starts = _even_starts(horizon, resolution)
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
    arms, gap = _count("arms", arms, 2), _number("gap", gap, 0.0, 0.9)
    rng = _rng(seed)
    starts = _even_starts(horizon, resolution)
    best = _below(rng, arms)
    first = _drawn_means(rng, arms, gap, best)
    last = _drawn_means(rng, arms, gap, _another(rng, arms, best))
    share = np.linspace(0.0, 1.0, starts.size)[:, None]
    return Problem((1.0 - share) * first + share * last, starts, horizon, corruption)


GENERATORS: dict[str, Callable[..., Problem]] = {
    "random-segments": random_segments,
    "one-arm-at-a-time": one_arm_at_a_time,
    "best-stays-best": best_stays_best,
    "sinusoid": sinusoid,
    "random-walk": random_walk,
    "linear": linear,
}


def _count(name: str, value: int, least: int) -> int:
    whole = _whole(name, value)
    if whole.ndim or whole < least:
        raise ValueError(f"{name} = {value!r}: give a whole number of at least {least}")
    return int(whole)


def _number(name: str, value: float, low: float, high: float) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        limits = f"in [{low:g}, {high:g}]" if high < math.inf else f"of at least {low:g}"
        raise ValueError(f"{name} = {value!r}: give a number {limits}")
    return number


def _rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(_count("seed", seed, 0))


def _below(rng: np.random.Generator, limit: int) -> int:
    return int(limit * rng.random())


def _another(rng: np.random.Generator, arms: int, arm: int) -> int:
    return (arm + 1 + _below(rng, arms - 1)) % arms


def _drawn_starts(rng: np.random.Generator, horizon: int, segments: int, shortest: int | None) -> Ints:
    """Give every segment its least length, and scatter what is left."""
    horizon, segments = _count("horizon", horizon, 1), _count("segments", segments, 1)
    if segments > horizon:
        raise ValueError(f"segments = {segments}: a horizon of {horizon} has room for {horizon}")
    least = max(1, horizon // (2 * segments)) if shortest is None else _count("shortest", shortest, 1)
    if least > horizon // segments:
        raise ValueError(f"shortest = {least}: {segments} segments of {horizon} steps leave {horizon // segments} each")
    spare = horizon - segments * least
    scattered = np.sort(np.floor((spare + 1) * rng.random(segments - 1))).astype(np.int64)
    return np.asarray(least * np.arange(segments) + np.concatenate([[0], scattered]), dtype=np.int64)


def _even_starts(horizon: int, resolution: int | None) -> Ints:
    """Cut the horizon into segments of so many steps, by default into about a thousand."""
    horizon = _count("horizon", horizon, 1)
    steps = math.ceil(horizon / 1000) if resolution is None else _count("resolution", resolution, 1)
    return np.arange(0, horizon, steps, dtype=np.int64)


def _drawn_means(rng: np.random.Generator, arms: int, gap: float, best: int) -> Floats:
    """Draw uniform means, given which is the largest and that it is ahead by the gap.

    The spacings of uniform numbers are uniform on a simplex. Given that one of them is at least the gap, what is left
    of it and the others are uniform on a smaller simplex: so shrink, and add the gap.
    """
    row = (1.0 - gap) * rng.random(arms)
    top = int(np.argmax(row))
    row[top], row[best] = row[best], row[top]
    row[best] = min(1.0, row[best] + gap)
    return row


def _with_one_moved(rng: np.random.Generator, row: Floats, gap: float) -> Floats:
    """Raise an arm above the best, or let the best fall below the second, either by the gap at least.

    There is room for one of them. After a rise the best may fall back: what is second now was best, ahead by the gap.
    After a fall an arm may rise to where the fallen one was.
    """
    order = np.argsort(row, kind="stable")
    best, second = int(order[-1]), int(order[-2])
    lowest, highest = row[best] + gap, row[second] - gap  # of a mean that has risen, and of one that has fallen
    may_fall = highest >= (row[order[-3]] if row.size > 2 else 0.0)
    chance, arm, share = rng.random(), _another(rng, row.size, best), rng.random()
    moved = row.copy()
    if lowest <= 1.0 and (chance < 0.5 or not may_fall):
        moved[arm] = min(1.0, lowest + (1.0 - lowest) * share)
    else:
        moved[best] = max(0.0, highest) * share
    return moved
