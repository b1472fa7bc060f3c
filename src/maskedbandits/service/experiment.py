"""One experiment in one process: its state from the log, and the decisions made from it."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError, suggest_nearest
from maskedbandits.policies import Policy
from maskedbandits.service.arm_selection import ArmSelector
from maskedbandits.service.clock import Clock
from maskedbandits.service.config import StoredConfig
from maskedbandits.service.missing import MissingReports, Settled
from maskedbandits.service.pending import STEPS, PendingReports, round_expiry
from maskedbandits.service.report_surges import SurgeTest
from maskedbandits.service.server import logging
from maskedbandits.service.source_limits import SourceWindow
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage.models import OPEN, ArmRow, EventRow, ExperimentRow
from maskedbandits.service.tokens import FLAG_SHOWN, Token
from maskedbandits.service.unmasked_reports import UnmaskedTest

if TYPE_CHECKING:
    from maskedbandits.service.storage import Store

MAX_DRAWS, MAX_PIECES = 1000, 4  # of a posterior, for a view; pieces of one computation
MAX_WORK = 1 << 20  # draws times arms in one piece
RECENT_S = 120  # within which every process shares its decisions with the others
UNLISTED = "; check the name, or list the arms with a key that has the role read"


class IssuedDecision(NamedTuple):
    """A decision with all that its token carries."""

    arm: int
    probability: int  # in 65,536ths
    flags: int
    issued: int  # unix seconds
    expires: int  # unix seconds
    question: bytes = b""  # with groups; arm and probability have no meaning then


class ArmTable:
    """The arms of an experiment: names, and payloads as JSON, by index."""

    def __init__(self, rows: Sequence[ArmRow]) -> None:
        self.rows = sorted(rows, key=lambda row: row.place)
        self.names = [row.name for row in self.rows]
        self.payloads = [msgspec.Raw(row.payload.encode()) for row in self.rows]
        self.open = [row.place for row in self.rows if row.status == OPEN]
        self.index = {row.name: row.place for row in self.rows}

    def find_eligible(self, names: Sequence[str], may_read: bool) -> tuple[int, ...] | None:
        """Return the sorted indices of some open arms, or None for all of them; retired ones are ignored.

        A device's key may be public, so the error suggests arms only to callers who may read the experiment.
        """
        unknown = next((name for name in names if name not in self.index), None)
        if unknown is not None:
            known = [self.names[arm] for arm in self.open[:20]]
            hint = suggest_nearest(unknown, known) if may_read else UNLISTED
            raise UserError(f"eligible_arms: no arm is called {unknown!r}{hint}")
        eligible = {self.index[name] for name in names} & set(self.open)
        if not eligible:
            raise UserError("eligible_arms: all of them are retired; name an open arm")
        return None if len(eligible) == len(self.open) else tuple(sorted(eligible))

    def is_open(self, arm: int) -> bool:
        """Tell whether an arm may be shown."""
        return arm < len(self.rows) and self.rows[arm].status == OPEN

    def find_open(self, name: str) -> int:
        """Return the index of an open arm."""
        if self.index.get(name) not in self.open:
            known = [self.names[arm] for arm in self.open]
            raise UserError(f"no open arm is called {name!r}{suggest_nearest(name, known[:20])}")
        return self.index[name]


class LiveExperiment:
    """An experiment. The event loop asks for decisions, and another thread applies the log."""

    EXPIRY_STEPS = STEPS  # into which the life of its tokens is divided

    def __init__(
        self,
        row: ExperimentRow,
        arms: Sequence[ArmRow],
        state: ExperimentState,
        clock: Clock,
        pending: PendingReports | None = None,
    ) -> None:
        self.id, self.name = row.id, row.name
        self.state, self.clock = state, clock
        self.pending = pending or PendingReports()
        self.surges = SurgeTest()
        self.missing = MissingReports()
        self.sources, self.unmasked = SourceWindow(), UnmaskedTest()
        self.counts: dict[str, int] = {"report": 0}  # events applied since this process began, by kind
        self._lock = threading.Lock()  # a decision sees arms and policy of one moment
        self._applying = threading.Lock()  # a view counts no report as pending and received at once
        self._synced = -1  # changes of the pending reports when the policy was last given them
        self.apply_row(row, arms)

    def apply_row(self, row: ExperimentRow, arms: Sequence[ArmRow]) -> None:
        """Use the configuration and the arms as they are in the store now."""
        config, table = StoredConfig.decode(row.config), ArmTable(arms)
        known = [arm for arm in table.open if arm < self.state.any_policy.arms]
        with self._lock:
            self.row, self.config, self.arms, self.epsilon = row, config, table, config.epsilon_millionths
            self._build_selector(known)

    def _build_selector(self, known: Sequence[int]) -> None:
        """Select among these arms from now on."""
        floor, holdout = self.config.floor, self.config.holdout
        self.selector = ArmSelector(self.policy, known, floor, holdout, self.row.default_arm, self.find_untried)

    def find_untried(self) -> NDArray[np.bool_]:
        """Return for each arm whether no report of it was received or is pending."""
        reported = self.state.reported
        return np.asarray((reported == 0) & (self.pending.count_open(reported.size, self.clock.minute()) == 0))

    @property
    def policy(self) -> Policy:
        """The policy that learns."""
        return self.state.policy

    @property
    def seq(self) -> int:
        """The number of the last event in its state."""
        return self.state.seq

    @property
    def status(self) -> str:
        """Whether it is running, paused or archived."""
        return self.row.status

    # Decisions

    def decide(self, n: int = 1, among: tuple[int, ...] | None = None) -> list[IssuedDecision]:
        """Decide n times; one report is expected for each decision."""
        now = int(self.clock.now())
        expires = now + self.config.expires_after
        minute = round_expiry(expires, self.config.expires_after, self.EXPIRY_STEPS)
        with self._lock:
            return [self._issue(among, now, expires, minute) for _ in range(n)]

    def _issue(self, among: tuple[int, ...] | None, now: int, expires: int, minute: int) -> IssuedDecision:
        arm, probability, flags = self.selector.decide(among)
        self.pending.issue(arm, minute)
        return IssuedDecision(arm, probability, flags, now, expires)

    def show(self, among: tuple[int, ...] | None = None) -> IssuedDecision:
        """Decide without participation: no report is expected."""
        now = int(self.clock.now())
        with self._lock:
            return self._show(among, now, now + self.config.expires_after)

    def _show(self, among: tuple[int, ...] | None, now: int, expires: int) -> IssuedDecision:
        return IssuedDecision(*self.selector.show(among), now, expires)

    def cancel(self, decision: IssuedDecision) -> None:
        """Undo a decision that no device received."""
        if decision.flags & FLAG_SHOWN:
            return
        minute = round_expiry(decision.expires, decision.expires - decision.issued, self.EXPIRY_STEPS)
        with self._lock:
            self._cancel(decision, minute)

    def _cancel(self, decision: IssuedDecision, minute: int) -> None:
        self.pending.issue(decision.arm, minute, -1)
        self.policy.expire(decision.arm)

    def knows(self, token: Token) -> bool:
        """Tell whether this process knows the arm of a token."""
        return token.arm < len(self.arms.rows) and not token.question

    def may_show(self, token: Token, among: Sequence[int] | None) -> bool:
        """Tell whether the arm of a token is open and among some arms."""
        return self.knows(token) and self._may_show_arm(token.arm, among)

    def _may_show_arm(self, arm: int, among: Sequence[int] | None) -> bool:
        return self.arms.is_open(arm) and (among is None or arm in among)

    # The log

    def apply_events(self, events: Sequence[EventRow]) -> None:
        """Apply the next events of the log."""
        with self._applying:
            self._synced = -1
            self.state.apply_events(events)
            for event in events:
                self.counts[event.kind] = self.counts.get(event.kind, 0) + 1
            self._note_reports(events)

    def _note_reports(self, events: Sequence[EventRow]) -> None:
        """Count reports whose tokens may still be open."""
        for event in events:
            if event.arm is not None and event.expires is not None:
                self.pending.report(event.arm, event.expires)
        self.selector.mark_stale()
        reports = [(event.arm, event.bit) for event in events if event.arm is not None and event.bit is not None]
        if self.surges.observe(reports, self.clock.now()):
            logging.event("reports surge while an arm jumps", experiment=self.name)

    def load_reported(self, store: Store) -> None:
        """Count the reports in the log so far whose tokens may still be open."""
        for arm, minute, count in store.count_reports(self.id, self.clock.minute(), self.state.seq):
            self.pending.report(arm, minute, count)

    def recent_expiry(self) -> int:
        """Return a minute before which no decision of the last two minutes expires."""
        return (int(self.clock.now()) - RECENT_S + self.config.expires_after) // 60

    def sync_pending(self) -> None:
        """Let the policy expect exactly the reports that can still come."""
        if not self._has_changed():
            return
        with self._lock:  # or a decision in between would be forgotten for a second
            self.policy.await_exactly(self.pending.count_open(self.policy.arms, self.clock.minute()))

    def _has_changed(self) -> bool:
        """Tell whether reports came, went or expired since the last call; one thread calls it."""
        changes, before = self.pending.count_changes(self.clock.minute()), self._synced
        self._synced = changes
        return changes != before

    def note_settled(self, steps: Sequence[Settled]) -> None:
        """Note which of the expired decisions were reported."""
        self.missing.add(steps)

    # Views

    def view_missing(self) -> dict[str, Any]:
        """Return fields about the share of missing reports by arm."""
        return {"missing_reports": self.missing.view(self.arms.names[: len(self.state.reported)])}

    def total_issued(self, issued: Mapping[int, int]) -> list[int]:
        """Return the number of decisions by arm, from counts by slot."""
        return [issued.get(arm, 0) for arm in range(len(self.state.reported))]

    def count_open(self) -> list[int]:
        """Return by arm how many reports are pending; none once it is archived, since all would be late."""
        arms = len(self.state.reported)
        return [0] * arms if self.status == "archived" else self.pending.count_open(arms, self.clock.minute()).tolist()

    def count_answered(self) -> tuple[list[int], list[int]]:
        """Return by arm how many reports were received and how many are pending, at one moment."""
        with self._applying:
            return self.state.reported.tolist(), self.count_open()

    def copy_state(self) -> tuple[int, Any, dict[str, Any]]:
        """Return the number of the last event, a copy of the policy, and counts of reports, at one moment."""
        with self._applying:
            seq, policy, reported, held_back = self.state.copy_policy()
            return seq, policy, {"pending": self.count_open(), "reported": reported.tolist(), "held_back": held_back}

    def view(self) -> dict[str, Any]:
        """Return the state of the experiment at one moment; lists are by arm.

        It is computed from a copy, so that decisions do not wait for it.
        """
        seq, policy, counts = self.copy_state()
        return {
            "seq": seq,
            "digest": policy.fold_digest(),
            "kernel": self.state.kernel,
            "arms": self.arms.names[: policy.arms],
            **self._view_groups(policy),
            "observations": policy.observations,
            "alarms": policy.alarms,
            "estimates": _replace_nan(policy.estimates().tolist()),
            "intervals": policy.intervals().tolist(),
            "suspects": policy.suspects().tolist(),
            "probabilities": self._view_probabilities(policy),
            **counts,
        }

    def _view_groups(self, policy: Any) -> dict[str, Any]:
        """Return fields that only experiments with groups have."""
        return {}

    def _view_probabilities(self, policy: Any) -> list[Any]:
        return estimate_probabilities(policy)


def _replace_nan(values: list[Any]) -> list[Any]:
    """Return nested lists with None for NaN, which JSON does not have."""
    return [_replace_nan(value) if isinstance(value, list) else None if value != value else value for value in values]


def estimate_probabilities(policy: Policy) -> list[float]:
    """Return the probability of each arm; a posterior is sampled in pieces, since others wait for each call."""
    at_once = max(1, MAX_WORK // policy.arms)
    draws = min(MAX_DRAWS, MAX_PIECES * at_once) if policy.kind.draws_from else 1
    pieces = [min(at_once, draws - begin) for begin in range(0, draws, at_once)]
    shares = sum(piece * policy.probabilities(draws=piece) for piece in pieces)
    return list(np.asarray(shares / draws).tolist())
