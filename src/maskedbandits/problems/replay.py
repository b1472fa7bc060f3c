"""Recorded data as problems: rounds in which all outcomes are known, and logs in which one is.

Regret is measured against the best arm of each period, by the recorded outcomes. In a round it is the outcome of that
arm minus the outcome of the chosen arm, which may be negative. With one period this is regret against the best fixed
arm. An outcome between 0 and 1 is the probability of a 1.

``Replay`` holds rounds. It is exact, because the outcome of every choice is known.

``Log`` holds the outcome of one arm per round, chosen uniformly at random. It is replayed by rejection (Li, Chu,
Langford and Wang 2011, Unbiased offline evaluation of contextual-bandit-based news article recommendation algorithms,
WSDM). A policy plays only the rounds in which it chooses the recorded arm, about one in K. If the means do not change,
its plays have the same distribution as in as many live rounds.

Every time of a log is a row: its horizon, the starts of periods, and times that policies are given
(``policies/log_times.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits import _validation
from maskedbandits.corruption import IDENTITY, Corruption
from maskedbandits.errors import UserError, check_int
from maskedbandits.problems.problem import Floats, Ints, Problem, Rows, check_arm_count, compute_feedback_means


@dataclass(frozen=True, eq=False, repr=False)
class Replay(Problem):
    """Recorded rounds in which the outcome of every arm is known; see ``Problem.replay``.

    Parameters
    ----------
    outcomes : array_like, shape (T, K)
        Outcome of each arm in each round, in [0, 1].
    corruption : Corruption or sequence of Corruption, optional
        What masks the outcomes. By default they are shown as they are.
    periods : int or array_like, default 1
        Number of equal periods, or their first rounds.

    Attributes
    ----------
    outcomes : ndarray, shape (T, K)
        Outcome of each arm in each round. ``means`` and ``starts`` are those of the periods.

    Examples
    --------
    >>> Replay([[1, 0], [1, 0], [0, 1]]).best_fixed
    0

    """

    outcomes: Floats = field(init=False, repr=False)

    def __init__(
        self,
        outcomes: ArrayLike,
        corruption: Corruption | Sequence[Corruption] = IDENTITY,
        *,
        periods: int | ArrayLike = 1,
    ) -> None:
        table = _validation.check_table("outcomes", outcomes, "round")
        table.flags.writeable = False
        starts = _check_periods(periods, len(table))
        counts = np.diff(np.append(starts, len(table)))
        super().__init__(np.add.reduceat(table, starts) / counts[:, None], starts, len(table), corruption)
        _check_noiseless(self)
        object.__setattr__(self, "outcomes", table)

    def rows(self, *, masked: bool) -> Rows:
        """Return the values that are played: a row for each round.

        Parameters
        ----------
        masked : bool
            Whether the policy sees masked feedback.

        Returns
        -------
        Rows
            Starts, means, costs, and whether another arm is better.

        """
        seen = compute_feedback_means(self.corruption, self.outcomes) if masked else self.outcomes.copy()
        lost = self._best_outcomes()[:, None] - self.outcomes
        return Rows(np.arange(self.horizon + 1), seen, lost, np.repeat(self.gaps > 0.0, self.lengths, axis=0))

    def _best_outcomes(self) -> Floats:
        """Return the outcome of the best arm of its period, round by round."""
        best = np.repeat(self.means.argmax(axis=1), self.lengths)
        return np.asarray(self.outcomes[np.arange(self.horizon), best])

    def regret_of(self, arm: int | None, times: ArrayLike) -> Floats:
        """Return the regret of a fixed arm, or of uniformly random choices.

        Parameters
        ----------
        arm : int or None
            The arm that is always chosen; None chooses uniformly at random.
        times : array_like
            Numbers of rounds after which regret is returned.

        Returns
        -------
        ndarray
            Cumulative regret at each of the times.

        Examples
        --------
        >>> Replay([[1, 0], [1, 0], [0, 1]]).regret_of(1, [1, 3]).tolist()
        [1.0, 1.0]

        """
        brought = (
            self.outcomes.mean(axis=1) if arm is None else self.outcomes[:, check_int("arm", arm, 0, self.arms - 1)]
        )
        return _sum_until(self._best_outcomes() - brought, times)

    @property
    def best_fixed(self) -> int:
        """Arm with the largest total outcome."""
        return int(self.outcomes.sum(axis=0).argmax())


@dataclass(frozen=True, eq=False, repr=False)
class Log(Problem):
    """A log with one uniformly random arm and its reward in each round; see ``Problem.replay_log``.

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
        Number of equal periods, or their first rounds.

    Attributes
    ----------
    chosen : ndarray, shape (T,)
        Arm that was chosen in each round.
    rewards : ndarray, shape (T,)
        Its reward. ``means`` and ``starts`` are those of the periods.

    Examples
    --------
    >>> Log([0, 1, 1, 0], [1, 0, 1, 1]).means.tolist()
    [[1.0, 0.5]]

    """

    chosen: Ints = field(init=False, repr=False)
    rewards: Floats = field(init=False, repr=False)

    def __init__(
        self,
        chosen: ArrayLike,
        rewards: ArrayLike,
        corruption: Corruption | Sequence[Corruption] = IDENTITY,
        *,
        arms: int | None = None,
        periods: int | ArrayLike = 1,
    ) -> None:
        arm_of_round, brought = (
            _validation.check_ints("chosen", chosen),
            _validation.check_shares("rewards", rewards, "round"),
        )
        _validation.refuse_other_lengths("chosen", arm_of_round, "rewards", brought)
        count = int(arm_of_round.max()) + 1 if arms is None else check_int("arms", arms)
        check_arm_count(count, arm_of_round.size)
        _validation.check_arms("chosen", arm_of_round, count, "round")
        starts = _check_periods(periods, arm_of_round.size)
        super().__init__(_compute_means(arm_of_round, brought, starts, count), starts, arm_of_round.size, corruption)
        _check_noiseless(self)
        for name, value in (("chosen", arm_of_round), ("rewards", brought)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def rows_per_play(self) -> int:
        """Average number of rows that a policy reads for each row it plays: the number of arms."""
        return self.arms

    def as_played(self) -> Problem:
        """Return the problem in steps that a policy is expected to play, one in K rows.

        Periods too short for one step are left out.

        Returns
        -------
        Problem
            A problem whose horizon is ``expected_plays``.

        Raises
        ------
        UserError
            If the log is too short to try every arm.

        """
        plays = self.expected_plays
        if plays < self.arms:
            raise UserError(
                f"a log of {self.horizon} rows and {self.arms} arms is played about {plays} times, and not every arm "
                f"could be tried: take at least {self.arms * self.arms} rows"
            )
        starts = np.rint(self.starts / self.arms).astype(np.int64)
        is_long = np.diff(starts, append=plays) > 0
        return Problem(self.means[is_long], starts[is_long], plays, self.corruption)

    def rows(self, *, masked: bool) -> Rows:
        """Return the values that are played: a row for each round, and one column for the recorded arm.

        Parameters
        ----------
        masked : bool
            Whether the policy sees masked feedback.

        Returns
        -------
        Rows
            Starts, means, costs, and whether another arm is better.

        """
        seen = self.rewards.copy()
        if masked:
            each = np.zeros((self.horizon, self.arms))
            each[np.arange(self.horizon), self.chosen] = self.rewards
            seen = compute_feedback_means(self.corruption, each)[np.arange(self.horizon), self.chosen]
        lost = np.repeat(self.best, self.lengths) - self.rewards
        worse = np.repeat(self.gaps > 0.0, self.lengths, axis=0)[np.arange(self.horizon), self.chosen]
        return Rows(np.arange(self.horizon + 1), seen[:, None], lost[:, None], worse[:, None])


def _check_noiseless(problem: Problem) -> None:
    """Refuse a corruption that adds noise."""
    if problem.is_noisy:
        raise UserError("corruption: a log is replayed as bits, without additive noise; give a RandomizedResponse")


def _check_periods(periods: int | ArrayLike, rounds: int) -> Ints:
    """Return the first rounds of the periods: as given, or of equal periods."""
    if np.ndim(periods) == 0:
        count = check_int("periods", periods, 1, rounds)
        return np.arange(count) * rounds // count
    return _validation.check_starts("periods", periods, rounds)


def _compute_means(chosen: Ints, rewards: Floats, starts: Ints, arms: int) -> Floats:
    """Return the mean reward of each arm in each period; 0 for an arm that was not chosen in it."""
    place = (np.searchsorted(starts, np.arange(chosen.size), side="right") - 1) * arms + chosen
    size = starts.size * arms
    counts = np.bincount(place, minlength=size)
    sums = np.bincount(place, weights=rewards, minlength=size)
    means: Floats = (sums / np.maximum(counts, 1)).reshape(starts.size, arms)
    return means


def _sum_until(lost: Floats, times: ArrayLike) -> Floats:
    """Return the cumulative regret after the given numbers of rounds."""
    return np.asarray(np.concatenate([[0.0], np.cumsum(lost)])[_validation.check_ints("times", times)])
