"""The state of an experiment: a fold over its log, from the first event on or from a snapshot.

The same events in the same order give the same state, to the last bit. Neither the time nor open decisions are part of
it. The first event is the creation of the experiment. Compiled code observes all reports between two changes of arms at
once. With groups the policy is contextual, and reports are answers to the questions beside them in the log. A change of
what the fold does with a log needs a new fold version (``snapshots.py``).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from maskedbandits._numba.state import Ints
from maskedbandits.contextual import Contextual, make_contextual
from maskedbandits.errors import UserError, suggest_nearest
from maskedbandits.policies import KINDS, Policy, kind_of, make_policy
from maskedbandits.privacy import Randomizer
from maskedbandits.service import snapshots
from maskedbandits.service.event_columns import ChangeDetail, EventColumns, find_gap
from maskedbandits.service.group_queries import unpack_questions
from maskedbandits.service.log_hash import LogHash, drop_payloads, read_detail
from maskedbandits.service.schemas import MILLION, to_millionths
from maskedbandits.service.snapshots import MIXED_KERNELS, SnapshotContents, get_kernel_key
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


def change_terms(terms: dict[str, Any] | None, kind: str, arm: int, detail: dict[str, Any]) -> dict[str, Any] | None:
    """Return the settings and arms of an experiment after a change: configuration, default arm, arms, retired arms."""
    if kind == "create":
        arms = drop_payloads(kind, detail)["arms"]
        return {"config": detail["config"], "default_arm": detail.get("default_arm", 0), "arms": arms, "retired": []}
    if terms is None:
        return None
    if kind == "config":
        return {**terms, **{name: detail[name] for name in ("config", "default_arm") if name in detail}}
    if kind == "arm":
        return {**terms, "arms": [*terms["arms"], {"name": detail.get("name")}]}
    return {**terms, "retired": [*terms["retired"], arm]} if kind == "retire" else terms


class ExperimentState:
    """A policy and the number of the last event that it has observed; one thread writes, others read."""

    def __init__(self, policy: Policy | Contextual | None = None, seq: int = 0, epsilon: int = 0) -> None:
        self._policy, self.seq, self.epsilon = policy, seq, epsilon
        self.reported = np.zeros(0, dtype=np.int64)  # all reports by arm; with groups, of all arms together
        self.held_back = 0  # of these, reports from which no policy learns
        self.kernel = ""  # of the code and machine that computed it so far
        self.log_hash = LogHash()
        self.terms: dict[str, Any] | None = None  # the settings and arms now, as in the event of a creation
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
        self.apply_columns(EventColumns.from_rows(events))

    def apply_columns(self, events: EventColumns) -> None:
        """Apply the next events of the log, in order, as columns."""
        with self._lock:
            if (fault := find_gap(events, self.seq)) is not None:
                raise UserError(fault)
            self.log_hash.add(events)
            start = 0
            for place in (*sorted(events.changes), events.size):
                if place > start:
                    self._apply_reports(events.slice(start, place))
                if place < events.size:
                    self._apply_change(int(events.arm[place]), events.changes[place])
                start = place + 1
            self.seq += events.size
            own = get_kernel_key()
            self.kernel = own if self.kernel in ("", own) else MIXED_KERNELS

    def _apply_reports(self, events: EventColumns) -> None:
        is_held_back = (np.maximum(events.flags, 0) & FLAG_HELD_BACK).astype(np.bool_)
        used = np.flatnonzero(~is_held_back) if is_held_back.any() else slice(None)
        is_grouped = isinstance(self._policy, Contextual)
        if not is_held_back.all():
            self._observe_answers(events, used) if is_grouped else self._observe_bits(events, used)
        if is_held_back.any():
            arms = events.arm[is_held_back]
            self._count(np.zeros_like(arms) if is_grouped else arms)
            self.held_back += arms.size

    def _count(self, arms: Ints) -> None:
        """Count reports by arm."""
        if arms.min() < 0 or arms.max() >= self.reported.size:
            raise UserError("the log is damaged: a report has an unknown arm; restore a backup")
        self.reported += np.bincount(arms, minlength=self.reported.size)

    def _observe_bits(self, events: EventColumns, used: Any) -> None:
        arms, bits, epsilons = events.arm[used], events.bit[used], events.epsilon[used]
        masks = None
        if (epsilons != self.epsilon).any():
            known, each = np.unique(epsilons, return_inverse=True)
            own = [None if epsilon == self.epsilon else get_mask(int(epsilon)) for epsilon in known]
            masks = [own[index] for index in each]
        self.policy.observe_many(arms, bits.astype(np.float64), masks)
        self._count(arms)

    def _observe_answers(self, events: EventColumns, used: Any) -> None:
        policy = self.contextual_policy
        places = np.arange(events.size)[used]
        questions = unpack_questions([events.questions.get(int(place), b"") for place in places], policy.grouping.sizes)
        if questions.tables.max() >= policy.arms:
            raise UserError("the log is damaged: a question has an unknown arm; restore a backup")
        epsilons = [Fraction(int(epsilon), MILLION) for epsilon in np.maximum(events.epsilon[used], 0)]
        policy.take_in(*questions, events.bit[used], epsilons)
        self.reported[0] += places.size

    def _apply_change(self, arm: int, change: ChangeDetail) -> None:
        detail = read_detail(change.detail)
        self.terms = change_terms(self.terms, change.kind, arm, detail)
        if change.kind == "create":
            config = detail["config"]
            self.epsilon, arms = to_millionths("epsilon", config["epsilon"]), len(detail["arms"])
            self._policy = build_policy(config, arms)
            self.reported = np.zeros(1 if isinstance(self._policy, Contextual) else arms, dtype=np.int64)
        elif change.kind == "arm":
            self.any_policy.add_arm()
            if not isinstance(self._policy, Contextual):
                self.reported = np.append(self.reported, 0)
        elif change.kind == "retire":
            self.any_policy.retire(arm)  # which refuses -1

    def compute_digest(self) -> tuple[int, str]:
        """Return the number of the last event and a digest of the state at that event."""
        with self._lock:
            return self.seq, self.any_policy.fold_digest()

    def copy_policy(self) -> tuple[int, Any, Ints, int]:
        """Return the number of the last event, a copy of the policy, and the reports by arm and those held back."""
        with self._lock:
            return self.seq, copy.copy(self.any_policy), self.reported.copy(), self.held_back

    def describe(self) -> tuple[SnapshotContents, str]:
        """Return everything that a snapshot has of this state, and the digest of the state."""
        with self._lock:
            policy, seq, log_hash, kernel = copy.copy(self.any_policy), self.seq, self.log_hash.copy(), self.kernel
            reported, held_back, terms = self.reported.copy(), self.held_back, self.terms
        fields, groups = snapshots.read_fields(policy)
        contents = SnapshotContents(
            seq=seq,
            epsilon=self.epsilon,
            held_back=held_back,
            reported=reported,
            kernel=kernel,
            origin=snapshots.get_origin(policy.name),
            policy=policy.name,
            parameters=(policy.by_group[0] if isinstance(policy, Contextual) else policy)._given,
            groups=groups,
            fields=fields,
            log_hash=log_hash,
            terms=terms,
        )
        return contents, policy.fold_digest()

    def snapshot(self) -> tuple[int, bytes, str]:
        """Return the number of the last event, the state as bytes, and its digest.

        Pending reports and random numbers belong to each process, and are no part of it.
        """
        contents, digest = self.describe()
        return contents.seq, snapshots.encode(contents), digest

    @classmethod
    def from_snapshot(cls, body: bytes, seq: int, digest: str) -> ExperimentState:
        """Restore a state; raise an error if its digest differs, or if the code of its policy has changed."""
        contents = snapshots.decode(body)
        snapshots.check_origin(contents)
        policy = snapshots.restore_policy(contents)
        state = cls(policy, seq, contents.epsilon)
        state.reported, state.held_back, state.kernel = contents.reported, contents.held_back, contents.kernel
        state.log_hash = contents.log_hash if contents.seq else LogHash(seq)
        state.terms = contents.terms
        wanted = 1 if isinstance(policy, Contextual) else policy.arms
        is_consistent = state.reported.size == wanted and state.reported.sum() == policy.observations + state.held_back
        if state.compute_digest() != (seq, digest) or contents.seq not in (0, seq) or not is_consistent:
            raise UserError("a snapshot is damaged, because its digest differs: restore a backup")
        return state
