"""Lower bounds on epsilon from counts of events, and the error budget that they share.

What counts of events say of epsilon at least, and what so many trials could have seen.

For an event E, Clopper and Pearson's bounds give ``P(E | x) >= L_x`` and ``P(E | x) <= U_x`` for every input x, each
wrong with a probability of at most a level. While they hold, epsilon is at least ``ln(L_x / U_y)`` for any two inputs.
A bit has two inputs, a device of groups two for each group.

How much of the doubt each bound of an audit may use up.

All bounds hold together with the confidence asked for (Bonferroni). Of what may go wrong, half is shared by the events
that are known before any report is seen, a quarter by those that reports choose where they are more than bits, an
eighth by what is looked at in the noise where they are bits, and an eighth by what else a program does: short starts,
standard error, exit codes, time, and rewards between 0 and 1. The shares are the same for every audit. For devices of
groups, strata of questions have half of the first half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrik, betainccinv, betaincinv

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint8]

POWER = 0.95  # with which the smallest excess would have been seen


def lowest(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return Clopper and Pearson's lower bound on a probability, wrong with a probability of at most the level."""
    return np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), trials - hits + 1, level))


def highest(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return Clopper and Pearson's upper bound on a probability, wrong with a probability of at most the level."""
    return np.where(hits == trials, 1.0, betainccinv(hits + 1, np.maximum(trials - hits, 1), level))


def epsilon_at_least(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return the lower bound on epsilon that events give; the last axis is the input."""
    ratios = lowest(hits, trials, level).max(axis=-1) / highest(hits, trials, level).min(axis=-1)
    return np.asarray(np.log(np.maximum(ratios, 1.0)))


@dataclass(frozen=True)
class Event:
    """Something that may be true of a report, and how often it was, for each input."""

    name: str
    hits: tuple[int, ...]
    trials: tuple[int, ...]
    level: float
    before: bool = False  # whether the input is the one before the report's own

    @property
    def shares(self) -> tuple[float, ...]:
        """How often it was true, for each input."""
        return tuple(hits / max(trials, 1) for hits, trials in zip(self.hits, self.trials, strict=True))

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon that it gives."""
        return float(epsilon_at_least(np.array(self.hits), np.array(self.trials), self.level))

    @property
    def apart(self) -> tuple[int, int]:
        """The two inputs under which it is surely frequent, and surely rare: those that give the bound."""
        hits, trials = np.array(self.hits), np.array(self.trials)
        most, least = lowest(hits, trials, self.level).argmax(), highest(hits, trials, self.level).argmin()
        return int(most), int(least)

    def interval(self, given: int) -> tuple[float, float]:
        """Return the bounds on its probability, given an input."""
        hits, trials = np.array(self.hits[given]), np.array(self.trials[given])
        return float(lowest(hits, trials, self.level)), float(highest(hits, trials, self.level))


def epsilon_at_most(event: Event) -> float:
    """Return the upper bound on the epsilon of one event."""
    (low0, high0), (low1, high1) = event.interval(0), event.interval(1)
    return math.inf if 0.0 in (low0, low1) else math.log(max(high0 / low1, high1 / low0))


def event(name: str, hits: Ints, trials: Ints, level: float, *, before: bool = False) -> Event:
    """Return an event of plain numbers."""
    return Event(name, tuple(map(int, hits)), tuple(map(int, trials)), level, before)


def smallest_excess(claimed: float, trials: int, level: float) -> float | None:
    """Return by how much epsilon must exceed the claim to be refuted, with a probability of at least POWER.

    The excess is that of symmetric randomised response. The bound on epsilon rises with the reports that are true and
    falls with those that are false, so it is no lower than at the quantiles that each misses with (1 - POWER) / 2.
    """
    if not is_seen(claimed, math.inf, trials, level):
        return None
    low, high = 0.0, 1.0
    while not is_seen(claimed, high, trials, level):
        low, high = high, 2.0 * high
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_seen(claimed, middle, trials, level) else (middle, high)
    return high


def is_seen(claimed: float, excess: float, trials: int, level: float) -> bool:
    """Tell whether an excess would be seen."""
    false = 0.0 if excess > 600 else 1.0 / (1.0 + math.exp(claimed + excess))
    miss = 0.5 * (1.0 - POWER)
    # where no false report is likely enough, the quantile is 0 and not defined by continuity
    most = 0 if trials * math.log1p(-false) >= math.log1p(-miss) else math.ceil(bdtrik(1.0 - miss, trials, false))
    hits = np.array([trials - most, most])
    return float(epsilon_at_least(hits, np.array([trials, trials]), level)) > claimed


def trials_needed(claimed: float, level: float) -> int:
    """Return about how many trials a side let an audit see a randomiser that never flips."""
    low, high = 1, 2
    while not is_seen(claimed, math.inf, high, level):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_seen(claimed, math.inf, middle, level) else (middle, high)
    return high


READINGS = ("report 0", "report 1", "another report")
KNOWN = 2 * len(READINGS)  # events, against an input and against the one before
EACH = 2  # events of each of four kinds that reports choose
CHOSEN = 2 * 4 * EACH  # events, against an input and against the one before
RUNS = 8  # starts of a program
KINDS = 12  # of contexts: four of positions and flips, eight of earlier inputs
EACH_KIND = 2  # contexts of each kind that the noise chooses
CONTEXTS = KINDS * EACH_KIND + RUNS  # each run is one, too
BLOCKS = 16  # lengths of blocks in which the noise may be too even


VIEWS = 9  # of the questions to a device of groups in which g is looked at, at most


class Levels(NamedTuple):
    """What each bound may be wrong with."""

    known: float
    chosen: float
    noise: float
    side: float  # all of what else a program does may be wrong with, together
    strata: float = 0.0  # all strata together


def levels(confidence: float) -> Levels:
    """Return what each bound may be wrong with: an event and a context have four bounds, a block and a name one."""
    wrong = 1.0 - confidence
    return Levels(
        known=wrong / 2 / (4 * KNOWN),
        chosen=wrong / 4 / (4 * CHOSEN),
        noise=wrong / 8 / (4 * CONTEXTS + BLOCKS + 1),
        side=wrong / 8,
    )


def group_levels(confidence: float, groups: int, answers: int) -> Levels:
    """Return the same for a device of groups: an event has two bounds for each of 2 G inputs, and so has a distance.

    Answers are those to all questions of different sizes, one after the other.
    """
    wrong, inputs = 1.0 - confidence, 2 * groups
    return levels(confidence)._replace(
        known=wrong / 4 / (2 * inputs * answers * VIEWS),
        chosen=wrong / 4 / (2 * inputs * CHOSEN),
        strata=wrong / 4,
    )
