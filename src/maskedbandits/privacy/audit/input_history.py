"""Contexts from earlier inputs: a program may mask a report less because of what it read before.

If each report is masked on its own, it is flipped as often whatever the inputs before it were. Half of the runs choose
the contexts in which flips differ most, and the other half tests them (``noise.py``). These kinds are searched:

- cubes: any of the last eight inputs given, the others arbitrary; 6,560 contexts, so all pairs, triples and so on;
- parities of any subset of the last eight inputs; 510 contexts;
- the same cubes and parities for the last four inputs together with the last four flips;
- pairs of inputs up to 32 lines back;
- one input any distance back, up to half a run;
- the parity of the last k inputs, for any k up to half a run, and of all inputs so far;
- how many ones there were in the last 2, 4, 8, ... inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from maskedbandits.privacy.audit.contexts import (
    DISTANCES,
    SHARES,
    Candidate,
    Context,
    Lines,
    Members,
    flips_before,
    tallied,
    telling,
)
from maskedbandits.privacy.audit.statistics import Bits, Floats, Ints

LONGEST_PAIR = 32  # lines back
BLOCK = 1 << 16  # lines counted at once: single precision counts them exactly


class Feature(NamedTuple):
    """One bit known before a line: an earlier input, or whether an earlier report was flipped."""

    lag: int
    is_flip: bool = False

    def values(self, run: Lines, skip: int) -> Bits:
        """Return the bit for every line of a run after the first ones."""
        source = run.flips if self.is_flip else run.bits
        return source[skip - self.lag : source.size - self.lag]


Features = tuple[Feature, ...]
Signal = Callable[[Lines], Floats]

LAST_INPUTS: Features = tuple(Feature(lag) for lag in range(1, 9))
LAST_LINES: Features = tuple(Feature(lag, is_flip) for is_flip in (False, True) for lag in range(1, 5))


def count_patterns(runs: Sequence[Lines], features: Features) -> Ints:
    """Return how many lines, and how many flips, each pattern of features has: by pattern and input."""
    patterns, skip = 2 ** len(features), longest_lag(features)
    counts = np.zeros((2, patterns, 2), dtype=np.int64)
    for run in (run for run in runs if run.bits.size > skip):
        codes = np.zeros(run.bits.size - skip, dtype=np.int64)
        for feature in features:
            codes = 2 * codes + feature.values(run, skip)
        codes = 2 * codes + run.bits[skip:]
        counts[0] += np.bincount(codes, minlength=2 * patterns).reshape(-1, 2)
        counts[1] += np.bincount(codes[run.flips[skip:] == 1], minlength=2 * patterns).reshape(-1, 2)
    return counts


def longest_lag(features: Sequence[Feature]) -> int:
    """Return how many lines before its own a context looks at."""
    return max(feature.lag for feature in features)


def cubes(runs: Sequence[Lines], rates: Floats, features: Features) -> Iterator[Candidate]:
    """Yield the most telling of all contexts that give some features and leave the others open."""
    counts = count_patterns(runs, features).reshape(2, *(2,) * len(features), 2)
    for axis in range(1, len(features) + 1):  # a third place on every axis: either value
        counts = np.concatenate([counts, counts.sum(axis=axis, keepdims=True)], axis=axis)
    shape = counts.shape[1:-1]
    lines, flips = counts.reshape(2, -1, 2)
    for place in telling(lines, flips, rates):
        digits = np.unravel_index(place, shape)
        fixed = {feature: int(digit) for feature, digit in zip(features, digits, strict=True) if digit < 2}
        if fixed:
            yield Candidate(given(fixed, longest_lag(features)), lines[place], flips[place])


def parities(runs: Sequence[Lines], rates: Floats, features: Features) -> Iterator[Candidate]:
    """Yield the most telling of all parities of a subset of features."""
    counts = count_patterns(runs, features)
    hadamard = np.ones((1, 1), dtype=np.int64)
    for _ in features:
        hadamard = np.kron(hadamard, np.array([[1, 1], [1, -1]]))
    total, signed = counts.sum(axis=1, keepdims=True), hadamard @ counts
    sides = np.concatenate([(total + signed)[:, 1:] // 2, (total - signed)[:, 1:] // 2], axis=1)
    lines, flips = sides
    subsets = 2 ** len(features) - 1
    for place in telling(lines, flips, rates):
        odd, subset = divmod(place, subsets)
        members = tuple(
            one for one, digit in zip(features, f"{subset + 1:0{len(features)}b}", strict=True) if digit == "1"
        )
        yield Candidate(parity(members, odd, longest_lag(features)), lines[place], flips[place])


def given(fixed: dict[Feature, int], skipped: int = 0) -> Context:
    """Return the lines, without the first of a run, before which some features had these values."""
    skip = max(skipped, longest_lag(list(fixed)))

    def members(run: Lines) -> Members:
        found = np.zeros(run.bits.size, dtype=np.bool_)
        if run.bits.size > skip:
            found[skip:] = np.logical_and.reduce([one.values(run, skip) == value for one, value in fixed.items()])
        return found

    return Context(f"after {' and '.join(map(describe, fixed, fixed.values()))}", members, any_flip(fixed))


def describe(feature: Feature, value: int) -> str:
    """Return the value of a feature in words."""
    what = ("no flip", "a flip")[value] if feature.is_flip else f"input {value}"
    return f"{what} {feature.lag} back"


def any_flip(features: Sequence[Feature] | dict[Feature, int]) -> bool:
    """Tell whether a context depends on earlier flips."""
    return any(feature.is_flip for feature in features)


def parity(features: Features, odd: int, skipped: int = 0) -> Context:
    """Return the lines, without the first of a run, before which some features add up to an even, or odd, number."""
    skip = max(skipped, longest_lag(features))

    def members(run: Lines) -> Members:
        found = np.zeros(run.bits.size, dtype=np.bool_)
        if run.bits.size > skip:
            found[skip:] = np.bitwise_xor.reduce([one.values(run, skip) for one in features]) == odd
        return found

    lags = {
        kind: [str(one.lag) for one in features if one.is_flip == (kind == "flips")] for kind in ("inputs", "flips")
    }
    where = " and ".join(f"{kind} {', '.join(each)} back" for kind, each in lags.items() if each)
    return Context(f"after {where} with an {('even', 'odd')[odd]} sum", members, any_flip(features))


def pairs(runs: Sequence[Lines], rates: Floats) -> Iterator[Candidate]:
    """Yield the most telling of all pairs of inputs up to LONGEST_PAIR lines back, and of single ones."""
    counts = count_pairs(runs)
    first, second = np.triu_indices(LONGEST_PAIR)
    values = [(a, b) for a in (0, 1) for b in (0, 1)]
    rows = np.concatenate([first + a * LONGEST_PAIR for a, _ in values])
    columns = np.concatenate([second + b * LONGEST_PAIR for _, b in values])
    lines, flips = counts[:, rows, columns].reshape(2, 2, -1).transpose(0, 2, 1)
    for place in telling(lines, flips, rates):
        (a, b), pair = values[place // first.size], place % first.size
        fixed = {Feature(int(first[pair]) + 1): a, Feature(int(second[pair]) + 1): b}
        yield Candidate(given(fixed, LONGEST_PAIR), lines[place], flips[place])


def count_pairs(runs: Sequence[Lines]) -> Ints:
    """Return counts of lines and flips, by own input, for any two values of two inputs: row and column of each."""
    counts = np.zeros((4, 2 * LONGEST_PAIR, 2 * LONGEST_PAIR), dtype=np.int64)
    features = [Feature(lag) for lag in range(1, LONGEST_PAIR + 1)]
    for run in (run for run in runs if run.bits.size > LONGEST_PAIR):
        for start in range(LONGEST_PAIR, run.bits.size, BLOCK):
            part = Lines(*(field[start - LONGEST_PAIR : start + BLOCK] for field in run))
            ones = np.array([one.values(part, LONGEST_PAIR) for one in features], dtype=np.float32)
            earlier = np.concatenate([1 - ones, ones])
            own, flips = part.bits[LONGEST_PAIR:], part.flips[LONGEST_PAIR:]
            for place, weight in enumerate((1 - own, own, (1 - own) * flips, own * flips)):
                counts[place] += ((earlier * weight) @ earlier.T).astype(np.int64)
    return counts


def input_distances(runs: Sequence[Lines], rates: Floats) -> Iterator[Candidate]:
    """Yield what one input any distance back was, where flips go together with it most."""
    for distance in correlated(runs, rates, signs, lambda run: np.ones(run.bits.size)):
        yield from tallied(runs, (given({Feature(distance): value}) for value in (0, 1)))


def windows(runs: Sequence[Lines], rates: Floats) -> Iterator[Candidate]:
    """Yield the parity of the last k inputs, for the k with which flips go together most, and of all inputs so far."""
    for length in correlated(runs, rates, signs_so_far, signs_so_far):
        yield from tallied(runs, (window(length, odd) for odd in (0, 1)))
    yield from tallied(runs, (window(None, odd) for odd in (0, 1)))


def signs(run: Lines) -> Floats:
    """Return 1 for each input that is 0, and -1 for the others."""
    return 1.0 - 2.0 * run.bits.astype(np.float64)


def signs_so_far(run: Lines) -> Floats:
    """Return 1 for each line before which the inputs have an even sum, and -1 for the others."""
    return 1.0 - 2.0 * odd_before(run).astype(np.float64)


def odd_before(run: Lines) -> Bits:
    """Return the parity of all inputs before each line."""
    return np.concatenate([np.zeros(1, dtype=np.uint8), np.bitwise_xor.accumulate(run.bits)[:-1]])


def window(length: int | None, odd: int) -> Context:
    """Return the lines before which so many inputs, or all, have an even or an odd sum."""

    def members(run: Lines) -> Members:
        so_far = odd_before(run)
        if length is None:
            return np.asarray(so_far == odd)
        found = np.zeros(run.bits.size, dtype=np.bool_)
        found[length:] = so_far[length:] ^ so_far[: max(run.bits.size - length, 0)] == odd
        return found

    which = "all earlier inputs" if length is None else f"the last {length:,} inputs"
    return Context(f"after {which} with an {('even', 'odd')[odd]} sum", members, depends=False)


def correlated(runs: Sequence[Lines], rates: Floats, earlier: Signal, own: Signal) -> list[int]:
    """Return the distances, up to half a run, at which flips go together most with an earlier signal.

    The signal of the line itself is multiplied in, and so is its input: a program may flip only one of the inputs.
    """
    size = min(run.bits.size for run in runs)
    spectra = np.zeros((2, size + 1), dtype=np.complex128)
    for run in (Lines(run.bits[:size], run.flips[:size]) for run in runs):
        rest = (run.flips - rates[run.bits]) * own(run)
        before = np.conj(np.fft.rfft(earlier(run), 2 * size))
        spectra += [np.fft.rfft(rest, 2 * size) * before, np.fft.rfft(rest * signs(run), 2 * size) * before]
    reach = np.arange(1, size // 2 + 1)
    together = np.abs(np.fft.irfft(spectra)[:, 1 : size // 2 + 1]).max(axis=0) / np.sqrt(size - reach)
    return [int(place) + 1 for place in np.argsort(-together, kind="stable")[:DISTANCES]]


def input_sums(runs: Sequence[Lines]) -> Iterator[Candidate]:
    """Yield that few or many of the last inputs were ones."""
    length, size = 2, min(run.bits.size for run in runs)
    while length <= size // 4:
        before = np.concatenate([flips_before(run.bits, length)[length:] for run in runs])
        for most in sorted({int(np.quantile(before, share, method="lower")) for share in SHARES}):
            yield from tallied(runs, (ones(length, most, few=few) for few in (True, False)))
        length *= 2


def ones(length: int, most: int, *, few: bool) -> Context:
    """Return the lines before which at most so many inputs were ones, or more."""

    def members(run: Lines) -> Members:
        seen: Members = (flips_before(run.bits, length) <= most) == few
        seen[:length] = False
        return seen

    name = f"at most {most:,}" if few else f"more than {most:,}"
    return Context(f"after {name} ones in {length:,} inputs", members, depends=False)
