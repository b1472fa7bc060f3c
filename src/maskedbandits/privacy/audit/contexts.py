"""Contexts in which noise may differ: the position of a line, earlier flips, and earlier inputs.

Noise is input xor report. If each report is masked independently, it is flipped as often on every second line, after a
flip, after any earlier inputs, or where few of the last hundred lines were flipped. There are far too many such
contexts to test all of them. So half of the runs chooses those in which flips differ most from the rest, and the other
half, which is independent, tests these (``noise.py``). CONTEXTS_PER_KIND contexts of each kind are tested:

- the position: every m-th line, and stretches of lines that double in length;
- the last lines: which of them were flipped, and the whole line before;
- one line some way back: the distances at which flips are most correlated, up to half a run;
- how many were flipped in the last 2, 4, 8, ... lines;
- cubes: any of the last eight inputs given, the others arbitrary; 6,560 contexts, so all pairs, triples and so on;
- parities of any subset of the last eight inputs; 510 contexts;
- the same cubes and parities for the last four inputs together with the last four flips;
- pairs of inputs up to 32 lines back;
- one input any distance back, up to half a run;
- the parity of the last k inputs, for any k up to half a run, and of all inputs so far;
- how many ones there were in the last 2, 4, 8, ... inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy.audit.statistics import CONTEXTS_PER_KIND, Bits, Floats, Ints

Members = NDArray[np.bool_]

MAX_PERIOD_LINES = 256  # lines
MAX_LAST_LINES = 8
TRIED_DISTANCES = 4  # that are examined
COUNT_QUANTILES = (0.1, 0.5, 0.9)  # at which counts are divided
MAX_PAIR_LAG = 32  # lines back
BLOCK_LINES = 1 << 16  # counted at once: exact in single precision
MIN_CONTEXT_LINES = 20  # for each input


class RunLines(NamedTuple):
    """One run: its inputs, and which reports differ from them."""

    bits: Bits
    flips: Bits


class Context(NamedTuple):
    """Some lines of a run, selected before their own reports."""

    name: str
    members: Callable[[RunLines], Members]
    depends: bool  # on earlier flips


class ContextCandidate(NamedTuple):
    """A context and its counts by input."""

    context: Context
    lines: Ints
    flips: Ints


def compute_flip_rates(runs: Sequence[RunLines]) -> Floats:
    """Return the rate of flips by input."""
    lines, flips = count_members(runs, lambda run: np.ones(run.bits.size, dtype=np.bool_))
    return flips / np.maximum(lines, 1)


def count_members(runs: Sequence[RunLines], members: Callable[[RunLines], Members]) -> tuple[Ints, Ints]:
    """Return how many lines of each input are members, and how many of these are flipped."""
    lines, flips = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for run in runs:
        chosen = members(run)
        lines += np.bincount(run.bits[chosen], minlength=2)
        flips += np.bincount(run.bits[chosen & (run.flips == 1)], minlength=2)
    return lines, flips


def compute_deviations(lines: Ints, flips: Ints, rates: Floats) -> Floats:
    """Return the deviation of flips from the usual rate by context and input; 0 where lines are too few."""
    spread = np.sqrt(np.maximum(lines, 1) * rates * (1 - rates))
    return np.where(lines.min(axis=-1, keepdims=True) >= MIN_CONTEXT_LINES, (flips - lines * rates) / spread, 0.0)


def find_telling(lines: Ints, flips: Ints, rates: Floats) -> list[int]:
    """Return the contexts that differ most: the one with the fewest flips, then by size."""
    apart = compute_deviations(lines, flips, rates)
    least = int(np.argmin(apart.sum(axis=-1)))
    by_size = np.argsort(-(apart**2).sum(axis=-1), kind="stable")[: CONTEXTS_PER_KIND + 1].tolist()
    return [index for index in dict.fromkeys([least, *by_size]) if apart[index].any()][:CONTEXTS_PER_KIND]


def select_most_different(candidates: list[ContextCandidate], rates: Floats) -> list[ContextCandidate]:
    """Return the candidates that differ most."""
    if not candidates:
        return []
    lines = np.array([one.lines for one in candidates])
    flips = np.array([one.flips for one in candidates])
    return [candidates[index] for index in find_telling(lines, flips, rates)]


def count_contexts(runs: Sequence[RunLines], contexts: Iterable[Context]) -> Iterator[ContextCandidate]:
    """Yield contexts with their counts."""
    for context in contexts:
        yield ContextCandidate(context, *count_members(runs, context.members))


def search_positions(runs: Sequence[RunLines], rates: Floats) -> Iterator[ContextCandidate]:
    """Yield the most telling residues of every m-th line, and all stretches."""
    parts = [np.stack([1 - run.bits, run.bits, run.flips * (1 - run.bits), run.flips * run.bits]) for run in runs]
    for period in range(2, MAX_PERIOD_LINES + 1):
        counts = np.sum([sum_by_position(part, period) for part in parts], axis=0)
        lines, flips = counts[:2].T, counts[2:].T
        for index in find_telling(lines, flips, rates):
            yield ContextCandidate(build_every_nth(period, index), lines[index], flips[index])
    longest = max(run.bits.size for run in runs)
    yield from count_contexts(runs, (build_stretch(2**power) for power in range(longest.bit_length())))


def sum_by_position(values: NDArray[np.uint8], period: int) -> Ints:
    """Return sums over every m-th column, by residue."""
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % period)))
    total: Ints = padded.reshape(values.shape[0], -1, period).sum(axis=1, dtype=np.int64)
    return total


def build_every_nth(period: int, index: int) -> Context:
    """Return the context of every m-th line."""
    name = f"on lines {index + 1}, {index + 1 + period}, {index + 1 + 2 * period}, ..."
    return Context(name, lambda run: np.arange(run.bits.size) % period == index, depends=False)


def build_stretch(first: int) -> Context:
    """Return the context of a stretch of lines, numbered from 1."""
    return Context(
        f"on lines {first:,} to {2 * first - 1:,}",
        lambda run: (np.arange(1, run.bits.size + 1) // first) == 1,
        depends=False,
    )


def search_last_lines(runs: Sequence[RunLines], rates: Floats) -> Iterator[ContextCandidate]:
    """Yield the most telling patterns of the last lines."""
    for length in range(1, MAX_LAST_LINES + 1):
        counts = np.zeros((2, 2**length, 2), dtype=np.int64)
        for run in runs:
            codes = encode_flips(run.flips, length) * 2 + run.bits[length:]
            counts[0] += np.bincount(codes, minlength=2 ** (length + 1)).reshape(-1, 2)
            flipped = codes[run.flips[length:] == 1]
            counts[1] += np.bincount(flipped, minlength=2 ** (length + 1)).reshape(-1, 2)
        for code in find_telling(counts[0], counts[1], rates):
            yield ContextCandidate(build_after_flips(code, length), counts[0, code], counts[1, code])
    yield from count_contexts(runs, (build_after_line(bit, flip) for bit in (0, 1) for flip in (0, 1)))


def encode_flips(flips: Bits, length: int) -> Ints:
    """Return which of the last lines were flipped as a number, whose last digit is the line just before."""
    codes = np.zeros(flips.size - length, dtype=np.int64)
    for back in range(length, 0, -1):
        codes = 2 * codes + flips[length - back : flips.size - back]
    return codes


def build_after_flips(code: int, length: int) -> Context:
    """Return the lines after a pattern of flips."""

    def members(run: RunLines) -> Members:
        return np.concatenate([np.zeros(length, dtype=np.bool_), encode_flips(run.flips, length) == code])

    words = ", ".join("flip" if digit == "1" else "none" for digit in f"{code:0{length}b}")
    return Context(f"after {words}", members, depends=True)


def build_after_line(bit: int, flip: int) -> Context:
    """Return the lines after one input and one report."""

    def members(run: RunLines) -> Members:
        same = (run.bits[:-1] == bit) & (run.flips[:-1] == flip)
        return np.concatenate([np.zeros(1, dtype=np.bool_), same])

    return Context(f"after input {bit} and report {bit ^ flip}", members, depends=True)


def search_distances(runs: Sequence[RunLines], rates: Floats) -> Iterator[ContextCandidate]:
    """Yield flips at the distances where they are most correlated."""
    size = min(run.bits.size for run in runs)
    power = sum(np.abs(np.fft.rfft(run.flips[:size] - rates[run.bits[:size]], 2 * size)) ** 2 for run in runs)
    together = np.abs(np.fft.irfft(power)[1 : size // 2 + 1]) / np.sqrt(size - np.arange(1, size // 2 + 1))
    for index in np.argsort(-together, kind="stable")[:TRIED_DISTANCES]:
        yield from count_contexts(runs, (build_at_distance(int(index) + 1, flip) for flip in (0, 1)))


def build_at_distance(distance: int, flip: int) -> Context:
    """Return the lines at a distance from a flip, or from none."""

    def members(run: RunLines) -> Members:
        return np.concatenate([np.zeros(distance, dtype=np.bool_), run.flips[:-distance] == flip])

    return Context(f"{distance:,} lines after {'a flip' if flip else 'none'}", members, depends=True)


def search_counts(runs: Sequence[RunLines], *, of_flips: bool) -> Iterator[ContextCandidate]:
    """Yield that few or many of the last lines were flipped, or had the input 1."""
    length, size = 2, min(run.bits.size for run in runs)
    while length <= size // 4:
        before = np.concatenate([count_before(run.flips if of_flips else run.bits, length)[length:] for run in runs])
        for most in sorted({int(np.quantile(before, share, method="lower")) for share in COUNT_QUANTILES}):
            pair = (build_count(length, most, few=few, of_flips=of_flips) for few in (True, False))
            yield from count_contexts(runs, pair)
        length *= 2


def count_before(values: Bits, length: int) -> Ints:
    """Return the number of ones among the last ``length`` lines before each line."""
    so_far: Ints = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])[:-1]
    so_far[length:] -= so_far[:-length].copy()
    return so_far


def build_count(length: int, most: int, *, few: bool, of_flips: bool) -> Context:
    """Return the lines before which at most ``most`` flips or inputs were 1, or more."""

    def members(run: RunLines) -> Members:
        inside: Members = (count_before(run.flips if of_flips else run.bits, length) <= most) == few
        inside[:length] = False
        return inside

    limit = f"at most {most:,}" if few else f"more than {most:,}"
    what = f"flips in {length:,} lines" if of_flips else f"ones in {length:,} inputs"
    return Context(f"after {limit} {what}", members, depends=of_flips)


class Feature(NamedTuple):
    """One bit known before a line: an earlier input, or whether an earlier report was flipped."""

    lag: int
    is_flip: bool = False

    def values(self, run: RunLines, skip: int) -> Bits:
        """Return the bit for every line of a run after the first ones."""
        source = run.flips if self.is_flip else run.bits
        return source[skip - self.lag : source.size - self.lag]


Features = tuple[Feature, ...]
Signal = Callable[[RunLines], Floats]

LAST_INPUT_FEATURES: Features = tuple(Feature(lag) for lag in range(1, 9))
LAST_LINE_FEATURES: Features = tuple(Feature(lag, is_flip) for is_flip in (False, True) for lag in range(1, 5))


def count_patterns(runs: Sequence[RunLines], features: Features) -> Ints:
    """Return the number of lines and of flips by pattern of features and input."""
    patterns, skip = 2 ** len(features), find_longest_lag(features)
    counts = np.zeros((2, patterns, 2), dtype=np.int64)
    for run in (run for run in runs if run.bits.size > skip):
        codes = np.zeros(run.bits.size - skip, dtype=np.int64)
        for feature in features:
            codes = 2 * codes + feature.values(run, skip)
        codes = 2 * codes + run.bits[skip:]
        counts[0] += np.bincount(codes, minlength=2 * patterns).reshape(-1, 2)
        counts[1] += np.bincount(codes[run.flips[skip:] == 1], minlength=2 * patterns).reshape(-1, 2)
    return counts


def find_longest_lag(features: Sequence[Feature]) -> int:
    """Return how many lines back a context looks."""
    return max(feature.lag for feature in features)


def search_cubes(runs: Sequence[RunLines], rates: Floats, features: Features) -> Iterator[ContextCandidate]:
    """Yield the most telling contexts that fix some features and leave the others open."""
    counts = count_patterns(runs, features).reshape(2, *(2,) * len(features), 2)
    for axis in range(1, len(features) + 1):  # a third index on every axis: either value
        counts = np.concatenate([counts, counts.sum(axis=axis, keepdims=True)], axis=axis)
    shape = counts.shape[1:-1]
    lines, flips = counts.reshape(2, -1, 2)
    for index in find_telling(lines, flips, rates):
        digits = np.unravel_index(index, shape)
        fixed = {feature: int(digit) for feature, digit in zip(features, digits, strict=True) if digit < 2}
        if fixed:
            yield ContextCandidate(build_after_features(fixed, find_longest_lag(features)), lines[index], flips[index])


def search_parities(runs: Sequence[RunLines], rates: Floats, features: Features) -> Iterator[ContextCandidate]:
    """Yield the most telling parities of a subset of features."""
    counts = count_patterns(runs, features)
    hadamard = np.ones((1, 1), dtype=np.int64)
    for _ in features:
        hadamard = np.kron(hadamard, np.array([[1, 1], [1, -1]]))
    total, signed = counts.sum(axis=1, keepdims=True), hadamard @ counts
    sides = np.concatenate([(total + signed)[:, 1:] // 2, (total - signed)[:, 1:] // 2], axis=1)
    lines, flips = sides
    subsets = 2 ** len(features) - 1
    for index in find_telling(lines, flips, rates):
        odd, subset = divmod(index, subsets)
        members = tuple(
            one for one, digit in zip(features, f"{subset + 1:0{len(features)}b}", strict=True) if digit == "1"
        )
        yield ContextCandidate(build_parity(members, odd, find_longest_lag(features)), lines[index], flips[index])


def build_after_features(fixed: dict[Feature, int], skipped: int = 0) -> Context:
    """Return the lines after given values of features, without the first of a run."""
    skip = max(skipped, find_longest_lag(list(fixed)))

    def members(run: RunLines) -> Members:
        found = np.zeros(run.bits.size, dtype=np.bool_)
        if run.bits.size > skip:
            found[skip:] = np.logical_and.reduce([one.values(run, skip) == value for one, value in fixed.items()])
        return found

    return Context(f"after {' and '.join(map(describe_feature, fixed, fixed.values()))}", members, has_flip(fixed))


def describe_feature(feature: Feature, value: int) -> str:
    """Return the value of a feature in words."""
    what = ("no flip", "a flip")[value] if feature.is_flip else f"input {value}"
    return f"{what} {feature.lag} back"


def has_flip(features: Sequence[Feature] | dict[Feature, int]) -> bool:
    """Tell whether a context depends on earlier flips."""
    return any(feature.is_flip for feature in features)


def build_parity(features: Features, odd: int, skipped: int = 0) -> Context:
    """Return the lines after an even or odd sum of features, without the first of a run."""
    skip = max(skipped, find_longest_lag(features))

    def members(run: RunLines) -> Members:
        found = np.zeros(run.bits.size, dtype=np.bool_)
        if run.bits.size > skip:
            found[skip:] = np.bitwise_xor.reduce([one.values(run, skip) for one in features]) == odd
        return found

    lags = {
        kind: [str(one.lag) for one in features if one.is_flip == (kind == "flips")] for kind in ("inputs", "flips")
    }
    where = " and ".join(f"{kind} {', '.join(each)} back" for kind, each in lags.items() if each)
    return Context(f"after {where} with an {('even', 'odd')[odd]} sum", members, has_flip(features))


def search_pairs(runs: Sequence[RunLines], rates: Floats) -> Iterator[ContextCandidate]:
    """Yield the most telling pairs of inputs up to MAX_PAIR_LAG lines back, and single ones."""
    counts = count_pairs(runs)
    first, second = np.triu_indices(MAX_PAIR_LAG)
    values = [(a, b) for a in (0, 1) for b in (0, 1)]
    rows = np.concatenate([first + a * MAX_PAIR_LAG for a, _ in values])
    columns = np.concatenate([second + b * MAX_PAIR_LAG for _, b in values])
    lines, flips = counts[:, rows, columns].reshape(2, 2, -1).transpose(0, 2, 1)
    for index in find_telling(lines, flips, rates):
        (a, b), pair = values[index // first.size], index % first.size
        fixed = {Feature(int(first[pair]) + 1): a, Feature(int(second[pair]) + 1): b}
        yield ContextCandidate(build_after_features(fixed, MAX_PAIR_LAG), lines[index], flips[index])


def count_pairs(runs: Sequence[RunLines]) -> Ints:
    """Return counts of lines and flips, by own input, for any two values of two inputs."""
    counts = np.zeros((4, 2 * MAX_PAIR_LAG, 2 * MAX_PAIR_LAG), dtype=np.int64)
    features = [Feature(lag) for lag in range(1, MAX_PAIR_LAG + 1)]
    for run in (run for run in runs if run.bits.size > MAX_PAIR_LAG):
        for start in range(MAX_PAIR_LAG, run.bits.size, BLOCK_LINES):
            part = RunLines(*(field[start - MAX_PAIR_LAG : start + BLOCK_LINES] for field in run))
            ones = np.array([one.values(part, MAX_PAIR_LAG) for one in features], dtype=np.float32)
            earlier = np.concatenate([1 - ones, ones])
            own, flips = part.bits[MAX_PAIR_LAG:], part.flips[MAX_PAIR_LAG:]
            for index, weight in enumerate((1 - own, own, (1 - own) * flips, own * flips)):
                counts[index] += ((earlier * weight) @ earlier.T).astype(np.int64)
    return counts


def search_input_distances(runs: Sequence[RunLines], rates: Floats) -> Iterator[ContextCandidate]:
    """Yield the input at the distances where flips are most correlated with it."""
    for distance in find_correlated_distances(runs, rates, compute_signs, lambda run: np.ones(run.bits.size)):
        yield from count_contexts(runs, (build_after_features({Feature(distance): value}) for value in (0, 1)))


def search_windows(runs: Sequence[RunLines], rates: Floats) -> Iterator[ContextCandidate]:
    """Yield the parity of the last k inputs, for the most correlated k, and of all inputs so far."""
    for length in find_correlated_distances(runs, rates, compute_signs_so_far, compute_signs_so_far):
        yield from count_contexts(runs, (build_window_parity(length, odd) for odd in (0, 1)))
    yield from count_contexts(runs, (build_window_parity(None, odd) for odd in (0, 1)))


def compute_signs(run: RunLines) -> Floats:
    """Return 1 for each input that is 0, and -1 for the others."""
    return 1.0 - 2.0 * run.bits.astype(np.float64)


def compute_signs_so_far(run: RunLines) -> Floats:
    """Return 1 for each line after an even sum of inputs, and -1 for the others."""
    return 1.0 - 2.0 * compute_parity_before(run).astype(np.float64)


def compute_parity_before(run: RunLines) -> Bits:
    """Return the parity of all inputs before each line."""
    return np.concatenate([np.zeros(1, dtype=np.uint8), np.bitwise_xor.accumulate(run.bits)[:-1]])


def build_window_parity(length: int | None, odd: int) -> Context:
    """Return the lines after an even or odd sum of the last ``length`` inputs, or of all."""

    def members(run: RunLines) -> Members:
        so_far = compute_parity_before(run)
        if length is None:
            return np.asarray(so_far == odd)
        found = np.zeros(run.bits.size, dtype=np.bool_)
        found[length:] = so_far[length:] ^ so_far[: max(run.bits.size - length, 0)] == odd
        return found

    which = "all earlier inputs" if length is None else f"the last {length:,} inputs"
    return Context(f"after {which} with an {('even', 'odd')[odd]} sum", members, depends=False)


def find_correlated_distances(runs: Sequence[RunLines], rates: Floats, earlier: Signal, own: Signal) -> list[int]:
    """Return the distances, up to half a run, at which flips are most correlated with an earlier signal.

    The signal of the line itself is multiplied in, and so is its input: a program may flip only one of the inputs.
    """
    size = min(run.bits.size for run in runs)
    spectra = np.zeros((2, size + 1), dtype=np.complex128)
    for run in (RunLines(run.bits[:size], run.flips[:size]) for run in runs):
        rest = (run.flips - rates[run.bits]) * own(run)
        before = np.conj(np.fft.rfft(earlier(run), 2 * size))
        spectra += [np.fft.rfft(rest, 2 * size) * before, np.fft.rfft(rest * compute_signs(run), 2 * size) * before]
    reach = np.arange(1, size // 2 + 1)
    together = np.abs(np.fft.irfft(spectra)[:, 1 : size // 2 + 1]).max(axis=0) / np.sqrt(size - reach)
    return [int(index) + 1 for index in np.argsort(-together, kind="stable")[:TRIED_DISTANCES]]
