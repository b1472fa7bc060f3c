"""An experiment with groups in one process: each question goes to all devices, and answers hide the group.

A decision counts once for each policy that takes part in its question. Pending answers are counted by *slots*, which
are pairs of policy and arm (``pending.py``). The slots of a level's first policy count questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits.contextual import Contextual
from maskedbandits.service.arm_selection import WHOLE, GroupArmSelector
from maskedbandits.service.experiment import IssuedDecision, LiveExperiment, estimate_probabilities
from maskedbandits.service.group_queries import has_signs, is_question, pack_question, unpack_questions
from maskedbandits.service.missing import Settled
from maskedbandits.service.pending import GROUP_STEPS
from maskedbandits.service.tokens import FLAG_SHOWN, Token

if TYPE_CHECKING:
    from maskedbandits.service.storage import Store
    from maskedbandits.service.storage.models import EventRow

SLOTS_PER_POLICY = 1 << 16  # a slot is this times the number of a policy, plus an arm

Ints = NDArray[np.int64]


class GroupExperiment(LiveExperiment):
    """An experiment with groups."""

    EXPIRY_STEPS = GROUP_STEPS
    selector: GroupArmSelector  # type: ignore[assignment]  # it selects for all parts of a question

    @property
    def contextual_policy(self) -> Contextual:
        """The contextual policy that learns."""
        return self.state.contextual_policy

    def _build_selector(self, known: Sequence[int]) -> None:
        floor, holdout = self.config.floor, self.config.holdout
        self.selector = GroupArmSelector(self.contextual_policy, known, floor, holdout, self.row.default_arm)

    # Decisions

    def _issue(self, among: tuple[int, ...] | None, now: int, expires: int, minute: int) -> IssuedDecision:
        level, arms, flags = self.selector.decide(among)
        question = pack_question(level, arms, self.contextual_policy.signs(level))
        self.pending.issue_all(self._list_slots(level, arms[None, :]).tolist(), minute)
        return IssuedDecision(0, WHOLE, flags, now, expires, question)

    def _show(self, among: tuple[int, ...] | None, now: int, expires: int) -> IssuedDecision:
        level, arms, _ = self.selector.show(among)
        return IssuedDecision(0, WHOLE, FLAG_SHOWN, now, expires, pack_question(level, arms, None))

    def _cancel(self, decision: IssuedDecision, minute: int) -> None:
        level, arms, _ = self._unpack(decision.question)
        self.pending.issue_all(self._list_slots(level, arms[None, :]).tolist(), minute, -1)
        self.selector.expect_answers(level, arms, -1)

    def _unpack(self, question: bytes) -> tuple[int, Ints, Ints]:
        """Return the level of a question, and the arm and the sign of each part."""
        sizes = self.contextual_policy.grouping.sizes
        unpacked = unpack_questions([question], sizes)
        level = int(unpacked.levels[0])
        return level, unpacked.tables[0, : sizes[level]], unpacked.signs[0, : sizes[level]]

    def expand_question(self, question: bytes) -> tuple[list[str], list[int] | None]:
        """Return the name of the arm and the sign for each group."""
        level, arms, signs = self._unpack(question)
        part = self.contextual_policy.grouping.parts[level]
        names = [self.arms.names[arm] for arm in arms[part].tolist()]
        return names, signs[part].tolist() if has_signs(question) else None

    def count_answers(self, question: bytes) -> int:
        """Return the number of possible answers to a question; 0 if it is not of this experiment."""
        grouping = self.contextual_policy.grouping
        if not is_question(question, grouping.sizes):
            return 0
        return 2 if has_signs(question) else 2 * grouping.groups

    def knows(self, token: Token) -> bool:
        """Tell whether this process knows all arms of a token."""
        if not token.question or not is_question(token.question, self.contextual_policy.grouping.sizes):
            return False
        return int(self._unpack(token.question)[1].max()) < len(self.arms.rows)

    def may_show(self, token: Token, among: Sequence[int] | None) -> bool:
        """Tell whether all arms of a token are open and among some arms."""
        if not self.knows(token):
            return False
        return all(self._may_show_arm(arm, among) for arm in self._unpack(token.question)[1].tolist())

    def _list_slots(self, level: int, tables: Ints) -> Ints:
        """Return the slots of questions at one level, question after question."""
        counted = self.selector.list_counted(tables.T).T
        first = self.contextual_policy.grouping.firsts[level]
        return np.asarray((first + np.arange(counted.shape[1])) * SLOTS_PER_POLICY + counted).ravel()

    # The log

    def _note_reports(self, events: Sequence[EventRow]) -> None:
        pairs = [(event.question, event.expires) for event in events]
        self._count_answers([(question, minute) for question, minute in pairs if question and minute is not None])

    def load_reported(self, store: Store) -> None:
        """Count the answers in the log so far whose tokens may still be open."""
        self._count_answers(store.read_questions(self.id, self.clock.minute(), self.state.seq))

    def _count_answers(self, answers: Sequence[tuple[bytes, int]]) -> None:
        grouping = self.contextual_policy.grouping
        unpacked = unpack_questions([question for question, _ in answers], grouping.sizes)
        minutes = np.array([minute for _, minute in answers], dtype=np.int64)
        for level, size in enumerate(grouping.sizes):
            here = unpacked.levels == level
            slots = self._list_slots(level, unpacked.tables[here, :size])
            if slots.size:
                each = np.repeat(minutes[here], slots.size // here.sum())
                pairs, counts = np.unique(np.stack([slots, each], axis=1), axis=0, return_counts=True)
                for (slot, minute), count in zip(pairs.tolist(), counts.tolist(), strict=True):
                    self.pending.report(slot, minute, count)

    def sync_pending(self) -> None:
        """Let the policies expect exactly the answers that can still come."""
        if not self._has_changed():
            return
        with self._lock:
            counts = 0 * self.contextual_policy.pending
            slots, pending = self.pending.count_by_slot(self.clock.minute())
            here = slots % SLOTS_PER_POLICY < counts.shape[1]
            at = slots[here] // SLOTS_PER_POLICY, slots[here] % SLOTS_PER_POLICY
            counts[at] = np.maximum(pending[here], 0)
            self.contextual_policy.await_exactly(counts)

    def note_settled(self, steps: Sequence[Settled]) -> None:
        """Note nothing: the service does not know which arms were shown."""

    # Views

    def view_missing(self) -> dict[str, Any]:
        """Return no fields, for the same reason."""
        return {}

    def total_issued(self, issued: Mapping[int, int]) -> list[int]:
        """Return the number of questions, for all arms together."""
        firsts = set(self.contextual_policy.grouping.firsts.tolist())
        return [sum(count for slot, count in issued.items() if slot // SLOTS_PER_POLICY in firsts)]

    def count_open(self) -> list[int]:
        """Return how many answers are pending; none once it is archived, since all would be late."""
        if self.status == "archived":
            return [0]
        slots, pending = (each.tolist() for each in self.pending.count_by_slot(self.clock.minute()))
        return [max(0, each) for each in self.total_issued(dict(zip(slots, pending, strict=True)))]

    def _view_groups(self, policy: Any) -> dict[str, Any]:
        return {
            "groups": self.config.groups,
            "answers": policy.answers,
            "shares": policy.shares().tolist(),
            "pooled": policy.pooled,
        }

    def _view_probabilities(self, policy: Any) -> list[Any]:
        return [estimate_probabilities(each) for each in policy.by_group]
