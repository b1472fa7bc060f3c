"""The audit of somebody's program: what its reports say of its claim.

A report is epsilon-private if no event E has ``P(E | 0) > e^eps P(E | 1)`` or the other way round. N reports are drawn
for each input, and every event gives a lower bound on epsilon (``statistics.py``): that a report reads 0, or 1, or
anything else; and, where reports are more than bits, events that the reports choose (``events.py``).

A report must not tell the input *before* its own either, so all events are counted against that one, too. And every
report must be masked alike and on its own: where reports are bits, the noise is looked at (``noise.py``).

The bounds of the event "the report is 1" also test g: whether a 0 and a 1 are reported as often as symmetric randomised
response at the claimed epsilon does. The program is also started several times (``seeds.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import numpy as np

from maskedbandits.privacy.audit import program
from maskedbandits.privacy.audit.bit_inputs import drawn, opening_length, questions
from maskedbandits.privacy.audit.contexts import Lines
from maskedbandits.privacy.audit.events import chosen_events
from maskedbandits.privacy.audit.fractions import try_values
from maskedbandits.privacy.audit.noise import names_length, noise_of
from maskedbandits.privacy.audit.result import Channel, Findings, Noise
from maskedbandits.privacy.audit.seeds import seeds_of
from maskedbandits.privacy.audit.starts import try_starts
from maskedbandits.privacy.audit.statistics import (
    READINGS,
    Bits,
    Event,
    Ints,
    event,
    levels,
    smallest_excess,
    trials_needed,
)
from maskedbandits.privacy.exact import Number, as_epsilon

Watch = Callable[[float], None]

BIT_REPORTS = (b"0", b"1")
OTHER = len(BIT_REPORTS)  # what a report reads that is neither
MOSTLY = 0.99  # share of reports that read 0 or 1 from which on g is checked


def audit_program(
    command: str,
    epsilon: Number,
    trials: int,
    confidence: float,
    retries: int = 1,
    timeout: float = 60.0,
    watch: Watch = lambda share: None,
    starts: int = 0,
) -> Findings:
    """Audit somebody's program: it reads one bit a line and writes one report a line; so many short starts besides."""
    claimed = as_epsilon(epsilon)
    side = levels(confidence).side
    seen = try_starts(command, float(claimed), starts, timeout, side, watch) if starts and retries == 1 else None
    opening = opening_length(float(claimed), trials)
    common = names_length(float(claimed), trials, levels(confidence).noise) if retries > 1 else 0
    inputs = [np.concatenate([bits, drawn(common)]) for bits in questions(trials, opening)]
    any_code = seen is not None and bool(seen.leaks)  # a program that ends with codes that tell is judged
    answers = program.ask(command, inputs, retries, timeout, watch, common, any_code=any_code)
    found = judged(command, claimed, confidence, inputs, answers, retries, opening, common)
    if seen is None:
        return found
    return replace(found, starts=seen, values=try_values(command, trials, timeout, side / 2, watch))


def judged(
    subject: str,
    claimed: Fraction,
    confidence: float,
    inputs: Sequence[Bits],
    answers: Sequence[list[bytes]],
    retries: int,
    opening: int,
    common: int = 0,
) -> Findings:
    """Return what the answers of several runs say of a claim: one line, or as many as retries, for each input.

    The last inputs, as many as are common, are of decisions that all runs were asked; these tell of names alone.
    """
    asked = [bits[: bits.size - common] for bits in inputs]
    every = [program.first(lines, retries) for lines in answers]
    first = [reports[: bits.size] for reports, bits in zip(every, asked, strict=True)]
    joint = [program.together(lines, retries)[: bits.size] for lines, bits in zip(answers, asked, strict=True)]
    read = [np.array([reading(report) for report in reports], dtype=np.uint8) for reports in every]
    bits = np.concatenate(asked)
    readings = np.concatenate([run[: bits.size] for run, bits in zip(read, asked, strict=True)]).astype(np.int64)
    plain = retries == 1 and all(report in BIT_REPORTS for report in chain(*first))
    level = levels(confidence)
    names = READINGS if retries == 1 else tuple(name.replace("report", "first report") for name in READINGS)
    later = np.concatenate([np.arange(run.size) > 0 for run in asked])  # all inputs that have one before
    own = known_events(names, readings, bits, level.known)
    before = known_events(names, readings[later], np.roll(bits, 1)[later], level.known, before=True)
    # an opening counts once: all runs have it, so a report that tells its place in the line would tell its input
    once = np.concatenate([np.arange(bits.size) > (opening if run else -1) for run, bits in enumerate(asked)])
    more, testing = ([], 1.0) if plain else chosen_events(list(chain(*joint)), bits, once, later, level.chosen)
    trials, used = bits.size // 2, level.known if plain else level.chosen
    excess = smallest_excess(float(claimed), math.floor(trials * testing), used)
    checked = np.mean(readings < OTHER) >= MOSTLY
    seeds = seeds_of(first, asked, opening)
    return Findings(
        subject=subject,
        claimed=claimed,
        trials=trials,
        confidence=confidence,
        events=(*own, *before, *more),
        channels=(Channel("", own[0], own[1], claimed, excess if plain else None),) if checked else (),
        needed=None if excess is not None else math.ceil(trials_needed(float(claimed), used) / testing),
        most=program.MOST_LINES // retries,
        seeds=seeds,
        noise=None if seeds.fixed else seen_noise(read, inputs, common, claimed, level.noise),
        retries=retries,
    )


def seen_noise(
    read: Sequence[Bits], inputs: Sequence[Bits], common: int, claimed: Fraction, level: float
) -> Noise | None:
    """Return what is seen of the noise, if all reports are bits."""
    if any(np.any(run == OTHER) for run in read):
        return None
    runs = [Lines(bits, bits ^ run) for bits, run in zip(inputs, read, strict=True)]
    ends = [run.bits.size - common for run in runs]
    own = [Lines(run.bits[:end], run.flips[:end]) for run, end in zip(runs, ends, strict=True)]
    shared = [Lines(run.bits[end:], run.flips[end:]) for run, end in zip(runs, ends, strict=True)]
    return noise_of(own, shared, claimed, level)


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
