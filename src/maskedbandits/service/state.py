"""The state of an experiment: a fold over its log, from the first event on or from a snapshot.

The same events in the same order give the same state, to the last bit: nothing else goes into it, neither the time nor
which decisions are open. The first event says how the experiment was created; compiled code takes in reports, as many
at once as stand between two changes of arms. Where there are groups the policy is a contextual one, and reports are
answers to the questions that stand beside them in the log.
"""

from __future__ import annotations

import copy
import hashlib
import json
import struct
import threading
import uuid
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from maskedbandits import fingerprint
from maskedbandits._numba.state import Ints
from maskedbandits.contextual import Contextual, make_contextual
from maskedbandits.contextual import serialization as contextual
from maskedbandits.errors import UserError, nearest
from maskedbandits.policies import KINDS, Policy, kind_of, make_policy, serialization
from maskedbandits.privacy import Randomizer
from maskedbandits.service.group_queries import unpacked
from maskedbandits.service.schemas import MILLION, millionths
from maskedbandits.service.sources import FLAG_HELD

if TYPE_CHECKING:
    from maskedbandits.corruption import RandomizedResponse
    from maskedbandits.service.storage.models import EventRow

# Why a policy is not offered: the first reason that holds.
DRAWS_LOTS = "it draws lots when it observes, so that no log could repeat it"
REFUSED = {
    "exp3s": "it weighs reports by their probability when they arrive, which is another when they are late",
    "rexp3": "it weighs reports by their probability when they arrive, which is another when they are late",
    "adswitch": DRAWS_LOTS,
    "ldp-ucb-l": "it is shown rewards as they are",
    "dp-ucb": "it is shown rewards as they are",
    "oracle": "it must be told what nobody knows",
    "ldp-ucb-b": "it is ucb-cf under an old name: give that",
    "uniform": "it learns nothing: give the arms a floor a little below 1/K under another policy",
}

FORMAT = 4  # of a snapshot: this byte, epsilon in millionths, arms, reports held back, reports by arm, the policy
FORMAT_OF_GROUPS = 5  # likewise, but for one number of reports, and a contextual policy
HEAD = struct.Struct(">BQIQ")
KEY = 16  # digits of the key of snapshots
UNKNOWN = uuid.uuid4().hex[:KEY]  # a key that no other process has


@lru_cache(maxsize=1024)
def mask_of(epsilon: int) -> RandomizedResponse:
    """Return how a report is masked, by its epsilon in millionths: by the words that a device's threshold leaves."""
    return Randomizer(Fraction(epsilon, MILLION)).corruption


def offered() -> list[str]:
    """Return the policies that a service can run."""
    return [name for name in sorted(KINDS) if not why_refused(name)]


def why_refused(name: str) -> str:
    """Return why a policy is not offered; nothing if it is."""
    kind = kind_of(name)
    if name in REFUSED:
        return REFUSED[name]
    if "horizon" in kind.parameters and kind.parameters["horizon"].required:
        return "it needs a horizon, and a service has none"
    if kind.required or name.startswith("oracle-"):
        return REFUSED["oracle"]
    return "" if kind.takes_masks and kind.sees_corruption else "it takes no reports with an epsilon of their own"


def refuse_unless_offered(name: str) -> None:
    """Say in one line why a policy is not offered, if it is not."""
    if name not in KINDS:
        raise UserError(f"no policy is called {name!r}{nearest(name, offered())}")
    if reason := why_refused(name):
        raise UserError(f"policy = {name!r} is not offered here: {reason}; take one of {', '.join(offered())}")


def made(config: dict[str, Any], arms: int) -> Policy | Contextual:
    """Return the policy that a configuration asks for, which has seen nothing."""
    own, groups = millionths("epsilon", config["epsilon"]), config.get("groups")
    if not groups:
        mask = mask_of(own)
        return make_policy(config["policy"], arms=arms, corruption=mask, expire_after=None, **config["parameters"])
    return make_contextual(
        config["policy"],
        groups=len(groups),
        arms=arms,
        epsilon=Fraction(own, MILLION),
        shares=config.get("shares"),
        expire_after=None,  # tokens expire, and the service counts which are pending
        **config["parameters"],
    )


def kernel() -> str:
    """Return the key of snapshots: states of other code or of another machine may differ in the last bit.

    Where that cannot be known, as with a policy that was defined at a prompt, no snapshot is used again.
    """
    key = fingerprint.package_key(fingerprint.SNAPSHOTS)
    own = [kind.origin for kind in KINDS.values() if kind.is_own]
    if not key or any(origin.doubt for origin in own):
        return UNKNOWN
    return hashlib.sha256("".join([key, *(origin.digest for origin in own)]).encode()).hexdigest()[:KEY]


