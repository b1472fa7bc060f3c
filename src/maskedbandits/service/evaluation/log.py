"""A log to evaluate by: its reports in order of arrival, the arms that were open, and those that could be shown.

A report has the arm shown, a masked bit, the epsilon of the mask, and the probability of that arm in 65,536ths. The
probabilities of the other arms are unknown, except for the guarantees of the experiment's settings: with a floor, each
decision can show every open arm; with a holdout, the default arm.

A bit that is true with probability p is an unbiased estimate (bit - (1 - p)) / (2p - 1) of the reward, which is never
within (0, 1). Reports with another epsilon get the weight (2p - 1)^2, their worth.

Reports come after their decisions. Those that arrive just after an arm or a floor was added may be of decisions that
did not know it. So an arm counts as open, and a floor as given, from the first hour by which those reports are due. A
retired arm or a removed floor counts as gone at once. Reports of decisions among eligible arms (FLAG_SUBSET) are left
out, because the log does not say which arms could be shown. So are reports that were held back (FLAG_HELD).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError
from maskedbandits.service.arm_selection import DRAWS, PARTS, WHOLE, to_parts
from maskedbandits.service.config import DAMAGE
from maskedbandits.service.recovery import load_oldest
from maskedbandits.service.schemas import to_millionths
from maskedbandits.service.state import ExperimentState, get_mask
from maskedbandits.service.storage import Store
from maskedbandits.service.storage.models import EventRow, ExperimentRow
from maskedbandits.service.tokens import FLAG_HELD_BACK, FLAG_SUBSET

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BASE_EVENT = "base"  # of logs whose first events were removed
NO_ARM = -1
SECONDS_PER_HOUR = 3600
SLACK_S = 1200  # by which devices, networks and processes may be late
EVENTS_AT_ONCE = 5_000
REPORTS_PER_BLOCK = 10_000
DAMAGED = "the log is damaged: restore a backup, or export it again"


@dataclass(frozen=True)
class ArmSpan:
    """An arm, and the reports by which it is evaluated: from start, up to end."""

    index: int
    name: str
    start: int
    end: int


class Support(NamedTuple):
    """The first report from which every open arm, or the default arm alone, could be shown for sure."""

    start: int
    all_arms: bool
    default_arm: int  # NO_ARM without a holdout

    def covers(self, arm: int) -> bool:
        """Tell whether an arm could be shown for sure."""
        return self.all_arms or (arm != NO_ARM and self.default_arm == arm)

    def intersect(self, other: Support) -> Support:
        """Return the arms that are sure under both."""
        if self.all_arms:
            return other._replace(start=self.start)
        return Support(self.start, False, self.default_arm if other.covers(self.default_arm) else NO_ARM)


@dataclass(frozen=True, eq=False)
class ReportLog:
    """Reports, as an array for each column, with the arms and their support.

    Arrays of integers are columns of ``EventRow`` with the same name. They are read in the order given here.
    """

    name: str
    arms: tuple[ArmSpan, ...]
    supports: tuple[Support, ...]
    min_probability: int  # in 65,536ths, of the arms that could be shown
    created_epsilon: int  # in millionths, of the experiment when it was created
    left_out: int  # reports of decisions among eligible arms
    held_back: int  # reports over a source limit, which are left out, too
    first_seq: int  # the first event of the log; above 1 if earlier ones were removed
    seq: Ints
    hour: Ints
    arm: Ints
    bit: Ints
    epsilon: Ints
    probability: Ints
    flags: Ints
    rewards: Floats  # unbiased estimates
    worth: Floats  # weights, at most 1
    reach: float  # the largest distance of a reward from a point of [0, 1], times its worth

    @property
    def size(self) -> int:
        """The number of reports."""
        return self.seq.size

    def cut(self, start: int, end: int) -> ReportLog:
        """Return the reports from start up to end as a log."""
        columns = {name: getattr(self, name)[start:end] for name in ARRAYS}
        arms = tuple(
            replace(arm, start=_clip(arm.start, start, end), end=_clip(arm.end, start, end)) for arm in self.arms
        )
        met = [support._replace(start=support.start - start) for support in self.supports if support.start < end]
        first = max(index for index, support in enumerate(met) if support.start <= 0)
        return replace(self, arms=arms, supports=(met[first]._replace(start=0), *met[first + 1 :]), **columns)

    def is_supported(self, arm: ArmSpan) -> bool:
        """Tell whether each decision could show an arm for sure while it was open."""
        ends = [support.start for support in self.supports[1:]] + [self.size]
        met = [each for each, end in zip(self.supports, ends, strict=True) if each.start < arm.end and end > arm.start]
        return all(support.covers(arm.index) for support in met)

    def count_open_arms(self) -> Ints:
        """Return the number of open arms at each report."""
        steps = np.zeros(self.size + 1, dtype=np.int64)
        np.add.at(steps, [arm.start for arm in self.arms], 1)
        np.add.at(steps, [arm.end for arm in self.arms], -1)
        return np.cumsum(steps)[:-1]


STORED_COLUMNS = tuple(each.name for each in fields(ReportLog) if each.type == "Ints")
ARRAYS = tuple(each.name for each in fields(ReportLog) if each.type in ("Ints", "Floats"))


def _clip(index: int, start: int, end: int) -> int:
    return min(max(index, start), end) - start


def debias(bits: Ints, epsilons: Ints) -> tuple[Floats, Floats, float]:
    """Return the unbiased rewards of reports, their worths, and the reach of a reward."""
    known, each = np.unique(epsilons, return_inverse=True)
    masks = [get_mask(int(epsilon)) for epsilon in known]
    lows, slopes = np.array([1.0 - mask.p00 for mask in masks]), np.array([mask.slope for mask in masks])
    worth = (slopes / slopes.max()) ** 2
    reach = float(np.max(worth * (lows + slopes) / slopes))
    return (bits - lows[each]) / slopes[each], worth[each], reach


def read_stored_events(
    store: Store, row: ExperimentRow, progress: Callable[[float], None] = lambda share: None
) -> Iterator[EventRow]:
    """Yield the events that an experiment has now, and none that come meanwhile."""
    seq = 0
    if store.read_first(row.id) != 1:
        base = build_base_event(row.name, load_oldest(store, row))
        seq = base.seq
        yield base
    while seq < row.seq:
        events = store.read_events(row.id, seq, min(EVENTS_AT_ONCE, row.seq - seq))
        if not events:
            raise build_damage_error(row.name, f"the log ends at event {seq} of {row.seq}")
        for event in events:
            check_next(row.name, seq, event)
            yield event
            seq = event.seq
        progress(seq / row.seq)


def build_base_event(name: str, state: ExperimentState) -> EventRow:
    """Return an event with the settings and arms after the events that were removed, in place of these."""
    if state.terms is None:
        what = f"the settings at event {state.seq}, up to which its log was removed, are not known"
        raise UserError(f"{name}: {what}: evaluate or export a backup from before")
    detail = json.dumps({**state.terms, "hash": state.log_hash.value}, ensure_ascii=False)
    values: dict[str, Any] = dict.fromkeys(EventRow._fields)
    values |= {"seq": state.seq, "kind": BASE_EVENT, "hour": max(0, state.log_hash.hour), "detail": detail}
    return EventRow(**values)


def check_next(name: str, seq: int, event: EventRow) -> None:
    """Refuse an event that is not the next one of its log."""
    if event.seq != seq + 1:
        raise build_damage_error(name, f"the log has a gap: {seq} is followed by {event.seq}")


def build_damage_error(name: str, what: str) -> UserError:
    """Return the error for a log that is damaged."""
    return UserError(f"{name}: {what}; {DAMAGED}")


def read_log(name: str, events: Iterable[EventRow]) -> ReportLog:
    """Read a log from its first event on.

    Parameters
    ----------
    name
        The name that messages give to the log.
    events
        All events of an experiment, in order.

    Returns
    -------
    ReportLog
        The reports to evaluate by.

    Raises
    ------
    UserError
        If the log is damaged, has no reports, or belongs to an experiment with groups.

    """
    reader = _LogReader(name)
    for event in events:
        reader.read(event)
    return reader.finish()


class _Wait(NamedTuple):
    """The last hour to wait for before an arm, or the settings, are sure."""

    hour: int
    arm: int = NO_ARM


@dataclass
class _LogReader:
    """The part of a log read so far."""

    name: str
    size: int = 0  # reports that count
    blocks: list[Ints] = field(default_factory=list)
    latest: list[tuple[int, ...]] = field(default_factory=list)  # not in a block yet
    left_out: int = 0
    held_back: int = 0
    first_seq: int = 1
    last_unknown_hour: int = -1  # in which reports of decisions under earlier settings may come
    seq: int = 0
    hour: int = 0
    names: list[str] = field(default_factory=list)
    starts: list[int | None] = field(default_factory=list)  # None: not yet
    ends: list[int | None] = field(default_factory=list)
    supports: list[Support] = field(default_factory=list)
    waits: list[_Wait] = field(default_factory=list)
    has_floor: bool = False  # by the current settings
    default_arm: int = NO_ARM  # with a holdout in the current settings
    hours: int = 0  # until the reports of a decision are due
    checked_hour: int = -1  # in which the waits were last checked
    min_probability: int = WHOLE
    epsilon: int = 0

    def read(self, event: EventRow) -> None:
        """Read the next event."""
        if event.kind in ("create", BASE_EVENT) and '"groups"' in (event.detail or ""):
            self._refuse_groups(event.detail or "")
        if event.kind == BASE_EVENT and not self.names:  # it stands for all events up to it
            self.seq, self.first_seq = event.seq - 1, event.seq + 1
        check_next(self.name, self.seq, event)
        self.seq, self.hour = event.seq, event.hour
        if bool(self.names) == (event.kind in ("create", BASE_EVENT)):
            raise build_damage_error(self.name, "its first event must be its creation, and no other event may be")
        if event.kind == "report":
            self._read_report(event)
        elif event.kind in _CHANGES:
            try:
                _CHANGES[event.kind](self, event, json.loads(event.detail or ""))
            except DAMAGE:
                raise build_damage_error(self.name, f"event {event.seq} lacks its change") from None
        elif event.kind not in ("status", "payload"):  # which change neither arms nor shares
            raise build_damage_error(self.name, f"event {event.seq} is of kind {event.kind!r}, which is unknown")

    def _refuse_groups(self, detail: str) -> None:
        try:
            has_groups = bool(json.loads(detail)["config"].get("groups"))
        except DAMAGE:
            return  # the event is refused as damaged
        if has_groups:
            raise UserError(
                f"{self.name}: an experiment with groups cannot be evaluated, because reports hide the arm: see its "
                "state for estimates by group"
            )

    def _read_report(self, event: EventRow) -> None:
        report: tuple[Any, ...] = _get_stored(event)
        if None in report or not (0 <= event.arm < len(self.names) and event.bit in (0, 1) and event.epsilon > 0):  # type: ignore[operator]
            raise build_damage_error(self.name, f"event {event.seq} is not a possible report")
        if self.hour <= self.last_unknown_hour:  # the settings of its decision may have been removed
            return
        flags, probability = event.flags or 0, event.probability or 0
        if flags & FLAG_HELD_BACK:
            self.held_back += 1
            return
        if flags & FLAG_SUBSET:
            self.left_out += 1
            return
        if not self.min_probability <= probability <= WHOLE:
            limits = f"its settings require at least {self.min_probability / WHOLE:g}"
            what = f"event {event.seq} has a probability of {probability / WHOLE:g}, and {limits}"
            raise build_damage_error(self.name, what)
        if self.waits and self.checked_hour != self.hour:  # later decisions are due in a later hour
            self._end_waits()
        self.size += 1
        self.latest.append(report)
        if len(self.latest) == REPORTS_PER_BLOCK:
            self._end_block()

    def _end_block(self) -> None:
        """Pack reports into an array, which takes a fifth of the memory."""
        self.blocks.append(np.array(self.latest, dtype=np.int64).reshape(-1, len(STORED_COLUMNS)))
        self.latest = []

    def _end_waits(self) -> None:
        """Open arms and trust settings for which the reports of earlier decisions have come."""
        self.checked_hour = self.hour
        over = [wait for wait in self.waits if wait.hour < self.hour]
        self.waits = [wait for wait in self.waits if wait.hour >= self.hour]
        for wait in over:
            if wait.arm == NO_ARM:
                self.supports.append(self._get_support())
            else:
                self.starts[wait.arm] = self.size

    def _get_support(self) -> Support:
        """Return the support that the current settings give."""
        return Support(self.size, self.has_floor, self.default_arm)

    def create(self, _: EventRow, detail: Any) -> None:
        """Read how the experiment was created."""
        self._read_settings(detail)
        self.epsilon = to_millionths("epsilon", detail["config"]["epsilon"])
        self.supports.append(self._get_support())
        self.names = [str(arm["name"]) for arm in detail["arms"]]
        self.starts, self.ends = [0] * len(self.names), [None] * len(self.names)

    def begin_after_base(self, event: EventRow, detail: Any) -> None:
        """Read the settings and arms after events that were removed."""
        self.create(event, detail)
        for arm in detail["retired"]:
            self.ends[arm] = 0
        self.last_unknown_hour = self.hour + self.hours

    def configure(self, _: EventRow, detail: Any) -> None:
        """Change the settings: trust what is sure under both at once, and what the new ones add later."""
        self._read_settings(detail)
        self.supports.append(self._get_support().intersect(self.supports[-1]))
        self.waits = [wait for wait in self.waits if wait.arm != NO_ARM] + [_Wait(self.hour + self.hours)]

    def _read_settings(self, detail: Any) -> None:
        """Read floor and holdout, and so the least probability that an arm can have."""
        config, default = detail["config"], int(detail["default_arm"])
        floor, holdout = to_parts(config["floor"]), to_parts(config["holdout"])
        if floor < 0 or holdout < 0 or floor + holdout >= PARTS or config["report_after"] < 0:
            raise ValueError("no such settings")
        self.hours = math.ceil((config["report_after"] + SLACK_S) / SECONDS_PER_HOUR)
        self.has_floor, self.default_arm = floor > 0, default if holdout else NO_ARM
        shares = [DRAWS * floor] if floor else [PARTS - holdout, *([DRAWS * holdout] if holdout else [])]
        self.min_probability = min(self.min_probability, *shares)  # without a floor: a draw, or the holdout

    def add_arm(self, event: EventRow, detail: Any) -> None:
        """Add an arm."""
        if event.arm != len(self.names):
            raise ValueError("not the next index")
        self.names.append(str(detail["name"]))
        self.starts.append(None)
        self.ends.append(None)
        self.waits.append(_Wait(self.hour + self.hours, event.arm))

    def retire_arm(self, event: EventRow, _: Any) -> None:
        """Retire an arm."""
        if event.arm is None or event.arm < 0 or self.ends[event.arm] is not None:
            raise ValueError("no open arm")
        self.ends[event.arm] = self.size

    def finish(self) -> ReportLog:
        """Return the log."""
        if not self.size:
            others = [f"{self.left_out:,} that were among eligible_arms"] if self.left_out else []
            others += [f"{self.held_back:,} that were held back"] if self.held_back else []
            but = f" but {' and '.join(others)}" if others else ""
            raise UserError(f"{self.name}: no reports to evaluate with{but}; wait for some")
        self._end_block()
        columns = dict(zip(STORED_COLUMNS, np.concatenate(self.blocks).T.copy(), strict=True))
        rewards, worth, reach = debias(columns["bit"], columns["epsilon"])
        return ReportLog(
            name=self.name,
            arms=self._list_arms(),
            supports=_drop_empty(self.supports),
            min_probability=self.min_probability,
            created_epsilon=self.epsilon,
            left_out=self.left_out,
            held_back=self.held_back,
            first_seq=self.first_seq,
            rewards=rewards,
            worth=worth,
            reach=reach,
            **columns,
        )

    def _list_arms(self) -> tuple[ArmSpan, ...]:
        arms, first, size = [], 0, self.size
        for index, (name, start, end) in enumerate(zip(self.names, self.starts, self.ends, strict=True)):
            first = max(first, size if start is None else start)  # in the order of indexes, as policies add arms
            arms.append(ArmSpan(index, name, first, max(first, size if end is None else end)))
        return tuple(arms)


_get_stored = attrgetter(*STORED_COLUMNS)
_CHANGES = {
    "create": _LogReader.create,
    BASE_EVENT: _LogReader.begin_after_base,
    "config": _LogReader.configure,
    "arm": _LogReader.add_arm,
    "retire": _LogReader.retire_arm,
}


def _drop_empty(supports: Sequence[Support]) -> tuple[Support, ...]:
    """Return supports without those of no report."""
    ends = [*(support.start for support in supports[1:]), math.inf]
    return tuple(each for each, end in zip(supports, ends, strict=True) if each.start < end)
