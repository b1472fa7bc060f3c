"""The audit of a device of groups: what its answers say of its claim, about group, arm and reward together.

There are 2 G inputs, a group and a reward each, and an event gives a lower bound on epsilon by the two inputs under
which it is most and least likely (``statistics.py``). Questions do not depend on the input, so events may be looked for
among some questions alone, and in answers turned round by the sign of one group: these are the *views*. In all of them
together, half of the answers chooses the most telling events and the other half tests them (``events.py``). Where more
is asked for than claimed, an answer must tell no more than the claim, and may be missing. Where lines are answers, they
are also judged in many strata of questions, each by itself (``strata.py``).

All that leaves the device is in the line that it writes: an empty line is silence, and one that has more than an answer
is judged with all its characters. Answers must also be masked as stated for every input, whatever is asked, or who
learns from them would be misled: so many steps from the truth as often as randomised response has it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError
from maskedbandits.privacy.audit import program
from maskedbandits.privacy.audit.bit_inputs import drawn, opening_length
from maskedbandits.privacy.audit.contexts import Lines
from maskedbandits.privacy.audit.events import Table, chosen, coded, counted
from maskedbandits.privacy.audit.group_inputs import PARTS, SIGNS, TABLES, Asked, asked_of, joined, text_of
from maskedbandits.privacy.audit.noise import noise_of
from maskedbandits.privacy.audit.result import Distance, GroupFindings, Noise
from maskedbandits.privacy.audit.run import MOSTLY, Watch
from maskedbandits.privacy.audit.seeds import seeds_of
from maskedbandits.privacy.audit.statistics import (
    RUNS,
    Bits,
    Ints,
    Levels,
    group_levels,
    highest,
    is_seen,
    lowest,
    trials_needed,
)
from maskedbandits.privacy.audit.strata import judged_strata
from maskedbandits.privacy.exact import Number, as_epsilon, as_text
from maskedbandits.privacy.randomized_response import KaryRandomizer, Randomizer

MOST_LINES = 10**7

Members = NDArray[np.bool_]


class View(NamedTuple):
    """Some of the questions, and the answers to them, perhaps turned round."""

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
    watch: Watch = lambda share: None,
) -> GroupFindings:
    """Audit this package's own answers to questions, one by one, as devices draw them."""
    claimed = as_epsilon(epsilon)
    opening = opening_length(float(claimed), trials * groups)
    asked = asked_of(groups, arms, kind, trials, opening, claimed)
    answers = [own_answers(run, claimed, partly(watch, at)) for at, run in enumerate(asked)]
    subject = f"Question.answer, {groups} groups, epsilon {as_text(claimed)}"
    return judged_groups(subject, claimed, confidence, kind, asked, answers, opening)


def partly(watch: Watch, run: int) -> Watch:
    """Return what takes note of a share of one run's work."""
    return lambda share: watch((run + share) / RUNS)


