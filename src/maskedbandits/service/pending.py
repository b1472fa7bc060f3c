"""Pending reports: counts of decisions by arm and by the hour of their expiry, without a row for each decision.

A decision is pending if it was issued, has not expired, and was not reported. Each process counts the decisions that it
issues, and tells the others through the store every second. Reports are in the log. Tokens with a long life are counted
in coarser steps, of a 64th of their life, so that there are few counters. No time finer than an hour is written.

With groups a decision counts under several *slots*, which are pairs of policy and arm, in steps of an 8th of its life.
Where this module says arm, it may be a slot.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from maskedbandits.service.missing import Settled

STEPS = 64  # into which the life of a token is divided
GROUP_STEPS = 8  # with groups
HOUR_S = 3600

Ints = NDArray[np.int64]


def round_expiry(expires: int, life: int, steps: int = STEPS) -> int:
    """Return the minute of an expiry, rounded up to whole hours; both arguments are in seconds.

    The store holds this minute. For tokens with a long life it is a multiple of as many hours as fit into a step. If an
    experiment changes the life of its tokens, earlier decisions may be counted in both steps until both have passed.
    """
    hours = max(1, life // HOUR_S // steps)
    return -(-expires // (hours * HOUR_S)) * hours * 60


def count_missing(issued: Sequence[int], reported: Sequence[int], pending: Sequence[int]) -> list[int]:
    """Return by arm how many decisions got no report in time.

    Decisions of the last second may not be counted yet, so a negative difference counts as 0.
    """
    return [max(0, sum(each)) for each in zip(issued, (-n for n in reported), (-n for n in pending), strict=True)]


def count_issued(issued: Sequence[int], reported: Sequence[int], pending: Sequence[int]) -> list[int]:
    """Return by arm how many decisions were issued: at least those that were reported or are pending.

    A decision that another process issued in the last second is not counted yet, but its report may be here.
    """
    return [max(total, received + open_) for total, received, open_ in zip(issued, reported, pending, strict=True)]


class PendingReports:
    """The counts of one experiment as one process knows them; it is thread-safe.

    Every decision needs the lock, so no loop over all counts runs while it is held. The open decisions of each arm are
    a running total. Counts are arrays by *index*, in the order in which arms were first seen.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._index: dict[int, int] = {}  # by arm
        self._arms = np.zeros(8, np.int64)  # by index
        self._open = np.zeros(8, np.int64)  # by index: issued anywhere, minus reported, and not expired
        self._past = -1  # the last minute that has passed
        self.issued: dict[int, Ints] = {}  # by this process: by minute, and then by index
        self.remote: dict[int, Ints] = {}  # by other processes
        self.reported: dict[int, Ints] = {}
        self.unflushed: dict[int, set[int]] = {}  # by minute: arms whose counts the store does not have yet
        self._flushed: dict[int, Ints] = {}  # counts of this process as the store has them
        self._changes = 0  # of what is open
        self._merged: tuple[int, Sequence[tuple[int, str, int, int]]] = (-1, ())  # the last rows of other processes

    def issue(self, arm: int, minute: int, count: int = 1) -> None:
        """Count a decision; a count of -1 cancels it."""
        with self._lock:
            index, counts, unflushed = self._index.get(arm), self.issued.get(minute), self.unflushed.get(minute)
            if index is None or counts is None or unflushed is None or minute <= self._past:
                self._issue(arm, minute, count)
            else:  # the usual case, which every decision passes
                counts[index] += count
                self._open[index] += count
                unflushed.add(arm)
                self._changes += 1

    def issue_all(self, slots: Iterable[int], minute: int, count: int = 1) -> None:
        """Count a decision under several slots."""
        with self._lock:
            for slot in slots:
                self._issue(slot, minute, count)

    def report(self, arm: int, minute: int, count: int = 1) -> None:
        """Count reports."""
        with self._lock:
            self._count(self.reported, arm, minute, count, -count)

    def merge_remote(self, rows: Sequence[tuple[int, str, int, int]], since: int = 0) -> None:
        """Replace the counts of other processes from a minute on; rows are arm, process, minute, count."""
        if self._merged == (since, rows):  # as every second, while others decide nothing
            return
        self._merged = since, rows
        with self._lock:
            for arm in {row[0] for row in rows} - self._index.keys():
                self._find_index(arm)
        arms = np.fromiter((self._index[row[0]] for row in rows), np.int64, len(rows))
        minutes, counts = (np.fromiter((row[column] for row in rows), np.int64, len(rows)) for column in (2, 3))
        received = {}
        for minute in np.unique(minutes).tolist():
            received[minute] = np.zeros(self._open.size, np.int64)
            np.add.at(received[minute], arms[minutes == minute], counts[minutes == minute])
        with self._lock:
            for minute in [each for each in self.remote if each >= since]:
                self._add(minute, -self.remote.pop(minute))
            for minute, each in received.items():
                self.remote[minute] = _extend(each, self._open.size)
                self._add(minute, self.remote[minute])

    def take_unflushed(self) -> list[tuple[int, int, int]]:
        """Return counts that the store does not have yet (arm, minute, count), and regard them as being flushed."""
        with self._lock:
            unflushed, self.unflushed = self.unflushed, {}
            rows = [
                (arm, minute, int(self.issued[minute][self._index[arm]]))
                for minute in unflushed
                for arm in unflushed[minute]
            ]
        return sorted(rows)

    def mark_flushed(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Note that the store has these counts."""
        with self._lock:
            for arm, minute, count in rows:
                index = self._find_index(arm)
                if minute not in self._flushed:
                    self._flushed[minute] = np.zeros(self._open.size, np.int64)
                self._flushed[minute][index] = count

    def restore_unflushed(self, rows: Iterable[tuple[int, int, int]]) -> None:
        """Note that flushing these counts has failed."""
        with self._lock:
            for arm, minute, _ in rows:
                self.unflushed.setdefault(minute, set()).add(arm)

    def count_unflushed(self) -> dict[int, int]:
        """Return by arm how many decisions of this process the store does not have yet."""
        with self._lock:
            more = np.zeros(self._open.size, np.int64)
            for minute in self.unflushed:
                more += self.issued[minute] - self._flushed.get(minute, 0)
            here = np.flatnonzero(more)
            return dict(zip(self._arms[here].tolist(), more[here].tolist(), strict=True))

    def count_changes(self, minute: int) -> int:
        """Return a number that grows whenever the pending reports change."""
        with self._lock:
            self._pass_minute(minute)
            return self._changes

    def count_open(self, arms: int, minute: int) -> Ints:
        """Return for each of the first arms how many reports are pending."""
        found = np.zeros(arms, np.int64)
        known, counts = self.count_by_slot(minute)
        here = known < arms
        found[known[here]] = np.maximum(counts[here], 0)
        return found

    def count_by_slot(self, minute: int) -> tuple[Ints, Ints]:
        """Return all arms, and for each the decisions that can still be reported minus those that were.

        Time does not go back: a minute that has passed for one caller has passed for all.
        """
        with self._lock:
            self._pass_minute(minute)
            known = len(self._index)
            return self._arms[:known].copy(), self._open[:known].copy()

    def forget(self, minute: int) -> list[Settled]:
        """Drop counts that expired before a minute, and return them; the store keeps their sums."""
        with self._lock:
            self._pass_minute(minute - 1)
            kinds = (self.issued, self.remote, self.reported, self._flushed)
            dropped = sorted({old for counts in kinds for old in counts if old < minute and old not in self.unflushed})
            zero, known = np.zeros(self._open.size, np.int64), len(self._index)
            settled = []
            for old in dropped:
                issued, remote, reported, _ = (counts.pop(old, zero) for counts in kinds)
                settled.append(Settled(self._arms[:known].copy(), (issued + remote)[:known], reported[:known]))
            return settled

    def forget_reports(self) -> None:
        """Drop all reports, which are then counted again from the log."""
        with self._lock:
            for minute, counts in self.reported.items():
                self._add(minute, counts)
            self.reported.clear()

    # All below needs the lock.

    def _find_index(self, arm: int) -> int:
        """Return the index of an arm; a new one gets the next index."""
        index = self._index.get(arm)
        if index is None:
            index = self._index[arm] = len(self._index)
            if index == self._open.size:
                self._open, self._arms = (_extend(each, 2 * index) for each in (self._open, self._arms))
                for counts in (self.issued, self.remote, self.reported, self._flushed):
                    for minute, each in counts.items():
                        counts[minute] = _extend(each, 2 * index)
            self._arms[index] = arm
        return index

    def _issue(self, arm: int, minute: int, count: int) -> None:
        self._count(self.issued, arm, minute, count, count)
        self.unflushed.setdefault(minute, set()).add(arm)

    def _count(self, counts: dict[int, Ints], arm: int, minute: int, count: int, more_open: int) -> None:
        index = self._find_index(arm)
        of_minute = counts.get(minute)
        if of_minute is None:
            of_minute = counts[minute] = np.zeros(self._open.size, np.int64)
        of_minute[index] += count
        if minute > self._past:
            self._open[index] += more_open
            self._changes += 1

    def _add(self, minute: int, counts: Ints) -> None:
        if minute > self._past:
            self._open += counts
            self._changes += 1

    def _pass_minute(self, minute: int) -> None:
        """Let time advance: decisions that expire by this minute are no longer open."""
        for counts, sign in ((self.issued, 1), (self.remote, 1), (self.reported, -1)):
            for passed in [each for each in counts if self._past < each <= minute]:
                self._open -= sign * counts[passed]
                self._changes += 1
        self._past = max(self._past, minute)


def _extend(counts: Ints, size: int) -> Ints:
    """Return counts padded with zeros."""
    return np.concatenate([counts, np.zeros(size - counts.size, np.int64)])
