"""Rewards between 0 and 1: a program that takes them must hide any two of them from each other, as it hides bits.

One run reads values in an order that nobody can know. A program that ends with an error, or writes another number of
lines, takes bits only. No event may be more than e^eps times as likely under one value as under another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maskedbandits.privacy.audit.bit_inputs import shuffled
from maskedbandits.privacy.audit.starts import begin_each
from maskedbandits.privacy.audit.statistics import Event, event

VALUES = ("0", "0.000001", "0.125", "0.25", "0.5", "0.75", "0.875", "1")
READINGS = (b"0", b"1")
MOST_LINES = 20_000  # for each value


@dataclass(frozen=True)
class Values:
    """What rewards between 0 and 1 have shown; no events if the program takes bits only."""

    lines: int  # for each value
    events: tuple[Event, ...]


def try_values(command: str, trials: int, timeout: float, side: float, watch: Callable[[float], None]) -> Values:
    """Send a program values, and count its reports of 0, of 1 and of anything else."""
    each = min(trials, MOST_LINES)
    given = shuffled(np.arange(each * len(VALUES)) % len(VALUES))
    text = "".join(f"{VALUES[place]}\n" for place in given.tolist()).encode()
    [ended] = begin_each(command, [(text, ())], timeout, watch)
    reports = [line.strip() for line in ended.out.removesuffix(b"\n").split(b"\n")]
    if ended.code or len(reports) != given.size:
        return Values(each, ())
    seen = np.array([READINGS.index(report) if report in READINGS else len(READINGS) for report in reports])
    names = ("report 0", "report 1", "another report")
    level = side / (2 * len(VALUES) * len(names))  # two bounds for each value
    trials_ = np.full(len(VALUES), each)
    hits = (np.bincount(given[seen == reading], minlength=len(VALUES)) for reading in range(len(names)))
    return Values(each, tuple(event(name, hit, trials_, level) for name, hit in zip(names, hits, strict=True)))
