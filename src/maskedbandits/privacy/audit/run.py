"""The audit of a randomiser of bits: any program, or this package's own.

A report is epsilon-private if no event E has ``P(E | 0) > e^eps P(E | 1)`` or the reverse. N reports are drawn for each
input, and every event gives a lower bound on epsilon (``statistics.py``): that a report is 0, or 1, or anything else;
and, where reports are more than bits, events that the reports choose (``events.py``).

A report must not reveal the input *before* its own either, so all events are counted for that one, too. And every
report must be masked alike and independently: where reports are bits, the noise is tested (``noise.py``).

The bounds of the event "the report is 1" also test g: whether a 0 and a 1 are reported as often as in symmetric
randomised response at the claimed epsilon. The program is also started several times (``seeds.py``, ``starts.py``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import numpy as np

from maskedbandits.privacy.audit import program
from maskedbandits.privacy.audit.contexts import RunLines
from maskedbandits.privacy.audit.events import choose_and_test_events
from maskedbandits.privacy.audit.inputs import choose_opening_length, draw_bit_inputs, draw_bits
from maskedbandits.privacy.audit.noise import choose_names_length, judge_noise
from maskedbandits.privacy.audit.result import Channel, Findings, NoiseFindings
from maskedbandits.privacy.audit.seeds import judge_seeds
from maskedbandits.privacy.audit.starts import run_fractions, run_starts
from maskedbandits.privacy.audit.statistics import (
    REPORT_NAMES,
    Bits,
    Event,
    Ints,
    allocate_error,
    build_event,
    count_trials_needed,
    find_smallest_excess,
)
from maskedbandits.privacy.exact import Number, as_epsilon, as_text
from maskedbandits.privacy.randomized_response import Randomizer

Progress = Callable[[float], None]

BIT_REPORTS = (b"0", b"1")
OTHER = len(BIT_REPORTS)  # any other report
MIN_BIT_SHARE = 0.99  # of reports that are a 0 or a 1: from there on g is checked
MAX_TRIALS = 10**9
DEVICE_TRIALS = 50_000  # for each input, drawn one by one as devices do
CHUNK_REPORTS = 1 << 20  # drawn at once


def audit_program(
    command: str,
    epsilon: Number,
    trials: int,
    confidence: float,
    retries: int = 1,
    timeout: float = 60.0,
    progress: Progress = lambda share: None,
    starts: int = 0,
) -> Findings:
    """Audit any program that reads one bit a line and writes one report a line.

    Parameters
    ----------
    command
        The program and its arguments. No shell is used.
    epsilon
        The claim.
    trials
        Reports for each input.
    confidence
        Of all bounds together.
    retries
        How often every decision is sent; the claim covers all its reports together.
    timeout
        Seconds that the program may take.
    progress
        Called with the share of the work that is done.
    starts
        Number of short starts, for seeds, standard error, exit codes and time.

    Returns
    -------
    Findings
        The outcome, and the evidence.

    Raises
    ------
    UserError
        The program cannot be started, or a parameter is out of range.
    ProgramError
        The program fails, or does not write a line for each line it reads.

    Examples
    --------
    >>> audit_program("cat", 1, trials=2000, confidence=0.99).outcome  # it masks nothing
    'refuted'

    Examples
    --------
    >>> findings = audit_program("cat", 1, 1000, 0.99)  # it sends the truth
    >>> findings.outcome
    'refuted'

    """
    claimed = as_epsilon(epsilon)
    side = allocate_error(confidence).side
    starts_found = (
        run_starts(command, float(claimed), starts, timeout, side, progress) if starts and retries == 1 else None
    )
    opening = choose_opening_length(float(claimed), trials)
    common = choose_names_length(float(claimed), trials, allocate_error(confidence).noise) if retries > 1 else 0
    inputs = [np.concatenate([bits, draw_bits(common)]) for bits in draw_bit_inputs(trials, opening)]
    any_code = starts_found is not None and bool(
        starts_found.leaks
    )  # exit codes that reveal inputs do not end the audit
    answers = program.run_on_bits(command, inputs, retries, timeout, progress, common, any_code=any_code)
    findings = judge_reports(command, claimed, confidence, inputs, answers, retries, opening, common)
    if starts_found is None:
        return findings
    return replace(findings, starts=starts_found, values=run_fractions(command, trials, timeout, side / 2, progress))


def judge_reports(
    subject: str,
    claimed: Fraction,
    confidence: float,
    inputs: Sequence[Bits],
    answers: Sequence[list[bytes]],
    retries: int,
    opening: int,
    common: int = 0,
) -> Findings:
    """Judge a claim by the answers of several runs: one line, or ``retries`` lines, for each input.

    The last ``common`` inputs belong to decisions that all runs share. They are used to judge names alone.
    """
    own_inputs = [bits[: bits.size - common] for bits in inputs]
    every = [program.select_first(lines, retries) for lines in answers]
    first = [reports[: bits.size] for reports, bits in zip(every, own_inputs, strict=True)]
    joint = [program.join_repeats(lines, retries)[: bits.size] for lines, bits in zip(answers, own_inputs, strict=True)]
    read = [np.array([classify_report(report) for report in reports], dtype=np.uint8) for reports in every]
    bits = np.concatenate(own_inputs)
    readings = np.concatenate([run[: bits.size] for run, bits in zip(read, own_inputs, strict=True)]).astype(np.int64)
    is_plain = retries == 1 and all(report in BIT_REPORTS for report in chain(*first))
    level = allocate_error(confidence)
    names = REPORT_NAMES if retries == 1 else tuple(name.replace("report", "first report") for name in REPORT_NAMES)
    later = np.concatenate([np.arange(run.size) > 0 for run in own_inputs])  # inputs with a predecessor
    own_events = count_known_events(names, readings, bits, level.known)
    before = count_known_events(names, readings[later], np.roll(bits, 1)[later], level.known, before=True)
    # Count the opening once: all runs have it, so a report that reveals its position would reveal its input.
    once = np.concatenate([np.arange(bits.size) > (opening if run else -1) for run, bits in enumerate(own_inputs)])
    chosen, testing = (
        ([], 1.0) if is_plain else choose_and_test_events(list(chain(*joint)), bits, once, later, level.chosen)
    )
    trials, used = bits.size // 2, level.known if is_plain else level.chosen
    excess = find_smallest_excess(float(claimed), math.floor(trials * testing), used)
    checked = np.mean(readings < OTHER) >= MIN_BIT_SHARE
    seeds = judge_seeds(first, own_inputs, opening)
    return Findings(
        subject=subject,
        claimed=claimed,
        trials=trials,
        confidence=confidence,
        events=(*own_events, *before, *chosen),
        channels=(Channel("", own_events[0], own_events[1], claimed, excess if is_plain else None),) if checked else (),
        needed=None if excess is not None else math.ceil(count_trials_needed(float(claimed), used) / testing),
        most=program.MAX_LINES // retries,
        seeds=seeds,
        noise=None if seeds.is_fixed else judge_bit_noise(read, inputs, common, claimed, level.noise),
        retries=retries,
    )


def judge_bit_noise(
    read: Sequence[Bits], inputs: Sequence[Bits], common: int, claimed: Fraction, level: float
) -> NoiseFindings | None:
    """Judge the noise, if all reports are bits."""
    if any(np.any(run == OTHER) for run in read):
        return None
    runs = [RunLines(bits, bits ^ run) for bits, run in zip(inputs, read, strict=True)]
    ends = [run.bits.size - common for run in runs]
    own = [RunLines(run.bits[:end], run.flips[:end]) for run, end in zip(runs, ends, strict=True)]
    shared = [RunLines(run.bits[end:], run.flips[end:]) for run, end in zip(runs, ends, strict=True)]
    return judge_noise(own, shared, claimed, level)


def classify_report(report: bytes) -> int:
    """Return 0, 1 or OTHER for a report without blanks."""
    text = report.strip()
    return BIT_REPORTS.index(text) if text in BIT_REPORTS else OTHER


def count_known_events(
    names: Sequence[str], readings: Ints, bits: Bits, level: float, *, before: bool = False
) -> list[Event]:
    """Return the events that are fixed in advance; none if no report is a bit."""
    counts = np.bincount(2 * readings + bits, minlength=2 * len(names)).reshape(-1, 2)
    if not counts[:OTHER].any():
        return []
    kinds = len(names) if counts[OTHER].any() else OTHER
    trials = counts.sum(axis=0)
    return [build_event(names[reading], counts[reading], trials, level, before=before) for reading in range(kinds)]


def audit_own(epsilon: Number, trials: int, confidence: float, progress: Progress = lambda share: None) -> Findings:
    """Audit this package's own randomiser: arrays of bits, and single reports as devices draw them.

    Parameters
    ----------
    epsilon
        The claim.
    trials
        Reports for each input.
    confidence
        Of all bounds together.
    progress
        Called with the share of the work that is done.

    Returns
    -------
    Findings
        The outcome, and the evidence.

    Raises
    ------
    UserError
        A parameter is out of range.

    Examples
    --------
    >>> findings = audit_own(1, trials=2000, confidence=0.99)
    >>> findings.claimed, findings.trials
    (Fraction(1, 1), 2000)

    Examples
    --------
    >>> findings = audit_own(1, 10_000, 0.9999999)
    >>> findings.outcome
    'not refuted'

    """
    randomizer = Randomizer(epsilon)
    devices = min(trials, DEVICE_TRIALS)
    level = allocate_error(confidence).known
    channels = (
        build_channel("bits()", count_array_ones(randomizer, trials, progress), trials, randomizer.epsilon, level),
        build_channel("report()", count_device_ones(randomizer, devices), devices, randomizer.epsilon, level),
    )
    return Findings(
        subject=f"Randomizer({as_text(randomizer.epsilon)})",
        claimed=randomizer.epsilon,
        trials=trials,
        confidence=confidence,
        events=tuple(one for drawn in channels for one in (drawn.zero, drawn.one)),
        channels=channels,
        needed=None if channels[0].excess is not None else count_trials_needed(float(randomizer.epsilon), level),
        most=MAX_TRIALS,
        randomizer=randomizer,
        devices=devices,
    )


def count_array_ones(randomizer: Randomizer, trials: int, progress: Progress) -> Ints:
    """Return the numbers of ones among reports of zeros and of ones, drawn as arrays."""
    ones = np.zeros(2, dtype=np.int64)
    for start in range(0, trials, CHUNK_REPORTS):
        size = min(CHUNK_REPORTS, trials - start)
        for bit in (0, 1):
            ones[bit] += randomizer.bits(np.full(size, bit, dtype=np.uint8)).sum()
        progress((start + size) / trials)
    return ones


def count_device_ones(randomizer: Randomizer, trials: int) -> Ints:
    """Return the numbers of ones among reports of zeros and of ones, drawn one by one."""
    return np.array([sum(randomizer.report(bit).bit for _ in range(trials)) for bit in (0, 1)])


def build_channel(name: str, ones: Ints, trials: int, claimed: Fraction, level: float) -> Channel:
    """Return the channel of one way of drawing our own reports."""
    each = np.array([trials, trials])
    zero, one = (
        build_event(f"{reading} of {name}", hits, each, level)
        for reading, hits in zip(REPORT_NAMES, (each - ones, ones), strict=False)
    )
    return Channel(name, zero, one, claimed, find_smallest_excess(float(claimed), trials, level))
