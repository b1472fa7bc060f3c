"""Sources of reports: an address block, a key, or a second of the server's clock, and how much one of them can teach.

An experiment may limit how many of any 1,000 consecutive reports that it learns from have the same source
(``source_limit``). A report over a limit is stored and acknowledged like any other, but marked as *held back*: no
policy learns from it. The mark is all that is written. Sources are in memory alone, as digests under a random key of
this process. They are gone when it ends, and no other process knows them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from maskedbandits.service.schemas import SOURCE_WINDOW, SourceLimit

if TYPE_CHECKING:
    from maskedbandits.service.storage.models import NewReport

FLAG_HELD = 16  # among the flags of an event, beside those of ``tokens.py``: no policy learns from this report
DIGEST = 16  # bytes
KINDS = tuple(kind.encode() for kind in SourceLimit.__struct_fields__)

Source = tuple[bytes, ...]  # a digest for each kind


class Ring:
    """The sources of the last reports that an experiment learns from, and of those that are being written.

    Reports that are being written count, and push no others out, because it is not known yet whether they are new. So
    a limit holds whether they are or not.
    """

    def __init__(self) -> None:
        self._last: deque[Source] = deque()  # of reports that are stored
        self._counts: dict[bytes, int] = {}

    def enter(self, source: Source, limit: SourceLimit) -> bool:
        """Count a report that is about to be written, or return False if it is over a limit."""
        counts = self._counts
        for each, most in zip(source, (limit.address, limit.key, limit.second), strict=True):
            if most is not None and counts.get(each, 0) >= most:
                return False
        for each in source:
            counts[each] = counts.get(each, 0) + 1
        return True

    def settle(self, source: Source, *, is_new: bool) -> None:
        """Note whether a report that was counted is in the log now; a duplicate is not."""
        if not is_new:
            self._drop(source)
            return
        self._last.append(source)
        if len(self._last) == SOURCE_WINDOW:  # the next one makes 1,000 with those that are left
            self._drop(self._last.popleft())

    def _drop(self, source: Source) -> None:
        for each in source:
            self._counts[each] -= 1
            if not self._counts[each]:
                del self._counts[each]


class Entry(NamedTuple):
    """A report that is being written, and where it counts."""

    ring: Ring
    source: Source
    row: NewReport


class Sources:
    """The rings of all experiments in this process; called from the event loop alone."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._rings: dict[int, Ring] = {}

    def digest(self, address: str, key: str, second: int) -> Source:
        """Return the digests of a source."""
        values = (address.encode(), key.encode(), b"%d" % second)
        return tuple(
            blake2b(each, key=self._key, person=kind, digest_size=DIGEST).digest()
            for kind, each in zip(KINDS, values, strict=True)
        )

    def enter(self, row: NewReport, limit: SourceLimit, source: Source, entered: list[Entry]) -> NewReport:
        """Return a report as it is to be written: held back if it is over a limit, or else listed as entered."""
        ring = self._rings.setdefault(row.experiment, Ring())
        if not ring.enter(source, limit):
            return row._replace(flags=row.flags | FLAG_HELD)
        entered.append(Entry(ring, source, row))
        return row


def settle(entered: Sequence[Entry], rows: Sequence[NewReport], is_new: Callable[[int], bool]) -> None:
    """Note of each report that was entered whether it is in the log now; ``is_new`` tells that by its place in rows."""
    places = iter(enumerate(rows))
    for entry in entered:
        place = next(place for place, row in places if row is entry.row)
        entry.ring.settle(entry.source, is_new=is_new(place))