def own_answers(asked: Asked, claimed: Fraction, watch: Watch) -> list[bytes]:
    """Return what our own device answers; a question that asks for too much gets nothing."""
    found = []
    if asked.answers > 2:
        KaryRandomizer(asked.answers, claimed)  # one that no word can draw would be refused, question for question
    for line, given in enumerate(asked.inputs.tolist()):
        try:
            found.append(b"%d" % asked.question(line, claimed).answer(given // 2, given % 2, most=claimed))
        except UserError:
            found.append(b"")
        if line % 1000 == 0:
            watch(line / asked.inputs.size)
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
    watch: Watch = lambda share: None,
) -> GroupFindings:
    """Audit somebody's program: a line it reads is a question, a group and a reward, and it writes an answer a line."""
    claimed = as_epsilon(epsilon)
    opening = opening_length(float(claimed), trials * groups)
    asked = asked_of(groups, arms, kind, trials, opening, claimed)
    answers = program.answers_to(command, (text_of(run, claimed) for run in asked), timeout, watch)
    return judged_groups(command, claimed, confidence, kind, asked, answers, opening)


def judged_groups(
    subject: str,
    claimed: Fraction,
    confidence: float,
    kind: str,
    asked: Sequence[Asked],
    answers: Sequence[list[bytes]],
    opening: int,
) -> GroupFindings:
    """Return what the answers of several runs say of a claim."""
    every = joined(asked)
    groups, many = every.tables.shape[1], every.answers
    level = group_levels(confidence, groups, groups * (groups + 1) if every.parts.shape[1] else many)
    reports, codes = coded(list(chain(*answers)))
    readings = np.array([reading(report, many) for report in reports])[codes]
    readings = np.where(readings < every.sizes, readings, -1)
    sizes = [run.inputs.size for run in asked]
    # an opening counts once: all runs have it, so a report that tells its place in the line would tell its input
    once = np.concatenate([np.arange(size) >= (opening if run else 0) for run, size in enumerate(sizes)])
    later = np.concatenate([np.arange(size) > 0 for size in sizes])
    halves = drawn(codes.size)

    tables = [tabled(view, every.inputs, halves, once) for view in views(every, reports, codes, readings)]
    whole = View("", reports, codes, later)
    earlier = tabled(whole, np.roll(every.inputs, 1), halves, once)
    events = [*chosen(tables, level.chosen), *chosen([earlier], level.chosen, before=True)]
    testing = int(tables[0].trials[1].min())
    trials = codes.size // (2 * groups)
    seen = is_seen(float(claimed), math.inf, testing, level.chosen)
    needed = None if seen else math.ceil(trials_needed(float(claimed), level.chosen) * trials / max(testing, 1))
    ends = np.cumsum(sizes)[:-1]
    seeds = seeds_of(answers, np.split(every.truths + many * every.rungs, ends), opening)
    looked, off = distances(every, readings, claimed, level)
    return GroupFindings(
        subject=subject,
        claimed=claimed,
        trials=trials,
        confidence=confidence,
        events=tuple(events),
        channels=(),
        needed=needed,
        most=MOST_LINES // (2 * groups),
        seeds=seeds,
        noise=None if seeds.fixed else seen_noise(asked, np.split(readings, ends), claimed, level.noise),
        groups=groups,
        answers=kind,
        distances=looked,
        off=off,
        strata=judged_strata(asked, readings, claimed, level.strata) if looked else (),
    )


def tabled(view: View, inputs: Ints, halves: Bits, once: Members) -> Table:
    """Count the reports of a view, by half and input."""
    used = view.members & once
    return counted(view.reports, view.codes[used], inputs[used], halves[used], int(inputs.max()) + 1, view.where)


def reading(report: bytes, answers: int) -> int:
    """Return which answer a report is, blanks aside, or -1."""
    text = report.strip()
    return int(text) if text.isdigit() and len(text) < 10 and int(text) < answers else -1


def slices(asked: Asked) -> Iterator[tuple[str, Members]]:
    """Yield kinds of questions that ask for no more than is claimed: all of them first."""
    modest = ~asked.greedy
    yield "", modest
    for kind, name in enumerate(TABLES):
        yield f" {name}", modest & (asked.table_kinds == kind)
    if asked.signs.shape[1]:
        for kind, name in enumerate(SIGNS):
            yield f" {name}", modest & (asked.sign_kinds == kind)
    if asked.parts.shape[1]:
        for kind, name in enumerate(PARTS):
            yield f" {name}", modest & (asked.part_kinds == kind)


def views(asked: Asked, reports: list[bytes], codes: Ints, readings: Ints) -> Iterator[View]:
    """Yield all views: kinds of questions, and answers turned round by the sign of every group."""
    greedy = " where more than the claim is asked for"
    for where, members in slices(asked):
        yield View(where, reports, codes, members)
    if asked.greedy.any():
        yield View(greedy, reports, codes, asked.greedy)
    turned = [b"0", b"1", *reports]
    for group in range(asked.signs.shape[1]):
        own = np.where(readings >= 0, readings ^ asked.signs[:, group], codes + 2)
        yield View(f" turned by the sign of group {group}", turned, own, ~asked.greedy)
        if asked.greedy.any():
            yield View(f" turned by the sign of group {group}{greedy}", turned, own, asked.greedy)


def distances(asked: Asked, readings: Ints, claimed: Fraction, level: Levels) -> tuple[int, tuple[Distance, ...]]:
    """Return how many frequencies were looked at, and those that are not as stated; none if lines are no answers."""
    inputs = 2 * asked.tables.shape[1]
    if np.mean(readings[~asked.greedy] >= 0) < MOSTLY:
        return 0, ()
    sizes = asked.sizes
    steps = (readings - asked.truths) % sizes
    looked, off = 0, []
    for (where, members), many in product(slices(asked), np.unique(sizes).tolist()):
        counted_ = members & (readings >= 0) & (sizes == many)
        if not counted_.any():
            continue
        stated = stated_steps(asked, many, claimed)
        hits = np.bincount(asked.inputs[counted_] * many + steps[counted_], minlength=inputs * many).reshape(
            inputs, many
        )
        trials = np.broadcast_to(hits.sum(axis=1, keepdims=True), hits.shape)
        low, high = lowest(hits, trials, level.known), highest(hits, trials, level.known)
        looked += hits.size
        for given, step in np.argwhere((low > stated) | (high < stated)).tolist():
            seen = int(hits[given, step]), int(trials[given, step])
            off.append(Distance(where, given // 2, given % 2, step, *seen, float(stated[step]), level.known))
    return looked, tuple(sorted(off, key=lambda one: -abs(one.hits / one.trials - one.stated)))


def stated_steps(asked: Asked, many: int, claimed: Fraction) -> NDArray[np.float64]:
    """Return how often one of so many answers should be so many steps from the truth."""
    truth = Randomizer(claimed).p00 if asked.signs.shape[1] else KaryRandomizer(many, claimed).truth
    other = (1 - truth) / (many - 1)
    return np.array([float(truth), *[float(other)] * (many - 1)])


def seen_noise(asked: Sequence[Asked], readings: Sequence[Ints], claimed: Fraction, level: float) -> Noise | None:
    """Return what is seen of the noise, if all answers are bits."""
    runs = []
    for run, told in zip(asked, readings, strict=True):
        modest = ~run.greedy
        if not run.signs.shape[1] or np.any(told[modest] < 0):
            return None
        bits = run.truths[modest].astype(np.uint8)
        runs.append(Lines(bits, bits ^ told[modest].astype(np.uint8)))
    return noise_of(runs, [], claimed, level)
