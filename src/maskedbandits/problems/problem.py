"""A problem: the means of the arms, when they change, for how long one plays, and what masks the feedback."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits.corruption import (
    IDENTITY,
    Corruption,
    Noise,
    RandomizedResponse,
    Spread,
    compute_spread,
    expand_per_arm,
)
from maskedbandits.errors import LARGEST, UserError, check_int, check_number
from maskedbandits.problems.rewards import Gaussian, Rewards, check_rewards

if TYPE_CHECKING:
    from maskedbandits.problems.replay import Log, Replay

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MANY = 32  # segments: fewer changes can be told one by one, and are


class Rows(NamedTuple):
    """What is played, a row for each segment and a column for each arm."""

    starts: Ints  # and the horizon
    seen: Floats  # the chance that what is seen is a one
    lost: Floats  # what a pull costs
    worse: NDArray[np.bool_]  # whether another arm is better


@dataclass(frozen=True, eq=False)
class Problem:
    """A bandit whose means change at given times: row i of means holds from step starts[i] on.

    One corruption serves all arms, or each arm has its own; one may increase where another decreases. A share of
    ``liars`` does its worst: they report what speaks against the best arm, and for every other. ``rewards`` are bits,
    or ``Beta(concentration)`` or ``Gaussian(sigma)`` (``rewards.py``); all means are in [0, 1].
    """

    means: Floats
    starts: Ints
    horizon: int
    corruption: tuple[Corruption, ...]
    liars: float
    law: Rewards  # of rewards
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
        rewards: Rewards | str = "bernoulli",
    ) -> None:
        table = _validation.check_table("means", means, "segment", one_row=True)
        steps = check_int("horizon", horizon, 1, LARGEST)
        check_arm_count(table.shape[1], steps)
        begins = check_starts(starts, table.shape[0], steps)
        each = expand_per_arm(corruption, table.shape[1])
        share = check_number("liars", liars, 0.0, 1.0)
        drawn = check_rewards(rewards)
        _check_rewards_fit(each, drawn, share)
        seen = _add_liars(compute_feedback_means(each, table), table, each, share)
        values = {
            "means": table,
            "starts": begins,
            "horizon": steps,
            "corruption": each,
            "liars": share,
            "law": drawn,
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
    def columns(self) -> int:
        """Number of means in a row."""
        return self.arms

    @property
    def segments(self) -> int:
        """Number of segments, L_T of the paper: 1 if nothing ever changes."""
        return int(self.means.shape[0])

    @property
    def best_arms(self) -> Ints:
        """The best arm of each segment, (L,); of several, the first. Its mean is ``best``."""
        return np.asarray(self.means.argmax(axis=1))

    @property
    def rows_per_play(self) -> int:
        """How many rows of a record a policy reads for each that it plays: 1, but for a ``Log``."""
        return 1

    @property
    def expected_plays(self) -> int:
        """How many steps a policy is expected to play: all up to the horizon, but of a ``Log``."""
        return count_plays(self.horizon, self.rows_per_play)

    def as_played(self) -> "Problem":
        """Return the problem in the steps that a policy plays: this one, but of a ``Log`` a shorter one."""
        return self

    @property
    def gaps(self) -> Floats:
        """What a pull of each arm costs in each segment, (L, K)."""
        return np.asarray(self.best[:, None] - self.means)

    def rows(self, *, masked: bool) -> Rows:
        """Return what is played, row by row; not masked, rewards are seen."""
        seen = self.feedback_means if masked else self.means
        return Rows(np.append(self.starts, self.horizon), seen.copy(), self.gaps, self.gaps > 0.0)

    @property
    def is_noisy(self) -> bool:
        """Tell whether feedback is no bits: rewards with noise."""
        return any(isinstance(one, Noise) for one in self.corruption)

    @property
    def spread(self) -> Spread | None:
        """How far feedback strays that is no bits."""
        return compute_spread(self.corruption, self.law.sigma)

    def feedback(self, generator: np.random.Generator, arm: int, seen: float) -> float:
        """Draw what is shown of a pull, with its mean: a masked bit, or a reward with noise."""
        mask = self.corruption[arm]
        if isinstance(mask, Noise):
            return self.law.draw(generator, seen) + mask.draw(generator)
        return float(generator.random() < seen)

    @property
    def variation(self) -> float:
        """How far the means move in all: over the changes, the sum of the largest move (Besbes et al. 2014)."""
        return compute_variation(self.means)

    @property
    def drifts(self) -> bool:
        """Tell whether the means drift rather than jump.

        They do if there are many segments and the way from one to the next is short: on average, the arm that moves
        most moves by less than a quarter of what the means range over. A drift is not told by its change points.
        """
        return is_drift(self.means)

    @staticmethod
    def from_function(
        means_at: Callable[[int], ArrayLike],
        horizon: int,
        corruption: "Corruption | Sequence[Corruption]",
        *,
        resolution: int | None = None,
        rewards: Rewards | str = "bernoulli",
    ) -> "Problem":
        """Return a problem whose means are a function of time: ``means_at(step)`` is a list, a number for each arm.

        It is asked every ``resolution`` steps, by default about a thousand times, and holds until it is asked again.
        """
        from maskedbandits.problems.generators import sample_means

        means, starts = sample_means(means_at, horizon, resolution)
        return Problem(means, starts, horizon, corruption, rewards=rewards)

    @staticmethod
    def replay(
        outcomes: ArrayLike, corruption: "Corruption | Sequence[Corruption]" = IDENTITY, *, periods: int | ArrayLike = 1
    ) -> "Replay":
        """Return recorded rounds as a problem: what each arm would have brought in each of them is known."""
        from maskedbandits.problems.replay import Replay

        return Replay(outcomes, corruption, periods=periods)

    @staticmethod
    def replay_log(
        chosen: ArrayLike,
        rewards: ArrayLike,
        corruption: "Corruption | Sequence[Corruption]" = IDENTITY,
        *,
        arms: int | None = None,
        periods: int | ArrayLike = 1,
    ) -> "Log":
        """Return a log as a problem: in each round one arm was chosen at random, all alike, and its reward recorded."""
        from maskedbandits.problems.replay import Log

        return Log(chosen, rewards, corruption, arms=arms, periods=periods)


def count_plays(rows: float, pace: float) -> int:
    """Return how many rows are expected to be played of so many, one in ``pace``: at least 1."""
    return max(1, round(rows / pace))


def is_drift(means: Floats) -> bool:
    """Tell whether the means of successive segments drift rather than jump; ``Problem.drifts`` says what that is."""
    if len(means) < MANY:
        return False
    return bool(compute_variation(means) / (len(means) - 1) < 0.25 * np.ptp(means, axis=0).max())


def compute_variation(means: Floats) -> float:
    """Return how far the means of successive segments move in all."""
    return float(np.abs(np.diff(means, axis=0)).max(axis=1).sum())


def check_arm_count(arms: int, horizon: int) -> None:
    """Refuse more arms than there are steps."""
    if horizon < arms:
        raise UserError(f"horizon {horizon} is shorter than the number of arms {arms}: not every arm could be tried")


def check_starts(given: ArrayLike, segments: int, horizon: int) -> Ints:
    """Return when segments start, one for each row of means."""
    begins = _validation.check_starts("starts", given, horizon)
    if begins.size != segments:
        raise UserError(f"{begins.size} starts, but means have {segments} rows: give one start per segment")
    return begins


def _check_rewards_fit(each: Sequence[Corruption], rewards: Rewards, liars: float) -> None:
    """Refuse rewards of any size that would have to be rounded to bits, and liars whose lies may be of any size."""
    noisy = [isinstance(one, Noise) for one in each]
    if isinstance(rewards, Gaussian) and not all(noisy):
        raise UserError(
            f"rewards = {rewards}: they cannot be masked as bits; give GaussianNoise or LaplaceNoise as corruption, "
            "GaussianNoise(0) to show them as they are"
        )
    if liars > 0.0 and any(noisy):
        raise UserError("liars: under noise a report may be any number, and a lie, too; leave them out")


def compute_feedback_means(each: Sequence[Corruption], means: Floats) -> Floats:
    """Return the feedback means, arm by arm; all arms with one corruption at once."""
    seen = np.empty_like(means)
    for g in {id(one): one for one in each}.values():
        columns = np.array([one is g for one in each])
        if isinstance(g, RandomizedResponse):
            seen[:, columns] = 1.0 - g.p00 + g.slope * means[:, columns]
        else:
            values, place = np.unique(
                means[:, columns], return_inverse=True
            )  # of outcomes there are few different ones
            seen[:, columns] = np.array([g(float(value)) for value in values])[place]
    return seen


def _add_liars(seen: Floats, means: Floats, corruption: Sequence[Corruption], share: float) -> Floats:
    """Return the feedback means if a share of the reports are lies against the best arm, and for the others."""
    best = means == means.max(axis=1, keepdims=True)
    rising = np.array([one.increasing for one in corruption])
    return np.asarray((1.0 - share) * seen + share * (best != rising))
