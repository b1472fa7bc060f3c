"""Kinds of questions in which a device of groups may mask less: each is judged by itself, over all groups together.

Where the reward of an input is turned round, the true answer becomes its neighbour, ``answer ^ 1``. Every question is
asked with both rewards of a group equally often. So among the lines of any stratum that questions and earlier inputs
define, true answers are at most e^eps times as frequent as their neighbours. All inputs are counted together, so a
stratum needs few lines, and all of them can be tested:

- tables by their number of arms, and by the arm of every group;
- signs by pattern, and by their number of ones; parts by their number;
- the epsilon above the claim that is asked for, by interval, by halves, quarters and eighths of it, and all up to it;
- earlier rewards: one of the last eight, and every parity of them; the group of one of the last three lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from maskedbandits.privacy.audit.group_inputs import Asked, decimal, intervals, joined
from maskedbandits.privacy.audit.statistics import Event, Ints, event

FEWEST = 20  # lines of a stratum
MOST_ARMS = 256  # arms of groups that are strata
LAST_REWARDS = 8
LAST_GROUPS = 3
CELLS = (1, 2, 4, 8)  # parts of an interval of epsilons above the claim
NOWHERE = -1

Part = Callable[[Ints], Ints]


class Family(NamedTuple):
    """Strata that exclude one another: their names, and in which of them each line is, if in any."""

    names: list[str]
    places: Ints


def judged_strata(asked: Sequence[Asked], readings: Ints, claimed: Fraction, doubt: float) -> tuple[Event, ...]:
    """Return true answers and their neighbours in every stratum; all bounds hold together, but for some doubt."""
    every = joined(asked)
    true, turned = readings == every.truths, readings == (every.truths ^ 1)
    counted = []
    for names, places in families(asked, every, claimed):
        inside = places >= 0
        lines, trues, turns = (
            np.bincount(places[inside & chosen], minlength=len(names)) for chosen in (np.True_, true, turned)
        )
        counted += [
            (name, np.array(hits), np.array([size, size]))
            for name, size, *hits in zip(names, lines, trues, turns, strict=True)
            if size >= FEWEST
        ]
    level = doubt / (4 * max(len(counted), 1))  # the strata follow from the questions: no answer chooses them
    return tuple(event(name, hits, sizes, level) for name, hits, sizes in counted)


def families(asked: Sequence[Asked], every: Asked, claimed: Fraction) -> Iterator[Family]:
    """Yield all families of strata."""
    for family in (*question_families(every), *history_families(asked)):
        yield Family(family.names, np.where(every.greedy, NOWHERE, family.places))
    yield from epsilon_families(every, claimed)


def epsilon_families(every: Asked, claimed: Fraction) -> Iterator[Family]:
    """Yield the strata of epsilons above the claim: intervals and their parts, and all of them up to a value."""
    above = intervals(claimed)
    if not above:
        return
    rungs = np.maximum(every.rungs - 1, 0)
    lows, widths = np.array([(one.low, one.width) for one in above])[rungs].T
    for cells in CELLS:
        names = [
            f" where epsilon {one.part(cell, cells)} is asked for" if one.width >= cells else ""
            for one in above
            for cell in range(cells)
        ]
        cell = (every.millionths - lows - 1) * cells // widths
        yield Family(names, np.where(every.greedy & (widths >= cells), rungs * cells + cell, NOWHERE))
    for rung, one in enumerate(above[1:-1], 2):  # the highest is first
        up_to = np.where(every.rungs >= rung, 0, NOWHERE)
        yield Family([f" where epsilon above the claim up to {decimal(one.high)} is asked for"], up_to)


def question_families(every: Asked) -> Iterator[Family]:
    """Yield the strata of questions."""
    size, groups = every.tables.shape
    yield Family([""], np.zeros(size, dtype=np.int64))
    ordered = np.sort(every.tables, axis=1)
    distinct = (np.diff(ordered, axis=1) != 0).sum(axis=1)
    yield Family([f" where tables have {count}" for count in counted_names("arm", groups)], distinct)
    arms = int(every.tables.max()) + 1
    for group in range(groups if groups * arms <= MOST_ARMS else 0):
        yield Family([f" where group {group} has arm {arm}" for arm in range(arms)], every.tables[:, group])
    if every.signs.shape[1]:
        patterns, places = np.unique(every.signs, axis=0, return_inverse=True)
        names = [f" where signs are {''.join(map(str, pattern))}" for pattern in patterns.tolist()]
        yield Family(names, places.reshape(-1))
        yield Family([f" where {ones} signs are 1" for ones in range(groups + 1)], every.signs.sum(axis=1))
    if every.parts.shape[1]:
        yield Family([f" where groups are {count}" for count in counted_names("part", groups)], every.parts.max(axis=1))


def counted_names(noun: str, most: int) -> list[str]:
    """Return `1 arm`, `2 arms` and so on."""
    return [f"{count} {noun}{'s' * (count > 1)}" for count in range(1, most + 1)]


def history_families(asked: Sequence[Asked]) -> Iterator[Family]:
    """Yield the strata of earlier inputs."""
    rewards = [earlier(asked, lag, lambda inputs: inputs & 1) for lag in range(1, LAST_REWARDS + 1)]
    known = np.min(rewards, axis=0) >= 0
    for subset in range(1, 1 << LAST_REWARDS):
        lags = [lag for lag in range(1, LAST_REWARDS + 1) if subset >> (lag - 1) & 1]
        odd = np.bitwise_xor.reduce([rewards[lag - 1] for lag in lags])
        back = ", ".join(map(str, lags))
        names = [f" after rewards {back} back with an {parity} sum" for parity in ("even", "odd")]
        if len(lags) == 1:
            names = [f" after reward {reward} {back} back" for reward in (0, 1)]
        yield Family(names, np.where(known, odd, NOWHERE))
    groups = asked[0].tables.shape[1]
    for lag in range(1, LAST_GROUPS + 1):
        names = [f" after group {group} {lag} back" for group in range(groups)]
        yield Family(names, earlier(asked, lag, lambda inputs: inputs // 2))


def earlier(asked: Sequence[Asked], lag: int, part: Part) -> Ints:
    """Return a part of the input so many lines before each line of each run, or NOWHERE."""
    runs = (np.concatenate([np.full(lag, NOWHERE), part(run.inputs)])[: run.inputs.size] for run in asked)
    return np.concatenate(list(runs))
