"""Replies to devices that ask for a decision.

The name of a visitor is hashed under a secret of the service, together with the experiment, before anything else uses
it. So visitors of two experiments cannot be matched. The token of a visitor is sealed with a key that needs the
visitor's name, which is not stored: without the name it cannot be joined to its report.

If the store is away, a visitor gets a decision that is not stored, and the reply says so. A browser then shows its
earlier one.

A visitor keeps a token until a report of it would be late, or its arm is retired. If its arm is not among the eligible
ones, the visitor gets a second token for this set of arms. Someone who alternates between two sets has two tokens, and
spends privacy for two.
"""

from __future__ import annotations

import asyncio
import hmac
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import msgspec

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.errors import UserError
from maskedbandits.service.archive import ArchivedExperiment
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.group_experiment import GroupExperiment
from maskedbandits.service.http import RequestError, Response
from maskedbandits.service.pending import round_expiry
from maskedbandits.service.schemas import (
    MAX_DECISIONS,
    MILLION,
    BodyDecoder,
    DecisionAnswer,
    DecisionRequest,
    DecisionsAnswer,
    QuestionAnswer,
    QuestionsAnswer,
)
from maskedbandits.service.secret import Secrets, seal, unseal
from maskedbandits.service.storage import StoreUnavailable
from maskedbandits.service.storage.models import ARCHIVED
from maskedbandits.service.tokens import FLAG_SHOWN, ForgedToken, Token, draw_id

if TYPE_CHECKING:
    from maskedbandits.service.experiment import ArmTable, IssuedDecision, LiveExperiment
    from maskedbandits.service.registry import ExperimentRegistry
    from maskedbandits.service.server.metrics import Metrics

DECISIONS_AT_ONCE = 64  # by one policy, before other requests get their turn
VISITOR_BYTES = 16  # of a visitor's hash
MAX_DEVICE_DECISIONS = 20  # in one request of a key that may be public
USE_BACKEND = "use a key with the role backend"
DECIDED_BY_BACKEND = f"only servers may ask for decisions of this experiment (decide_with): {USE_BACKEND}"
VISIT_TIMEOUT_S = 0.25  # for the store; pages wait for half a second
MIN_WINDOW_S = 1  # that a device needs from report_at to the expiry of its token: with less it does not participate
MAX_REPLY_BYTES = 1 << 24  # of payloads in one reply, and with groups of names
ISSUED_SECOND = struct.Struct(">I")  # before a visitor's token
ENDED = "the experiment is archived: it makes no more decisions"
ONE_DECISION = DecisionRequest()

Reply = DecisionAnswer | QuestionAnswer

_encode = msgspec.json.Encoder().encode


class VisitorToken(NamedTuple):
    """The stored token of a visitor, its content, and the second in which it was issued."""

    token: str
    decision: Token
    issued: int


def _ignore_outcome(task: asyncio.Future[VisitorToken | None]) -> None:
    """Mark the exception of a task as known: the requests that fail show what is wrong with the store."""
    if not task.cancelled():
        task.exception()


