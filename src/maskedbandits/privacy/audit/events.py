"""Events that the reports themselves choose, where they are more than bits.

Nobody knows beforehand where such reports leak. So a random half of them chooses the most telling events, and the other
half, which knows nothing of the choice, tests these. EACH are chosen of four kinds: single reports; single characters;
and two scores being high or low, the sum over the characters, and one number for the whole report, of how much more
often it was seen with a 1 than with a 0.

Of devices of groups there are two inputs for each group, ``2 group + reward``; scores tell the rewards apart, and each
group from the others. Their reports are looked at in several views (``groups.py``), of which each is a table here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy.audit.statistics import EACH, Bits, Event, Floats, Ints, epsilon_at_least, event

REPORTS = 4096  # of which each is a candidate by itself: the most frequent
THRESHOLDS = 64  # of a score
CELLS = 1 << 28  # characters of all distinct reports that are held at once


class Table(NamedTuple):
    """Distinct reports, and how often each was seen: by report, half and input."""

    reports: list[bytes]
    counts: Ints
    where: str = ""  # which of all reports these are, if not all, and how they were turned

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


def counted(
    reports: list[bytes], codes: Ints, given: Bits | Ints, halves: Bits, inputs: int = 2, where: str = ""
) -> Table:
    """Count reports."""
    cells = np.bincount((codes * 2 + halves) * inputs + given, minlength=2 * inputs * len(reports))
    return Table(reports, cells.reshape(-1, 2, inputs), where)


# Candidates: the name of an event, its counts by half and input, and of how many.
Candidate = tuple[str, Ints, Ints]


class Contrast(NamedTuple):
    """Inputs to be told from others."""

    name: str
    some: Ints
    others: Ints


def contrasts(inputs: int) -> list[Contrast]:
    """Return what scores tell apart: a 1 from a 0, and, if there are groups, each group from the others."""
    every = np.arange(inputs)
    rewards = Contrast("", every[every % 2 == 1], every[every % 2 == 0])
    groups = range(inputs // 2 if inputs > 2 else 0)
    return [rewards, *(Contrast(f" for group {k}", every[every // 2 == k], every[every // 2 != k]) for k in groups)]


def single_reports(table: Table) -> Iterator[Candidate]:
    """Yield the most frequent reports, each by itself."""
    frequent = np.argsort(-table.counts[:, 0].sum(axis=1), kind="stable")[:REPORTS]
    for place in frequent:
        yield f"report {shown(table.reports[place])}{table.where}", table.counts[place], table.trials


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
    """Return events of one character each, and the scores of every report, sums over its characters."""
    inputs = table.counts.shape[-1]
    apart = contrasts(inputs)
    found, scores = [], np.zeros((len(apart), len(table.reports)))
    flat = table.counts.reshape(-1, 2 * inputs).T.astype(np.float64)
    for place, column in enumerate(characters(table.reports), 1):
        codes = column.astype(np.intp)  # once, not in every count
        cells = np.stack([np.bincount(codes, weights=cell, minlength=256) for cell in flat], axis=1)
        counts = cells.astype(np.int64).reshape(256, 2, inputs)
        scores += np.array([weight(counts, one)[codes] for one in apart])
        for value in np.flatnonzero(counts[:, 0].sum(axis=1)):
            name = f"character {place} is {shown(bytes([value]))}" if value else f"no character {place}"
            found.append((name + table.where, counts[value], table.trials))
    return found, scores


def weight(counts: Ints, apart: Contrast) -> Floats:
    """Return how much more often something was seen with some inputs than with others, in the half that chooses."""
    first = counts[:, 0]
    some, others = first[:, apart.some].sum(axis=1), first[:, apart.others].sum(axis=1)
    return np.asarray(np.log((some + 0.5) / (others + 0.5)))


def tails(name: str, score: Floats, table: Table) -> Iterator[Candidate]:
    """Yield the events that a score is at least, or below, each of some thresholds."""
    order = np.argsort(-score, kind="stable")
    sums = table.counts[order].cumsum(axis=0)
    ends = np.flatnonzero(np.diff(score[order]))  # the last report of each score but the lowest
    for end in ends[np.unique(np.linspace(0, ends.size - 1, THRESHOLDS).astype(np.int64))] if ends.size else ends:
        at = score[order[end]]
        yield f"{name} at least {at:.3g}{table.where}", sums[end], table.trials
        yield f"{name} below {at:.3g}{table.where}", sums[-1] - sums[end], table.trials


def chosen(tables: Sequence[Table], level: float, *, before: bool = False) -> list[Event]:
    """Return the events that one half of the reports finds most telling, as the other half has them."""
    kinds: tuple[list[Candidate], ...] = ([], [], [], [])
    for table in tables:
        reports, characters_, sums, wholes = kinds
        singles, scores = single_characters(table)
        reports += single_reports(table)
        characters_ += singles
        for apart, score in zip(contrasts(table.counts.shape[-1]), scores, strict=True):
            sums += tails(f"score of characters{apart.name}", score, table)
            wholes += tails(f"score of reports{apart.name}", weight(table.counts, apart), table)
    # The best of each kind: a kind with many candidates fits the half that chooses, and would crowd out the others.
    return [one for kind in kinds for one in best(kind, level, before=before)]


def best(candidates: list[Candidate], level: float, *, before: bool) -> list[Event]:
    """Return the EACH most telling candidates of a kind, each once."""
    if not candidates:
        return []
    counts = np.array([counts for _, counts, _ in candidates])
    trials = np.array([trials for _, _, trials in candidates])
    telling = epsilon_at_least(counts[:, 0], trials[:, 0], level)
    _, distinct = np.unique(counts[:, 0], axis=0, return_index=True)
    places = sorted(distinct, key=lambda place: -telling[place])[:EACH]
    return [event(candidates[place][0], counts[place, 1], trials[place, 1], level, before=before) for place in places]


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
    return [*chosen([table], level), *chosen([earlier], level, before=True)], float(testing)
