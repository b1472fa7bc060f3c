"""What data are to a bandit: rounds with all outcomes known, a log of one outcome a row, segments with known rates.

All three are cut into periods (months, days, tests): ``starts`` says where they start, ``labels`` what each is called,
and ``period`` what they are. ``means`` is the mean outcome of every arm in every period.
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
from maskedbandits.errors import LARGEST, UserError, check_int, line


@dataclass(frozen=True, eq=False)
class Rounds:
    """All outcomes are known: row t holds what every arm gives in round t, so that regret is exact."""

    arms: tuple[str, ...]
    outcomes: NDArray[Any]
    starts: Ints
    period: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        arms = _checked_arms(self.arms)
        outcomes = _validation.table("outcomes", self.outcomes, "round")
        _refuse_other_arms("outcomes", outcomes, arms)
        _set(self, arms=arms, outcomes=_small(outcomes), **_checked_periods(self, len(outcomes)))

    @property
    def horizon(self) -> int:
        """How many rounds there are."""
        return len(self.outcomes)

    @property
    def means(self) -> Floats:
        """Mean outcome of every arm in every period, (periods, arms)."""
        sums = np.add.reduceat(self.outcomes, self.starts, axis=0, dtype=np.float64)
        return np.asarray(sums / self.counts)

    @property
    def counts(self) -> Ints:
        """How many outcomes of every arm each period holds, (periods, arms)."""
        return np.repeat(_lengths(self)[:, None], len(self.arms), axis=1)


@dataclass(frozen=True, eq=False)
class Log:
    """One outcome a row is known, that of the arm which somebody chose: it can be replayed by rejection."""

    arms: tuple[str, ...]
    chosen: Ints
    rewards: Floats
    starts: Ints
    period: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        arms = _checked_arms(self.arms)
        chosen = _validation.arms("chosen", self.chosen, len(arms), "row")
        rewards = _validation.shares("rewards", self.rewards, "row")
        _validation.refuse_other_lengths("chosen", chosen, "rewards", rewards)
        _set(self, arms=arms, chosen=chosen, rewards=rewards, **_checked_periods(self, len(chosen)))

    @property
    def horizon(self) -> int:
        """How many rows there are; who replays them by rejection uses about one in as many as there are arms."""
        return len(self.chosen)

    @property
    def means(self) -> Floats:
        """Mean reward of every arm in every period, (periods, arms); NaN where it was never chosen."""
        sums, counts = self._summed(self.rewards), self.counts
        return np.asarray(np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0))

    @property
    def counts(self) -> Ints:
        """How often every arm was chosen in every period, (periods, arms)."""
        return self._summed(None).astype(np.int64)

    def _summed(self, weights: Floats | None) -> NDArray[Any]:
        """Return the sum of weights, or of ones, for every period and arm."""
        periods, arms = len(self.starts), len(self.arms)
        places = np.repeat(np.arange(periods), _lengths(self)) * arms + self.chosen
        return np.bincount(places, weights, periods * arms).reshape(periods, arms)


@dataclass(frozen=True, eq=False)
class Segments:
    """No outcomes are known one by one, but the rates of every segment: the means, starts and horizon of a Problem."""

    arms: tuple[str, ...]
    means: Floats
    starts: Ints
    horizon: int
    period: str
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        arms, means = _checked_arms(self.arms), _validation.table("means", self.means, "segment")
        horizon = check_int("horizon", self.horizon, 1, LARGEST)
        periods = _checked_periods(self, horizon)
        _refuse_other_arms("means", means, arms)
        if len(means) != len(periods["starts"]):
            raise UserError(f"there are {len(periods['starts'])} starts and {len(means)} rows of means: give one each")
        _set(self, arms=arms, means=means, horizon=horizon, **periods)

    @property
    def counts(self) -> Ints:
        """How many steps each segment lasts, the same for every arm, (periods, arms)."""
        return np.repeat(_lengths(self)[:, None], len(self.arms), axis=1)


Table = Rounds | Log | Segments
KINDS: dict[str, type[Rounds] | type[Log] | type[Segments]] = {"rounds": Rounds, "log": Log, "segments": Segments}


def kind_of(table: Table) -> str:
    """Return what a kind of table is called."""
    return next(name for name, kind in KINDS.items() if isinstance(table, kind))


def periods_of(names: Sequence[str]) -> tuple[Ints, tuple[str, ...]]:
    """Return where periods start and what they are called, given the name of the period of every row.

    >>> periods_of(["May", "May", "June"])
    (array([0, 2]), ('May', 'June'))
    """
    starts = [row for row, name in enumerate(names) if row == 0 or name != names[row - 1]]
    return np.array(starts, dtype=np.int64), tuple(names[row] for row in starts)


def _lengths(table: Table) -> Ints:
    return np.diff(np.append(table.starts, table.horizon))


def _set(table: Table, **values: Any) -> None:
    """Put checked values in place of the given ones; nobody changes an array afterwards."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(table, name, value)


def _checked_arms(arms: Sequence[str]) -> tuple[str, ...]:
    names = tuple(line("arm", name) for name in arms)
    if len(names) < 2:
        raise UserError(f"arms: {len(names)} is too few: give at least two, else there is nothing to choose")
    if len({*names}) < len(names):
        twice, _ = Counter(names).most_common(1)[0]
        raise UserError(f"arm {twice!r} is there twice: give every arm a name of its own")
    return names


def _refuse_other_arms(name: str, table: Floats, arms: Sequence[str]) -> None:
    if table.shape[1] != len(arms):
        raise UserError(f"{name} have {table.shape[1]} columns for {len(arms)} arms: give one for each")


def _small(outcomes: Floats) -> NDArray[Any]:
    """Return outcomes that are all 0 or 1 as bytes: an eighth of the memory."""
    as_bytes = outcomes.astype(np.uint8)
    return as_bytes if np.array_equal(as_bytes, outcomes) else outcomes


def _checked_periods(table: Table, horizon: int) -> dict[str, Any]:
    """Return what the periods of so many rounds are, if they cut them into parts that each hold something."""
    starts = _validation.starts("starts", table.starts, horizon)
    labels = tuple(line("label", label) for label in table.labels)
    if len(labels) != len(starts):
        raise UserError(f"there are {len(starts)} starts and {len(labels)} labels: give a label for each period")
    return {"starts": starts, "labels": labels, "period": line("period", table.period)}
