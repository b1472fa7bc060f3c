"""Tests for a fixed seed: the program is started several times on the same opening inputs.

Two runs with one seed answer the whole opening alike. Independent runs agree on n inputs with a probability of at most
``m^n``, where m is the probability of the most frequent answer. Whole reports are compared, and every character by its
position, because a fresh random number may be next to a bit that is not fresh.

A program that ignores its input, such as a counter, is the same in every run, too, and reveals nothing. So inputs
differ after the opening: a seed undoes a mask only where answers differ with them.
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

from maskedbandits.privacy.audit.events import encode_reports, iterate_characters
from maskedbandits.privacy.audit.statistics import Bits, clopper_pearson_upper

MAX_CHANCE = 1e-9  # that two runs agree: far below any possible error budget

RunAnswers = Sequence[NDArray[Any]]  # encoded, by run


@dataclass(frozen=True)
class Seeds:
    """Findings of starting a program several times."""

    runs: int
    same: int  # runs that answered the opening like another one
    lines: int  # of the opening
    chance: float  # an upper bound for any two independent runs to agree on all of them
    part: str = ""  # the part of the reports that was compared, if not all
    depends: bool = True  # whether runs that agree on the opening differ later, where their inputs do

    @property
    def is_conclusive(self) -> bool:
        """Tell whether the opening was long enough to judge by."""
        return self.chance <= MAX_CHANCE

    @property
    def is_fixed(self) -> bool:
        """Tell whether the seed is fixed."""
        return self.is_conclusive and self.same > 0 and self.depends

    @property
    def ignores_inputs(self) -> bool:
        """Tell whether runs answer alike for all inputs."""
        return self.is_conclusive and self.same > 0 and not self.depends and not self.part


def judge_seeds(reports: Sequence[list[bytes]], inputs: Sequence[Bits], opening: int) -> Seeds:
    """Compare whole reports, and then each character until one shows a fixed seed."""
    distinct, codes = encode_reports(list(chain.from_iterable(reports)))
    comparisons = 1 + max(map(len, distinct))
    ends = np.cumsum([bits.size for bits in inputs])[:-1]
    whole = compare_openings(np.split(codes, ends), inputs, opening, comparisons)
    if whole.is_fixed or comparisons == 2:  # one character is the whole report
        return whole
    for part, values in iterate_columns(distinct, codes):
        found = compare_openings(np.split(values, ends), inputs, opening, comparisons, part)
        if found.is_fixed:
            return found
    return whole


def iterate_columns(distinct: list[bytes], codes: NDArray[np.int64]) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield the name of every character, and its value in each report."""
    for number, column in enumerate(iterate_characters(distinct), 1):
        yield f"character {number} of ", column[codes]


def compare_openings(
    answers: RunAnswers, inputs: Sequence[Bits], opening: int, comparisons: int, part: str = ""
) -> Seeds:
    """Return how many runs answered the opening alike, and how likely that is in as many comparisons."""
    runs = len(answers)
    openings = [run[:opening].tobytes() for run in answers]
    times = Counter(openings)
    same = sum(count for count in times.values() if count > 1)
    if not same and part:  # nothing to judge
        return Seeds(runs, 0, opening, 1.0, part)
    counts = np.bincount(inputs[0][:opening]).tolist()
    often = [(one, lines) for one, lines in enumerate(counts) if lines]
    agree = sum(lines * math.log(bound_most_frequent(answers, inputs, lines, one)) for one, lines in often)
    chance = math.exp(agree) * comparisons * runs * (runs - 1) / 2
    pairs = [(a, b) for a, b in combinations(range(runs), 2) if openings[a] == openings[b]]
    depends = any(answers_differ(answers[a], answers[b], inputs[a], inputs[b], opening) for a, b in pairs)
    return Seeds(runs, same, opening, min(1.0, chance), part, depends)


def bound_most_frequent(answers: RunAnswers, inputs: Sequence[Bits], first: int, given: int) -> float:
    """Return an upper bound on the probability of the most frequent answer to an input.

    It covers all runs together, each run, and each opening, which has the first ``first`` answers of every run. A
    program that settles on one answer for each run has no frequent one in all runs together; one that answers alike at
    first has none in the rest.
    """
    matching = [run[run_inputs == given] for run, run_inputs in zip(answers, inputs, strict=True)]
    together = np.concatenate(matching)
    frequent = clopper_pearson_upper(np.bincount(together).max(), np.array(together.size), MAX_CHANCE)
    parts = [*matching, *(run[:first] for run in matching)]
    shares = [float(np.bincount(part).max() / part.size) for part in parts if part.size]
    return max(float(frequent), *shares)


def answers_differ(
    first: NDArray[Any], second: NDArray[Any], first_inputs: Bits, second_inputs: Bits, opening: int
) -> bool:
    """Tell whether two runs answer differently after the opening, where their inputs differ."""
    later = slice(opening, min(first_inputs.size, second_inputs.size))
    return bool(np.any((first[later] != second[later]) & (first_inputs[later] != second_inputs[later])))
