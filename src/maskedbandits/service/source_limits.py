"""Source limits: how many of 1,000 consecutive reports may come from one address block, key or second.

A report over a limit of its experiment (``source_limit``) is stored and acknowledged like any other, but marked as
*held back*: no policy learns from it. Only the mark is written. Sources stay in memory, as digests under a random key
of this process. They vanish with the process, and are not shared with others.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits.service.schemas import SOURCE_WINDOW, SourceLimit
from maskedbandits.service.tokens import FLAG_HELD_BACK

if TYPE_CHECKING:
    from maskedbandits.service.storage.models import NewReport

DIGEST_BYTES = 16
KINDS = tuple(kind.encode() for kind in SourceLimit.__struct_fields__)

Source = tuple[bytes, ...]  # a digest for each kind


class SourceWindow:
    """Counts the sources of the last reports of an experiment, and of those that are being written.

    Reports that are being written count, but push no others out, because they may prove to be duplicates. So a limit
    holds in either case.
    """

    def __init__(self) -> None:
        self._stored: deque[Source] = deque()
        self._counts: dict[bytes, int] = {}

    def enter(self, source: Source, limit: SourceLimit) -> bool:
        """Count a report that is about to be written; return False if it is over a limit."""
        counts = self._counts
        for digest, most in zip(source, (limit.address, limit.key, limit.second), strict=True):
            if most is not None and counts.get(digest, 0) >= most:
                return False
        for digest in source:
            counts[digest] = counts.get(digest, 0) + 1
        return True

    def settle(self, source: Source, *, is_new: bool) -> None:
        """Note whether a counted report is in the log now; a duplicate is not."""
        if not is_new:
            self._drop(source)
            return
        self._stored.append(source)
        if len(self._stored) == SOURCE_WINDOW:  # the next report makes 1,000 with those that are left
            self._drop(self._stored.popleft())

    def _drop(self, source: Source) -> None:
        for digest in source:
            self._counts[digest] -= 1
            if not self._counts[digest]:
                del self._counts[digest]


class PendingSource(NamedTuple):
    """A report that is being written, and the window that counts it."""

    window: SourceWindow
    source: Source
    row: NewReport


class SourceHasher:
    """Hashes sources under a random key of this process."""

    def __init__(self) -> None:
        self._key = os.urandom(32)

    def hash_source(self, address: str, key: str, second: int) -> Source:
        """Return the digests of a source."""
        values = (address.encode(), key.encode(), b"%d" % second)
        return tuple(
            blake2b(value, key=self._key, person=kind, digest_size=DIGEST_BYTES).digest()
            for kind, value in zip(KINDS, values, strict=True)
        )


def enter_report(
    window: SourceWindow, row: NewReport, limit: SourceLimit, source: Source, entered: list[PendingSource]
) -> NewReport:
    """Return the row to write: marked as held back if it is over a limit, or else appended to ``entered``."""
    if not window.enter(source, limit):
        return row._replace(flags=row.flags | FLAG_HELD_BACK)
    entered.append(PendingSource(window, source, row))
    return row


def settle_all(entered: Sequence[PendingSource], rows: Sequence[NewReport], is_new: Callable[[int], bool]) -> None:
    """Settle entered reports; ``is_new`` tells by the index in ``rows`` whether a report is in the log now."""
    indexed = iter(enumerate(rows))
    for entry in entered:
        index = next(index for index, row in indexed if row is entry.row)
        entry.window.settle(entry.source, is_new=is_new(index))