class ArmReplies:
    """The parts of replies that depend on the arms of an experiment alone, until the arms change."""

    def __init__(self, experiment: LiveExperiment) -> None:
        self.arms: ArmTable = experiment.arms
        self._groups = experiment.config.groups

    @lockfree_cached_property
    def payloads(self) -> msgspec.Raw:
        """The payloads of all open arms by name, encoded once."""
        return msgspec.Raw(_encode({self.arms.names[arm]: self.arms.payloads[arm] for arm in self.arms.open}))

    @lockfree_cached_property
    def max_decisions(self) -> int:
        """The number of decisions that fit in one reply, whichever arms they have; at least one."""
        payloads = [len(bytes(payload)) for payload in self.arms.payloads]
        if not self._groups:
            return max(1, MAX_REPLY_BYTES // max(payloads))
        names = [len(_encode(name)) + 2 for name in self.arms.names]
        return max(1, MAX_REPLY_BYTES // (sum(payloads) + sum(names) + max(names) * len(self._groups)))


class DecisionRoutes:
    """Handles requests for decisions."""

    def __init__(self, registry: ExperimentRegistry, secrets: Secrets, metrics: Metrics) -> None:
        self.registry, self.secrets, self.metrics = registry, secrets, metrics
        self._decode = BodyDecoder(DecisionRequest)
        self._replies: WeakKeyDictionary[LiveExperiment, ArmReplies] = WeakKeyDictionary()  # until it is closed

    async def decide(self, name: str, body: bytes, charge: Callable[[int], None], roles: frozenset[str]) -> Response:
        """Reply with one decision or several, after charging for them; only readers get errors that name arms."""
        request = self._decode(body) if body else ONE_DECISION
        experiment, n = self.registry.get(name), request.n
        if experiment is not None:
            self._check_size(experiment, n)
        else:
            found = await self.registry.resolve(name)
            if isinstance(found, ArchivedExperiment):
                raise RequestError(410, ENDED, code="archived")
            experiment = found
        if "backend" not in roles:
            _check_device(experiment, n)
        eligible = request.eligible_arms
        among = None if eligible is None else experiment.arms.find_eligible(eligible, "read" in roles)
        if request.visitor is not None and n is not None and n > 1:
            raise UserError("n and visitor exclude each other: leave out one of them")
        charge(n or 1)
        if experiment.status != "running":
            replies = [self._reply_while_paused(experiment, among)] * (n or 1)
        elif request.visitor is not None:
            replies = [await self._reply_to_visitor(experiment, request.visitor, among, request.participate)]
        elif not request.participate:
            replies = [self._issue(experiment, experiment.show(among))[1] for _ in range(n or 1)]
        elif n is None:
            replies = [self._issue(experiment, experiment.decide(1, among)[0])[1]]
        else:
            replies = await self._decide_many(experiment, n, among)
        self.metrics.count("decisions", len(replies))
        if n is None:
            return Response(200, _encode(replies[0]))
        batch = QuestionsAnswer if isinstance(experiment, GroupExperiment) else DecisionsAnswer
        return Response(200, _encode(batch(cast("Any", replies))))

    def _check_size(self, experiment: LiveExperiment, n: int | None) -> None:
        """Refuse more decisions than fit in one reply."""
        most = self._get_replies(experiment).max_decisions
        if most < MAX_DECISIONS and (n or 1) > most:
            what = f"n = {n or 1}: with payloads this long, at most {most} decisions fit in one reply"
            raise RequestError(400, what, code="reply_too_long")

    async def _decide_many(self, experiment: LiveExperiment, n: int, among: tuple[int, ...] | None) -> list[Reply]:
        replies: list[Reply] = []
        some = max(1, DECISIONS_AT_ONCE // experiment.config.policies)
        while len(replies) < n:
            issued = experiment.decide(min(some, n - len(replies)), among)
            replies += [self._issue(experiment, each)[1] for each in issued]
            await asyncio.sleep(0)
        return replies

    def _issue(self, experiment: LiveExperiment, issued: IssuedDecision) -> tuple[str, Reply]:
        """Sign a decision; return its token and the reply."""
        arm, probability, flags, now, expires, question = issued
        version = experiment.row.config_version
        decision = Token(
            experiment.id, version, arm, flags, experiment.epsilon, probability, expires, draw_id(), question
        )
        token = self.secrets.ring.sign(decision)
        return token, self._build_reply(experiment, token, decision, now)

    # Replies

    def _build_reply(self, experiment: LiveExperiment, token: str, decision: Token, issued: int) -> Reply:
        if decision.flags & FLAG_SHOWN:
            return self._build_reply_without_token(experiment, decision.arm, decision.probability, decision.question)
        # If report_after has grown since an earlier token was issued, the report could be due after its expiry.
        report_at = min(issued + experiment.config.report_after, decision.expires - MIN_WINDOW_S)
        epsilon = decision.epsilon / MILLION
        if isinstance(experiment, GroupExperiment):
            arms, signs = experiment.expand_question(decision.question)
            return self._build_question(experiment, token, arms, signs, epsilon, report_at, decision.expires)
        return DecisionAnswer(
            token,
            experiment.arms.names[decision.arm],
            experiment.arms.payloads[decision.arm],
            epsilon,
            report_at,
            decision.expires,
            decision.probability / WHOLE,
            True,
            int(experiment.clock.now()),
            experiment.name,
        )

    def _build_reply_without_token(
        self, experiment: LiveExperiment, arm: int, probability: int, question: bytes = b""
    ) -> Reply:
        now, epsilon, name = int(experiment.clock.now()), experiment.epsilon / MILLION, experiment.arms.names[arm]
        if isinstance(experiment, GroupExperiment):
            groups = experiment.contextual_policy.groups
            arms = experiment.expand_question(question)[0] if question else [name] * groups
            return self._build_question(experiment, None, arms, None, epsilon, now, now)
        payload = experiment.arms.payloads[arm]
        chance = probability / WHOLE
        return DecisionAnswer(None, name, payload, epsilon, now, now, chance, False, now, experiment.name)

    def _build_question(
        self,
        experiment: GroupExperiment,
        token: str | None,
        arms: list[str],
        signs: list[int] | None,
        epsilon: float,
        report_at: int,
        expires: int,
    ) -> QuestionAnswer:
        payloads, now = cast("dict[str, Any]", self._get_replies(experiment).payloads), int(experiment.clock.now())
        participates = token is not None
        return QuestionAnswer(
            token, arms, signs, payloads, epsilon, report_at, expires, participates, now, experiment.name
        )

    def _get_replies(self, experiment: LiveExperiment) -> ArmReplies:
        replies = self._replies.get(experiment)
        if replies is None or replies.arms is not experiment.arms:
            replies = self._replies[experiment] = ArmReplies(experiment)
        return replies

    def _reply_while_paused(self, experiment: LiveExperiment, among: Sequence[int] | None) -> Reply:
        """Reply with the default arm, or the first eligible one; no report is accepted."""
        if experiment.status == ARCHIVED:
            raise RequestError(410, ENDED, code="archived")
        arm = experiment.row.default_arm
        if among is not None and arm not in among:
            arm = among[0]
        return self._build_reply_without_token(experiment, arm, WHOLE)

    # Visitors

    async def _reply_to_visitor(
        self, experiment: LiveExperiment, visitor: str, among: tuple[int, ...] | None, participate: bool
    ) -> Reply:
        """Reply with the visitor's earlier decision while its token is valid, else with a new one."""
        issued = experiment.decide(1, among)[0] if participate else experiment.show(among)
        token, reply = self._issue(experiment, issued)
        storing = asyncio.ensure_future(self._store_visit(experiment, visitor, among, token, issued))
        storing.add_done_callback(_ignore_outcome)
        try:
            stored = await asyncio.wait_for(asyncio.shield(storing), VISIT_TIMEOUT_S)
        except (TimeoutError, StoreUnavailable):  # a page waits: its browser knows an earlier decision, if there is one
            reply.stored = False
            return reply
        except BaseException:
            experiment.cancel(issued)
            raise
        if stored is None:
            return reply
        experiment.cancel(issued)
        earlier = stored.decision
        if not participate:  # the same arm; the token stays with the device that spent privacy for it
            return self._build_reply_without_token(experiment, earlier.arm, earlier.probability, earlier.question)
        return self._build_reply(experiment, stored.token, earlier, stored.issued)

    async def _store_visit(
        self,
        experiment: LiveExperiment,
        visitor: str,
        among: tuple[int, ...] | None,
        token: str,
        issued: IssuedDecision,
    ) -> VisitorToken | None:
        """Store a visitor's token; return an earlier one that is still valid, or None."""
        minute = round_expiry(issued.expires, issued.expires - issued.issued, experiment.EXPIRY_STEPS)
        for arms in dict.fromkeys((None, among)):  # the second if the first has an arm that is not eligible
            name, key = self._hash_visitor(experiment, visitor, arms)
            sealed, instead = seal(key, ISSUED_SECOND.pack(issued.issued) + token.encode()), b""
            for _ in range(2):  # another request may replace an invalid token at the same time
                found = await self.registry.visit(experiment, name, sealed, minute, instead)
                if found == sealed:
                    return None
                stored = self._open_token(experiment, unseal(key, found))
                if stored is not None and experiment.may_show(stored.decision, among):
                    return stored
                if stored is not None and arms is None:
                    break
                instead = found
        return None

    def _open_token(self, experiment: LiveExperiment, stored: bytes) -> VisitorToken | None:
        """Return a stored token if its arm may be shown and its report would be accepted.

        The store keeps tokens up to a step longer than they live (``pending.py``).
        """
        try:
            (issued,), token = ISSUED_SECOND.unpack_from(stored), stored[ISSUED_SECOND.size :].decode("ascii")
            decision = self.secrets.ring.read(token)
        except (struct.error, UnicodeDecodeError, ForgedToken):  # damaged, or its key was dropped since
            return None
        if decision.expires < experiment.clock.now() + MIN_WINDOW_S or not experiment.may_show(decision, None):
            return None
        return VisitorToken(token, decision, issued)

    def _hash_visitor(
        self, experiment: LiveExperiment, visitor: str, among: tuple[int, ...] | None
    ) -> tuple[bytes, bytes]:
        """Return the name of a visitor in the store, and the key that seals the visitor's token."""
        what = _encode([experiment.id, visitor] if among is None else [experiment.id, visitor, among])
        name, key = (hmac.digest(self.secrets.visitor, use + what, "sha256") for use in (b"name", b"token"))
        return name[:VISITOR_BYTES], key


def _check_device(experiment: LiveExperiment, n: int | None) -> None:
    """Refuse what a key in a page may not ask for, because its holder could vote as often as wanted."""
    if experiment.config.decide_with == "backend":
        raise RequestError(403, DECIDED_BY_BACKEND, code="backend_required")
    if n is not None and n > MAX_DEVICE_DECISIONS:
        most = f"at most {MAX_DEVICE_DECISIONS} decisions in one request"
        what = f"n = {n}: a key with the role device may ask for {most}: {USE_BACKEND}"
        raise RequestError(403, what, code="backend_required")
