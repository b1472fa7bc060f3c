"""Contexts in which the noise may be another one: where a line stands, and what was flipped before it.

Noise is input xor report. If each report is masked on its own, it is flipped as often on every second line, after a
flip, or where few of the last hundred lines were flipped. There are far too many such contexts to test all of them. So
half of the runs choose those in which flips differ most from the rest, and the other half tests these: the runs know
nothing of each other. EACH_KIND contexts of each kind are tested. Kinds from earlier inputs are in ``history.py``.
Here are:

- the position: every m-th line, and stretches of lines that double in length;
- the last lines: which of them were flipped, and the line before as a whole;
- one line some way back: the distances at which flips go together most, of all distances up to half a run;
- how many were flipped in the last 2, 4, 8, ... lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.privacy.audit.statistics import EACH_KIND, Bits, Floats, Ints

Members = NDArray[np.bool_]

LONGEST_PERIOD = 256  # lines
LAST_LINES = 8
DISTANCES = 4  # that are looked at closely
SHARES = (0.1, 0.5, 0.9)  # of lines with fewer flips before them, at which counts are divided
FEWEST = 20  # lines of a context, for each input


class Lines(NamedTuple):
    """One run: what was asked, and which reports are another bit than that."""

    bits: Bits
    flips: Bits


class Context(NamedTuple):
    """Some lines of a run, by what is known before their own report."""

    name: str
    members: Callable[[Lines], Members]
    depends: bool  # on earlier flips


class Candidate(NamedTuple):
    """A context, and what was seen in it, by input."""

    context: Context
    lines: Ints
    flips: Ints


def flip_rates(runs: Sequence[Lines]) -> Floats:
    """Return how often each input is flipped."""
    lines, flips = tally(runs, lambda run: np.ones(run.bits.size, dtype=np.bool_))
    return flips / np.maximum(lines, 1)


def tally(runs: Sequence[Lines], members: Callable[[Lines], Members]) -> tuple[Ints, Ints]:
    """Return how many lines of each input are members, and how many of these are flipped."""
    lines, flips = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for run in runs:
        chosen = members(run)
        lines += np.bincount(run.bits[chosen], minlength=2)
        flips += np.bincount(run.bits[chosen & (run.flips == 1)], minlength=2)
    return lines, flips


def differences(lines: Ints, flips: Ints, rates: Floats) -> Floats:
    """Return how far flips are from what is usual, in deviations, by context and input; 0 where lines are too few."""
    spread = np.sqrt(np.maximum(lines, 1) * rates * (1 - rates))
    return np.where(lines.min(axis=-1, keepdims=True) >= FEWEST, (flips - lines * rates) / spread, 0.0)


def telling(lines: Ints, flips: Ints, rates: Floats) -> list[int]:
    """Return which contexts differ most: the one that is flipped least, and others by the size of the difference."""
    apart = differences(lines, flips, rates)
    least = int(np.argmin(apart.sum(axis=-1)))
    by_size = np.argsort(-(apart**2).sum(axis=-1), kind="stable")[: EACH_KIND + 1].tolist()
    return [place for place in dict.fromkeys([least, *by_size]) if apart[place].any()][:EACH_KIND]


def most_different(candidates: list[Candidate], rates: Floats) -> list[Candidate]:
    """Return the most different of some candidates."""
    if not candidates:
        return []
    lines = np.array([one.lines for one in candidates])
    flips = np.array([one.flips for one in candidates])
    return [candidates[place] for place in telling(lines, flips, rates)]


def tallied(runs: Sequence[Lines], contexts: Iterable[Context]) -> Iterator[Candidate]:
    """Yield contexts with what was seen in them."""
    for context in contexts:
        yield Candidate(context, *tally(runs, context.members))


def positions(runs: Sequence[Lines], rates: Floats) -> Iterator[Candidate]:
    """Yield the most telling of every m-th lines, for each m, and all stretches."""
    parts = [np.stack([1 - run.bits, run.bits, run.flips * (1 - run.bits), run.flips * run.bits]) for run in runs]
    for period in range(2, LONGEST_PERIOD + 1):
        counts = np.sum([by_place(part, period) for part in parts], axis=0)
        lines, flips = counts[:2].T, counts[2:].T
        for place in telling(lines, flips, rates):
            yield Candidate(every(period, place), lines[place], flips[place])
    longest = max(run.bits.size for run in runs)
    yield from tallied(runs, (stretch(2**power) for power in range(longest.bit_length())))


def by_place(values: NDArray[np.uint8], period: int) -> Ints:
    """Return sums over every m-th column, by the first of them."""
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % period)))
    total: Ints = padded.reshape(values.shape[0], -1, period).sum(axis=1, dtype=np.int64)
    return total


def every(period: int, place: int) -> Context:
    """Return every m-th line."""
    name = f"on lines {place + 1}, {place + 1 + period}, {place + 1 + 2 * period}, ..."
    return Context(name, lambda run: np.arange(run.bits.size) % period == place, depends=False)


def stretch(first: int) -> Context:
    """Return a stretch of lines, numbered from 1."""
    return Context(
        f"on lines {first:,} to {2 * first - 1:,}",
        lambda run: (np.arange(1, run.bits.size + 1) // first) == 1,
        depends=False,
    )


def last_lines(runs: Sequence[Lines], rates: Floats) -> Iterator[Candidate]:
    """Yield the most telling of what the last lines may have been."""
    for length in range(1, LAST_LINES + 1):
        counts = np.zeros((2, 2**length, 2), dtype=np.int64)
        for run in runs:
            codes = pattern(run.flips, length) * 2 + run.bits[length:]
            counts[0] += np.bincount(codes, minlength=2 ** (length + 1)).reshape(-1, 2)
            flipped = codes[run.flips[length:] == 1]
            counts[1] += np.bincount(flipped, minlength=2 ** (length + 1)).reshape(-1, 2)
        for code in telling(counts[0], counts[1], rates):
            yield Candidate(after(code, length), counts[0, code], counts[1, code])
    yield from tallied(runs, (after_line(bit, flip) for bit in (0, 1) for flip in (0, 1)))


def pattern(flips: Bits, length: int) -> Ints:
    """Return which of so many lines before were flipped, as a number whose last digit is the line just before."""
    codes = np.zeros(flips.size - length, dtype=np.int64)
    for back in range(length, 0, -1):
        codes = 2 * codes + flips[length - back : flips.size - back]
    return codes


def after(code: int, length: int) -> Context:
    """Return the lines after some that were flipped, or not, in a certain way."""

    def members(run: Lines) -> Members:
        return np.concatenate([np.zeros(length, dtype=np.bool_), pattern(run.flips, length) == code])

    words = ", ".join("flip" if digit == "1" else "none" for digit in f"{code:0{length}b}")
    return Context(f"after {words}", members, depends=True)


def after_line(bit: int, flip: int) -> Context:
    """Return the lines after one input and one report."""

    def members(run: Lines) -> Members:
        same = (run.bits[:-1] == bit) & (run.flips[:-1] == flip)
        return np.concatenate([np.zeros(1, dtype=np.bool_), same])

    return Context(f"after input {bit} and report {bit ^ flip}", members, depends=True)


def distances(runs: Sequence[Lines], rates: Floats) -> Iterator[Candidate]:
    """Yield what one line some way back may have been, where that goes together with flips most."""
    size = min(run.bits.size for run in runs)
    power = sum(np.abs(np.fft.rfft(run.flips[:size] - rates[run.bits[:size]], 2 * size)) ** 2 for run in runs)
    together = np.abs(np.fft.irfft(power)[1 : size // 2 + 1]) / np.sqrt(size - np.arange(1, size // 2 + 1))
    for place in np.argsort(-together, kind="stable")[:DISTANCES]:
        yield from tallied(runs, (back(int(place) + 1, flip) for flip in (0, 1)))


def back(distance: int, flip: int) -> Context:
    """Return the lines so far after one that was flipped, or was not."""

    def members(run: Lines) -> Members:
        return np.concatenate([np.zeros(distance, dtype=np.bool_), run.flips[:-distance] == flip])

    return Context(f"{distance:,} lines after {'a flip' if flip else 'none'}", members, depends=True)


def sums(runs: Sequence[Lines]) -> Iterator[Candidate]:
    """Yield that few or many of the last lines were flipped."""
    length, size = 2, min(run.bits.size for run in runs)
    while length <= size // 4:
        before = np.concatenate([flips_before(run.flips, length)[length:] for run in runs])
        for most in sorted({int(np.quantile(before, share, method="lower")) for share in SHARES}):
            yield from tallied(runs, (flipped(length, most, few=few) for few in (True, False)))
        length *= 2


def flips_before(flips: Bits, length: int) -> Ints:
    """Return how many of so many lines before were flipped."""
    so_far: Ints = np.concatenate([[0], np.cumsum(flips, dtype=np.int64)])[:-1]
    so_far[length:] -= so_far[:-length].copy()
    return so_far


def flipped(length: int, most: int, *, few: bool) -> Context:
    """Return the lines before which at most so many were flipped, or more."""

    def members(run: Lines) -> Members:
        seen: Members = (flips_before(run.flips, length) <= most) == few
        seen[:length] = False
        return seen

    name = f"at most {most:,}" if few else f"more than {most:,}"
    return Context(f"after {name} flips in {length:,} lines", members, depends=True)
