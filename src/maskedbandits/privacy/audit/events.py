"""Events that the reports choose themselves, where they are more than bits.

It is not known in advance where such reports leak. So a random half of them chooses the most revealing events, and the
other half, which is independent of the choice, tests these. EVENTS_PER_KIND events are chosen of each of four kinds:
single reports; single characters; and two scores being high or low, the sum over characters, and one number for the
whole report, of how much more often it was seen with a 1 than with a 0.

Devices of groups have two inputs for each group, ``2 group + reward``. Scores distinguish rewards, and each group from
the others. Their reports are judged in several views (``groups.py``). Each view is a table here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy.audit.statistics import (
    EVENTS_PER_KIND,
    Bits,
    Event,
    Floats,
    Ints,
    build_event,
    epsilon_lower_bound,
)

MAX_SINGLE_REPORTS = 4096  # the most frequent ones
THRESHOLDS = 64  # of a score
MAX_CELLS = 1 << 28  # characters in memory at once


class ReportTable(NamedTuple):
    """Distinct reports, and their counts by report, half and input."""

    reports: list[bytes]
    counts: Ints
    where: str = ""  # the selection of reports, and whether they were inverted

    @property
    def trials(self) -> Ints:
        """Number of reports by half and input."""
        total: Ints = self.counts.sum(axis=0)
        return total


def encode_reports(reports: Sequence[bytes]) -> tuple[list[bytes], Ints]:
    """Return the distinct reports, and the number of each report among them."""
    numbers: dict[bytes, int] = {}
    codes = np.array([numbers.setdefault(report, len(numbers)) for report in reports], dtype=np.int64)
    return list(numbers), codes


def count_reports(
    reports: list[bytes], codes: Ints, given: Bits | Ints, halves: Bits, inputs: int = 2, where: str = ""
) -> ReportTable:
    """Count reports by half and input."""
    cells = np.bincount((codes * 2 + halves) * inputs + given, minlength=2 * inputs * len(reports))
    return ReportTable(reports, cells.reshape(-1, 2, inputs), where)


# The name of an event, its counts by half and input, and the totals.
EventCandidate = tuple[str, Ints, Ints]


class Contrast(NamedTuple):
    """Inputs to distinguish from other inputs."""

    name: str
    some: Ints
    others: Ints


def list_contrasts(inputs: int) -> list[Contrast]:
    """Return the contrasts of scores: 1 from 0, and with groups each group from the others."""
    every = np.arange(inputs)
    rewards = Contrast("", every[every % 2 == 1], every[every % 2 == 0])
    groups = range(inputs // 2 if inputs > 2 else 0)
    return [rewards, *(Contrast(f" for group {k}", every[every // 2 == k], every[every // 2 != k]) for k in groups)]


def list_single_reports(table: ReportTable) -> Iterator[EventCandidate]:
    """Yield the most frequent reports as events."""
    frequent = np.argsort(-table.counts[:, 0].sum(axis=1), kind="stable")[:MAX_SINGLE_REPORTS]
    for index in frequent:
        yield f"report {format_report(table.reports[index])}{table.where}", table.counts[index], table.trials


def format_report(report: bytes) -> str:
    """Return a report for a person to read."""
    text = report.decode(errors="replace")
    quoted = ascii(text if len(text) <= 20 else text[:17] + "...")
    return quoted if text != text.strip() else quoted.strip("'") or "(empty)"  # blanks at the ends need quotes


def iterate_characters(reports: Sequence[bytes]) -> Iterator[NDArray[np.uint8]]:
    """Yield the first character of every report, then the second, and so on; 0 after the end.

    Columns are built in blocks of up to MAX_CELLS characters: every character is judged in bounded memory.
    """
    width = max(map(len, reports), default=0)
    block = max(1, min(width, MAX_CELLS // max(1, len(reports))))
    for start in range(0, width, block):
        parts = (report[start : start + block] for report in reports)
        text = np.fromiter(parts, dtype=f"S{block}", count=len(reports)).view(np.uint8).reshape(len(reports), block)
        yield from text.T[: width - start]


def list_single_characters(table: ReportTable) -> tuple[list[EventCandidate], Floats]:
    """Return events of one character each, and the scores of every report, sums over its characters."""
    inputs = table.counts.shape[-1]
    contrast_list = list_contrasts(inputs)
    candidates, scores = [], np.zeros((len(contrast_list), len(table.reports)))
    flat = table.counts.reshape(-1, 2 * inputs).T.astype(np.float64)
    for index, column in enumerate(iterate_characters(table.reports), 1):
        codes = column.astype(np.intp)  # convert once, not in every count
        cells = np.stack([np.bincount(codes, weights=cell, minlength=256) for cell in flat], axis=1)
        counts = cells.astype(np.int64).reshape(256, 2, inputs)
        scores += np.array([compute_weight(counts, one)[codes] for one in contrast_list])
        for value in np.flatnonzero(counts[:, 0].sum(axis=1)):
            name = f"character {index} is {format_report(bytes([value]))}" if value else f"no character {index}"
            candidates.append((name + table.where, counts[value], table.trials))
    return candidates, scores


def compute_weight(counts: Ints, contrast: Contrast) -> Floats:
    """Return how much more often something was seen with some inputs than with others, in the choosing half."""
    first = counts[:, 0]
    some, others = first[:, contrast.some].sum(axis=1), first[:, contrast.others].sum(axis=1)
    return np.asarray(np.log((some + 0.5) / (others + 0.5)))


def list_score_tails(name: str, score: Floats, table: ReportTable) -> Iterator[EventCandidate]:
    """Yield the events that a score is at least, or below, each of some thresholds."""
    order = np.argsort(-score, kind="stable")
    sums = table.counts[order].cumsum(axis=0)
    ends = np.flatnonzero(np.diff(score[order]))  # the last report of each score but the lowest
    for end in ends[np.unique(np.linspace(0, ends.size - 1, THRESHOLDS).astype(np.int64))] if ends.size else ends:
        at = score[order[end]]
        yield f"{name} at least {at:.3g}{table.where}", sums[end], table.trials
        yield f"{name} below {at:.3g}{table.where}", sums[-1] - sums[end], table.trials


def choose_events(tables: Sequence[ReportTable], level: float, *, before: bool = False) -> list[Event]:
    """Return the events that one half of the reports finds most revealing, as counted in the other half."""
    kinds: tuple[list[EventCandidate], ...] = ([], [], [], [])
    for table in tables:
        reports, characters_, sums, wholes = kinds
        singles, scores = list_single_characters(table)
        reports += list_single_reports(table)
        characters_ += singles
        for contrast, score in zip(list_contrasts(table.counts.shape[-1]), scores, strict=True):
            sums += list_score_tails(f"score of characters{contrast.name}", score, table)
            wholes += list_score_tails(
                f"score of reports{contrast.name}", compute_weight(table.counts, contrast), table
            )
    # The best of each kind: a kind with many candidates overfits the choosing half, and would displace the others.
    return [one for kind in kinds for one in select_best(kind, level, before=before)]


def select_best(candidates: list[EventCandidate], level: float, *, before: bool) -> list[Event]:
    """Return the most revealing distinct candidates of a kind."""
    if not candidates:
        return []
    counts = np.array([counts for _, counts, _ in candidates])
    trials = np.array([trials for _, _, trials in candidates])
    epsilons = epsilon_lower_bound(counts[:, 0], trials[:, 0], level)
    _, distinct = np.unique(counts[:, 0], axis=0, return_index=True)
    selected = sorted(distinct, key=lambda index: -epsilons[index])[:EVENTS_PER_KIND]
    return [
        build_event(candidates[index][0], counts[index, 1], trials[index, 1], level, before=before)
        for index in selected
    ]


def choose_and_test_events(
    joint: Sequence[bytes], bits: Bits, once: NDArray[np.bool_], later: NDArray[np.bool_], level: float
) -> tuple[list[Event], float]:
    """Return the events that half of the reports chooses, and the share of reports that tests them."""
    reports, codes = encode_reports(joint)
    halves = np.frombuffer(os.urandom(bits.size), dtype=np.uint8) & np.uint8(1)
    both = once & later
    table = count_reports(reports, codes[once], bits[once], halves[once])
    earlier = count_reports(reports, codes[both], np.roll(bits, 1)[both], halves[both])
    testing = table.trials[1].min() / (bits.size / 2)
    return [*choose_events([table], level), *choose_events([earlier], level, before=True)], float(testing)
