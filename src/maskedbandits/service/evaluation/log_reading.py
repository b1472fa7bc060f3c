"""Reading a log, from its first event on: by which reports to judge, and from when on to rely on arms and settings.

Reports come after their decisions. Those that arrive when an arm, or a floor, has just been added may be of decisions
that could not know it: so an arm counts as open, and a floor as given, from the first hour on by which those reports
are due. What was taken away counts as gone at once. Where eligible arms were given (FLAG_SUBSET), what could have been
shown is not in the log: these reports are left out. So are those that are held back (FLAG_HELD).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maskedbandits.errors import UserError
from maskedbandits.service.arm_selection import DRAWS, PARTS, WHOLE, in_parts
from maskedbandits.service.config import DAMAGE
from maskedbandits.service.evaluation.log import NOBODY, Arm, Ints, Log, Stretch, debiased
from maskedbandits.service.schemas import millionths
from maskedbandits.service.sources import FLAG_HELD
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import EventRow, ExperimentRow
from maskedbandits.service.tokens import FLAG_SUBSET

HOUR = 3600  # seconds
SLACK = 1200  # seconds that devices, networks and processes may be late by
AT_ONCE = 5_000  # events
BLOCK = 10_000  # reports
DAMAGED = "the log is damaged: restore a backup, or export it again"


def events_of(
    store: Store, row: ExperimentRow, progress: Callable[[float], None] = lambda share: None
) -> Iterator[EventRow]:
    """Yield the events that an experiment has, every one, and none that come meanwhile."""
    seq = 0
    while seq < row.seq:
        events = store.events(row.id, seq, min(AT_ONCE, row.seq - seq))
        if not events:
            raise damaged(row.name, f"after event {seq} comes none, and it has {row.seq}")
        for event in events:
            check_next(row.name, seq, event)
            yield event
            seq = event.seq
        progress(seq / row.seq)


def check_next(name: str, seq: int, event: EventRow) -> None:
    """Refuse an event that does not come next in its log."""
    if event.seq != seq + 1:
        raise damaged(name, f"after event {seq} comes {event.seq}")


def damaged(name: str, what: str) -> UserError:
    """Return the complaint about a log that cannot be as it was written."""
    return UserError(f"{name}: {what}; {DAMAGED}")


def log_of(name: str, events: Iterable[EventRow]) -> Log:
    """Return a log, read from its first event on."""
    reading = _Reading(name)
    for event in events:
        reading.take(event)
    return reading.log()


class _Report(NamedTuple):
    """What is judged by; the names are those of the columns of a log."""

    seq: int
    hour: int
    arm: int
    bit: int
    epsilons: int
    probability: int
    flags: int


class _Wait(NamedTuple):
    """Until the end of which hour to wait, before an arm, or the settings, can be relied on."""

    hour: int
    arm: int = NOBODY


@dataclass
class _Reading:
    """What was read so far."""

    name: str
    size: int = 0  # reports to judge by
    blocks: list[Ints] = field(default_factory=list)
    latest: list[_Report] = field(default_factory=list)  # in no block yet
    left_out: int = 0
    held_back: int = 0
    seq: int = 0
    hour: int = 0
    names: list[str] = field(default_factory=list)
    starts: list[int | None] = field(default_factory=list)  # None: not yet
    ends: list[int | None] = field(default_factory=list)
    stretches: list[Stretch] = field(default_factory=list)
    waits: list[_Wait] = field(default_factory=list)
    every: bool = False  # whether the settings, as they are now, give every arm a floor,
    one: int = NOBODY  # or one arm a holdout
    hours: int = 0  # until reports of a decision are due
    looked: int = -1  # the hour in which waits were last looked at
    least: int = WHOLE
    epsilon: int = 0

    def take(self, event: EventRow) -> None:
        """Take in the next event."""
        if event.kind == "create" and '"groups"' in (event.detail or ""):
            self._refuse_groups(event.detail or "")
        check_next(self.name, self.seq, event)
        self.seq, self.hour = event.seq, event.hour
        if bool(self.names) == (event.kind == "create"):
            raise self._damaged("its first event, and no other, must say how it was created")
        if event.kind == "report":
            self._take_report(event)
        elif event.kind in _CHANGES:
            try:
                _CHANGES[event.kind](self, event, json.loads(event.detail or ""))
            except DAMAGE:
                raise self._damaged(f"event {event.seq} does not say what it changes") from None
        elif event.kind != "status":
            raise self._damaged(f"event {event.seq} is of kind {event.kind!r}, which is unknown")

    def _refuse_groups(self, detail: str) -> None:
        try:
            has_groups = bool(json.loads(detail)["config"].get("groups"))
        except DAMAGE:
            return  # it is refused for that in a moment
        if has_groups:
            raise UserError(
                f"{self.name}: it has groups, and nobody knows which arm a report is about: look at its state for what "
                "each group likes"
            )

    def _damaged(self, what: str) -> UserError:
        return damaged(self.name, what)

    def _take_report(self, event: EventRow) -> None:
        told: tuple[Any, ...] = event.arm, event.bit, event.epsilon, event.probability, event.flags
        if None in told or not (0 <= told[0] < len(self.names) and told[1] in (0, 1) and told[2] > 0):
            raise self._damaged(f"event {event.seq} is no report that could have been")
        report = _Report(event.seq, event.hour, *told)
        if report.flags & FLAG_HELD:
            self.held_back += 1
            return
        if report.flags & FLAG_SUBSET:
            self.left_out += 1
            return
        if not self.least <= report.probability <= WHOLE:
            limits = f"its settings allow none below {self.least / WHOLE:g}"
            raise self._damaged(f"event {event.seq} has a probability of {report.probability / WHOLE:g}, and {limits}")
        if self.waits and self.looked != self.hour:  # later decisions are due in a later hour
            self._end_waits()
        self.size += 1
        self.latest.append(report)
        if len(self.latest) == BLOCK:
            self._end_block()

    def _end_block(self) -> None:
        """Lay reports into an array, which takes up a fifth of the memory."""
        self.blocks.append(np.array(self.latest, dtype=np.int64).reshape(-1, len(_Report._fields)))
        self.latest = []

    def _end_waits(self) -> None:
        """Open arms, and rely on settings, once reports of earlier decisions have come."""
        self.looked = self.hour
        over = [wait for wait in self.waits if wait.hour < self.hour]
        self.waits = [wait for wait in self.waits if wait.hour >= self.hour]
        for wait in over:
            if wait.arm == NOBODY:
                self.stretches.append(self._settled())
            else:
                self.starts[wait.arm] = self.size

    def _settled(self) -> Stretch:
        """Return what is sure by the settings as they are now."""
        return Stretch(self.size, self.every, self.one)

    def create(self, _: EventRow, told: Any) -> None:
        """Begin."""
        self._settle(told)
        self.epsilon = millionths("epsilon", told["config"]["epsilon"])
        self.stretches.append(self._settled())
        self.names = [str(arm["name"]) for arm in told["arms"]]
        self.starts, self.ends = [0] * len(self.names), [None] * len(self.names)

    def configure(self, _: EventRow, told: Any) -> None:
        """Go by other settings: at once by what is sure under both, later by what is sure under the new ones."""
        self._settle(told)
        self.stretches.append(self._settled().and_also(self.stretches[-1]))
        self.waits = [wait for wait in self.waits if wait.arm != NOBODY] + [_Wait(self.hour + self.hours)]

    def _settle(self, told: Any) -> None:
        """Read settings: what is given to arms beside the policy, and so the least that an arm can have."""
        config, default = told["config"], int(told["default_arm"])
        floor, holdout = in_parts(config["floor"]), in_parts(config["holdout"])
        if floor < 0 or holdout < 0 or floor + holdout >= PARTS or config["report_after"] < 0:
            raise ValueError("no such settings")
        self.hours = math.ceil((config["report_after"] + SLACK) / HOUR)
        self.every, self.one = floor > 0, default if holdout else NOBODY
        shares = [DRAWS * floor] if floor else [PARTS - holdout, *([DRAWS * holdout] if holdout else [])]
        self.least = min(self.least, *shares)  # without a floor: one draw of the policy, or the holdout

    def add(self, event: EventRow, told: Any) -> None:
        """Add an arm."""
        if event.arm != len(self.names):
            raise ValueError("not the next place")
        self.names.append(str(told["name"]))
        self.starts.append(None)
        self.ends.append(None)
        self.waits.append(_Wait(self.hour + self.hours, event.arm))

    def retire(self, event: EventRow, _: Any) -> None:
        """Retire an arm."""
        if event.arm is None or event.arm < 0 or self.ends[event.arm] is not None:
            raise ValueError("no open arm")
        self.ends[event.arm] = self.size

    def log(self) -> Log:
        """Return what was read."""
        if not self.size:
            others = [f"{self.left_out:,} that were among eligible_arms"] if self.left_out else []
            others += [f"{self.held_back:,} that were held back"] if self.held_back else []
            but = f" but {' and '.join(others)}" if others else ""
            raise UserError(f"{self.name}: there are no reports to judge by{but}; wait for some")
        self._end_block()
        table = dict(zip(_Report._fields, np.concatenate(self.blocks).T.copy(), strict=True))
        rewards, worth, reach = debiased(table["bit"], table["epsilons"])
        return Log(
            name=self.name,
            arms=self._arms(),
            stretches=_joined(self.stretches),
            least=self.least,
            epsilon=self.epsilon,
            left_out=self.left_out,
            held_back=self.held_back,
            rewards=rewards,
            worth=worth,
            reach=reach,
            **table,
        )

    def _arms(self) -> tuple[Arm, ...]:
        arms, first, size = [], 0, self.size
        for place, (name, start, end) in enumerate(zip(self.names, self.starts, self.ends, strict=True)):
            first = max(first, size if start is None else start)  # in the order of places, as policies add arms
            arms.append(Arm(place, name, first, max(first, size if end is None else end)))
        return tuple(arms)


_CHANGES = {"create": _Reading.create, "config": _Reading.configure, "arm": _Reading.add, "retire": _Reading.retire}


def _joined(stretches: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """Return stretches without those that hold no report."""
    ends = [*(stretch.start for stretch in stretches[1:]), math.inf]
    return tuple(each for each, end in zip(stretches, ends, strict=True) if each.start < end)
