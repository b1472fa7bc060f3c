"""Many events in a form that is read without an object for each value.

This module imports numpy, so the stores import it only when they read many events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from maskedbandits.service.event_columns import EventColumns, Ints
from maskedbandits.service.storage.base import Row

__all__ = ["PACKED", "USUAL", "EventColumns", "list_runs", "read_array", "unpack_events"]

# SQLite

# A usual report as one integer of 63 bits; -1 for any other event. It has the epsilon and about the hour of another.
PACKED = (
    "SELECT CASE WHEN epsilon = ? AND kind = 'report' AND question IS NULL AND hour BETWEEN ? AND ? + 4095 "
    "AND flags BETWEEN 0 AND 63 AND config BETWEEN 0 AND 65535 AND arm BETWEEN 0 AND 1023 "
    "AND probability BETWEEN 0 AND 131071 AND bit BETWEEN 0 AND 1 "
    "THEN ((((hour - ?) * 64 + flags) * 65536 + config) * 1024 + arm) * 262144 + probability * 2 + bit ELSE -1 END "
    "FROM event WHERE experiment = ? AND seq BETWEEN ? AND ? ORDER BY seq"
)
USUAL = (
    "SELECT epsilon, hour FROM event WHERE experiment = ? AND seq BETWEEN ? AND ? AND kind = 'report' "
    "AND question IS NULL ORDER BY seq LIMIT 1"
)
_PARTS = (("bit", 1), ("probability", 17), ("arm", 10), ("config", 16), ("flags", 6), ("hour", 12))  # and their bits


def unpack_events(rows: Sequence[Row], first: int, epsilon: int, hour: int) -> tuple[EventColumns, Ints]:
    """Return the columns of packed reports, and where other events are, whose columns have no meaning."""
    packed = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=len(rows))
    unusual, seq = np.flatnonzero(packed < 0), np.arange(first, first + packed.size)
    values: dict[str, Ints] = {}
    for name, bits in _PARTS:
        values[name] = packed & ((1 << bits) - 1)
        packed = packed >> bits
    values["hour"] = values["hour"] + hour
    epsilons = np.full(seq.size, epsilon)
    return EventColumns(seq=seq, epsilon=epsilons, **values, changes={}, questions={}), unusual


def list_runs(places: Ints) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of places that follow each other."""
    if places.size:
        ends = np.flatnonzero(np.diff(places) > 1)
        yield from zip(places[[0, *(ends + 1)]].tolist(), places[[*ends, -1]].tolist(), strict=True)


# PostgreSQL

_ARRAY_HEAD_BYTES = 20  # dimensions, flags, type, length and first index
_ELEMENT = np.dtype([("length", ">i4"), ("value", ">i8")])


def read_array(value: bytes) -> Ints:
    """Return a binary array of bigints without NULLs."""
    return np.frombuffer(value, dtype=_ELEMENT, offset=_ARRAY_HEAD_BYTES)["value"].astype(np.int64)
