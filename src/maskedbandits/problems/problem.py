"""Problems: the means of the arms, the times at which they change, the horizon, and the corruption of feedback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits.corruption import IDENTITY, Corruption, Population, RandomizedResponse, expand_per_arm
from maskedbandits.errors import LARGEST, UserError, abbreviate, check_int, check_number
from maskedbandits.noise import Noise, Spread, compute_spread
from maskedbandits.problems.rewards import Gaussian, Rewards, check_rewards

if TYPE_CHECKING:
    from maskedbandits.problems.replay import Log, Replay

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MIN_DRIFT_SEGMENTS = 32  # fewer changes are treated one by one


class Rows(NamedTuple):
    """The values that are played: a row for each segment and a column for each arm."""

    starts: Ints  # followed by the horizon
    seen: Floats  # the mean of what the policy sees
    lost: Floats  # the cost of a pull
    worse: NDArray[np.bool_]  # whether another arm is better


def describe_size(arms: int, segments: int, horizon: int, *more: str) -> str:
    """Return the number of arms, more facts, the number of segments and the horizon as text."""
    counted = (f"{count:,} {word}{'s' * (count != 1)}" for count, word in ((arms, "arm"), (segments, "segment")))
    first, second = counted
    return ", ".join([first, *more, second, f"horizon {horizon:,}"])


@dataclass(frozen=True, eq=False)
class Problem:
    """A bandit whose means change at given steps.

    Row ``i`` of ``means`` holds from step ``starts[i]`` on.

    Parameters
    ----------
    means : array_like, shape (L, K)
        Mean reward of each arm in each segment, in [0, 1]. One row may be given as a plain list.
    starts : array_like, shape (L,)
        First step of each segment, increasing; the first is 0.
    horizon : int
        Number of steps.
    corruption : Corruption or sequence of Corruption
        What masks the rewards: one for all arms, or one for each. Increasing and decreasing ones may be mixed.
    liars : float, default 0.0
        Share of reports that are lies, against the best arm and in favour of every other.
    rewards : "bernoulli", Beta or Gaussian, default "bernoulli"
        Distribution of rewards around their mean.

    Attributes
    ----------
    means : ndarray, shape (L, K)
        Mean reward of each arm in each segment.
    starts : ndarray, shape (L,)
        First step of each segment.
    horizon : int
        Number of steps.
    corruption : tuple of Corruption
        What masks the rewards of each arm.
    liars : float
        Share of reports that are lies.
    law : Bernoulli, Beta or Gaussian
        Distribution of rewards around their mean.
    lengths : ndarray, shape (L,)
        Number of steps of each segment.
    best : ndarray, shape (L,)
        Mean of the best arm of each segment.
    feedback_means : ndarray, shape (L, K)
        Mean feedback of each arm in each segment.

    Raises
    ------
    UserError
        If a value is out of range, the shapes disagree, or the corruption cannot mask such rewards.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse
    >>> problem = Problem([[0.9, 0.4], [0.4, 0.9]], [0, 500], 1000, RandomizedResponse(0.75, 0.75))
    >>> problem.segments, problem.best_arms.tolist()
    (2, [0, 1])
    >>> problem.feedback_means[0].round(2).tolist()
    [0.7, 0.45]

    """

    means: Floats
    starts: Ints
    horizon: int
    corruption: tuple[Corruption, ...]
    liars: float
    law: Rewards
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

    def __setstate__(self, state: dict[str, object]) -> None:
        _validation.restore_read_only(self, state)

    def __repr__(self) -> str:
        masks = list(dict.fromkeys(map(abbreviate, self.corruption)))
        mask = masks[0] if len(masks) == 1 else f"{len(masks)} different masks"
        return f"<{type(self).__name__}: {describe_size(self.arms, self.segments, self.horizon)}, {mask}>"

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
        """Number of segments, L_T of the paper: 1 if the means never change."""
        return int(self.means.shape[0])

    @property
    def best_arms(self) -> Ints:
        """Best arm of each segment, (L,); the first of several. Its mean is ``best``."""
        return np.asarray(self.means.argmax(axis=1))

    @property
    def rows_per_play(self) -> int:
        """Average number of rows that a policy reads for each row it plays: 1 except for a ``Log``."""
        return 1

    @property
    def expected_plays(self) -> int:
        """Number of steps that a policy is expected to play: the horizon except for a ``Log``."""
        return count_plays(self.horizon, self.rows_per_play)

    def as_played(self) -> Problem:
        """Return the problem in steps that a policy plays: itself, except for a ``Log``.

        Returns
        -------
        Problem
            This problem, or a shorter one for a ``Log``.

        """
        return self

    @property
    def gaps(self) -> Floats:
        """Cost of a pull of each arm in each segment, (L, K)."""
        return np.asarray(self.best[:, None] - self.means)

    def rows(self, *, masked: bool) -> Rows:
        """Return the values that are played, row by row.

        Parameters
        ----------
        masked : bool
            Whether the policy sees masked feedback. Otherwise it sees rewards.

        Returns
        -------
        Rows
            Starts, means, costs, and whether another arm is better.

        """
        seen = self.feedback_means if masked else self.means
        return Rows(np.append(self.starts, self.horizon), seen.copy(), self.gaps, self.gaps > 0.0)

    @property
    def is_noisy(self) -> bool:
        """Whether feedback is a reward with additive noise instead of a bit."""
        return any(isinstance(one, Noise) for one in self.corruption)

    @property
    def population(self) -> Population | None:
        """People who choose their own masks; None if all reports of an arm have the same."""
        first = self.corruption[0]
        return first if isinstance(first, Population) else None

    @property
    def spread(self) -> Spread | None:
        """Limits on the deviation of noisy feedback from its mean; None if feedback is bits."""
        return compute_spread(self.corruption, self.law.sigma)

    def feedback(self, generator: np.random.Generator, arm: int, seen: float) -> float:
        """Draw the feedback of a pull: a masked bit, or a reward with noise.

        Parameters
        ----------
        generator : numpy.random.Generator
            Source of random numbers.
        arm : int
            The arm that is pulled.
        seen : float
            Mean of the feedback, or of the reward under noise.

        Returns
        -------
        float
            The feedback.

        """
        mask = self.corruption[arm]
        if isinstance(mask, Noise):
            return self.law.draw(generator, seen) + mask.draw(generator)
        return float(generator.random() < seen)

    @property
    def variation(self) -> float:
        """Total movement of the means: the largest move at each change, summed (Besbes et al. 2014)."""
        return compute_variation(self.means)

    @property
    def drifts(self) -> bool:
        """Whether the means drift instead of jumping.

        They drift if there are many segments and small steps between them. On average, the largest move of an arm must
        be less than a quarter of the range of the means. Change points do not describe a drift.
        """
        return is_drift(self.means)

    @staticmethod
    def from_function(
        means_at: Callable[[int], ArrayLike],
        horizon: int,
        corruption: Corruption | Sequence[Corruption],
        *,
        resolution: int | None = None,
        rewards: Rewards | str = "bernoulli",
    ) -> Problem:
        """Build a problem whose means are a function of time.

        Parameters
        ----------
        means_at : callable
            Called with a step, it returns a mean for each arm.
        horizon : int
            Number of steps.
        corruption : Corruption or sequence of Corruption
            What masks the rewards: one for all arms, or one for each.
        resolution : int, optional
            Number of steps between two calls. By default the function is called about a thousand times.
        rewards : "bernoulli", Beta or Gaussian, default "bernoulli"
            Distribution of rewards around their mean.

        Returns
        -------
        Problem
            A problem of many short segments.

        Raises
        ------
        UserError
            If ``means_at`` is not a function, or returns other than a list of numbers in [0, 1].

        Examples
        --------
        >>> from maskedbandits import Problem, RandomizedResponse
        >>> mask = RandomizedResponse(0.9, 0.9)
        >>> Problem.from_function(lambda step: [0.5, step / 1000], 1000, mask, resolution=100).segments
        10

        """
        means, starts = _sample_means(means_at, horizon, resolution)
        return Problem(means, starts, horizon, corruption, rewards=rewards)

    @staticmethod
    def replay(
        outcomes: ArrayLike, corruption: Corruption | Sequence[Corruption] = IDENTITY, *, periods: int | ArrayLike = 1
    ) -> Replay:
        """Build a problem from recorded rounds in which the outcome of every arm is known.

        Parameters
        ----------
        outcomes : array_like, shape (T, K)
            Outcome of each arm in each round, in [0, 1].
        corruption : Corruption or sequence of Corruption, optional
            What masks the outcomes. By default they are shown as they are.
        periods : int or array_like, default 1
            Number of equal periods, or their first rounds. Regret is measured against the best arm of each period.

        Returns
        -------
        Replay
            The problem.

        Raises
        ------
        UserError
            If an outcome or a period is out of range, or the corruption adds noise.

        Examples
        --------
        >>> from maskedbandits import Problem
        >>> Problem.replay([[1, 0], [1, 0], [0, 1]]).means.round(2).tolist()
        [[0.67, 0.33]]

        """
        from maskedbandits.problems.replay import Replay

        return Replay(outcomes, corruption, periods=periods)

    @staticmethod
    def replay_log(
        chosen: ArrayLike,
        rewards: ArrayLike,
        corruption: Corruption | Sequence[Corruption] = IDENTITY,
        *,
        arms: int | None = None,
        periods: int | ArrayLike = 1,
    ) -> Log:
        """Build a problem from a log with one uniformly random arm and its reward in each round.

        Parameters
        ----------
        chosen : array_like, shape (T,)
            Arm that was chosen in each round.
        rewards : array_like, shape (T,)
            Its reward, in [0, 1].
        corruption : Corruption or sequence of Corruption, optional
            What masks the rewards. By default they are shown as they are.
        arms : int, optional
            Number of arms. By default one more than the largest in ``chosen``.
        periods : int or array_like, default 1
            Number of equal periods, or their first rounds. Regret is measured against the best arm of each period.

        Returns
        -------
        Log
            The problem.

        Raises
        ------
        UserError
            If the lists differ in length, a value is out of range, or the corruption adds noise.

        Examples
        --------
        >>> from maskedbandits import Problem
        >>> log = Problem.replay_log([0, 1, 1, 0], [1, 0, 1, 1])
        >>> log.means.tolist(), log.expected_plays
        ([[1.0, 0.5]], 2)

        """
        from maskedbandits.problems.replay import Log

        return Log(chosen, rewards, corruption, arms=arms, periods=periods)


def count_plays(rows: float, pace: float) -> int:
    """Return the expected number of plays among ``rows`` rows, one in ``pace``: at least 1."""
    return max(1, round(rows / pace))


def is_drift(means: Floats) -> bool:
    """Tell whether the means of successive segments drift; ``Problem.drifts`` has the definition."""
    if len(means) < MIN_DRIFT_SEGMENTS:
        return False
    return bool(compute_variation(means) / (len(means) - 1) < 0.25 * np.ptp(means, axis=0).max())


def compute_variation(means: Floats) -> float:
    """Return the total movement of the means of successive segments."""
    return float(np.abs(np.diff(means, axis=0)).max(axis=1).sum())


def check_arm_count(arms: int, horizon: int) -> None:
    """Refuse more arms than steps."""
    if horizon < arms:
        raise UserError(f"horizon {horizon} is shorter than the number of arms {arms}: not every arm could be tried")


def check_starts(given: ArrayLike, segments: int, horizon: int) -> Ints:
    """Check and return the starts of segments, one for each row of means."""
    begins = _validation.check_starts("starts", given, horizon)
    if begins.size != segments:
        raise UserError(f"{begins.size} starts, but means have {segments} rows: give one start per segment")
    return begins


def _check_rewards_fit(each: Sequence[Corruption], rewards: Rewards, liars: float) -> None:
    """Refuse unbounded rewards under a mask of bits, and liars under noise."""
    noisy = [isinstance(one, Noise) for one in each]
    if isinstance(rewards, Gaussian) and not all(noisy):
        raise UserError(
            f"rewards = {rewards}: continuous rewards cannot be masked as bits; give GaussianNoise or LaplaceNoise as "
            "corruption, or GaussianNoise(0) for no noise"
        )
    people = [one for one in each if isinstance(one, Population)]
    if people and (len(people) < len(each) or any(one != people[0] for one in people) or liars > 0.0):
        raise UserError("corruption: a Population masks the reports of all arms, and has no liars; give it alone")
    if liars > 0.0 and any(noisy):
        raise UserError("liars: lies are unbounded under additive noise; leave out liars")


def compute_feedback_means(each: Sequence[Corruption], means: Floats) -> Floats:
    """Return the feedback means, arm by arm; arms that share a corruption are computed together."""
    seen = np.empty_like(means)
    for g in {id(one): one for one in each}.values():
        columns = np.array([one is g for one in each])
        if isinstance(g, RandomizedResponse):
            seen[:, columns] = 1.0 - g.p00 + g.slope * means[:, columns]
        else:
            values, place = np.unique(means[:, columns], return_inverse=True)  # records hold few different values
            seen[:, columns] = np.array([g(float(value)) for value in values])[place]
    return seen


def _add_liars(seen: Floats, means: Floats, corruption: Sequence[Corruption], share: float) -> Floats:
    """Return the feedback means if a share of reports lies against the best arm and for the others."""
    best = means == means.max(axis=1, keepdims=True)
    rising = np.array([one.increasing for one in corruption])
    return np.asarray((1.0 - share) * seen + share * (best != rising))


def _sample_means(means_at: Callable[[int], ArrayLike], horizon: int, resolution: int | None) -> tuple[Floats, Ints]:
    """Evaluate a function of time every ``resolution`` steps; return the means and the steps."""
    if not callable(means_at):
        raise UserError(
            f"means_at = {abbreviate(means_at)}: give a function of the step that returns a mean for each arm"
        )
    from maskedbandits.problems.generators import space_starts

    arms = _call_means_at(means_at, 0).size
    starts = space_starts(arms, horizon, resolution)
    rows = [_call_means_at(means_at, int(start)) for start in starts]
    for start, row in zip(starts, rows, strict=True):
        if row.size != arms:
            raise UserError(
                f"means_at({start}) has {row.size} means, but means_at(0) has {arms}: return one for each arm"
            )
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