class Fold:
    """A policy, and up to where it has taken in the log; one thread folds, others look."""

    def __init__(self, policy: Policy | Contextual | None = None, seq: int = 0, epsilon: int = 0) -> None:
        self._policy, self.seq, self.epsilon = policy, seq, epsilon
        self.reported = np.zeros(0, dtype=np.int64)  # reports ever, by arm; where there are groups, of all together
        self.held_back = 0  # of these, reports from which no policy learns
        self._folding = threading.Lock()  # who looks at both sees policy and number of one moment

    @property
    def policy(self) -> Policy:
        """The policy; there is one from the first event on."""
        if isinstance(self._policy, Policy):
            return self._policy
        raise self._empty() if self._policy is None else UserError("an experiment with groups has one for each")

    @property
    def asking(self) -> Contextual:
        """The contextual policy of an experiment with groups."""
        if isinstance(self._policy, Contextual):
            return self._policy
        raise self._empty() if self._policy is None else UserError("the experiment has no groups")

    @property
    def either(self) -> Policy | Contextual:
        """The policy, of either kind."""
        if self._policy is None:
            raise self._empty()
        return self._policy

    def _empty(self) -> UserError:
        return UserError("the log is empty: an experiment's first event says how it was created")

    def take(self, events: Sequence[EventRow]) -> None:
        """Take in the next events of the log, in their order."""
        with self._folding:
            self._take(events)

    def _take(self, events: Sequence[EventRow]) -> None:
        place = 0
        while place < len(events):
            end = place
            while end < len(events) and events[end].kind == "report":
                end += 1
            if end > place:
                self._take_reports(events[place:end])
            else:
                self._take_change(events[end])
                end += 1
            self.seq = events[end - 1].seq
            place = end

    def _check(self, event: EventRow, place: int) -> None:
        if event.seq != self.seq + place + 1:
            raise UserError(f"the log has a gap: after event {self.seq + place} comes {event.seq}; restore a backup")

    def _take_reports(self, events: Sequence[EventRow]) -> None:
        for place, event in enumerate(events):
            self._check(event, place)
        used = [event for event in events if not (event.flags or 0) & FLAG_HELD]
        if used and isinstance(self._policy, Contextual):
            self._take_answers(self._policy, used)
        elif used:
            self._take_bits(used)
        if len(used) < len(events):
            self._count_held([event for event in events if (event.flags or 0) & FLAG_HELD])

    def _count_held(self, events: Sequence[EventRow]) -> None:
        """Count reports from which no policy learns."""
        arms = [0 if isinstance(self._policy, Contextual) else event.arm for event in events]
        np.add.at(self.reported, np.array(arms, dtype=np.int64), 1)
        self.held_back += len(events)

    def _take_bits(self, events: Sequence[EventRow]) -> None:
        arms = np.array([event.arm for event in events], dtype=np.int64)
        bits = np.array([event.bit for event in events], dtype=np.float64)
        others = any(event.epsilon != self.epsilon for event in events)
        masks = [None if event.epsilon == self.epsilon else mask_of(event.epsilon) for event in events]
        self.policy.observe_many(arms, bits, masks if others else None)
        np.add.at(self.reported, arms, 1)

    def _take_answers(self, policy: Contextual, events: Sequence[EventRow]) -> None:
        asked = unpacked([event.question or b"" for event in events], policy.grouping.sizes)
        if asked.tables.max() >= policy.arms:
            raise UserError("the log is damaged: a question has an arm that there was not; restore a backup")
        answers = np.array([event.bit for event in events], dtype=np.int64)
        policy.take_in(*asked, answers, [Fraction(event.epsilon or 0, MILLION) for event in events])
        self.reported[0] += len(events)

    def _take_change(self, event: EventRow) -> None:
        self._check(event, 0)
        told = json.loads(event.detail or "{}")
        if event.kind == "create":
            config = told["config"]
            self.epsilon, arms = millionths("epsilon", config["epsilon"]), len(told["arms"])
            self._policy = made(config, arms)
            self.reported = np.zeros(1 if isinstance(self._policy, Contextual) else arms, dtype=np.int64)
        elif event.kind == "arm":
            self.either.add_arm()
            if not isinstance(self._policy, Contextual):
                self.reported = np.append(self.reported, 0)
        elif event.kind == "retire":
            self.either.retire(-1 if event.arm is None else event.arm)  # of no arm it is refused

    def state(self) -> tuple[int, str]:
        """Return the number of the last event, and a digest of all that the log up to there determines."""
        with self._folding:
            return self.seq, self.either.fold_digest()

    def moment(self) -> tuple[int, Any, Ints, int]:
        """Return the number of the last event, a copy of the policy, reports by arm, and those held back, then."""
        with self._folding:
            return self.seq, copy.copy(self.either), self.reported.copy(), self.held_back

    def snapshot(self) -> tuple[int, bytes, str]:
        """Return the number of the last event, all of the state as bytes, and its digest.

        Decisions that are open, and lots, are each process's own.
        """
        seq, policy, reported, held_back = self.moment()
        grouped = isinstance(policy, Contextual)
        head = HEAD.pack(FORMAT_OF_GROUPS if grouped else FORMAT, self.epsilon, reported.size, held_back)
        body = contextual.dumps(policy) if grouped else serialization.dumps(policy)
        return seq, head + reported.astype("<i8").tobytes() + body, policy.fold_digest()

    @classmethod
    def from_snapshot(cls, body: bytes, seq: int, digest: str) -> Fold:
        """Return what was written down, or refuse it if it is not what it says."""
        if len(body) < HEAD.size or body[0] not in (FORMAT, FORMAT_OF_GROUPS):
            raise UserError("a snapshot is damaged, or of another version")
        kind, epsilon, counts, held_back = HEAD.unpack_from(body)
        end = HEAD.size + 8 * counts
        policy = serialization.loads(body[end:]) if kind == FORMAT else contextual.loads(body[end:])
        policy.await_exactly(0 * policy.pending)
        fold = cls(policy, seq, epsilon)
        fold.reported = np.frombuffer(body[HEAD.size : end], dtype="<i8").astype(np.int64)
        fold.held_back = held_back
        wanted = policy.arms if kind == FORMAT else 1
        is_sound = counts == wanted and fold.reported.sum() == policy.observations + held_back
        if fold.state() != (seq, digest) or not is_sound:
            raise UserError("a snapshot is damaged: its digest differs")
        return fold
