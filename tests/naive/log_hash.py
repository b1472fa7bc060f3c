"""The running hash of a log, written from its definition, with nothing but the standard library."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any


def record(event: Any) -> bytes:
    """The bytes of an event."""
    numbers = [
        getattr(event, name) for name in ("seq", "epsilon", "arm", "probability", "hour", "config", "flags", "bit")
    ]
    kind = 2 if event.kind != "report" else 0 if event.question is None else 1
    fixed: bytes = struct.pack("<qqiiiihhh", *(-1 if number is None else number for number in numbers), kind)
    if kind == 1:
        return b"".join([fixed, struct.pack("<H", len(event.question)), event.question])
    if kind == 2:
        detail = json.loads(event.detail or "{}")
        detail.pop("payload", None)
        if event.kind == "create":
            detail["arms"] = [{"name": arm["name"]} for arm in detail["arms"]]
        text = json.dumps(detail, ensure_ascii=False) if detail else ""
        return fixed + hashlib.sha256(event.kind.encode() + b"\0" + text.encode()).digest()
    return fixed


def running_hash(events: Sequence[Any]) -> str:
    """R of all events, by recursion on blocks."""
    if not events:
        return bytes(32).hex()
    last = len(events) - 1
    while last > 0 and not (events[last - 1].seq % 256 == 0 or events[last - 1].hour != events[last].hour):
        last -= 1
    before = bytes.fromhex(running_hash(events[:last]))
    return hashlib.sha256(before + b"".join(map(record, events[last:]))).hexdigest()
