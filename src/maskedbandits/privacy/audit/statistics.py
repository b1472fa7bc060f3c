"""Lower bounds on epsilon from counts of events, and the error budget that they share.

For an event E, Clopper and Pearson's bounds give ``P(E | x) >= L_x`` and ``P(E | x) <= U_x`` for every input x, each
wrong with a probability of at most a level. While they hold, epsilon is at least ``ln(L_x / U_y)`` for any two inputs.
A bit has two inputs, a device of groups two for each group.

All bounds hold together with the requested confidence (Bonferroni). Of the error probability, half is shared by the
events fixed in advance, a quarter by those that reports choose where they are more than bits, an eighth by the tests of
the noise where they are bits, and an eighth by the other behaviour of a program: short starts, standard error, exit
codes, time, and rewards between 0 and 1. The shares are the same for every audit. For devices of groups, strata of
queries have half of the first half.

Citations
---------
Clopper & Pearson 1934.
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

POWER = 0.95  # to detect the smallest excess
REPORT_NAMES = ("report 0", "report 1", "another report")
KNOWN_EVENTS = 2 * len(REPORT_NAMES)  # for an input and the one before
EVENTS_PER_KIND = 2  # of each of four kinds that reports choose
CHOSEN_EVENTS = 2 * 4 * EVENTS_PER_KIND  # for an input and the one before
RUNS = 8  # starts of a program
CONTEXT_KINDS = 12  # four of positions and flips, eight of earlier inputs
CONTEXTS_PER_KIND = 2  # chosen by the noise
TESTED_CONTEXTS = CONTEXT_KINDS * CONTEXTS_PER_KIND + RUNS  # each run is one, too
BLOCK_LENGTHS = 16  # in which the noise may be too even
MAX_VIEWS = 9  # of the queries to a device of groups in which g is tested


def clopper_pearson_lower(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return Clopper and Pearson's lower bound on a probability, wrong with at most this level."""
    return np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), trials - hits + 1, level))


def clopper_pearson_upper(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return Clopper and Pearson's upper bound on a probability, wrong with at most this level."""
    return np.where(hits == trials, 1.0, betainccinv(hits + 1, np.maximum(trials - hits, 1), level))


def epsilon_lower_bound(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return the lower bound on epsilon from events; the last axis is the input."""
    ratios = clopper_pearson_lower(hits, trials, level).max(axis=-1) / clopper_pearson_upper(hits, trials, level).min(
        axis=-1
    )
    return np.asarray(np.log(np.maximum(ratios, 1.0)))


@dataclass(frozen=True)
class Event:
    """A property of reports and its counts by input."""

    name: str
    hits: tuple[int, ...]
    trials: tuple[int, ...]
    level: float
    before: bool = False  # whether the input is the one before its own

    @property
    def shares(self) -> tuple[float, ...]:
        """Its frequency by input."""
        return tuple(hits / max(trials, 1) for hits, trials in zip(self.hits, self.trials, strict=True))

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon that it gives."""
        return float(epsilon_lower_bound(np.array(self.hits), np.array(self.trials), self.level))

    @property
    def apart(self) -> tuple[int, int]:
        """The two inputs that give the bound: the most and the least frequent with certainty."""
        hits, trials = np.array(self.hits), np.array(self.trials)
        most, least = (
            clopper_pearson_lower(hits, trials, self.level).argmax(),
            clopper_pearson_upper(hits, trials, self.level).argmin(),
        )
        return int(most), int(least)

    def interval(self, given: int) -> tuple[float, float]:
        """Return the bounds on its probability given an input."""
        hits, trials = np.array(self.hits[given]), np.array(self.trials[given])
        return float(clopper_pearson_lower(hits, trials, self.level)), float(
            clopper_pearson_upper(hits, trials, self.level)
        )


def epsilon_upper_bound(event: Event) -> float:
    """Return the upper bound on the epsilon of one event."""
    (low0, high0), (low1, high1) = event.interval(0), event.interval(1)
    return math.inf if 0.0 in (low0, low1) else math.log(max(high0 / low1, high1 / low0))


def build_event(name: str, hits: Ints, trials: Ints, level: float, *, before: bool = False) -> Event:
    """Return an event of plain numbers."""
    return Event(name, tuple(map(int, hits)), tuple(map(int, trials)), level, before)


def find_smallest_excess(claimed: float, trials: int, level: float) -> float | None:
    """Return the smallest excess over the claim that is refuted with a probability of at least POWER.

    The excess is that of symmetric randomised response. The bound on epsilon rises with true reports and falls with
    false ones, so it is no lower than at the quantiles that each misses with (1 - POWER) / 2.
    """
    if not is_detectable(claimed, math.inf, trials, level):
        return None
    low, high = 0.0, 1.0
    while not is_detectable(claimed, high, trials, level):
        low, high = high, 2.0 * high
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_detectable(claimed, middle, trials, level) else (middle, high)
    return high


def is_detectable(claimed: float, excess: float, trials: int, level: float) -> bool:
    """Tell whether an excess would be detected."""
    false = 0.0 if excess > 600 else 1.0 / (1.0 + math.exp(claimed + excess))
    miss = 0.5 * (1.0 - POWER)
    # If having no false report is likely enough, the quantile is 0 rather than defined by continuity.
    most = 0 if trials * math.log1p(-false) >= math.log1p(-miss) else math.ceil(bdtrik(1.0 - miss, trials, false))
    hits = np.array([trials - most, most])
    return float(epsilon_lower_bound(hits, np.array([trials, trials]), level)) > claimed


def count_trials_needed(claimed: float, level: float) -> int:
    """Return about how many trials a side detect a randomiser that never flips."""
    low, high = 1, 2
    while not is_detectable(claimed, math.inf, high, level):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_detectable(claimed, math.inf, middle, level) else (middle, high)
    return high


class ErrorBudget(NamedTuple):
    """The allowed error probability of each bound."""

    known: float
    chosen: float
    noise: float
    side: float  # of all other behaviour of a program together
    strata: float = 0.0  # of all strata together


def allocate_error(confidence: float) -> ErrorBudget:
    """Return the error of each bound: events and contexts have four bounds, blocks and names one."""
    wrong = 1.0 - confidence
    return ErrorBudget(
        known=wrong / 2 / (4 * KNOWN_EVENTS),
        chosen=wrong / 4 / (4 * CHOSEN_EVENTS),
        noise=wrong / 8 / (4 * TESTED_CONTEXTS + BLOCK_LENGTHS + 1),
        side=wrong / 8,
    )


def allocate_group_error(confidence: float, groups: int, answers: int) -> ErrorBudget:
    """Return the error of each bound for groups: events and distances have two bounds for each of 2 G inputs.

    ``answers`` counts those to queries of all sizes.
    """
    wrong, inputs = 1.0 - confidence, 2 * groups
    return allocate_error(confidence)._replace(
        known=wrong / 4 / (2 * inputs * answers * MAX_VIEWS),
        chosen=wrong / 4 / (2 * inputs * CHOSEN_EVENTS),
        strata=wrong / 4,
    )
