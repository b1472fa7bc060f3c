"""A test for surges: many more reports than usual while the reports of an arm jump.

A crowd may grow, and the world may change. Liars who want to turn a policy do both at once: they add reports, and these
move an arm. The test counts reports in bins of five minutes, and computes two scores of each bin relative to the hour
before it: the growth of the number of reports, and the largest jump of an arm's share of ones, in standard errors. It
raises an alarm if both scores rank among the highest of the last week, within a share 1 / sqrt(BINS_PER_FALSE_ALARM).

Suppose that a bin differs from those of the week before by chance alone, so that each score is equally likely to have
any rank. Suppose also that a crowd does not grow just when the world changes, so that the ranks of one bin are
independent. Then a bin raises a false alarm with a probability of at most 1 / BINS_PER_FALSE_ALARM, and there is at
most one in a year on average, however bins depend on their neighbours. Real sites break both assumptions a little:
hours differ, and a campaign may bring other people than before. ``python -m bench.liars --only alarms`` counts the
false alarms of simulated sites, about two in a year at most.

All is in memory, by arm, and of no person. A new process needs some 28 hours before it can raise an alarm.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

BIN_S = 300.0
BASE_BINS = 12  # the hour that a bin is compared with
HISTORY_BINS = 2016  # a week
MIN_REPORTS = 10  # of an arm, for its jump to count
USUAL_REPORTS = 10.0  # added on both sides of a growth, so that a few reports are no surge
BINS_PER_FALSE_ALARM = 105_120  # a year
SHOWN_S = 86_400.0

Counts = NDArray[np.int64]  # of zeros and ones, by arm


class SurgeTest:
    """The test of one experiment; one thread feeds it."""

    def __init__(self) -> None:
        self._number = -1  # of the open bin
        self._open: dict[tuple[int, int], int] = {}  # reports by arm and bit
        self._base: deque[Counts] = deque(maxlen=BASE_BINS)
        self._growths, self._jumps = array("d"), array("d")  # of the last week
        self._shown_until = 0.0

    def observe(self, arms_and_bits: Sequence[tuple[int, int]], now: float) -> bool:
        """Count reports that arrived now; return True if that raises an alarm that is not raised yet."""
        number, was_raised = int(now // BIN_S), self.is_raised(now)
        if self._number < 0:
            self._number = number
        for _ in range(min(number - self._number, HISTORY_BINS)):  # bins without reports count, too
            counts, self._open = self._open, {}
            if self.add_bin(counts):
                self._shown_until = now + SHOWN_S
        self._number = max(number, self._number)
        for pair in arms_and_bits:
            self._open[pair] = self._open.get(pair, 0) + 1
        return self.is_raised(now) and not was_raised

    def is_raised(self, now: float) -> bool:
        """Tell whether an alarm was raised in the last 24 hours."""
        return now < self._shown_until

    def add_bin(self, reports: Mapping[tuple[int, int], int]) -> bool:
        """Add the reports of a bin by arm and bit; return whether both its scores stand out."""
        counts = np.zeros((1 + max((arm for arm, _ in reports), default=-1), 2), dtype=np.int64)
        for pair, number in reports.items():
            counts[pair] = number
        is_alarm = False
        if len(self._base) == BASE_BINS:
            base = sum_counts(self._base)
            growth, jump = compute_growth(counts, base), compute_jump(counts, base)
            is_alarm = stands_out(growth, self._growths) and stands_out(jump, self._jumps)
            for score, history in ((growth, self._growths), (jump, self._jumps)):
                history.append(score)
                del history[:-HISTORY_BINS]
        self._base.append(counts)
        return is_alarm


def sum_counts(bins: Iterable[Counts]) -> Counts:
    """Return the sum of counts, which may have different numbers of arms."""
    known = list(bins)
    total = np.zeros((max(map(len, known)), 2), dtype=np.int64)
    for each in known:
        total[: len(each)] += each
    return total


def compute_growth(counts: Counts, base: Counts) -> float:
    """Return the logarithm of the number of reports, relative to the average bin of the base."""
    usual = float(base.sum()) / BASE_BINS
    return math.log((float(counts.sum()) + USUAL_REPORTS) / (usual + USUAL_REPORTS))


def compute_jump(counts: Counts, base: Counts) -> float:
    """Return the largest change of an arm's share of ones, in standard errors; 0 if no arm has enough reports."""
    arms = min(len(counts), len(base))
    now, before = counts[:arms].sum(axis=1), base[:arms].sum(axis=1)
    known = (now >= MIN_REPORTS) & (before >= MIN_REPORTS)
    if not known.any():
        return 0.0
    now, before = now[known], before[known]
    ones, ones_before = counts[:arms, 1][known], base[:arms, 1][known]
    share = (ones + ones_before + 1.0) / (now + before + 2.0)
    error = np.sqrt(share * (1.0 - share) * (1.0 / now + 1.0 / before))
    return float(np.max(np.abs(ones / now - ones_before / before) / error))


def stands_out(score: float, history: array[float]) -> bool:
    """Tell whether few scores of a history, and this one itself, are at least as high."""
    rank = 1 + int(np.count_nonzero(np.array(history) >= score))
    return rank * rank * BINS_PER_FALSE_ALARM <= (1 + len(history)) ** 2
