"""Questions as tokens carry them and as the log keeps them: the grain, and an arm and perhaps a sign for each part.

    head 1: 1 if there are signs, 2 if an arm has two bytes, 4 times the grain
    arms: one byte each, or two (the most significant first), a part after the other
    signs: a bit each, the most significant of a byte first
    zeros, up to a multiple of three bytes, so that a token fills its letters

How many parts there are follows from the grain and the experiment, whose groups never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError

SIGNED, WIDE, GRAIN = 1, 2, 4
NARROW = 1 << 8  # arms that one byte can tell apart

Ints = NDArray[np.int64]


class Questions(NamedTuple):
    """Questions taken apart; what is by part goes on with zeros."""

    grains: Ints  # (n,)
    tables: Ints  # (n, G)
    signs: Ints  # (n, G)


class _Form(NamedTuple):
    """What the head of a question says of the rest."""

    grain: int
    parts: int
    width: int  # bytes of an arm
    is_signed: bool

    @property
    def length(self) -> int:
        filled = 1 + self.parts * self.width + (-(-self.parts // 8) if self.is_signed else 0)
        return -(-filled // 3) * 3


def packed(grain: int, table: Ints, signs: Ints | None) -> bytes:
    """Return a question as bytes."""
    is_wide = bool(table.max() >= NARROW)
    head = GRAIN * grain + WIDE * is_wide + SIGNED * (signs is not None)
    arms = table.astype(">u2" if is_wide else "u1").tobytes()
    told = bytes([head]) + arms + (b"" if signs is None else np.packbits(signs.astype(np.uint8)).tobytes())
    return told + bytes(-len(told) % 3)


def unpacked(texts: Sequence[bytes], sizes: Sequence[int]) -> Questions:
    """Return questions taken apart; ``sizes`` are how many parts each grain of the experiment has."""
    alike: dict[int, list[int]] = {}
    for place, text in enumerate(texts):
        alike.setdefault(text[0] if text else -1, []).append(place)
    most = max(sizes)
    found = Questions(*(np.zeros((len(texts), n), dtype=np.int64) for n in (1, most, most)))
    for head, places in alike.items():
        form = _form(head, sizes)
        if form is None or any(len(texts[place]) != form.length for place in places):
            raise UserError("a question does not fit the groups of its experiment: restore a backup of the log")
        raw = np.frombuffer(b"".join(texts[place] for place in places), dtype=np.uint8).reshape(len(places), -1)
        end = 1 + form.parts * form.width
        arms = np.ascontiguousarray(raw[:, 1:end])
        found.grains[places] = form.grain
        found.tables[places, : form.parts] = arms.view(">u2") if form.width == 2 else arms
        if form.is_signed:
            found.signs[places, : form.parts] = np.unpackbits(raw[:, end:], axis=1)[:, : form.parts]
    return found._replace(grains=found.grains[:, 0].copy())


def fits(text: bytes, sizes: Sequence[int]) -> bool:
    """Tell whether a question can be one of an experiment with such grains."""
    form = _form(text[0] if text else -1, sizes)
    return form is not None and len(text) == form.length


def has_signs(text: bytes) -> bool:
    """Tell whether the answer to a question is a bit."""
    return bool(text[0] & SIGNED)


def _form(head: int, sizes: Sequence[int]) -> _Form | None:
    grain = head // GRAIN
    if not 0 <= grain < len(sizes):
        return None
    return _Form(grain, sizes[grain], 2 if head & WIDE else 1, bool(head & SIGNED))
