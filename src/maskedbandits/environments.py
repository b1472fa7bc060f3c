"""Problems to learn in: means that change abruptly, seen through a corruption."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits.corruption import Corruption

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def per_arm(corruption: Corruption | Sequence[Corruption], arms: int) -> tuple[Corruption, ...]:
    """Return one corruption for every arm, whether one was given for all or one for each."""
    each = (corruption,) * arms if isinstance(corruption, Corruption) else tuple(corruption)
    if len(each) != arms:
        raise ValueError(f"{len(each)} corruptions for {arms} arms: give one for all, or one for each")
    for arm, one in enumerate(each):
        if not isinstance(one, Corruption):
            raise ValueError(  # noqa: TRY004 - one kind of error for every refused input
                f"corruption of arm {arm} is {one!r}: give a RandomizedResponse or a Monotone"
            )
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


def _checked_starts(starts: ArrayLike, segments: int, horizon: int) -> Ints:
    whole = _whole("starts", starts)
    if whole.shape != (segments,):
        raise ValueError(f"starts have shape {whole.shape} but means have {segments} rows: give one start per segment")
    if whole[0] != 0 or np.any(np.diff(whole) <= 0):
        raise ValueError(f"starts = {whole.tolist()}: give them increasing, the first 0")
    if whole[-1] >= horizon:
        raise ValueError(f"start {whole[-1]} is not before the horizon {horizon}: drop it or play longer")
    return whole


@dataclass(frozen=True, eq=False)
class Problem:
    """A Bernoulli bandit whose means change at given times: row i of means holds from step starts[i] on.

    One corruption serves all arms, or each arm has its own; one may increase where another decreases.
    """

    means: Floats
    starts: Ints
    horizon: int
    corruption: tuple[Corruption, ...]
    lengths: Ints = field(init=False, repr=False)
    best: Floats = field(init=False, repr=False)
    feedback_means: Floats = field(init=False, repr=False)

    def __init__(
        self,
        means: ArrayLike,
        starts: ArrayLike,
        horizon: int,
        corruption: Corruption | Sequence[Corruption],
    ) -> None:
        table = _checked_means(means)
        steps = int(_whole("horizon", horizon).reshape(()))
        if steps < table.shape[1]:
            raise ValueError(
                f"horizon {steps} is shorter than the number of arms {table.shape[1]}: not every arm could be tried"
            )
        begins = _checked_starts(starts, table.shape[0], steps)
        each = per_arm(corruption, table.shape[1])
        seen = np.array([[g(float(mean)) for g, mean in zip(each, row, strict=True)] for row in table])
        values = {
            "means": table,
            "starts": begins,
            "horizon": steps,
            "corruption": each,
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
