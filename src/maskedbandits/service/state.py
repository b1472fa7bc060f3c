"""The state of an experiment: a fold over its log, from the first event on or from a snapshot.

The same events in the same order give the same state, to the last bit. Neither the time nor open decisions are part of
it. The first event is the creation of the experiment. Compiled code observes all reports between two changes of arms at
once. With groups the policy is contextual, and reports are answers to the questions beside them in the log.
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
from maskedbandits.errors import UserError, suggest_nearest
from maskedbandits.policies import KINDS, Policy, kind_of, make_policy, serialization
from maskedbandits.privacy import Randomizer
from maskedbandits.service.group_queries import unpack_questions
from maskedbandits.service.schemas import MILLION, to_millionths
from maskedbandits.service.tokens import FLAG_HELD_BACK

if TYPE_CHECKING:
    from maskedbandits.corruption import RandomizedResponse
    from maskedbandits.service.storage.models import EventRow

# Why a policy is not offered: the first reason that holds.
DRAWS_RANDOM_NUMBERS = "it draws random numbers when it learns, so a log cannot reproduce it"
REFUSED = {
    "exp3s": "it weights reports by probabilities that change before late reports arrive",
    "rexp3": "it weights reports by probabilities that change before late reports arrive",
    "adswitch": DRAWS_RANDOM_NUMBERS,
    "ldp-ucb-l": "it requires unmasked rewards",
    "dp-ucb": "it requires unmasked rewards",
    "oracle": "it requires knowledge of the true means",
    "ldp-ucb-b": "it is an old name of ucb-cf",
    "uniform": "it does not learn: use another policy with a floor just below 1/K",
}

FORMAT = 4  # of a snapshot: this byte, epsilon in millionths, arms, reports held back, reports by arm, the policy
GROUP_FORMAT = 5  # the same with one number of reports and a contextual policy
HEAD = struct.Struct(">BQIQ")
KERNEL_KEY_LENGTH = 16
UNIQUE_KEY = uuid.uuid4().hex[:KERNEL_KEY_LENGTH]  # of this process alone


@lru_cache(maxsize=1024)
def get_mask(epsilon: int) -> RandomizedResponse:
    """Return the randomised response of an epsilon in millionths, with the probabilities that devices really use."""
    return Randomizer(Fraction(epsilon, MILLION)).corruption


def list_offered() -> list[str]:
    """List the policies that a service can run."""
    return [name for name in sorted(KINDS) if not explain_refusal(name)]


def explain_refusal(name: str) -> str:
    """Return why a policy is not offered, or "" if it is."""
    kind = kind_of(name)
    if name in REFUSED:
        return REFUSED[name]
    if "horizon" in kind.parameters and kind.parameters["horizon"].required:
        return "it requires a horizon, and a service has none"
    if kind.required or name.startswith("oracle-"):
        return REFUSED["oracle"]
    return "" if kind.takes_masks and kind.sees_corruption else "it does not support reports with a smaller epsilon"


def check_offered(name: str) -> None:
    """Raise an error if a policy is not offered."""
    if name not in KINDS:
        raise UserError(f"no policy is called {name!r}{suggest_nearest(name, list_offered())}")
    if reason := explain_refusal(name):
        raise UserError(f"policy = {name!r} is not supported: {reason}; use one of {', '.join(list_offered())}")


def build_policy(config: dict[str, Any], arms: int) -> Policy | Contextual:
    """Build the policy of a configuration, in its initial state."""
    own, groups = to_millionths("epsilon", config["epsilon"]), config.get("groups")
    if not groups:
        mask = get_mask(own)
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


def get_kernel_key() -> str:
    """Return the key of snapshots: with other code or on another machine, states may differ in the last bit.

    Where the code is unknown, as of a policy that was defined at a prompt, no snapshot is used again.
    """
    key = fingerprint.package_key(fingerprint.SNAPSHOTS)
    own = [kind.origin for kind in KINDS.values() if kind.is_own]
    if not key or any(origin.doubt for origin in own):
        return UNIQUE_KEY
    digest = hashlib.sha256("".join([key, *(origin.digest for origin in own)]).encode())
    return digest.hexdigest()[:KERNEL_KEY_LENGTH]


class ExperimentState:
    """A policy and the number of the last event that it has observed; one thread writes, others read."""

    def __init__(self, policy: Policy | Contextual | None = None, seq: int = 0, epsilon: int = 0) -> None:
        self._policy, self.seq, self.epsilon = policy, seq, epsilon
        self.reported = np.zeros(0, dtype=np.int64)  # all reports by arm; with groups, of all arms together
        self.held_back = 0  # of these, reports from which no policy learns
        self._lock = threading.Lock()  # readers see policy and number of one moment

    @property
    def policy(self) -> Policy:
        """The policy, which exists from the first event on."""
        if isinstance(self._policy, Policy):
            return self._policy
        raise self._empty() if self._policy is None else UserError("an experiment with groups has one for each")

    @property
    def contextual_policy(self) -> Contextual:
        """The contextual policy, with groups."""
        if isinstance(self._policy, Contextual):
            return self._policy
        raise self._empty() if self._policy is None else UserError("the experiment has no groups")

    @property
    def any_policy(self) -> Policy | Contextual:
        """The policy of either kind."""
        if self._policy is None:
            raise self._empty()
        return self._policy

    def _empty(self) -> UserError:
        return UserError("the log is empty: it must begin with the creation of the experiment")

    def apply_events(self, events: Sequence[EventRow]) -> None:
        """Apply the next events of the log, in order."""
        with self._lock:
            start = 0
            while start < len(events):
                end = start
                while end < len(events) and events[end].kind == "report":
                    end += 1
                if end > start:
                    self._apply_reports(events[start:end])
                else:
                    self._apply_change(events[end])
                    end += 1
                self.seq = events[end - 1].seq
                start = end

    def _check_seq(self, event: EventRow, offset: int) -> None:
        if event.seq != self.seq + offset + 1:
            raise UserError(f"the log has a gap: {self.seq + offset} is followed by {event.seq}; restore a backup")

    def _apply_reports(self, events: Sequence[EventRow]) -> None:
        for offset, event in enumerate(events):
            self._check_seq(event, offset)
        used = [event for event in events if not (event.flags or 0) & FLAG_HELD_BACK]
        if used and isinstance(self._policy, Contextual):
            self._observe_answers(self._policy, used)
        elif used:
            self._observe_bits(used)
        if len(used) < len(events):
            self._count_held_back([event for event in events if (event.flags or 0) & FLAG_HELD_BACK])

    def _count_held_back(self, events: Sequence[EventRow]) -> None:
        arms = [0 if isinstance(self._policy, Contextual) else event.arm for event in events]
        np.add.at(self.reported, np.array(arms, dtype=np.int64), 1)
        self.held_back += len(events)

    def _observe_bits(self, events: Sequence[EventRow]) -> None:
        arms = np.array([event.arm for event in events], dtype=np.int64)
        bits = np.array([event.bit for event in events], dtype=np.float64)
        has_other_masks = any(event.epsilon != self.epsilon for event in events)
        masks = [None if event.epsilon == self.epsilon else get_mask(event.epsilon) for event in events]
        self.policy.observe_many(arms, bits, masks if has_other_masks else None)
        np.add.at(self.reported, arms, 1)

    def _observe_answers(self, policy: Contextual, events: Sequence[EventRow]) -> None:
        questions = unpack_questions([event.question or b"" for event in events], policy.grouping.sizes)
        if questions.tables.max() >= policy.arms:
            raise UserError("the log is damaged: a question has an unknown arm; restore a backup")
        answers = np.array([event.bit for event in events], dtype=np.int64)
        policy.take_in(*questions, answers, [Fraction(event.epsilon or 0, MILLION) for event in events])
        self.reported[0] += len(events)

    def _apply_change(self, event: EventRow) -> None:
        self._check_seq(event, 0)
        detail = json.loads(event.detail or "{}")
        if event.kind == "create":
            config = detail["config"]
            self.epsilon, arms = to_millionths("epsilon", config["epsilon"]), len(detail["arms"])
            self._policy = build_policy(config, arms)
            self.reported = np.zeros(1 if isinstance(self._policy, Contextual) else arms, dtype=np.int64)
        elif event.kind == "arm":
            self.any_policy.add_arm()
            if not isinstance(self._policy, Contextual):
                self.reported = np.append(self.reported, 0)
        elif event.kind == "retire":
            self.any_policy.retire(-1 if event.arm is None else event.arm)  # which refuses -1

    def compute_digest(self) -> tuple[int, str]:
        """Return the number of the last event and a digest of the state at that event."""
        with self._lock:
            return self.seq, self.any_policy.fold_digest()

    def copy_policy(self) -> tuple[int, Any, Ints, int]:
        """Return the number of the last event, a copy of the policy, and the reports by arm and those held back."""
        with self._lock:
            return self.seq, copy.copy(self.any_policy), self.reported.copy(), self.held_back

    def snapshot(self) -> tuple[int, bytes, str]:
        """Return the number of the last event, the state as bytes, and its digest.

        Pending reports and random numbers belong to each process, and are no part of it.
        """
        seq, policy, reported, held_back = self.copy_policy()
        is_grouped = isinstance(policy, Contextual)
        head = HEAD.pack(GROUP_FORMAT if is_grouped else FORMAT, self.epsilon, reported.size, held_back)
        body = contextual.dumps(policy) if is_grouped else serialization.dumps(policy)
        return seq, head + reported.astype("<i8").tobytes() + body, policy.fold_digest()

    @classmethod
    def from_snapshot(cls, body: bytes, seq: int, digest: str) -> ExperimentState:
        """Restore a state; raise an error if its digest differs."""
        if len(body) < HEAD.size or body[0] not in (FORMAT, GROUP_FORMAT):
            raise UserError("a snapshot is damaged, or of another version")
        kind, epsilon, counts, held_back = HEAD.unpack_from(body)
        end = HEAD.size + 8 * counts
        policy = serialization.loads(body[end:]) if kind == FORMAT else contextual.loads(body[end:])
        policy.await_exactly(0 * policy.pending)
        state = cls(policy, seq, epsilon)
        state.reported = np.frombuffer(body[HEAD.size : end], dtype="<i8").astype(np.int64)
        state.held_back = held_back
        wanted = policy.arms if kind == FORMAT else 1
        is_consistent = counts == wanted and state.reported.sum() == policy.observations + held_back
        if state.compute_digest() != (seq, digest) or not is_consistent:
            raise UserError("a snapshot is damaged: its digest differs")
        return state
