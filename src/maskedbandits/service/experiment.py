"""One experiment, live in one process: what the log says of it, and decisions from that."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError, nearest
from maskedbandits.policies import Policy
from maskedbandits.service.arm_selection import Chooser
from maskedbandits.service.clock import Clock
from maskedbandits.service.config import Terms
from maskedbandits.service.pending import STEPS, Pending, expiry_minute
from maskedbandits.service.state import Fold, kernel
from maskedbandits.service.storage.models import OPEN, ArmRow, EventRow, ExperimentRow
from maskedbandits.service.tokens import FLAG_SHOWN, Token

if TYPE_CHECKING:
    from maskedbandits.service.storage import Store

DRAWS, PIECES = 1000, 4  # of a posterior, for a view; in at most so many pieces
MOST_WORK = 1 << 20  # draws times arms in one piece
LATELY = 120  # seconds in which every process has told the others what it has decided
UNLISTED = "; check the name, or list the arms with a key that has the role read"
CHANGES = ("create", "arm", "retire", "config", "status")  # kinds of events that are no reports


class Issued(NamedTuple):
    """A decision: the arm, its probability in 65,536ths, and all else that a token says."""

    arm: int
    probability: int
    flags: int
    issued: int  # the unix second
    expires: int  # likewise
    question: bytes = b""  # where there are groups; arm and probability say nothing then


class Arms:
    """The arms of an experiment as they stand: names, and payloads as JSON, by place."""

    def __init__(self, rows: Sequence[ArmRow]) -> None:
        self.rows = sorted(rows, key=lambda row: row.place)
        self.names = [row.name for row in self.rows]
        self.payloads = [msgspec.Raw(row.payload.encode()) for row in self.rows]
        self.open = [row.place for row in self.rows if row.status == OPEN]
        self.places = {row.name: row.place for row in self.rows}

    def eligible(self, names: Sequence[str], may_read: bool) -> tuple[int, ...] | None:
        """Return the places of some arms, in order, or None if all are meant; retired ones are passed over.

        The key of a device may be public, so that the error names no arm to who may not read the experiment.
        """
        unknown = next((name for name in names if name not in self.places), None)
        if unknown is not None:
            known = [self.names[place] for place in self.open[:20]]
            hint = nearest(unknown, known) if may_read else UNLISTED
            raise UserError(f"eligible_arms: no arm is called {unknown!r}{hint}")
        found = {self.places[name] for name in names} & set(self.open)
        if not found:
            raise UserError("eligible_arms: all of them are retired; name one that is open")
        return None if len(found) == len(self.open) else tuple(sorted(found))

    def is_open(self, place: int) -> bool:
        """Tell whether an arm may be shown."""
        return place < len(self.rows) and self.rows[place].status == OPEN

    def place_of(self, name: str) -> int:
        """Return the place of an open arm."""
        if self.places.get(name) not in self.open:
            known = [self.names[place] for place in self.open]
            raise UserError(f"no open arm is called {name!r}{nearest(name, known[:20])}")
        return self.places[name]


class Live:
    """An experiment; decisions are asked for from the event loop, the log is folded in by another thread."""

    STEPS = STEPS  # in which the lives of its tokens are counted

    def __init__(
        self, row: ExperimentRow, arms: Sequence[ArmRow], fold: Fold, clock: Clock, pending: Pending | None = None
    ) -> None:
        self.id, self.name = row.id, row.name
        self.fold, self.clock = fold, clock
        self.pending = pending or Pending()
        self.counts: dict[str, int] = {"report": 0}  # events folded since this process began, by kind
        self._lock = threading.Lock()  # a decision sees arms and policy of one moment
        self._taking = threading.Lock()  # whoever looks sees no report that is awaited as well
        self.stand(row, arms)

    def stand(self, row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
        """Go by the experiment as it stands in the store."""
        terms, standing = Terms.read(row.config), Arms(arms)
        known = [place for place in standing.open if place < self.fold.either.arms]
        with self._lock:
            self.row, self.terms, self.arms, self.epsilon = row, terms, standing, terms.millionths
            self._settle(known)

    def _settle(self, known: Sequence[int]) -> None:
        """Decide among these arms from now on."""
        terms = self.terms
        self.chooser = Chooser(self.policy, known, terms.floor, terms.holdout, self.row.default_arm, self._is_untried)

    def _is_untried(self) -> NDArray[np.bool_]:
        """Tell of each arm whether no report of it has come, or is awaited."""
        reported = self.fold.reported
        return np.asarray((reported == 0) & (self.pending.open(reported.size, self.clock.minute()) == 0))

    @property
    def policy(self) -> Policy:
        """The policy that learns."""
        return self.fold.policy

    @property
    def status(self) -> str:
        """Whether it is running, paused or archived."""
        return self.row.status

    def decide(self, n: int = 1, among: tuple[int, ...] | None = None) -> list[Issued]:
        """Decide n times; each decision awaits one report."""
        now = int(self.clock.now())
        expires = now + self.terms.expires_after
        minute = expiry_minute(expires, self.terms.expires_after)
        issued = []
        with self._lock:
            for _ in range(n):
                arm, probability, flags = self.chooser.decide(among)
                self.pending.issue(arm, minute)
                issued.append(Issued(arm, probability, flags, now, expires))
        return issued

    def show(self, among: tuple[int, ...] | None = None) -> Issued:
        """Return what to show somebody who takes no part: no report of it is awaited."""
        now = int(self.clock.now())
        with self._lock:
            shown = self.chooser.show(among)
        return Issued(*shown, now, now + self.terms.expires_after)

    def take_back(self, decision: Issued) -> None:
        """Undo a decision that nobody is told of."""
        if decision.flags & FLAG_SHOWN:
            return
        with self._lock:
            minute = expiry_minute(decision.expires, decision.expires - decision.issued)
            self.pending.issue(decision.arm, minute, -1)
            self.policy.expire(decision.arm)

    def knows(self, token: Token) -> bool:
        """Tell whether a token's arm has been heard of."""
        return token.arm < len(self.arms.rows) and not token.question

    def may_show(self, token: Token, among: Sequence[int] | None) -> bool:
        """Tell whether what a token says may be shown, among some arms."""
        return self.knows(token) and self._may(token.arm, among)

    def _may(self, arm: int, among: Sequence[int] | None) -> bool:
        return self.arms.is_open(arm) and (among is None or arm in among)

    def take(self, events: Sequence[EventRow]) -> None:
        """Take in the next events of the log."""
        with self._taking:
            self._take(events)

    def _take(self, events: Sequence[EventRow]) -> None:
        self.fold.take(events)
        for event in events:
            self.counts[event.kind] = self.counts.get(event.kind, 0) + 1
            if event.arm is not None and event.expires is not None:  # a report whose token can still be open
                self.pending.report(event.arm, event.expires)
        self.chooser.news()

    def read_reported(self, store: Store) -> None:
        """Count the reports up to here whose tokens could still be open."""
        for arm, minute, count in store.count_reports(self.id, self.clock.minute(), self.fold.seq):
            self.pending.report(arm, minute, count)

    def newest(self) -> int:
        """Return a minute before which nothing expires that was decided in the last two minutes."""
        return (int(self.clock.now()) - LATELY + self.terms.expires_after) // 60

    def in_all(self, issued: Mapping[int, int]) -> list[int]:
        """Return by arm how many decisions were made, as they are counted."""
        return [issued.get(place, 0) for place in range(len(self.fold.reported))]

    def open(self) -> list[int]:
        """Return by arm how many decisions still await their report; once it is archived, every report is late."""
        arms = len(self.fold.reported)
        return [0] * arms if self.status == "archived" else self.pending.open(arms, self.clock.minute()).tolist()

    def answered(self) -> tuple[list[int], list[int]]:
        """Return by arm how many decisions were reported, and how many are open, at one moment."""
        with self._taking:
            return self.fold.reported.tolist(), self.open()

    def moment(self) -> tuple[int, Any, dict[str, Any]]:
        """Return the number of the last event, a copy of the policy, and what was reported and is open, then."""
        with self._taking:
            seq, policy, reported, held_back = self.fold.moment()
            return seq, policy, {"pending": self.open(), "reported": reported.tolist(), "held_back": held_back}

    def await_exactly(self) -> None:
        """Let the policy await just those reports that can still come."""
        with self._lock:  # a decision between the two would be forgotten for a second
            self.policy.await_exactly(self.pending.open(self.policy.arms, self.clock.minute()))

    def view(self) -> dict[str, Any]:
        """Return what the log says: estimates with intervals, shares of traffic, alarms; by arm, in their places.

        All of it is of one moment, and reckoned from a copy, so that nobody waits for it who decides.
        """
        seq, policy, counts = self.moment()
        return {
            "seq": seq,
            "digest": policy.fold_digest(),
            "kernel": kernel(),
            "arms": self.arms.names[: policy.arms],
            "observations": policy.observations,
            "alarms": policy.alarms,
            "estimates": [None if value != value else value for value in policy.estimates().tolist()],
            "intervals": policy.intervals().tolist(),
            "suspects": policy.suspects().tolist(),
            "probabilities": probabilities(policy),
            **counts,
        }


def probabilities(policy: Policy) -> list[float]:
    """Return the chance of each arm, of a posterior by draws; some at a time, since others wait for each call."""
    at_once = max(1, MOST_WORK // policy.arms)
    draws = min(DRAWS, PIECES * at_once) if policy.kind.draws_from else 1
    pieces = [min(at_once, draws - begin) for begin in range(0, draws, at_once)]
    shares = sum(piece * policy.probabilities(draws=piece) for piece in pieces)
    return list(np.asarray(shares / draws).tolist())
