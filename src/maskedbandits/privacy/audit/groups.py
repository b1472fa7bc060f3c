"""The audit of a device of groups: its answers, and its claim about group, arm and reward together.

There are 2 G inputs, a group and a reward each, and an event gives a lower bound on epsilon by the two inputs under
which it is most and least likely (``statistics.py``). Queries do not depend on the input, so events may be sought among
some queries alone, and in answers inverted by the sign of one group: these are the *views*. In all of them together,
half of the answers chooses the most revealing events and the other half tests them (``events.py``). Where a query
requests more than the claim, an answer must reveal no more than the claim, and may be missing.

Everything that leaves the device is in the line it writes: an empty line is silence, and a line with more than an
answer is judged with all its characters. Answers must also be masked as stated for every input and query, or a learner
would be misled: as many steps from the truth as often as in randomised response.

Strata
------
A device may mask less for some kinds of queries. Inverting the reward of an input changes the true answer to its
neighbour, ``answer ^ 1``. Every query is sent with both rewards of a group equally often. So among the lines of any
stratum that queries and earlier inputs define, true answers are at most e^eps times as frequent as their neighbours.
All inputs are counted together, so a stratum needs few lines, and all strata can be tested:

- tables by their number of arms, and by the arm of every group;
- signs by pattern, and by their number of ones; parts by their number;
- the requested epsilon above the claim, by interval, by halves, quarters and eighths of it, and all up to it;
- earlier rewards: one of the last eight, and every parity of them; the group of one of the last three lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError
from maskedbandits.privacy.audit import program
from maskedbandits.privacy.audit.contexts import RunLines
from maskedbandits.privacy.audit.events import ReportTable, choose_events, count_reports, encode_reports
from maskedbandits.privacy.audit.inputs import (
    PARTS,
    SIGNS,
    TABLES,
    GroupInputs,
    choose_opening_length,
    concatenate,
    divide_above,
    draw_bits,
    draw_group_inputs,
    format_lines,
    format_millionths,
)
from maskedbandits.privacy.audit.noise import judge_noise
from maskedbandits.privacy.audit.result import AnswerDistance, GroupFindings, NoiseFindings
from maskedbandits.privacy.audit.run import MIN_BIT_SHARE, Progress
from maskedbandits.privacy.audit.seeds import judge_seeds
from maskedbandits.privacy.audit.statistics import (
    RUNS,
    Bits,
    ErrorBudget,
    Event,
    Ints,
    allocate_group_error,
    build_event,
    clopper_pearson_lower,
    clopper_pearson_upper,
    count_trials_needed,
    is_detectable,
)
from maskedbandits.privacy.exact import Number, as_epsilon, as_text
from maskedbandits.privacy.randomized_response import KaryRandomizer, Randomizer

MAX_LINES = 10**7
MIN_STRATUM_LINES = 20  # of a stratum
MAX_ARM_STRATA = 256  # pairs of a group and an arm
LAST_REWARDS = 8
LAST_GROUPS = 3
INTERVAL_PARTS = (1, 2, 4, 8)  # of an interval of epsilons above the claim
NOWHERE = -1

Members = NDArray[np.bool_]
Part = Callable[[Ints], Ints]


class ReportView(NamedTuple):
    """Some of the queries and their answers, possibly inverted."""

    where: str
    reports: list[bytes]
    codes: Ints
    members: Members


def audit_own_groups(
    epsilon: Number,
    groups: int,
    kind: str,
    arms: int,
    trials: int,
    confidence: float,
    progress: Progress = lambda share: None,
) -> GroupFindings:
    """Audit this package's own answers to queries, drawn one by one as devices do.

    Parameters
    ----------
    epsilon
        The claim.
    groups, arms
        Numbers of groups and arms.
    kind
        What is answered: "bit", "one of many" or "one of parts".
    trials
        Answers for each group and reward.
    confidence
        Of all bounds together.
    progress
        Called with the share of the work that is done.

    Returns
    -------
    GroupFindings
        The outcome, and the evidence.

    Raises
    ------
    UserError
        A parameter is out of range.

    Examples
    --------
    >>> findings = audit_own_groups(1, 2, "bit", arms=2, trials=200, confidence=0.99)
    >>> findings.claimed
    Fraction(1, 1)

    Examples
    --------
    >>> findings = audit_own_groups(1, 2, "bit", 2, 1000, 0.9999999)
    >>> findings.outcome
    'not refuted'

    """
    claimed = as_epsilon(epsilon)
    opening = choose_opening_length(float(claimed), trials * groups)
    runs = draw_group_inputs(groups, arms, kind, trials, opening, claimed)
    answers = [draw_own_answers(run, claimed, scale_progress(progress, at)) for at, run in enumerate(runs)]
    subject = f"Question.answer, {groups} groups, epsilon {as_text(claimed)}"
    return judge_groups(subject, claimed, confidence, kind, runs, answers, opening)


def scale_progress(progress: Progress, run: int) -> Progress:
    """Return the progress of all runs, given that of one."""
    return lambda share: progress((run + share) / RUNS)


def draw_own_answers(lines: GroupInputs, claimed: Fraction, progress: Progress) -> list[bytes]:
    """Return our own device's answers, empty where a query requests too much."""
    found = []
    if lines.answers > 2:
        KaryRandomizer(lines.answers, claimed)  # otherwise every query would be refused, one by one
    for line, given in enumerate(lines.inputs.tolist()):
        try:
            found.append(b"%d" % lines.query(line, claimed).answer(given // 2, given % 2, max_epsilon=claimed))
        except UserError:
            found.append(b"")
        if line % 1000 == 0:
            progress(line / lines.inputs.size)
    return found


def audit_group_program(
    command: str,
    epsilon: Number,
    groups: int,
    kind: str,
    arms: int,
    trials: int,
    confidence: float,
    timeout: float = 60.0,
    progress: Progress = lambda share: None,
) -> GroupFindings:
    """Audit any program that answers queries.

    It reads a query, a group and a reward a line, and writes an answer a line.

    Parameters
    ----------
    command
        The program and its arguments. No shell is used.
    epsilon
        The claim.
    groups, arms
        Numbers of groups and arms.
    kind
        What is answered: "bit", "one of many" or "one of parts".
    trials
        Answers for each group and reward.
    confidence
        Of all bounds together.
    timeout
        Seconds that the program may take.
    progress
        Called with the share of the work that is done.

    Returns
    -------
    GroupFindings
        The outcome, and the evidence.

    Raises
    ------
    UserError
        The program cannot be started, or a parameter is out of range.
    ProgramError
        The program fails, or does not write a line for each line it reads.

    Examples
    --------
    >>> audit_group_program("cat", 1, 2, "bit", arms=2, trials=500, confidence=0.99).outcome  # it masks nothing
    'refuted'

    Examples
    --------
    >>> import shlex, sys
    >>> code = "for line in open(0): t, s, e, g, r = line.split(); print(int(r) ^ int(s.split(',')[int(g)]))"
    >>> truth = shlex.join([sys.executable, "-c", code])
    >>> audit_group_program(truth, 1, 2, "bit", 2, 1000, 0.99).outcome  # it does not mask
    'refuted'

    """
    claimed = as_epsilon(epsilon)
    opening = choose_opening_length(float(claimed), trials * groups)
    runs = draw_group_inputs(groups, arms, kind, trials, opening, claimed)
    answers = program.run_on_texts(command, (format_lines(run, claimed) for run in runs), timeout, progress)
    return judge_groups(command, claimed, confidence, kind, runs, answers, opening)


def judge_groups(
    subject: str,
    claimed: Fraction,
    confidence: float,
    kind: str,
    runs: Sequence[GroupInputs],
    answers: Sequence[list[bytes]],
    opening: int,
) -> GroupFindings:
    """Judge a claim by the answers of several runs."""
    lines = concatenate(runs)
    groups, many = lines.tables.shape[1], lines.answers
    level = allocate_group_error(confidence, groups, groups * (groups + 1) if lines.parts.shape[1] else many)
    reports, codes = encode_reports(list(chain(*answers)))
    readings = np.array([parse_answer(report, many) for report in reports])[codes]
    readings = np.where(readings < lines.answer_counts, readings, -1)
    sizes = [run.inputs.size for run in runs]
    # Count the opening once: all runs have it, so a report that reveals its position would reveal its input.
    once = np.concatenate([np.arange(size) >= (opening if run else 0) for run, size in enumerate(sizes)])
    later = np.concatenate([np.arange(size) > 0 for size in sizes])
    halves = draw_bits(codes.size)

    tables = [count_view(view, lines.inputs, halves, once) for view in list_views(lines, reports, codes, readings)]
    whole = ReportView("", reports, codes, later)
    earlier = count_view(whole, np.roll(lines.inputs, 1), halves, once)
    events = [*choose_events(tables, level.chosen), *choose_events([earlier], level.chosen, before=True)]
    testing = int(tables[0].trials[1].min())
    trials = codes.size // (2 * groups)
    seen = is_detectable(float(claimed), math.inf, testing, level.chosen)
    needed = None if seen else math.ceil(count_trials_needed(float(claimed), level.chosen) * trials / max(testing, 1))
    ends = np.cumsum(sizes)[:-1]
    seeds = judge_seeds(answers, np.split(lines.true_answers + many * lines.interval_numbers, ends), opening)
    checked, off = judge_distances(lines, readings, claimed, level)
    return GroupFindings(
        subject=subject,
        claimed=claimed,
        trials=trials,
        confidence=confidence,
        events=tuple(events),
        channels=(),
        needed=needed,
        most=MAX_LINES // (2 * groups),
        seeds=seeds,
        noise=None if seeds.is_fixed else judge_group_noise(runs, np.split(readings, ends), claimed, level.noise),
        groups=groups,
        answers=kind,
        distances=checked,
        off=off,
        strata=judge_strata(runs, readings, claimed, level.strata) if checked else (),
    )


def count_view(view: ReportView, inputs: Ints, halves: Bits, once: Members) -> ReportTable:
    """Count the reports of a view by half and input."""
    used = view.members & once
    return count_reports(view.reports, view.codes[used], inputs[used], halves[used], int(inputs.max()) + 1, view.where)


def parse_answer(report: bytes, answers: int) -> int:
    """Return the number of an answer, -1 if a report is not an answer."""
    text = report.strip()
    return int(text) if text.isdigit() and len(text) < 10 and int(text) < answers else -1


def list_query_kinds(lines: GroupInputs) -> Iterator[tuple[str, Members]]:
    """Yield kinds of queries that request no more than the claim, all of them first."""
    within_claim = ~lines.is_above_claim
    yield "", within_claim
    for kind, name in enumerate(TABLES):
        yield f" {name}", within_claim & (lines.table_kinds == kind)
    if lines.signs.shape[1]:
        for kind, name in enumerate(SIGNS):
            yield f" {name}", within_claim & (lines.sign_kinds == kind)
    if lines.parts.shape[1]:
        for kind, name in enumerate(PARTS):
            yield f" {name}", within_claim & (lines.part_kinds == kind)


def list_views(lines: GroupInputs, reports: list[bytes], codes: Ints, readings: Ints) -> Iterator[ReportView]:
    """Yield all views: kinds of queries, and answers inverted by the sign of every group."""
    above_claim = " where more than the claim is asked for"
    for where, members in list_query_kinds(lines):
        yield ReportView(where, reports, codes, members)
    if lines.is_above_claim.any():
        yield ReportView(above_claim, reports, codes, lines.is_above_claim)
    turned = [b"0", b"1", *reports]
    for group in range(lines.signs.shape[1]):
        own = np.where(readings >= 0, readings ^ lines.signs[:, group], codes + 2)
        yield ReportView(f" turned by the sign of group {group}", turned, own, ~lines.is_above_claim)
        if lines.is_above_claim.any():
            yield ReportView(f" turned by the sign of group {group}{above_claim}", turned, own, lines.is_above_claim)


def judge_distances(
    lines: GroupInputs, readings: Ints, claimed: Fraction, level: ErrorBudget
) -> tuple[int, tuple[AnswerDistance, ...]]:
    """Return the number of frequencies checked, and those not as stated; none if lines are not answers."""
    inputs = 2 * lines.tables.shape[1]
    if np.mean(readings[~lines.is_above_claim] >= 0) < MIN_BIT_SHARE:
        return 0, ()
    sizes = lines.answer_counts
    steps = (readings - lines.true_answers) % sizes
    checked, off = 0, []
    for (where, members), many in product(list_query_kinds(lines), np.unique(sizes).tolist()):
        counted = members & (readings >= 0) & (sizes == many)
        if not counted.any():
            continue
        stated = compute_stated_steps(lines, many, claimed)
        cells = lines.inputs[counted] * many + steps[counted]
        hits = np.bincount(cells, minlength=inputs * many).reshape(inputs, many)
        trials = np.broadcast_to(hits.sum(axis=1, keepdims=True), hits.shape)
        low, high = clopper_pearson_lower(hits, trials, level.known), clopper_pearson_upper(hits, trials, level.known)
        checked += hits.size
        for given, step in np.argwhere((low > stated) | (high < stated)).tolist():
            seen = int(hits[given, step]), int(trials[given, step])
            off.append(AnswerDistance(where, given // 2, given % 2, step, *seen, float(stated[step]), level.known))
    return checked, tuple(sorted(off, key=lambda one: -abs(one.hits / one.trials - one.stated)))


def compute_stated_steps(lines: GroupInputs, many: int, claimed: Fraction) -> NDArray[np.float64]:
    """Return the stated probabilities of each distance from the truth."""
    truth = Randomizer(claimed).p00 if lines.signs.shape[1] else KaryRandomizer(many, claimed).truth
    other = (1 - truth) / (many - 1)
    return np.array([float(truth), *[float(other)] * (many - 1)])


def judge_group_noise(
    runs: Sequence[GroupInputs], readings: Sequence[Ints], claimed: Fraction, level: float
) -> NoiseFindings | None:
    """Judge the noise, if all answers are bits."""
    noisy = []
    for run, run_readings in zip(runs, readings, strict=True):
        within_claim = ~run.is_above_claim
        if not run.signs.shape[1] or np.any(run_readings[within_claim] < 0):
            return None
        bits = run.true_answers[within_claim].astype(np.uint8)
        noisy.append(RunLines(bits, bits ^ run_readings[within_claim].astype(np.uint8)))
    return judge_noise(noisy, [], claimed, level)


class StratumFamily(NamedTuple):
    """Disjoint strata: their names, and the index of each line's stratum, or NOWHERE."""

    names: list[str]
    indices: Ints


def judge_strata(runs: Sequence[GroupInputs], readings: Ints, claimed: Fraction, error: float) -> tuple[Event, ...]:
    """Return the counts of true answers and their neighbours in every stratum; bounds share the error."""
    lines = concatenate(runs)
    true, turned = readings == lines.true_answers, readings == (lines.true_answers ^ 1)
    counted = []
    for names, indices in list_families(runs, lines, claimed):
        inside = indices >= 0
        sizes, trues, turns = (
            np.bincount(indices[inside & chosen], minlength=len(names)) for chosen in (np.True_, true, turned)
        )
        counted += [
            (name, np.array(hits), np.array([size, size]))
            for name, size, *hits in zip(names, sizes, trues, turns, strict=True)
            if size >= MIN_STRATUM_LINES
        ]
    level = error / (4 * max(len(counted), 1))  # strata follow from the queries: answers do not choose them
    return tuple(build_event(name, hits, sizes, level) for name, hits, sizes in counted)


def list_families(runs: Sequence[GroupInputs], lines: GroupInputs, claimed: Fraction) -> Iterator[StratumFamily]:
    """Yield all families of strata."""
    for family in (*list_query_families(lines), *list_history_families(runs)):
        yield StratumFamily(family.names, np.where(lines.is_above_claim, NOWHERE, family.indices))
    yield from list_epsilon_families(lines, claimed)


def list_epsilon_families(lines: GroupInputs, claimed: Fraction) -> Iterator[StratumFamily]:
    """Yield strata of epsilons above the claim: intervals, their parts, and all up to a value."""
    above = divide_above(claimed)
    if not above:
        return
    indices = np.maximum(lines.interval_numbers - 1, 0)
    lows, widths = np.array([(one.low, one.width) for one in above])[indices].T
    for cells in INTERVAL_PARTS:
        names = [
            f" where epsilon {one.part(cell, cells)} is asked for" if one.width >= cells else ""
            for one in above
            for cell in range(cells)
        ]
        cell = (lines.millionths - lows - 1) * cells // widths
        yield StratumFamily(names, np.where(lines.is_above_claim & (widths >= cells), indices * cells + cell, NOWHERE))
    for number, one in enumerate(above[1:-1], 2):  # the highest one is first
        up_to = np.where(lines.interval_numbers >= number, 0, NOWHERE)
        yield StratumFamily([f" where epsilon above the claim up to {format_millionths(one.high)} is asked for"], up_to)


def list_query_families(lines: GroupInputs) -> Iterator[StratumFamily]:
    """Yield strata of queries."""
    size, groups = lines.tables.shape
    yield StratumFamily([""], np.zeros(size, dtype=np.int64))
    ordered = np.sort(lines.tables, axis=1)
    distinct = (np.diff(ordered, axis=1) != 0).sum(axis=1)
    yield StratumFamily([f" where tables have {count}" for count in name_counts("arm", groups)], distinct)
    arms = int(lines.tables.max()) + 1
    for group in range(groups if groups * arms <= MAX_ARM_STRATA else 0):
        yield StratumFamily([f" where group {group} has arm {arm}" for arm in range(arms)], lines.tables[:, group])
    if lines.signs.shape[1]:
        patterns, indices = np.unique(lines.signs, axis=0, return_inverse=True)
        names = [f" where signs are {''.join(map(str, pattern))}" for pattern in patterns.tolist()]
        yield StratumFamily(names, indices.reshape(-1))
        yield StratumFamily([f" where {ones} signs are 1" for ones in range(groups + 1)], lines.signs.sum(axis=1))
    if lines.parts.shape[1]:
        yield StratumFamily(
            [f" where groups are {count}" for count in name_counts("part", groups)], lines.parts.max(axis=1)
        )


def name_counts(noun: str, most: int) -> list[str]:
    """Return `1 arm`, `2 arms` and so on."""
    return [f"{count} {noun}{'s' * (count > 1)}" for count in range(1, most + 1)]


def list_history_families(runs: Sequence[GroupInputs]) -> Iterator[StratumFamily]:
    """Yield strata of earlier inputs."""
    rewards = [shift_inputs(runs, lag, lambda inputs: inputs & 1) for lag in range(1, LAST_REWARDS + 1)]
    known = np.min(rewards, axis=0) >= 0
    for subset in range(1, 1 << LAST_REWARDS):
        lags = [lag for lag in range(1, LAST_REWARDS + 1) if subset >> (lag - 1) & 1]
        odd = np.bitwise_xor.reduce([rewards[lag - 1] for lag in lags])
        back = ", ".join(map(str, lags))
        names = [f" after rewards {back} back with an {parity} sum" for parity in ("even", "odd")]
        if len(lags) == 1:
            names = [f" after reward {reward} {back} back" for reward in (0, 1)]
        yield StratumFamily(names, np.where(known, odd, NOWHERE))
    groups = runs[0].tables.shape[1]
    for lag in range(1, LAST_GROUPS + 1):
        names = [f" after group {group} {lag} back" for group in range(groups)]
        yield StratumFamily(names, shift_inputs(runs, lag, lambda inputs: inputs // 2))


def shift_inputs(runs: Sequence[GroupInputs], lag: int, part: Part) -> Ints:
    """Return a part of the input some lines earlier, or NOWHERE, for each line of each run."""
    shifted = (np.concatenate([np.full(lag, NOWHERE), part(run.inputs)])[: run.inputs.size] for run in runs)
    return np.concatenate(list(shifted))
