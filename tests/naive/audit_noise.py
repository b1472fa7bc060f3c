"""Slow, obvious twins of what an audit looks at in the noise; imports nothing of ours."""

from collections.abc import Sequence
from math import comb


def every(flips: Sequence[int], period: int, place: int) -> list[bool]:
    return [line % period == place for line in range(len(flips))]


def stretch(flips: Sequence[int], first: int) -> list[bool]:
    return [first <= line + 1 < 2 * first for line in range(len(flips))]


def after(flips: Sequence[int], pattern: Sequence[int]) -> list[bool]:
    """Whether the lines just before were flipped as in a pattern, oldest first."""
    size = len(pattern)
    return [line >= size and list(flips[line - size : line]) == list(pattern) for line in range(len(flips))]


def after_line(bits: Sequence[int], flips: Sequence[int], bit: int, flip: int) -> list[bool]:
    return [line > 0 and (bits[line - 1], flips[line - 1]) == (bit, flip) for line in range(len(flips))]


def back(flips: Sequence[int], distance: int, flip: int) -> list[bool]:
    return [line >= distance and flips[line - distance] == flip for line in range(len(flips))]


def flipped(flips: Sequence[int], length: int, most: int, few: bool) -> list[bool]:
    found = []
    for line in range(len(flips)):
        count = sum(flips[line - length : line]) if line >= length else None
        found.append(count is not None and (count <= most) == few)
    return found


def tally(bits: Sequence[int], flips: Sequence[int], members: Sequence[bool]) -> tuple[list[int], list[int]]:
    """How many members there are of each input, and how many of them are flipped."""
    lines, flipped_lines = [0, 0], [0, 0]
    for bit, flip, member in zip(bits, flips, members, strict=True):
        if member:
            lines[bit] += 1
            flipped_lines[bit] += flip
    return lines, flipped_lines


def together(bits: Sequence[int], flips: Sequence[int], rates: Sequence[float], distance: int) -> float:
    """How much flips so far apart go together."""
    rest = [flip - rates[bit] for bit, flip in zip(bits, flips, strict=True)]
    return sum(rest[line] * rest[line - distance] for line in range(distance, len(rest)))


def binomial(trials: int, share: float, low: int, high: int) -> float:
    """The probability of low to high hits."""
    return sum(comb(trials, hits) * share**hits * (1 - share) ** (trials - hits) for hits in range(low, high + 1))


def given(bits: Sequence[int], flips: Sequence[int], fixed: Sequence[tuple[int, bool, int]]) -> list[bool]:
    """Whether earlier inputs, or flips, had certain values: each a lag, whether it is a flip, and the value."""
    longest = max(lag for lag, _, _ in fixed)
    return [
        line >= longest and all((flips if is_flip else bits)[line - lag] == value for lag, is_flip, value in fixed)
        for line in range(len(bits))
    ]


def parity(bits: Sequence[int], flips: Sequence[int], features: Sequence[tuple[int, bool]], odd: int) -> list[bool]:
    """Whether earlier inputs and flips add up to an odd number, or an even one."""
    longest = max(lag for lag, _ in features)
    return [
        line >= longest and sum((flips if is_flip else bits)[line - lag] for lag, is_flip in features) % 2 == odd
        for line in range(len(bits))
    ]


def window(bits: Sequence[int], length: int | None, odd: int) -> list[bool]:
    """Whether the last inputs, or all, add up to an odd number, or an even one."""
    return [
        (length is None or line >= length) and sum(bits[line - (length or line) : line]) % 2 == odd
        for line in range(len(bits))
    ]
