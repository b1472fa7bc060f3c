"""Tables of data for a bandit: rounds with all outcomes, a log with one outcome a row, or segments with rates.

All three are divided into periods (months, days, tests). ``starts`` are their first rows, ``labels`` their names,
``period`` their kind. ``means`` is the mean outcome of every arm in every period.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits import _validation
from maskedbandits._validation import Floats, Ints
from maskedbandits.errors import LARGEST, UserError, check_int, check_line


@dataclass(frozen=True, eq=False)
class Rounds:
    """Rounds with all outcomes known: row t has the outcome of every arm, so regret is exact.

    Parameters
    ----------
    arms : tuple of str
        Names of the arms.
    outcomes : ndarray, shape (T, K)
        Outcome of each arm in each round, in [0, 1].
    starts : ndarray, shape (P,)
        First row of each period.
    period : str
        Kind of period, such as "month".
    labels : tuple of str
        Name of each period.

    Raises
    ------
    UserError
        If a value is out of range, or the shapes disagree.

    Examples
    --------
    >>> import numpy as np
    >>> Rounds(("a", "b"), np.array([[1, 0], [1, 1]]), np.array([0]), "day", ("Monday",)).means.tolist()
    [[1.0, 0.5]]

    """

    arms: tuple[str, ...]
    outcomes: NDArray[Any]
    starts: Ints
    period: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        arms = _check_arms(self.arms)
        outcomes = _validation.check_table("outcomes", self.outcomes, "round")
        _check_columns("outcomes", outcomes, arms)
        _set(self, arms=arms, outcomes=_compress(outcomes), **_check_periods(self, len(outcomes)))

    @property
    def horizon(self) -> int:
        """Number of rounds."""
        return len(self.outcomes)

    @property
    def means(self) -> Floats:
        """Mean outcome by period and arm."""
        sums = np.add.reduceat(self.outcomes, self.starts, axis=0, dtype=np.float64)
        return np.asarray(sums / self.counts)

    @property
    def counts(self) -> Ints:
        """Number of outcomes by period and arm."""
        return np.repeat(_period_lengths(self)[:, None], len(self.arms), axis=1)


@dataclass(frozen=True, eq=False)
class Log:
    """A log with one outcome a row, that of the chosen arm. It can be replayed by rejection.

    Parameters
    ----------
    arms : tuple of str
        Names of the arms.
    chosen : ndarray, shape (T,)
        Arm that was chosen in each row.
    rewards : ndarray, shape (T,)
        Its outcome, in [0, 1].
    starts : ndarray, shape (P,)
        First row of each period.
    period : str
        Kind of period, such as "month".
    labels : tuple of str
        Name of each period.

    Raises
    ------
    UserError
        If a value is out of range, or the shapes disagree.

    Examples
    --------
    >>> import numpy as np
    >>> log = Log(("a", "b"), np.array([0, 1, 1]), np.array([1.0, 0.0, 1.0]), np.array([0]), "day", ("Monday",))
    >>> log.means.tolist()
    [[1.0, 0.5]]

    """

    arms: tuple[str, ...]
    chosen: Ints
    rewards: Floats
    starts: Ints
    period: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        arms = _check_arms(self.arms)
        chosen = _validation.check_arms("chosen", self.chosen, len(arms), "row")
        rewards = _validation.check_shares("rewards", self.rewards, "row")
        _validation.refuse_other_lengths("chosen", chosen, "rewards", rewards)
        _set(self, arms=arms, chosen=chosen, rewards=rewards, **_check_periods(self, len(chosen)))

    @property
    def horizon(self) -> int:
        """Number of rows. Replay by rejection uses about one row in ``len(arms)``."""
        return len(self.chosen)

    @property
    def means(self) -> Floats:
        """Mean reward by period and arm; NaN if the arm was never chosen."""
        sums, counts = self._sum_by_period(self.rewards), self.counts
        return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))

    @property
    def counts(self) -> Ints:
        """Number of choices by period and arm."""
        return self._sum_by_period(None).astype(np.int64)

    def _sum_by_period(self, weights: Floats | None) -> NDArray[Any]:
        """Return the sum of weights, or of ones, by period and arm."""
        periods, arms = len(self.starts), len(self.arms)
        cells = np.repeat(np.arange(periods), _period_lengths(self)) * arms + self.chosen
        return np.bincount(cells, weights, periods * arms).reshape(periods, arms)


@dataclass(frozen=True, eq=False)
class Segments:
    """Segments with known rates instead of single outcomes: the means, starts and horizon of a Problem.

    Parameters
    ----------
    arms : tuple of str
        Names of the arms.
    means : ndarray, shape (P, K)
        Mean outcome by period and arm, in [0, 1].
    starts : ndarray, shape (P,)
        First step of each period.
    horizon : int
        Number of steps.
    period : str
        Kind of period, such as "month".
    labels : tuple of str
        Name of each period.

    Raises
    ------
    UserError
        If a value is out of range, or the shapes disagree.

    Examples
    --------
    >>> import numpy as np
    >>> Segments(("a", "b"), np.array([[0.2, 0.4]]), np.array([0]), 1000, "day", ("Monday",)).horizon
    1000

    """

    arms: tuple[str, ...]
    means: Floats
    starts: Ints
    horizon: int
    period: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        arms, means = _check_arms(self.arms), _validation.check_table("means", self.means, "segment")
        horizon = check_int("horizon", self.horizon, 1, LARGEST)
        periods = _check_periods(self, horizon)
        _check_columns("means", means, arms)
        if len(means) != len(periods["starts"]):
            raise UserError(
                f"{len(periods['starts'])} starts but {len(means)} rows of means: give one row for each start"
            )
        _set(self, arms=arms, means=means, horizon=horizon, **periods)

    @property
    def counts(self) -> Ints:
        """Number of steps by period, the same for every arm."""
        return np.repeat(_period_lengths(self)[:, None], len(self.arms), axis=1)


Table = Rounds | Log | Segments
KINDS: dict[str, type[Rounds] | type[Log] | type[Segments]] = {"rounds": Rounds, "log": Log, "segments": Segments}


def table_kind(table: Table) -> str:
    """Return the name of the kind of a table."""
    return next(name for name, kind in KINDS.items() if isinstance(table, kind))


def find_periods(names: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Return the starts and labels of periods, given the label of every row.

    >>> find_periods(["May", "May", "June"])
    (array([0, 2]), ('May', 'June'))
    """
    starts = [row for row, name in enumerate(names) if row == 0 or name != names[row - 1]]
    return np.array(starts, dtype=np.int64), tuple(names[row] for row in starts)


