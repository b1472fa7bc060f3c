"""What was recorded, played again: rounds of which all outcomes are known, and logs of which one is.

Regret is counted against the arm that was best in each period, by what really came of it: in a round it is what that
arm brought less what the chosen one brought, which may be less than nothing. With the whole record as one period that
is the best fixed arm. An outcome between 0 and 1 is a one with that probability.

*Rounds* (``Replay``) are exact: whatever is chosen, its outcome is known.

*A log* (``Log``) knows the outcome of the arm that was chosen then, at random and all arms alike. It is replayed by
rejection (Li, Chu, Langford and Wang 2011, Unbiased offline evaluation of contextual-bandit-based news article
recommendation algorithms, WSDM): a policy plays only the rounds in which it chooses as the log did, a K-th of them, and
what it would have met in as many rounds of its own has the same distribution, as long as the world stands still.

Every time of a log is a row: its horizon, the starts of periods, and times that policies are given
(``policies/log_times.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from maskedbandits import _validation
from maskedbandits.corruption import IDENTITY, Corruption
from maskedbandits.errors import UserError, check_int
from maskedbandits.problems.problem import Floats, Ints, Problem, Rows, check_arm_count, compute_feedback_means


@dataclass(frozen=True, eq=False)
class Replay(Problem):
    """Recorded rounds: ``means`` are those of the periods, ``starts`` their first rounds."""

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
        """Return what is played: a row for each round."""
        seen = compute_feedback_means(self.corruption, self.outcomes) if masked else self.outcomes.copy()
        lost = self._of_the_best()[:, None] - self.outcomes
        return Rows(np.arange(self.horizon + 1), seen, lost, np.repeat(self.gaps > 0.0, self.lengths, axis=0))

    def _of_the_best(self) -> Floats:
        """Return what the best arm of its period brought, round by round."""
        best = np.repeat(self.means.argmax(axis=1), self.lengths)
        return np.asarray(self.outcomes[np.arange(self.horizon), best])

    def regret_of(self, arm: int | None, times: ArrayLike) -> Floats:
        """Return the regret of always choosing one arm, or any by chance (None), at the given times."""
        brought = (
            self.outcomes.mean(axis=1) if arm is None else self.outcomes[:, check_int("arm", arm, 0, self.arms - 1)]
        )
        return _sum_until(self._of_the_best() - brought, times)

    @property
    def best_fixed(self) -> int:
        """The arm that brought most in all."""
        return int(self.outcomes.sum(axis=0).argmax())


@dataclass(frozen=True, eq=False)
class Log(Problem):
    """Recorded choices: ``means`` are those of the rewards of each arm in each period, ``starts`` its first rounds."""

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
        picked, brought = (
            _validation.check_ints("chosen", chosen),
            _validation.check_shares("rewards", rewards, "round"),
        )
        _validation.refuse_other_lengths("chosen", picked, "rewards", brought)
        count = int(picked.max()) + 1 if arms is None else check_int("arms", arms)
        check_arm_count(count, picked.size)
        _validation.check_arms("chosen", picked, count, "round")
        starts = _check_periods(periods, picked.size)
        super().__init__(_compute_means(picked, brought, starts, count), starts, picked.size, corruption)
        _check_noiseless(self)
        for name, value in (("chosen", picked), ("rewards", brought)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def rows_per_play(self) -> int:
        """How many rows a policy reads for each that it plays, on average: as many as there are arms."""
        return self.arms

    def as_played(self) -> Problem:
        """Return the problem in the steps that a policy is expected to play, a K-th of the rows.

        A period that is too short for a step is left out.
        """
        plays = self.expected_plays
        if plays < self.arms:
            raise UserError(
                f"a log of {self.horizon} rows and {self.arms} arms is played about {plays} times, and not every arm "
                f"could be tried: take at least {self.arms * self.arms} rows"
            )
        starts = np.rint(self.starts / self.arms).astype(np.int64)
        kept = np.diff(starts, append=plays) > 0
        return Problem(self.means[kept], starts[kept], plays, self.corruption)

    def rows(self, *, masked: bool) -> Rows:
        """Return what is played: a row for each round, and a column for the arm that was chosen in it."""
        seen = self.rewards.copy()
        if masked:
            each = np.zeros((self.horizon, self.arms))
            each[np.arange(self.horizon), self.chosen] = self.rewards
            seen = compute_feedback_means(self.corruption, each)[np.arange(self.horizon), self.chosen]
        lost = np.repeat(self.best, self.lengths) - self.rewards
        worse = np.repeat(self.gaps > 0.0, self.lengths, axis=0)[np.arange(self.horizon), self.chosen]
        return Rows(np.arange(self.horizon + 1), seen[:, None], lost[:, None], worse[:, None])


def _check_noiseless(problem: Problem) -> None:
    if problem.is_noisy:
        raise UserError("corruption: what was recorded is replayed in bits, without noise; give a RandomizedResponse")


def _check_periods(periods: int | ArrayLike, rounds: int) -> Ints:
    """Return the first rounds of the periods: as given, or of so many periods of one length."""
    if np.ndim(periods) == 0:
        count = check_int("periods", periods, 1, rounds)
        return np.arange(count) * rounds // count
    return _validation.check_starts("periods", periods, rounds)


def _compute_means(chosen: Ints, rewards: Floats, starts: Ints, arms: int) -> Floats:
    """Return the mean reward of each arm in each period; 0 of one that was not chosen in it."""
    place = (np.searchsorted(starts, np.arange(chosen.size), side="right") - 1) * arms + chosen
    size = starts.size * arms
    counts = np.bincount(place, minlength=size)
    sums = np.bincount(place, weights=rewards, minlength=size)
    means: Floats = (sums / np.maximum(counts, 1)).reshape(starts.size, arms)
    return means


def _sum_until(lost: Floats, times: ArrayLike) -> Floats:
    return np.asarray(np.concatenate([[0.0], np.cumsum(lost)])[_validation.check_ints("times", times)])
