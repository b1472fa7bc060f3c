"""Sources of reports that are counted in the obvious way; nothing of the package is imported."""

from __future__ import annotations

from collections.abc import Sequence

Source = tuple[str, ...]  # a name of each kind


class NaiveRing:
    """All reports ever stored, and those that are being written."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.stored: list[Source] = []
        self.writing: list[Source] = []

    def enter(self, source: Source, limits: Sequence[int | None]) -> bool:
        before = self.stored[len(self.stored) - min(len(self.stored), self.window - 1) :] + self.writing
        for kind, limit in enumerate(limits):
            same = sum(other[kind] == source[kind] for other in before)
            if limit is not None and same + 1 > limit:
                return False
        self.writing.append(source)
        return True

    def settle(self, source: Source, is_new: bool) -> None:
        self.writing.remove(source)
        if is_new:
            self.stored.append(source)


def most_of_one(stored: Sequence[Source], kind: int, window: int) -> int:
    """How many of some consecutive reports have the same source, at the most."""
    most = 0
    for start in range(len(stored)):
        names = [source[kind] for source in stored[start : start + window]]
        most = max(most, *(names.count(name) for name in set(names)))
    return most