def _period_lengths(table: Table) -> Ints:
    return np.diff(np.append(table.starts, table.horizon))


def _set(table: Table, **values: Any) -> None:
    """Set checked values and make arrays read-only."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(table, name, value)


def _check_arms(arms: Sequence[str]) -> tuple[str, ...]:
    names = tuple(check_line("arm", name) for name in arms)
    if len(names) < 2:
        raise UserError(f"arms: {len(names)} is too few: give at least two")
    if len({*names}) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise UserError(f"two arms are called {twice!r}: give them different names")
    return names


def _check_columns(name: str, table: Floats, arms: Sequence[str]) -> None:
    if table.shape[1] != len(arms):
        raise UserError(f"{name} have {table.shape[1]} columns for {len(arms)} arms: give one for each")


def _compress(outcomes: Floats) -> NDArray[Any]:
    """Return outcomes that are all 0 or 1 as bytes, an eighth of the memory."""
    as_bytes = outcomes.astype(np.uint8)
    return as_bytes if np.array_equal(as_bytes, outcomes) else outcomes


def _check_periods(table: Table, horizon: int) -> dict[str, Any]:
    """Check the periods: each must contain a round."""
    starts = _validation.check_starts("starts", table.starts, horizon)
    labels = tuple(check_line("label", label) for label in table.labels)
    if len(labels) != len(starts):
        raise UserError(f"{len(starts)} starts but {len(labels)} labels: give one label for each start")
    return {"starts": starts, "labels": labels, "period": check_line("period", table.period)}
