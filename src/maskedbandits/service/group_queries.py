"""The packed form of questions in tokens and in the log: the level, and an arm and perhaps a sign for each part.

    head, one byte: 1 if there are signs, plus 2 if an arm has two bytes, plus 4 times the level
    arms: one byte each, or two (most significant first), part after part
    signs: one bit each, the most significant bit of a byte first
    zeros, up to a multiple of three bytes, so that a token fills its base64 characters

The number of parts follows from the level and the experiment, whose groups never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError

HAS_SIGNS, IS_WIDE, LEVEL_UNIT = 1, 2, 4  # in the head
MAX_NARROW_ARMS = 1 << 8  # arms that one byte can tell apart

Ints = NDArray[np.int64]


class UnpackedQuestions(NamedTuple):
    """Questions as arrays; rows are padded with zeros."""

    levels: Ints  # (n,)
    tables: Ints  # (n, G)
    signs: Ints  # (n, G)


class _Layout(NamedTuple):
    """The layout of a question, as its head gives it."""

    level: int
    parts: int
    arm_bytes: int
    has_signs: bool

    @property
    def length(self) -> int:
        filled = 1 + self.parts * self.arm_bytes + (-(-self.parts // 8) if self.has_signs else 0)
        return -(-filled // 3) * 3


def pack_question(level: int, table: Ints, signs: Ints | None) -> bytes:
    """Pack a question into bytes."""
    is_wide = bool(table.max() >= MAX_NARROW_ARMS)
    head = LEVEL_UNIT * level + IS_WIDE * is_wide + HAS_SIGNS * (signs is not None)
    arms = table.astype(">u2" if is_wide else "u1").tobytes()
    packed = bytes([head]) + arms + (b"" if signs is None else np.packbits(signs.astype(np.uint8)).tobytes())
    return packed + bytes(-len(packed) % 3)


def unpack_questions(texts: Sequence[bytes], sizes: Sequence[int]) -> UnpackedQuestions:
    """Unpack questions; ``sizes`` are the numbers of parts of the experiment's levels."""
    by_head: dict[int, list[int]] = {}
    for index, text in enumerate(texts):
        by_head.setdefault(text[0] if text else -1, []).append(index)
    most = max(sizes)
    found = UnpackedQuestions(*(np.zeros((len(texts), n), dtype=np.int64) for n in (1, most, most)))
    for head, rows in by_head.items():
        layout = _read_head(head, sizes)
        if layout is None or any(len(texts[row]) != layout.length for row in rows):
            raise UserError("a question does not match the groups of its experiment: restore a backup")
        raw = np.frombuffer(b"".join(texts[row] for row in rows), dtype=np.uint8).reshape(len(rows), -1)
        end = 1 + layout.parts * layout.arm_bytes
        arms = np.ascontiguousarray(raw[:, 1:end])
        found.levels[rows] = layout.level
        found.tables[rows, : layout.parts] = arms.view(">u2") if layout.arm_bytes == 2 else arms
        if layout.has_signs:
            found.signs[rows, : layout.parts] = np.unpackbits(raw[:, end:], axis=1)[:, : layout.parts]
    return found._replace(levels=found.levels[:, 0].copy())


def is_question(text: bytes, sizes: Sequence[int]) -> bool:
    """Tell whether bytes can be a question of an experiment with these levels."""
    layout = _read_head(text[0] if text else -1, sizes)
    return layout is not None and len(text) == layout.length


def has_signs(text: bytes) -> bool:
    """Tell whether the answer to a question is a bit."""
    return bool(text[0] & HAS_SIGNS)


def _read_head(head: int, sizes: Sequence[int]) -> _Layout | None:
    level = head // LEVEL_UNIT
    if not 0 <= level < len(sizes):
        return None
    return _Layout(level, sizes[level], 2 if head & IS_WIDE else 1, bool(head & HAS_SIGNS))
