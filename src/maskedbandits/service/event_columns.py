"""Events as columns: one array of integers for each column of the log, so that reading needs no object for each event.

NULL is -1. Details and questions are rare or long, and stay beside the arrays, by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.service.storage.models import EventRow

Ints = NDArray[np.int64]

NULL = -1
NUMBERS = ("seq", "arm", "bit", "epsilon", "probability", "flags", "hour", "config")  # columns that are integers
REPORT = "report"
REMOVED_MEANWHILE = "old events were removed while they were read: try again"


class ChangeDetail(NamedTuple):
    """The kind of an event other than a report, and its detail."""

    kind: str
    detail: str | None


class EventColumns(NamedTuple):
    """Events in order."""

    seq: Ints
    arm: Ints
    bit: Ints
    epsilon: Ints
    probability: Ints
    flags: Ints
    hour: Ints
    config: Ints
    changes: Mapping[int, ChangeDetail]  # events other than reports, by position
    questions: Mapping[int, bytes]  # of events that have one, by position

    @property
    def size(self) -> int:
        """The number of events."""
        return self.seq.size

    @classmethod
    def from_rows(cls, events: Sequence[EventRow]) -> EventColumns:
        """Return events as columns."""
        numbers = {name: _to_array([getattr(event, name) for event in events]) for name in NUMBERS}
        changes = {
            place: ChangeDetail(event.kind, event.detail) for place, event in enumerate(events) if event.kind != REPORT
        }
        questions = {place: event.question for place, event in enumerate(events) if event.question is not None}
        return cls(**numbers, changes=changes, questions=questions)

    def slice(self, start: int, end: int) -> EventColumns:
        """Return the events from a position up to another."""
        if (start, end) == (0, self.size):
            return self
        numbers = {name: getattr(self, name)[start:end] for name in NUMBERS}
        changes = {place - start: each for place, each in self.changes.items() if start <= place < end}
        questions = {place - start: each for place, each in self.questions.items() if start <= place < end}
        return EventColumns(**numbers, changes=changes, questions=questions)

    def replace(self, places: Ints, events: Sequence[EventRow]) -> EventColumns:
        """Return these columns with other events at some places; raise an error if some events are missing."""
        if len(events) != places.size:
            raise UserError(REMOVED_MEANWHILE)
        if not events:
            return self
        others = EventColumns.from_rows(events)
        numbers = {name: getattr(self, name).copy() for name in NUMBERS}
        for name, column in numbers.items():
            column[places] = getattr(others, name)
        changes = {int(places[place]): each for place, each in others.changes.items()}
        questions = {int(places[place]): each for place, each in others.questions.items()}
        return EventColumns(**numbers, changes=changes, questions=questions)


def find_gap(events: EventColumns, after: int) -> str | None:
    """Return how events do not follow each other and an earlier one; None if they do."""
    expected = np.arange(after + 1, after + 1 + events.size)
    wrong = np.flatnonzero(events.seq != expected)
    if not wrong.size:
        return None
    place = wrong[0]
    return f"the log has a gap: {expected[place] - 1} is followed by {events.seq[place]}; restore a backup"


def _to_array(values: Sequence[int | None]) -> Ints:
    return np.array([NULL if value is None else value for value in values], dtype=np.int64)
