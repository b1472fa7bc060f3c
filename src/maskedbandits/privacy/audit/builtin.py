"""The audit of this package's own randomiser, drawn as arrays and one by one, as devices draw."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from maskedbandits.privacy.audit.result import Channel, Findings
from maskedbandits.privacy.audit.statistics import READINGS, Ints, event, levels, smallest_excess, trials_needed
from maskedbandits.privacy.exact import Number, as_text
from maskedbandits.privacy.randomized_response import Randomizer

Watch = Callable[[float], None]

MOST_TRIALS = 10**9
DEVICES = 50_000  # reports for each input that are drawn one by one, as devices do: slower than arrays
CHUNK = 1 << 20  # reports drawn at once


def audit_own(epsilon: Number, trials: int, confidence: float, watch: Watch = lambda share: None) -> Findings:
    """Audit this package's own randomiser: arrays of bits, and reports one by one, as devices draw them."""
    randomizer = Randomizer(epsilon)
    devices = min(trials, DEVICES)
    level = levels(confidence).known
    channels = (
        channel("bits()", array_ones(randomizer, trials, watch), trials, randomizer.epsilon, level),
        channel("report()", device_ones(randomizer, devices), devices, randomizer.epsilon, level),
    )
    return Findings(
        subject=f"Randomizer({as_text(randomizer.epsilon)})",
        claimed=randomizer.epsilon,
        trials=trials,
        confidence=confidence,
        events=tuple(one for drawn in channels for one in (drawn.zero, drawn.one)),
        channels=channels,
        needed=None if channels[0].excess is not None else trials_needed(float(randomizer.epsilon), level),
        most=MOST_TRIALS,
        randomizer=randomizer,
        devices=devices,
    )


def array_ones(randomizer: Randomizer, trials: int, watch: Watch) -> Ints:
    """Return how many ones come of so many zeros, and of so many ones, in arrays."""
    ones = np.zeros(2, dtype=np.int64)
    for start in range(0, trials, CHUNK):
        size = min(CHUNK, trials - start)
        for bit in (0, 1):
            ones[bit] += randomizer.bits(np.full(size, bit, dtype=np.uint8)).sum()
        watch((start + size) / trials)
    return ones


def device_ones(randomizer: Randomizer, trials: int) -> Ints:
    """Return how many ones come of so many zeros, and of so many ones, one by one."""
    return np.array([sum(randomizer.report(bit).bit for _ in range(trials)) for bit in (0, 1)])


def channel(name: str, ones: Ints, trials: int, claimed: Fraction, level: float) -> Channel:
    """Return what one way of drawing our own reports has shown."""
    each = np.array([trials, trials])
    zero, one = (
        event(f"{reading} of {name}", hits, each, level)
        for reading, hits in zip(READINGS, (each - ones, ones), strict=False)
    )
    return Channel(name, zero, one, claimed, smallest_excess(float(claimed), trials, level))
