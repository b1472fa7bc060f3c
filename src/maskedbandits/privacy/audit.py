"""An audit of a randomiser from the outside: from its reports alone, a lower confidence bound on its epsilon.

A report is epsilon-private if no event E has ``P(E | 0) > e^eps P(E | 1)`` or the other way round. N reports are drawn
for each input, and every event gives a lower bound on epsilon (``events.py``). The chance that any of the bounds is
wrong is at most 1 - confidence (Bonferroni): half of it goes to events that are known before any report is seen, that a
report reads 0, or 1, or anything else; the other half to events that are chosen, where reports are more than bits.

A report must not tell the input *before* its own either, so all events are counted against that one, too.

The bounds of the event "the report is 1" also test g: whether a 0 and a 1 are reported as often as symmetric randomised
response at the claimed epsilon does. A program is also started several times (``restarts.py``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy import program
from maskedbandits.privacy.events import (
    EVENTS,
    Bits,
    Event,
    Ints,
    chosen,
    coded,
    counted,
    epsilon_at_most,
    event,
    smallest_excess,
    trials_needed,
)
from maskedbandits.privacy.exact import Number, as_epsilon, as_text
from maskedbandits.privacy.mechanism import Randomizer
from maskedbandits.privacy.restarts import CHANCE, Restarts, restarts_of

Watch = Callable[[float], None]

BIT_REPORTS = (b"0", b"1")
OTHER = len(BIT_REPORTS)  # what a report reads that is neither
READINGS = ("report 0", "report 1", "another report")
KNOWN = 2 * len(READINGS)  # events, against an input and against the one before
MOSTLY = 0.99  # share of reports that read 0 or 1 from which on g is checked
MOST_TRIALS = 10**9
DEVICES = 50_000  # reports for each input that are drawn one by one, as devices do: slower than arrays
CHUNK = 1 << 20  # reports drawn at once


@dataclass(frozen=True)
class Channel:
    """Reports that are bits: how often each was seen, how often it should be, and the smallest excess seen, if any."""

    name: str
    zero: Event
    one: Event
    claimed: Fraction
    excess: float | None

    @property
    def intervals(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The bounds on how often a 1 is reported, for each input."""
        return self.one.interval(0), self.one.interval(1)

    @property
    def stated(self) -> tuple[float, float]:
        """How often a 1 should be reported, for each input."""
        stated = Randomizer(self.claimed)
        return float(1 - stated.p00), float(stated.p11)

    @property
    def holds(self) -> bool:
        """Tell whether g may be the stated one."""
        pairs = zip(self.intervals, self.stated, strict=True)
        return all(low <= share <= high for (low, high), share in pairs)

    @property
    def private(self) -> bool:
        """Tell whether epsilon holds to within twice the smallest excess seen, which noise hardly ever exceeds."""
        most = max(epsilon_at_most(one) for one in (self.zero, self.one))
        return self.excess is not None and most <= self.claimed + 2 * self.excess


Outcome = Literal["refuted", "fixed seed", "other g", "cannot tell", "not refuted"]


@dataclass(frozen=True)
class Findings:
    """All that an audit has found."""

    subject: str
    claimed: Fraction
    trials: int  # for each input
    confidence: float
    events: tuple[Event, ...]
    channels: tuple[Channel, ...]  # none where g cannot be checked
    needed: int | None  # trials that could see anything at all, where these could not
    most: int  # trials that can be asked for
    restarts: Restarts | None = None
    randomizer: Randomizer | None = None
    devices: int = 0  # of our own reports, for each input, drawn one by one
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
        if not all(channel.holds for channel in self.channels):
            return "other g"
        if self.needed is not None or (self.restarts is not None and self.restarts.deaf):
            return "cannot tell"
        return "not refuted"


def levels(confidence: float) -> tuple[float, float]:
    """Return what each bound on known events, and on chosen ones, may miss with: four bounds for each event."""
    wrong = 1.0 - confidence
    return wrong / 2 / (4 * KNOWN), wrong / 2 / (4 * 2 * EVENTS)


def audit_own(epsilon: Number, trials: int, confidence: float, watch: Watch = lambda share: None) -> Findings:
    """Audit this package's own randomiser: arrays of bits, and reports one by one, as devices draw them."""
    randomizer = Randomizer(epsilon)
    devices = min(trials, DEVICES)
    level, _ = levels(confidence)
    channels = (
        channel("bits()", array_ones(randomizer, trials, watch), trials, randomizer.epsilon, level),
        channel("report()", device_ones(randomizer, devices), devices, randomizer.epsilon, level),
    )
    return Findings(
        subject=f"Randomizer({as_text(randomizer.epsilon)})",
        claimed=randomizer.epsilon,
        trials=trials,
        confidence=confidence,
        events=tuple(one for drawn in channels for one in (drawn.zero, drawn.one)),
        channels=channels,
        needed=None if channels[0].excess is not None else trials_needed(float(randomizer.epsilon), level),
        most=MOST_TRIALS,
        randomizer=randomizer,
        devices=devices,
    )


