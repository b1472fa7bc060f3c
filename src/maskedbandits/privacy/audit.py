"""An audit of a randomiser from the outside: from its reports alone, a lower confidence bound on its epsilon.

A report is epsilon-private if no event E has ``P(E | 0) > e^eps P(E | 1)`` or the other way round. N reports are drawn
for each input, and every event gives a lower bound on epsilon (``events.py``). The chance that any of the bounds is
wrong is at most 1 - confidence (Bonferroni): half of it goes to two events that are known before any report is seen,
the report is 0 and the report is 1; the other half to events that are chosen, where reports are more than bits.

The bounds of the event "the report is 1" also test g: whether a 0 and a 1 are reported as often as symmetric randomised
response at the claimed epsilon does.

A program that draws from a fixed seed shows when it is started several times on the same opening inputs: two runs give
the same answers throughout. Independent runs agree on n inputs with a probability of at most ``m^n``, where m is the
probability of the most frequent report.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, compress, pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy import program
from maskedbandits.privacy.events import (
    EVENTS,
    Bits,
    Event,
    Table,
    chosen,
    event,
    highest,
    smallest_excess,
    tally,
    trials_needed,
)
from maskedbandits.privacy.exact import Number, as_epsilon, as_text
from maskedbandits.privacy.mechanism import Randomizer

Watch = Callable[[float], None]

BIT_REPORTS = (b"0", b"1")
CHANCE = 1e-9  # at which two runs agree: far below any confidence that can be asked for
CHUNK = 1 << 20  # reports drawn at once


@dataclass(frozen=True)
class Link:
    """How often a 1 is reported for each input, and how often it should be."""

    intervals: tuple[tuple[float, float], tuple[float, float]]
    stated: tuple[float, float]

    @property
    def holds(self) -> bool:
        """Tell whether g may be the stated one."""
        pairs = zip(self.intervals, self.stated, strict=True)
        return all(low <= share <= high for (low, high), share in pairs)


@dataclass(frozen=True)
class Restarts:
    """What starting a program several times has shown."""

    runs: int
    same: int  # runs that answered the opening as another one did
    lines: int  # of the opening
    chance: float  # at most, that any two independent runs would agree on all of them

    @property
    def telling(self) -> bool:
        """Tell whether the opening was long enough to judge by."""
        return self.chance <= CHANCE

    @property
    def fixed(self) -> bool:
        """Tell whether the seed is fixed."""
        return self.telling and self.same > 0


class Power(NamedTuple):
    """The smallest excess over the claim that would have been seen, or else how many trials could see one at all."""

    excess: float | None
    needed: int | None


Outcome = Literal["refuted", "fixed seed", "other g", "not refuted"]


@dataclass(frozen=True)
class Findings:
    """All that an audit has found."""

    subject: str
    claimed: Fraction
    trials: int  # for each input
    confidence: float
    events: tuple[Event, ...]
    power: Power
    link: Link | None = None
    restarts: Restarts | None = None
    randomizer: Randomizer | None = None
    retries: int = 1

    @property
    def epsilon(self) -> float:
        """The lower confidence bound on epsilon."""
        return max(event.epsilon for event in self.events)

    @property
    def outcome(self) -> Outcome:
        """What follows for the claim."""
        if self.epsilon > self.claimed:
            return "refuted"
        if self.restarts is not None and self.restarts.fixed:
            return "fixed seed"
        if self.link is not None and not self.link.holds:
            return "other g"
        return "not refuted"


def levels(confidence: float) -> tuple[float, float]:
    """Return what each bound on known events, and on chosen ones, may miss with: four bounds for each event."""
    wrong = 1.0 - confidence
    return wrong / 2 / (4 * len(BIT_REPORTS)), wrong / 2 / (4 * EVENTS)


def link_of(seen: Event, claimed: Fraction) -> Link:
    """Return what the event "the report is 1" says of g."""
    stated = Randomizer(claimed)
    return Link((seen.interval(0), seen.interval(1)), (float(1 - stated.p00), float(stated.p11)))


def audit_own(epsilon: Number, trials: int, confidence: float, watch: Watch = lambda share: None) -> Findings:
    """Audit this package's own randomiser."""
    randomizer = Randomizer(epsilon)
    ones = np.zeros(2, dtype=np.int64)
    for start in range(0, trials, CHUNK):
        size = min(CHUNK, trials - start)
        for bit in (0, 1):
            ones[bit] += randomizer.bits(np.full(size, bit, dtype=np.uint8)).sum()
        watch((start + size) / trials)
    level, _ = levels(confidence)
    each = np.array([trials, trials])
    events = (event("report 0", each - ones, each, level), event("report 1", ones, each, level))
    return Findings(
        subject=f"Randomizer({as_text(randomizer.epsilon)})",
        claimed=randomizer.epsilon,
        trials=trials,
        confidence=confidence,
        events=events,
        power=power(float(randomizer.epsilon), trials, level),
        link=link_of(events[1], randomizer.epsilon),
        randomizer=randomizer,
    )


