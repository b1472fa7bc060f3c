"""What a program is asked: bits in an order that nobody can know, after an opening that all runs share."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy.audit.seeds import CHANCE
from maskedbandits.privacy.audit.statistics import RUNS, Bits

Number = TypeVar("Number", bound=np.generic)


def opening_length(claimed: float, trials: int) -> int:
    """Return on how many inputs, an even number, independent runs of the claimed randomiser hardly ever agree."""
    least = trials // RUNS
    agree = -math.log1p(math.exp(-claimed))  # logarithm of the probability of the most frequent report
    pairs = RUNS * (RUNS - 1) / 2
    # three times as many, because what it is judged by is measured, and for every character; after it, as many inputs
    # that differ from run to run must show whether answers depend on them
    return 2 * min(least // 2, math.ceil(1.5 * math.log(CHANCE / pairs) / agree))


def questions(trials: int, opening: int) -> list[Bits]:
    """Return the inputs of every run: the same opening, then as many of each bit, in an order that nobody can know."""
    shared = balanced(opening // 2)
    ends = [trials * run // RUNS for run in range(RUNS + 1)]
    sizes = [end - start for start, end in pairwise(ends)]
    return [np.concatenate([shared, balanced(size - opening // 2)]) for size in sizes]


def balanced(each: int) -> Bits:
    """Return as many zeros as ones, in random order."""
    return shuffled(np.repeat(np.array([0, 1], dtype=np.uint8), each))


def shuffled(inputs: NDArray[Number]) -> NDArray[Number]:
    """Return the inputs in an order that nobody can know."""
    return inputs[np.argsort(np.frombuffer(os.urandom(8 * inputs.size), dtype=np.uint64), kind="stable")]


def drawn(count: int) -> Bits:
    """Return so many bits, each drawn by itself."""
    return np.frombuffer(os.urandom(count), dtype=np.uint8) & np.uint8(1)
