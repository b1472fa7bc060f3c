"""Events that may tell two inputs apart: how often each was seen, and what that says of epsilon at least.

For an event E, Clopper and Pearson's bounds give ``P(E | x) >= L_x`` and ``P(E | x) <= U_x`` for both inputs x, each
wrong with a probability of at most a level. While they hold, epsilon is at least ``ln(L_0 / U_1)``, and
``ln(L_1 / U_0)``.

Where reports are more than bits, nobody knows beforehand where they leak. So a random half of them chooses the most
telling events, and the other half, which knows nothing of the choice, tests these. EACH are chosen of four kinds:
single reports; single characters; and two scores being high or low, the sum over the characters, and one number for the
whole report, of how much more often it was seen with a 1 than with a 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrik, betainccinv, betaincinv

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bits = NDArray[np.uint8]

EACH = 2  # events of each kind that are tested, of all that are looked at
EVENTS = 4 * EACH
REPORTS = 4096  # of which each is a candidate by itself: the most frequent
THRESHOLDS = 64  # of a score
CELLS = 1 << 28  # characters of all distinct reports that are held at once
POWER = 0.95  # with which the smallest excess would have been seen


def lowest(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return Clopper and Pearson's lower bound on a probability, wrong with a probability of at most the level."""
    return np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), trials - hits + 1, level))