def array_ones(randomizer: Randomizer, trials: int, watch: Watch) -> Ints:
    """Return how many ones come of so many zeros, and of so many ones, in arrays."""
    ones = np.zeros(2, dtype=np.int64)
    for start in range(0, trials, CHUNK):
        size = min(CHUNK, trials - start)
        for bit in (0, 1):
            ones[bit] += randomizer.bits(np.full(size, bit, dtype=np.uint8)).sum()
        watch((start + size) / trials)
    return ones


def device_ones(randomizer: Randomizer, trials: int) -> Ints:
    """Return how many ones come of so many zeros, and of so many ones, one by one."""
    return np.array([sum(randomizer.report(bit).bit for _ in range(trials)) for bit in (0, 1)])


def channel(name: str, ones: Ints, trials: int, claimed: Fraction, level: float) -> Channel:
    """Return what one way of drawing our own reports has shown."""
    each = np.array([trials, trials])
    zero, one = (
        event(f"{reading} of {name}", hits, each, level)
        for reading, hits in zip(READINGS, (each - ones, ones), strict=False)
    )
    return Channel(name, zero, one, claimed, smallest_excess(float(claimed), trials, level))


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
    first = [program.first(lines, retries) for lines in answers]
    bits = np.concatenate(inputs)
    later = np.concatenate([np.arange(run.size) > 0 for run in inputs])  # all inputs that have one before
    readings = np.array([reading(report) for report in chain.from_iterable(first)])
    plain = retries == 1 and all(report in BIT_REPORTS for report in chain.from_iterable(first))
    known, other = levels(confidence)
    names = READINGS if retries == 1 else tuple(name.replace("report", "first report") for name in READINGS)
    own = known_events(names, readings, bits, known)
    before = known_events(names, readings[later], np.roll(bits, 1)[later], known, before=True)
    joint = chain.from_iterable(program.together(lines, retries) for lines in answers)
    # an opening counts once: all runs have it, so a report that tells its place in the line would tell its input
    once = np.concatenate([np.arange(bits.size) > (opening if run else -1) for run, bits in enumerate(inputs)])
    more, testing = ([], 1.0) if plain else chosen_events(list(joint), bits, once, later, other)
    level = known if plain else other
    trials = bits.size // 2
    excess = smallest_excess(float(claimed), math.floor(trials * testing), level)
    checked = np.mean(readings < OTHER) >= MOSTLY
    return Findings(
        subject=subject,
        claimed=claimed,
        trials=trials,
        confidence=confidence,
        events=(*own, *before, *more),
        channels=(Channel("", own[0], own[1], claimed, excess if plain else None),) if checked else (),
        needed=None if excess is not None else math.ceil(trials_needed(float(claimed), level) / testing),
        most=program.MOST_LINES // retries,
        restarts=restarts_of(first, inputs, opening),
        retries=retries,
    )


def reading(report: bytes) -> int:
    """Return what a report reads, blanks aside: 0, 1 or OTHER."""
    text = report.strip()
    return BIT_REPORTS.index(text) if text in BIT_REPORTS else OTHER


def known_events(
    names: Sequence[str], readings: Ints, bits: Bits, level: float, *, before: bool = False
) -> list[Event]:
    """Return the events that are known before any report is seen; none where no report reads as a bit."""
    counts = np.bincount(2 * readings + bits, minlength=2 * len(names)).reshape(-1, 2)
    if not counts[:OTHER].any():
        return []
    seen = len(names) if counts[OTHER].any() else OTHER
    trials = counts.sum(axis=0)
    return [event(names[place], counts[place], trials, level, before=before) for place in range(seen)]


def chosen_events(
    joint: Sequence[bytes], bits: Bits, once: NDArray[np.bool_], later: NDArray[np.bool_], level: float
) -> tuple[list[Event], float]:
    """Return the events that half of the reports chooses, and the share of all reports that tests them."""
    reports, codes = coded(joint)
    halves = np.frombuffer(os.urandom(bits.size), dtype=np.uint8) & np.uint8(1)
    both = once & later
    table = counted(reports, codes[once], bits[once], halves[once])
    earlier = counted(reports, codes[both], np.roll(bits, 1)[both], halves[both])
    testing = table.trials[1].min() / (bits.size / 2)
    return [*chosen(table, level), *chosen(earlier, level, before=True)], float(testing)


def opening_length(claimed: float, trials: int) -> int:
    """Return on how many inputs, an even number, independent runs of the claimed randomiser hardly ever agree."""
    least = trials // program.RUNS
    agree = -math.log1p(math.exp(-claimed))  # logarithm of the probability of the most frequent report
    pairs = program.RUNS * (program.RUNS - 1) / 2
    # three times as many, because what it is judged by is measured, and for every character; after it, as many inputs
    # that differ from run to run must show whether answers depend on them
    return 2 * min(least // 2, math.ceil(1.5 * math.log(CHANCE / pairs) / agree))


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
