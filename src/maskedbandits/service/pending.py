"""Decisions that still await their report, counted by arm and by the hour in which they expire; there is no row each.

What awaits a report: issued and not yet expired, less reported. Each process counts what it issues and tells the others
through the store every second; what was reported stands in the log. A token that lives for long is counted in coarser
steps, of a 64th of its life, so that there are never many counters. No finer time than an hour is written.

Where there are groups a decision is one for each of them. It is counted under as many *slots*, which tell policy and
arm, in steps of an 8th of its life.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

STEPS = 64  # into which the life of a token is divided
STEPS_OF_GROUPS = 8  # where there are groups
HOUR = 3600  # seconds

Ints = NDArray[np.int64]


def expiry_minute(expires: int, life: int, steps: int = STEPS) -> int:
    """Return the minute by which a token has expired, rounded up to whole hours; both times are in seconds.

    It is what the store holds. Of tokens that live for long it is a multiple of so many hours as fit into a 64th of
    their life, so that there are few counters. If the life that an experiment gives its tokens changes, decisions
    before the change may be counted in two such steps until both have passed.
    """
    hours = max(1, life // HOUR // steps)
    return -(-expires // (hours * HOUR)) * hours * 60


def missing(issued: Sequence[int], reported: Sequence[int], pending: Sequence[int]) -> list[int]:
    """Return for every arm how many decisions nobody has reported in time: issued, not reported, and not awaited.

    What was issued in the last second may not be counted yet: so there are never less than none.
    """
    return [max(0, sum(each)) for each in zip(issued, (-n for n in reported), (-n for n in pending), strict=True)]


def at_least(issued: Sequence[int], reported: Sequence[int], pending: Sequence[int]) -> list[int]:
    """Return for every arm how many decisions were issued, as far as they are counted: none is reported that was not.

    What another process has issued in the last second is not counted yet, and its report may have come.
    """
    return [max(each, told + open_) for each, told, open_ in zip(issued, reported, pending, strict=True)]


class Pending:
    """Counts of one experiment, as one process knows them; threads may share them.

    All decisions need the lock: so nothing walks through all counts while it is held. What is open of each arm is a
    running total, and counts are arrays by *place*: the first arm that is heard of has place 0, the next place 1.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[int, int] = {}  # by arm, or slot
        self._arms = np.zeros(8, np.int64)  # by place
        self._open = np.zeros(8, np.int64)  # likewise: issued anywhere, less reported, of minutes that have not passed
        self._past = -1  # the last minute that has passed
        self.issued: dict[int, Ints] = {}  # by this process: by minute, and then by place
        self.elsewhere: dict[int, Ints] = {}  # by other processes
        self.reported: dict[int, Ints] = {}
        self.untold: dict[int, set[int]] = {}  # by minute, arms whose counts the store does not know yet
        self._told: dict[int, Ints] = {}  # of what this process has issued, as the store knows it

    def issue(self, arm: int, minute: int, count: int = 1) -> None:
        """Count a decision, or -1 if it is taken back."""
        with self._lock:
            place, counts, untold = self._places.get(arm), self.issued.get(minute), self.untold.get(minute)
            if place is None or counts is None or untold is None or minute <= self._past:
                self._issue(arm, minute, count)
            else:  # nearly always, and all decisions pass here
                counts[place] += count
                self._open[place] += count
                untold.add(arm)

    def issue_all(self, slots: Iterable[int], minute: int, count: int = 1) -> None:
        """Count a decision under several slots."""
        with self._lock:
            for slot in slots:
                self._issue(slot, minute, count)

    def report(self, arm: int, minute: int, count: int = 1) -> None:
        """Count reports."""
        with self._lock:
            self._count(self.reported, arm, minute, count, -count)

    def hear(self, rows: Sequence[tuple[int, str, int, int]], since: int = 0) -> None:
        """Hear what the store knows of other processes from a minute on: arm, process, minute, count."""
        with self._lock:
            for arm in {row[0] for row in rows} - self._places.keys():
                self._place(arm)
        arms = np.fromiter((self._places[row[0]] for row in rows), np.int64, len(rows))
        minutes, counts = (np.fromiter((row[which] for row in rows), np.int64, len(rows)) for which in (2, 3))
        heard = {}
        for minute in np.unique(minutes).tolist():
            heard[minute] = np.zeros(self._open.size, np.int64)
            np.add.at(heard[minute], arms[minutes == minute], counts[minutes == minute])
        with self._lock:
            for minute in [each for each in self.elsewhere if each >= since]:
                self._add(minute, -self.elsewhere.pop(minute))
            for minute, each in heard.items():
                self.elsewhere[minute] = _wide(each, self._open.size)
                self._add(minute, self.elsewhere[minute])

    def to_tell(self) -> list[tuple[int, int, int]]:
        """Return counts that the store does not know yet, arm, minute, count; from now on it does."""
        with self._lock:
            untold, self.untold = self.untold, {}
            rows = [
                (arm, minute, int(self.issued[minute][self._places[arm]]))
                for minute in untold
                for arm in untold[minute]
            ]
        return sorted(rows)

    def told(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Hear that the store knows these counts."""
        with self._lock:
            for arm, minute, count in rows:
                place = self._place(arm)
                if minute not in self._told:
                    self._told[minute] = np.zeros(self._open.size, np.int64)
                self._told[minute][place] = count

    def unsaid(self) -> dict[int, int]:
        """Return, by arm or slot, how many decisions of this process the store does not know yet."""
        with self._lock:
            more = np.zeros(self._open.size, np.int64)
            for minute in self.untold:
                more += self.issued[minute] - self._told.get(minute, 0)
            here = np.flatnonzero(more)
            return dict(zip(self._arms[here].tolist(), more[here].tolist(), strict=True))

    def not_told(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Take back that the store knows them."""
        with self._lock:
            for arm, minute, _ in rows:
                self.untold.setdefault(minute, set()).add(arm)

    def open(self, arms: int, minute: int) -> Ints:
        """Return for every arm how many decisions still await their report."""
        found = np.zeros(arms, np.int64)
        known, counts = self.awaited(minute)
        here = known < arms
        found[known[here]] = np.maximum(counts[here], 0)
        return found

    def awaited(self, minute: int) -> tuple[Ints, Ints]:
        """Return arms, or slots, and of each how many decisions can still be reported, less those that were.

        Time does not go back: a minute that has passed has passed, whoever asks.
        """
        with self._lock:
            self._pass(minute)
            known = len(self._places)
            return self._arms[:known].copy(), self._open[:known].copy()

    def forget(self, minute: int) -> None:
        """Forget what expired before a minute; the store sums it up."""
        with self._lock:
            self._pass(minute - 1)
            for counts in (self.issued, self.elsewhere, self.reported, self._told):
                for old in [each for each in counts if each < minute and each not in self.untold]:
                    del counts[old]

    def forget_reports(self) -> None:
        """Forget all reports: they are counted anew."""
        with self._lock:
            for minute, counts in self.reported.items():
                self._add(minute, counts)
            self.reported.clear()

    # With the lock

    def _place(self, arm: int) -> int:
        """Return the place of an arm; there is more room whenever it is full."""
        place = self._places.get(arm)
        if place is None:
            place = self._places[arm] = len(self._places)
            if place == self._open.size:
                self._open, self._arms = (_wide(each, 2 * place) for each in (self._open, self._arms))
                for counts in (self.issued, self.elsewhere, self.reported, self._told):
                    for minute, each in counts.items():
                        counts[minute] = _wide(each, 2 * place)
            self._arms[place] = arm
        return place

    def _issue(self, arm: int, minute: int, count: int) -> None:
        self._count(self.issued, arm, minute, count, count)
        self.untold.setdefault(minute, set()).add(arm)

    def _count(self, counts: dict[int, Ints], arm: int, minute: int, count: int, more_open: int) -> None:
        place = self._place(arm)
        of_minute = counts.get(minute)
        if of_minute is None:
            of_minute = counts[minute] = np.zeros(self._open.size, np.int64)
        of_minute[place] += count
        if minute > self._past:
            self._open[place] += more_open

    def _add(self, minute: int, counts: Ints) -> None:
        if minute > self._past:
            self._open += counts

    def _pass(self, minute: int) -> None:
        """Let time go on: what expires by this minute is not open any more."""
        for counts, sign in ((self.issued, 1), (self.elsewhere, 1), (self.reported, -1)):
            for passed in [each for each in counts if self._past < each <= minute]:
                self._open -= sign * counts[passed]
        self._past = max(self._past, minute)


def _wide(counts: Ints, size: int) -> Ints:
    """Return counts with room for so many."""
    return np.concatenate([counts, np.zeros(size - counts.size, np.int64)])
