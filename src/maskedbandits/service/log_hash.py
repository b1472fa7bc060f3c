"""The running hash of a log: a digest of all events up to one, from which an earlier export can be checked.

Each event has a record of bytes. Blocks of events end at each multiple of 256, and where the hour of the next event
differs. R(n), the hash after event n, is the SHA-256 of R(m) and the records of the events m + 1 to n, where m is the
end of the last block before event n. R(0) is 32 zeros. So the hash does not depend on how events were grouped when
they were read, and takes one call for many events. A log that is cut between two hours is cut between two blocks, and
nothing has to be kept of the events before but R.

A record has 38 bytes, integers with the least significant byte first, and -1 for a value that is missing:

    seq and epsilon (8 bytes each), arm, probability, hour and config (4 each), flags and bit (2 each)
    what follows (2 bytes): 0 nothing, 1 a question, 2 a change

    a question: its length (2 bytes) and its bytes (``group_queries.py``)
    a change: the SHA-256 of its kind, a zero, and its detail as `maskedbandits export` writes it, without payloads
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from maskedbandits.errors import UserError
from maskedbandits.service.event_columns import NULL, ChangeDetail, EventColumns, Ints

BLOCK = 256  # events
START = bytes(32)
PLAIN, QUESTION, CHANGE = 0, 1, 2  # what follows a record
RECORD = np.dtype(
    [
        *(("seq", "<i8"), ("epsilon", "<i8")),
        *((name, "<i4") for name in ("arm", "probability", "hour", "config")),
        *(("flags", "<i2"), ("bit", "<i2"), ("next", "<i2")),
    ]
)


class LogHash:
    """The hash after event ``seq``; events up to ``start`` are not part of it, because they were not available."""

    def __init__(
        self, start: int = 0, seq: int | None = None, chain: bytes = START, tail: bytes = b"", hour: int = NULL
    ) -> None:
        self.start, self.seq = start, start if seq is None else seq
        self.chain, self.tail = chain, bytearray(tail)  # the hash of whole blocks, and the records after them
        self.hour = hour  # of the last event

    def copy(self) -> LogHash:
        """Return a copy."""
        return LogHash(self.start, self.seq, self.chain, bytes(self.tail), self.hour)

    @property
    def value(self) -> str:
        """The hash, in hexadecimal digits."""
        return (hashlib.sha256(self.chain + self.tail).digest() if self.tail else self.chain).hex()

    def end_block(self) -> None:
        """End the block, so that no record of an event is left."""
        if self.tail:
            self.chain = hashlib.sha256(self.chain + self.tail).digest()
            self.tail.clear()

    def add(self, events: EventColumns) -> None:
        """Add the next events, which follow each other without a gap."""
        if not events.size:
            return
        raw, ends = pack_records(events)
        if self.hour != events.hour[0]:
            self.end_block()
        is_end = events.seq % BLOCK == 0
        is_end[:-1] |= events.hour[1:] != events.hour[:-1]
        done = 0
        for index in np.flatnonzero(is_end):
            end = int(ends[index])
            self.tail += raw[done:end]
            self.end_block()
            done = end
        self.tail += raw[done:]
        self.seq, self.hour = self.seq + events.size, int(events.hour[-1])


def pack_records(events: EventColumns) -> tuple[bytes, Ints]:
    """Return the records of events, and where each ends."""
    records = np.empty(events.size, dtype=RECORD)
    for name in RECORD.names or ():
        if name != "next":
            values = getattr(events, name)
            records[name] = values
            if RECORD[name].itemsize < 8 and not np.array_equal(records[name], values):
                raise UserError(f"the log is damaged: {name} of an event is too large; restore a backup")
    records["next"] = PLAIN
    if not events.changes and not events.questions:
        return records.tobytes(), np.arange(1, events.size + 1) * RECORD.itemsize
    more: dict[int, bytes] = {}
    for place, question in events.questions.items():
        records["next"][place] = QUESTION
        more[place] = len(question).to_bytes(2, "little") + question
    for place, change in events.changes.items():
        records["next"][place] = CHANGE
        more[place] = hash_change(change)
    raw, pieces, done = records.tobytes(), [], 0
    lengths = np.full(events.size, RECORD.itemsize)
    for place in sorted(more):
        end = (place + 1) * RECORD.itemsize
        pieces += [raw[done:end], more[place]]
        lengths[place] += len(more[place])
        done = end
    return b"".join([*pieces, raw[done:]]), np.cumsum(lengths)


def hash_change(change: ChangeDetail) -> bytes:
    """Return the digest of a change."""
    detail = format_detail(change.kind, read_detail(change.detail)) or ""
    return hashlib.sha256(f"{change.kind}\0{detail}".encode(errors="surrogatepass")).digest()


def read_detail(text: str | None) -> dict[str, Any]:
    """Return the detail of a change."""
    detail = json.loads(text or "{}")
    if not isinstance(detail, dict):
        raise UserError("the log is damaged: the detail of an event is not a JSON object; restore a backup")
    return detail


def drop_payloads(kind: str, detail: dict[str, Any]) -> dict[str, Any]:
    """Return a detail without payloads, as exports have it."""
    kept = {name: value for name, value in detail.items() if name != "payload"}
    if kind == "create" and isinstance(kept.get("arms"), list):
        kept["arms"] = [{"name": arm["name"]} if isinstance(arm, dict) else arm for arm in kept["arms"]]
    return kept


def format_detail(kind: str, detail: dict[str, Any]) -> str | None:
    """Return a detail as exports have it; None if nothing is left."""
    kept = drop_payloads(kind, detail)
    return json.dumps(kept, ensure_ascii=False) if kept else None
