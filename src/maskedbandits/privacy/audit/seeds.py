"""Whether a program draws from a fixed seed: it is started several times on the same opening inputs.

Two runs with one seed give the same answers throughout the opening. Independent runs agree on n inputs with a
probability of at most ``m^n``, where m is the probability of the most frequent answer. Whole reports are compared, and
every character by its place, because a number that is drawn anew may stand beside a bit that is not.

A program that answers without looking at its input, such as a counter, is the same in every run, too, and tells
nothing. So after the opening the inputs differ: only where answers differ with them, the seed undoes a mask.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy.audit.events import characters, coded
from maskedbandits.privacy.audit.statistics import Bits, highest

CHANCE = 1e-9  # at which two runs agree: far below any confidence that can be asked for

Answers = Sequence[NDArray[Any]]  # of every run, as numbers


@dataclass(frozen=True)
class Seeds:
    """What starting a program several times has shown."""

    runs: int
    same: int  # runs that answered the opening as another one did
    lines: int  # of the opening
    chance: float  # at most, that any two independent runs would agree on all of them
    part: str = ""  # of the reports that was compared, if not all of them
    depends: bool = True  # whether runs that agree on the opening differ later on, where their inputs do

    @property
    def telling(self) -> bool:
        """Tell whether the opening was long enough to judge by."""
        return self.chance <= CHANCE

    @property
    def fixed(self) -> bool:
        """Tell whether the seed is fixed."""
        return self.telling and self.same > 0 and self.depends

    @property
    def deaf(self) -> bool:
        """Tell whether runs answer alike whatever they are asked."""
        return self.telling and self.same > 0 and not self.depends and not self.part


def seeds_of(reports: Sequence[list[bytes]], inputs: Sequence[Bits], opening: int) -> Seeds:
    """Return what whole reports show, or the first character that shows a fixed seed."""
    distinct, codes = coded(list(chain.from_iterable(reports)))
    looks = 1 + max(map(len, distinct))
    ends = np.cumsum([bits.size for bits in inputs])[:-1]
    whole = look(np.split(codes, ends), inputs, opening, looks)
    if whole.fixed or looks == 2:  # a single character is the whole report
        return whole
    for part, values in columns(distinct, codes):
        found = look(np.split(values, ends), inputs, opening, looks, part)
        if found.fixed:
            return found
    return whole


def columns(distinct: list[bytes], codes: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield the name of every character, and what it is in each report."""
    for place, column in enumerate(characters(distinct), 1):
        yield f"character {place} of ", column[codes]


def look(answers: Answers, inputs: Sequence[Bits], opening: int, looks: int, part: str = "") -> Seeds:
    """Return how many runs answered the opening as another one did, and how likely that is in so many looks."""
    runs = len(answers)
    openings = [run[:opening].tobytes() for run in answers]
    times = Counter(openings)
    same = sum(count for count in times.values() if count > 1)
    if not same and part:  # nothing to judge
        return Seeds(runs, 0, opening, 1.0, part)
    asked = np.bincount(inputs[0][:opening]).tolist()
    often = [(one, lines) for one, lines in enumerate(asked) if lines]
    agree = sum(lines * math.log(most_frequent(answers, inputs, lines, one)) for one, lines in often)
    chance = math.exp(agree) * looks * runs * (runs - 1) / 2
    pairs = [(a, b) for a, b in combinations(range(runs), 2) if openings[a] == openings[b]]
    depends = any(differ(answers[a], answers[b], inputs[a], inputs[b], opening) for a, b in pairs)
    return Seeds(runs, same, opening, min(1.0, chance), part, depends)


def most_frequent(answers: Answers, inputs: Sequence[Bits], first: int, given: int) -> float:
    """Return at most how likely the most frequent answer to an input is: in all runs, in each, and in each opening.

    So many of its first answers in every run are in the opening.

    A program that settles on one answer for each run has no frequent one in all runs together; one that answers alike
    at first, none in the rest.
    """
    told = [run[asked == given] for run, asked in zip(answers, inputs, strict=True)]
    together = np.concatenate(told)
    frequent = highest(np.bincount(together).max(), np.array(together.size), CHANCE)
    parts = [*told, *(run[:first] for run in told)]
    shares = [float(np.bincount(part).max() / part.size) for part in parts if part.size]
    return max(float(frequent), *shares)


def differ(first: NDArray[Any], second: NDArray[Any], asked: Bits, also: Bits, opening: int) -> bool:
    """Tell whether two runs answer differently after the opening, where their inputs are different."""
    later = slice(opening, min(asked.size, also.size))
    return bool(np.any((first[later] != second[later]) & (asked[later] != also[later])))