def highest(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return Clopper and Pearson's upper bound on a probability, wrong with a probability of at most the level."""
    return np.where(hits == trials, 1.0, betainccinv(hits + 1, np.maximum(trials - hits, 1), level))


def epsilon_at_least(hits: Ints, trials: Ints, level: float) -> Floats:
    """Return the lower bound on epsilon that events give; the last axis is the input."""
    low, high = lowest(hits, trials, level), highest(hits, trials, level)
    ratios = np.maximum(low[..., 0] / high[..., 1], low[..., 1] / high[..., 0])
    return np.log(np.maximum(ratios, 1.0))


@dataclass(frozen=True)
class Event:
    """Something that may be true of a report, and how often it was, for each input."""

    name: str
    hits: tuple[int, int]
    trials: tuple[int, int]
    level: float
    before: bool = False  # whether the input is the one before the report's own

    @property
    def shares(self) -> tuple[float, float]:
        """How often it was true, for each input."""
        return self.hits[0] / max(self.trials[0], 1), self.hits[1] / max(self.trials[1], 1)

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon that it gives."""
        return float(epsilon_at_least(np.array(self.hits), np.array(self.trials), self.level))

    def interval(self, given: int) -> tuple[float, float]:
        """Return the bounds on its probability, given an input."""
        hits, trials = np.array(self.hits[given]), np.array(self.trials[given])
        return float(lowest(hits, trials, self.level)), float(highest(hits, trials, self.level))


def epsilon_at_most(event: Event) -> float:
    """Return the upper bound on the epsilon of one event."""
    (low0, high0), (low1, high1) = event.interval(0), event.interval(1)
    return math.inf if 0.0 in (low0, low1) else math.log(max(high0 / low1, high1 / low0))


class Table(NamedTuple):
    """Distinct reports, and how often each was seen: by report, half and input."""

    reports: list[bytes]
    counts: Ints

    @property
    def trials(self) -> Ints:
        """How many there were, by half and input."""
        total: Ints = self.counts.sum(axis=0)
        return total


def coded(reports: Sequence[bytes]) -> tuple[list[bytes], Ints]:
    """Return the distinct reports, and which of them each report is."""
    places: dict[bytes, int] = {}
    codes = np.array([places.setdefault(report, len(places)) for report in reports], dtype=np.int64)
    return list(places), codes


def counted(reports: list[bytes], codes: Ints, bits: Bits, halves: Bits) -> Table:
    """Count reports."""
    cells = np.bincount(codes * 4 + halves * 2 + bits, minlength=4 * len(reports))
    return Table(reports, cells.reshape(-1, 2, 2))


# Candidates: the name of an event, and its counts by half and input.
Candidate = tuple[str, Ints]


def single_reports(table: Table) -> Iterator[Candidate]:
    """Yield the most frequent reports, each by itself."""
    frequent = np.argsort(-table.counts[:, 0].sum(axis=1), kind="stable")[:REPORTS]
    for place in frequent:
        yield f"report {shown(table.reports[place])}", table.counts[place]


def shown(report: bytes) -> str:
    """Return a report for a person to read."""
    text = report.decode(errors="replace")
    quoted = ascii(text if len(text) <= 20 else text[:17] + "...")
    return quoted if text != text.strip() else quoted.strip("'") or "(empty)"  # blanks at the ends need quotes to show


def characters(reports: Sequence[bytes]) -> Iterator[NDArray[np.uint8]]:
    """Yield the first character of every report, then the second, and so on; 0 where there is none.

    Columns are made in blocks, as many at once as CELLS allow: every character is looked at, in bounded memory.
    """
    width = max(map(len, reports), default=0)
    block = max(1, min(width, CELLS // max(1, len(reports))))
    for start in range(0, width, block):
        parts = (report[start : start + block] for report in reports)
        text = np.fromiter(parts, dtype=f"S{block}", count=len(reports)).view(np.uint8).reshape(len(reports), block)
        yield from text.T[: width - start]


def single_characters(table: Table) -> tuple[list[Candidate], Floats]:
    """Return events of one character each, and the score of every report, the sum over its characters."""
    found, score = [], np.zeros(len(table.reports))
    flat = table.counts.reshape(-1, 4).T.astype(np.float64)
    for place, column in enumerate(characters(table.reports), 1):
        codes = column.astype(np.intp)  # once, not in every count
        cells = np.stack([np.bincount(codes, weights=cell, minlength=256) for cell in flat], axis=1)
        counts = cells.astype(np.int64).reshape(256, 2, 2)
        score += weight(counts)[codes]
        for value in np.flatnonzero(counts[:, 0].sum(axis=1)):
            name = f"character {place} is {shown(bytes([value]))}" if value else f"no character {place}"
            found.append((name, counts[value]))
    return found, score


def weight(counts: Ints) -> Floats:
    """Return how much more often something was seen with a 1 than with a 0, in the half that chooses."""
    first = counts[:, 0] + 0.5
    return np.log(first[:, 1] / first[:, 0])


def tails(name: str, score: Floats, table: Table) -> Iterator[Candidate]:
    """Yield the events that a score is at least, or below, each of some thresholds."""
    order = np.argsort(-score, kind="stable")
    sums = table.counts[order].cumsum(axis=0)
    ends = np.flatnonzero(np.diff(score[order]))  # the last report of each score but the lowest
    for end in ends[np.unique(np.linspace(0, ends.size - 1, THRESHOLDS).astype(np.int64))] if ends.size else ends:
        at = score[order[end]]
        yield f"{name} at least {at:.3g}", sums[end]
        yield f"{name} below {at:.3g}", sums[-1] - sums[end]


def chosen(table: Table, level: float, *, before: bool = False) -> list[Event]:
    """Return the events that one half of the reports finds most telling, as the other half has them."""
    singles, score = single_characters(table)
    scores = (tails("score of characters", score, table), tails("score of reports", weight(table.counts), table))
    # The best of each kind: a kind with many candidates fits the half that chooses, and would crowd out the others.
    kinds = (single_reports(table), singles, *scores)
    return [one for kind in kinds for one in best(list(kind), table.trials, level, before=before)]


def best(candidates: list[Candidate], trials: Ints, level: float, *, before: bool) -> list[Event]:
    """Return the EACH most telling candidates of a kind, each once."""
    if not candidates:
        return []
    counts = np.array([counts for _, counts in candidates])
    telling = epsilon_at_least(counts[:, 0], trials[0], level)
    _, distinct = np.unique(counts[:, 0], axis=0, return_index=True)
    places = sorted(distinct, key=lambda place: -telling[place])[:EACH]
    return [event(candidates[place][0], counts[place, 1], trials[1], level, before=before) for place in places]


def event(name: str, hits: Ints, trials: Ints, level: float, *, before: bool = False) -> Event:
    """Return an event of plain numbers."""
    return Event(name, (int(hits[0]), int(hits[1])), (int(trials[0]), int(trials[1])), level, before)


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
