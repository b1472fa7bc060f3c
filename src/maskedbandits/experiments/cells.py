"""A finished cell: the name that it has, the numbers that came out, and the question that they answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.problems.problem import means_drift, variation_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def half_width(samples: Floats | Ints) -> Floats:
    """Return half of the 95 % interval of the mean of each column (Student's t); NaN with a single row."""
    count = len(samples)
    if count < 2:
        return np.full(samples.shape[1:], math.nan)
    spread = samples.std(axis=0, ddof=1) / math.sqrt(count)
    return np.asarray(stdtrit(count - 1, 0.975) * spread, dtype=np.float64)


@dataclass(frozen=True)
class Label:
    """What a cell is called: nothing here changes its numbers."""

    key: str
    problem: str
    policy: str
    epsilon: float | None  # None where the problem gives a mask of its own
    window: str | None = None  # the rule that chose the window, if one did
    published: float | None = None  # the regret that a publication reports

    @property
    def setting(self) -> str:
        """The corruption, as a figure's title says it."""
        if self.epsilon is None:
            return "own mask"
        return "ε = ∞" if math.isinf(self.epsilon) else f"ε = {self.epsilon:g}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The numbers of one cell, and the question that they answer."""

    question: dict[str, Any]
    times: Ints
    regret: Floats
    pulls: Ints
    suboptimal_pulls: Ints
    seconds: float
    pulls_over_time: Ints | None = None  # (C, K), of all runs together; None in folders of earlier versions
    kernel_seconds: float | None = None  # of CPU that the steps themselves took; likewise
    group_regret: Floats | None = None  # (runs, C, G) of a problem with groups; then pulls are (.., G, K)


@dataclass(frozen=True, eq=False)
class Cell:
    """One finished cell: a policy on a problem under one corruption."""

    label: Label
    outcome: Outcome

    @property
    def runs(self) -> int:
        """How many times the cell was played."""
        return int(self.outcome.regret.shape[0])

    @property
    def horizon(self) -> int:
        """How many steps one run has; of a log, rows."""
        return int(self.outcome.question["horizon"])

    @property
    def unit(self) -> str:
        """What the horizon counts: steps, or rows of a log."""
        return "rows" if self.outcome.question.get("record", [""])[0] == "log" else "steps"

    @property
    def changes(self) -> list[int]:
        """The times at which the means change."""
        return [int(start) for start in self.outcome.question["starts"][1:]]

    @lockfree_cached_property
    def means(self) -> Floats:
        """The mean rewards, (segments, arms), or (segments, groups, arms)."""
        return np.array(self.outcome.question["means"], dtype=np.float64)

    @property
    def rows(self) -> Floats:
        """The mean rewards, all of a segment in a row."""
        return self.means.reshape(len(self.means), -1)

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return int(self.means.shape[-1])

    @property
    def shares(self) -> list[float] | None:
        """The shares of the groups, where there are any."""
        shares: list[float] | None = self.outcome.question.get("shares")
        return shares

    @property
    def asks_groups(self) -> bool:
        """Whether the policy chooses for each group; others play one arm for everybody."""
        return self.shares is not None and bool(self.outcome.question["parameters"]["context"])

    @lockfree_cached_property
    def by_group(self) -> tuple[Floats, Floats]:
        """Mean regret of each group at the horizon, (G,), and half of its 95 % interval."""
        last = np.asarray(self.outcome.group_regret)[:, -1]
        return np.asarray(last.mean(axis=0)), half_width(last)

    @lockfree_cached_property
    def drifts(self) -> bool:
        """Whether the means drift rather than jump: then single changes say nothing (``Problem.drifts``)."""
        return means_drift(self.rows)

    @property
    def variation(self) -> float:
        """How far the means move in all (``Problem.variation``)."""
        return variation_of(self.rows)

    @property
    def window(self) -> int | str | None:
        """The window that the policy was given, if it has one; the word inf for one without end."""
        window: int | str | None = self.outcome.question["parameters"].get("window")
        return window

    @lockfree_cached_property
    def mean(self) -> Floats:
        """Mean regret at each checkpoint."""
        return np.asarray(self.outcome.regret.mean(axis=0), dtype=np.float64)

    @lockfree_cached_property
    def half_width(self) -> Floats:
        """Half of the 95 % interval of the mean regret (Student's t); NaN with a single run."""
        return half_width(self.outcome.regret)

    @property
    def suboptimal_share(self) -> float:
        """The share of pulls of another arm than the best; of a log a policy plays some rows alone."""
        return float(self.outcome.suboptimal_pulls.sum() / max(self.outcome.pulls.sum(), 1))

    @property
    def steps_per_second(self) -> float:
        """Simulated steps per second of wall time."""
        return self.runs * self.horizon / max(self.outcome.seconds, 1e-9)