def audit_program(
    command: str,
    epsilon: Number,
    trials: int,
    confidence: float,
    retries: int = 1,
    timeout: float = 60.0,
    watch: Watch = lambda share: None,
) -> Findings:
    """Audit somebody's program: it reads one bit a line and writes one report a line."""
    claimed = as_epsilon(epsilon)
    opening = opening_length(float(claimed), trials)
    inputs = questions(trials, opening)
    answers = program.ask(command, inputs, retries, timeout, watch)
    return judged(command, claimed, confidence, inputs, answers, retries, opening)


def judged(
    subject: str,
    claimed: Fraction,
    confidence: float,
    inputs: Sequence[Bits],
    answers: Sequence[list[bytes]],
    retries: int,
    opening: int,
) -> Findings:
    """Return what the answers of several runs say of a claim: one line, or as many as retries, for each input."""
    joint = [together(lines, retries) for lines in answers]
    bits = np.concatenate(inputs)
    halves = np.frombuffer(os.urandom(bits.size), dtype=np.uint8) & np.uint8(1)
    table = tally(list(chain.from_iterable(joint)), bits, halves)
    first = tally([line for lines in answers for line in lines[::retries]], bits, np.zeros_like(bits))
    plain = set(first.reports) <= set(BIT_REPORTS)
    known, other = levels(confidence)
    events = [known_event(first, report, known, retries) for report in BIT_REPORTS] if plain else []
    more = [] if plain and retries == 1 else chosen(table, other)
    testing = table.trials[1].min() / table.trials.sum(axis=0).min() if more else 1.0  # share of the reports
    trials = bits.size // 2
    return Findings(
        subject=subject,
        claimed=claimed,
        trials=trials,
        confidence=confidence,
        events=(*events, *more),
        power=power(float(claimed), trials, other if more else known, float(testing)),
        link=link_of(events[1], claimed) if plain else None,
        restarts=restarts_of(joint, inputs, opening, table),
        retries=retries,
    )


def power(claimed: float, trials: int, level: float, testing: float = 1.0) -> Power:
    """Return what so many trials could have seen, when a share of them tests."""
    excess = smallest_excess(claimed, math.floor(trials * testing), level)
    needed = None if excess is not None else math.ceil(trials_needed(claimed, level) / testing)
    return Power(excess, needed)


def known_event(first: Table, report: bytes, level: float, retries: int) -> Event:
    """Return the event that a report is a certain one, known before any was seen."""
    hits = first.counts[first.reports.index(report), 0] if report in first.reports else np.zeros(2, dtype=np.int64)
    name = "report" if retries == 1 else "first report"
    return event(f"{name} {report.decode()}", hits, first.trials[0], level)


def together(lines: list[bytes], retries: int) -> list[bytes]:
    """Return the reports of each decision as one."""
    if retries == 1:
        return lines
    return [b",".join(lines[start : start + retries]) for start in range(0, len(lines), retries)]


def opening_length(claimed: float, trials: int) -> int:
    """Return on how many inputs, an even number, independent runs of the claimed randomiser hardly ever agree."""
    least = trials // program.RUNS
    agree = -math.log1p(math.exp(-claimed))  # logarithm of the probability of the most frequent report
    pairs = program.RUNS * (program.RUNS - 1) / 2
    # twice as many, because what it is judged by is measured
    return 2 * min(least, math.ceil(math.log(CHANCE / pairs) / agree))


def questions(trials: int, opening: int) -> list[Bits]:
    """Return the inputs of every run: the same opening, then as many of each bit, in an order that nobody can know."""
    shared = shuffled(opening // 2)
    ends = [trials * run // program.RUNS for run in range(program.RUNS + 1)]
    sizes = [end - start for start, end in pairwise(ends)]
    return [np.concatenate([shared, shuffled(size - opening // 2)]) for size in sizes]


def shuffled(each: int) -> Bits:
    """Return as many zeros as ones, in random order."""
    bits = np.repeat(np.array([0, 1], dtype=np.uint8), each)
    return bits[np.argsort(np.frombuffer(os.urandom(8 * bits.size), dtype=np.uint64), kind="stable")]


def restarts_of(joint: Sequence[list[bytes]], inputs: Sequence[Bits], opening: int, table: Table) -> Restarts:
    """Return how many runs answered the opening as another one did, and how likely that is by chance."""
    runs = len(joint)
    same = sum(count for count in Counter(tuple(reports[:opening]) for reports in joint).values() if count > 1)
    frequent = highest(table.counts.sum(axis=1).max(axis=0), table.trials.sum(axis=0), CHANCE)
    # a program that settles on one answer for each run is no more frequent than another in all runs together
    settled = [
        [most_frequent(reports, bits == bit) for bit in (0, 1)] for reports, bits in zip(joint, inputs, strict=True)
    ]
    agree = np.maximum(frequent, np.max(settled, axis=0))
    chance = math.exp(opening / 2 * float(np.log(agree).sum())) * runs * (runs - 1) / 2
    return Restarts(runs, same, opening, min(1.0, chance))


def most_frequent(reports: list[bytes], mask: NDArray[np.bool_]) -> float:
    """Return the share of the most frequent of some reports."""
    counts = Counter(compress(reports, mask))
    return max(counts.values()) / counts.total()
