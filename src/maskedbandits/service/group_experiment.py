"""An experiment with groups, live in one process: the same question to everybody, and answers that hide who gave them.

A decision is one for each policy that takes part in its question. What is awaited is counted under slots, which tell
policy and arm (``pending.py``); the slots of a grain's first policy count questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits.contextual import Contextual
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.experiment import Issued, Live, probabilities
from maskedbandits.service.group_arm_selection import Tables
from maskedbandits.service.group_queries import Questions, fits, has_signs, packed, unpacked
from maskedbandits.service.pending import STEPS_OF_GROUPS, expiry_minute
from maskedbandits.service.state import kernel
from maskedbandits.service.tokens import FLAG_SHOWN, Token

if TYPE_CHECKING:
    from maskedbandits.service.storage import Store
    from maskedbandits.service.storage.models import EventRow

ARMS = 1 << 16  # a slot is a policy's number times this, and an arm

Ints = NDArray[np.int64]


class GroupsLive(Live):
    """An experiment with groups."""

    STEPS = STEPS_OF_GROUPS
    tables: Tables

    @property
    def asking(self) -> Contextual:
        """The contextual policy that learns."""
        return self.fold.asking

    def _settle(self, known: Sequence[int]) -> None:
        self.tables = Tables(self.asking, known, self.terms.floor, self.terms.holdout, self.row.default_arm)

    def decide(self, n: int = 1, among: tuple[int, ...] | None = None) -> list[Issued]:
        """Ask n times; each question awaits one answer."""
        now = int(self.clock.now())
        expires = now + self.terms.expires_after
        minute = expiry_minute(expires, self.terms.expires_after, self.STEPS)
        issued = []
        with self._lock:
            for _ in range(n):
                grain, arms, flags = self.tables.decide(among)
                question = packed(grain, arms, self.asking.signs(grain))
                self.pending.issue_all(self._slots(grain, arms[None, :]).tolist(), minute)
                issued.append(Issued(0, WHOLE, flags, now, expires, question))
        return issued

    def show(self, among: tuple[int, ...] | None = None) -> Issued:
        """Return what to show somebody who takes no part: no answer is awaited."""
        now = int(self.clock.now())
        with self._lock:
            grain, arms, _ = self.tables.show(among)
        question = packed(grain, arms, None)
        return Issued(0, WHOLE, FLAG_SHOWN, now, now + self.terms.expires_after, question)

    def take_back(self, decision: Issued) -> None:
        """Undo a decision that nobody is told of."""
        if decision.flags & FLAG_SHOWN:
            return
        grain, arms, _ = self._apart(decision.question)
        minute = expiry_minute(decision.expires, decision.expires - decision.issued, self.STEPS)
        with self._lock:
            self.pending.issue_all(self._slots(grain, arms[None, :]).tolist(), minute, -1)
            self.tables.await_answers(grain, arms, -1)

    def _apart(self, question: bytes) -> tuple[int, Ints, Ints]:
        """Return the grain of a question, and the arm and the sign of each part."""
        sizes = self.asking.grouping.sizes
        asked = unpacked([question], sizes)
        grain = int(asked.grains[0])
        return grain, asked.tables[0, : sizes[grain]], asked.signs[0, : sizes[grain]]

    def by_group(self, question: bytes) -> tuple[list[str], list[int] | None]:
        """Return the name of the arm, and the sign, for each group."""
        grain, arms, signs = self._apart(question)
        part = self.asking.grouping.parts[grain]
        names = [self.arms.names[arm] for arm in arms[part].tolist()]
        return names, signs[part].tolist() if has_signs(question) else None

    def answers(self, question: bytes) -> int:
        """Return how many answers there are to a question; none if it cannot be one of this experiment."""
        grouping = self.asking.grouping
        if not fits(question, grouping.sizes):
            return 0
        return 2 if has_signs(question) else 2 * grouping.groups

    def knows(self, token: Token) -> bool:
        """Tell whether all arms of a token have been heard of."""
        if not token.question or not fits(token.question, self.asking.grouping.sizes):
            return False
        return int(self._apart(token.question)[1].max()) < len(self.arms.rows)

    def may_show(self, token: Token, among: Sequence[int] | None) -> bool:
        """Tell whether the arms of a token are open, and among some."""
        return self.knows(token) and all(self._may(arm, among) for arm in self._apart(token.question)[1].tolist())

    def _slots(self, grain: int, tables: Ints) -> Ints:
        """Return the slots of questions at one grain, one after the other."""
        counted = self.tables.counted(tables.T).T
        first = self.asking.grouping.firsts[grain]
        return np.asarray((first + np.arange(counted.shape[1])) * ARMS + counted).ravel()

    def _take(self, events: Sequence[EventRow]) -> None:
        self.fold.take(events)
        for event in events:
            self.counts[event.kind] = self.counts.get(event.kind, 0) + 1
        asked = [(event.question, event.expires) for event in events]
        self._reported([(each, minute) for each, minute in asked if each is not None and minute is not None])

    def read_reported(self, store: Store) -> None:
        """Count the answers up to here whose tokens could still be open."""
        self._reported(store.read_questions(self.id, self.clock.minute(), self.fold.seq))

    def _reported(self, asked: Sequence[tuple[bytes, int]]) -> None:
        found: Questions = unpacked([question for question, _ in asked], self.asking.grouping.sizes)
        minutes = np.array([minute for _, minute in asked], dtype=np.int64)
        for grain, size in enumerate(self.asking.grouping.sizes):
            here = found.grains == grain
            slots = self._slots(grain, found.tables[here, :size])
            if slots.size:
                each = np.repeat(minutes[here], slots.size // here.sum())
                pairs, counts = np.unique(np.stack([slots, each], axis=1), axis=0, return_counts=True)
                for (slot, minute), count in zip(pairs.tolist(), counts.tolist(), strict=True):
                    self.pending.report(slot, minute, count)

    def await_exactly(self) -> None:
        """Let the policies await just those answers that can still come."""
        with self._lock:
            counts = 0 * self.asking.pending
            slots, awaited = self.pending.awaited(self.clock.minute())
            here = slots % ARMS < counts.shape[1]
            counts[slots[here] // ARMS, slots[here] % ARMS] = np.maximum(awaited[here], 0)
            self.asking.await_exactly(counts)

    def in_all(self, issued: Mapping[int, int]) -> list[int]:
        """Return how many of what is counted by slots are questions: of all arms together."""
        firsts = set(self.asking.grouping.firsts.tolist())
        return [sum(count for slot, count in issued.items() if slot // ARMS in firsts)]

    def open(self) -> list[int]:
        """Return how many questions still await their answer; once the experiment is archived every one is late."""
        if self.status == "archived":
            return [0]
        slots, awaited = (each.tolist() for each in self.pending.awaited(self.clock.minute()))
        return [max(0, each) for each in self.in_all(dict(zip(slots, awaited, strict=True)))]

    def view(self) -> dict[str, Any]:
        """Return what the log says: by group, and then by arm."""
        seq, policy, counts = self.moment()
        return {
            "seq": seq,
            "digest": policy.fold_digest(),
            "kernel": kernel(),
            "arms": self.arms.names[: policy.arms],
            "groups": self.terms.groups,
            "answers": policy.answers,
            "shares": policy.shares().tolist(),
            "pooled": policy.pooled,
            "observations": policy.observations,
            "alarms": policy.alarms,
            "estimates": [[None if value != value else value for value in row] for row in policy.estimates().tolist()],
            "intervals": policy.intervals().tolist(),
            "suspects": policy.suspects().tolist(),
            "probabilities": [probabilities(own) for own in policy.by_group],
            **counts,
        }
