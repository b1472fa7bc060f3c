"""Answers to devices that ask what to show: a token, and text that was put together once for every arm.

What a device calls its visitor is hashed under a secret of the service before anything else sees it, together with the
experiment: so visitors of two experiments cannot be told to be the same. The token that a visitor keeps is sealed with
a key that needs the visitor's name, which nobody stores: without the name it cannot be joined to its report.

A visitor keeps a token until no report of it could come in time any more, or until its arm is retired. While its arm is
not among those that are asked for, the visitor has another one beside it, for this set of arms: who goes to and fro
between two sets has two tokens, and pays for two.
"""

from __future__ import annotations

import asyncio
import hmac
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.errors import UserError
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.group_experiment import GroupsLive
from maskedbandits.service.http import Answer, Refused
from maskedbandits.service.keys import Secrets
from maskedbandits.service.lookup import found
from maskedbandits.service.pending import expiry_minute
from maskedbandits.service.schemas import MILLION, DecisionRequest, Reader
from maskedbandits.service.secret import seal, unseal
from maskedbandits.service.server.metrics import Metrics
from maskedbandits.service.tokens import FLAG_SHOWN, ForgedToken, Token, new_id

if TYPE_CHECKING:
    from maskedbandits.service.experiment import Arms, Issued, Live
    from maskedbandits.service.registry import ExperimentRegistry

AT_ONCE = 64  # decisions, each by one policy, after which others get their turn
VISITOR = 16  # bytes of a visitor's hash
SHORTEST = 1  # seconds that a device needs from report_at to the end of its token: with less it takes no part
SECOND = struct.Struct(">I")  # in which a token was issued, before a visitor's token
ONE = DecisionRequest()


class Kept(NamedTuple):
    """A token that a visitor keeps, what it says, and the second in which it was issued."""

    token: str
    decided: Token
    issued: int


class Words:
    """What answers say of each arm of an experiment, put together when it is first needed."""

    def __init__(self, arms: Arms) -> None:
        self.arms = arms
        self._texts: dict[int, str] = {}

    def of(self, arm: int) -> str:
        """Return the name and the payload of an arm, as an answer has them."""
        text = self._texts.get(arm)
        if text is None:
            name = msgspec.json.encode(self.arms.names[arm]).decode()
            payload = bytes(self.arms.payloads[arm]).decode()
            text = self._texts[arm] = f'"arm":{name},"payload":{payload}'
        return text

    @lockfree_cached_property
    def payloads(self) -> str:
        """The payloads of all open arms, by name, as an answer has them."""
        names = {arm: msgspec.json.encode(self.arms.names[arm]).decode() for arm in self.arms.open}
        return ",".join(f"{name}:{bytes(self.arms.payloads[arm]).decode()}" for arm, name in names.items())


class Decisions:
    """Answers requests for decisions."""

    def __init__(self, registry: ExperimentRegistry, secrets: Secrets, metrics: Metrics) -> None:
        self.registry, self.secrets, self.metrics = registry, secrets, metrics
        self._read = Reader(DecisionRequest)
        self._words: dict[int, Words] = {}

    async def answer(self, name: str, body: bytes, charge: Callable[[int], None], *, may_read: bool) -> Answer:
        """Return what to show, once it is charged; errors name arms only to who may read them."""
        request = self._read(body) if body else ONE
        live, n = await found(self.registry, name), request.n
        among = None if request.eligible_arms is None else live.arms.eligible(request.eligible_arms, may_read)
        if request.visitor is not None and n is not None and n > 1:
            raise UserError("a visitor is shown one arm: leave out n, or visitor")
        charge(n or 1)
        if live.status != "running":
            texts = [self._while_paused(live, among)] * (n or 1)
        elif request.visitor is not None:
            texts = [await self._for_visitor(live, request.visitor, among, request.participate)]
        elif not request.participate:
            texts = [self._text(live, live.show(among))[1] for _ in range(n or 1)]
        elif n is None:
            texts = [self._text(live, live.decide(1, among)[0])[1]]
        else:
            texts = await self._many(live, n, among)
        self.metrics.count("decisions", len(texts))
        text = texts[0] if n is None else f'{{"decisions":[{",".join(texts)}]}}'
        return Answer(200, text.encode())

    async def _many(self, live: Live, n: int, among: tuple[int, ...] | None) -> list[str]:
        texts: list[str] = []
        some = max(1, AT_ONCE // live.terms.policies)
        while len(texts) < n:
            texts += [self._text(live, each)[1] for each in live.decide(min(some, n - len(texts)), among)]
            await asyncio.sleep(0)
        return texts

    def _text(self, live: Live, issued: Issued) -> tuple[str, str]:
        """Return the token of a decision, and the answer."""
        arm, probability, flags, now, expires, asked = issued
        version, identity = live.row.config_version, new_id()
        decided = Token(live.id, version, arm, flags, live.epsilon, probability, expires, identity, asked)
        token = self.secrets.ring.sign(decided)
        return token, self._with_token(live, token, decided, now)

    def _with_token(self, live: Live, token: str, decided: Token, now: int) -> str:
        if decided.flags & FLAG_SHOWN:
            return self._without_token(live, decided.arm, decided.probability, decided.question)
        # Where reports are due later since an earlier token was made, that may be after its end.
        report_at = min(now + live.terms.report_after, decided.expires - SHORTEST)
        if isinstance(live, GroupsLive):
            epsilon, due = decided.epsilon / MILLION, (report_at, decided.expires)
            return self._asking(live, token, live.by_group(decided.question), epsilon, due)
        return (
            f'{{"token":"{token}",{self._of(live, decided.arm)},"epsilon":{decided.epsilon / MILLION!r},'
            f'"report_at":{report_at},"expires":{decided.expires},'
            f'"probability":{decided.probability / WHOLE!r},"participate":true}}'
        )

    def _asking(
        self,
        live: GroupsLive,
        token: str | None,
        asked: tuple[list[str], list[int] | None],
        epsilon: float,
        due: tuple[int, int],
    ) -> str:
        """Return a question as an answer has it; whoever has no token takes no part."""
        credential, arms, signs = (msgspec.json.encode(each).decode() for each in (token, *asked))
        return (
            f'{{"token":{credential},"arms":{arms},"signs":{signs},"payloads":{{{self._words_of(live).payloads}}},'
            f'"epsilon":{epsilon!r},"report_at":{due[0]},"expires":{due[1]},'
            f'"participate":{"false" if token is None else "true"}}}'
        )

    def _of(self, live: Live, arm: int) -> str:
        return self._words_of(live).of(arm)

    def _words_of(self, live: Live) -> Words:
        words = self._words.get(live.id)
        if words is None or words.arms is not live.arms:
            words = self._words[live.id] = Words(live.arms)
        return words

    def _while_paused(self, live: Live, among: Sequence[int] | None) -> str:
        """Return the default arm, or the first that is eligible; no report of it may come."""
        if live.status == "archived":
            raise Refused(410, "the experiment is archived: nothing is decided here any more")
        arm = live.row.default_arm
        if among is not None and arm not in among:
            arm = among[0]
        return self._without_token(live, arm, WHOLE)

    def _without_token(self, live: Live, arm: int, probability: int, question: bytes = b"") -> str:
        now = int(live.clock.now())
        if isinstance(live, GroupsLive):
            every = live.by_group(question)[0] if question else [live.arms.names[arm]] * live.asking.groups
            return self._asking(live, None, (every, None), live.epsilon / MILLION, (now, now))
        return (
            f'{{"token":null,{self._of(live, arm)},"epsilon":{live.epsilon / MILLION!r},"report_at":{now},'
            f'"expires":{now},"probability":{probability / WHOLE!r},"participate":false}}'
        )

    async def _for_visitor(self, live: Live, visitor: str, among: tuple[int, ...] | None, participate: bool) -> str:
        """Return what a visitor is shown: by an earlier decision, if its token has not expired, else by this one."""
        issued = live.decide(1, among)[0] if participate else live.show(among)
        token, text = self._text(live, issued)
        try:
            kept = await self._kept(live, visitor, among, token, issued)
        except BaseException:
            live.take_back(issued)
            raise
        if kept is None:
            return text
        live.take_back(issued)
        earlier = kept.decided
        if not participate:  # the same arm; its token stays with the device that has paid for it
            return self._without_token(live, earlier.arm, earlier.probability, earlier.question)
        return self._with_token(live, kept.token, earlier, kept.issued)

    async def _kept(
        self, live: Live, visitor: str, among: tuple[int, ...] | None, token: str, issued: Issued
    ) -> Kept | None:
        """Return the token that a visitor keeps; nothing if it is the one just made."""
        minute = expiry_minute(issued.expires, issued.expires - issued.issued, live.STEPS)
        for arms in dict.fromkeys((None, among)):  # the second one if the first has what may not be shown here
            name, key = self._hashed(live, visitor, arms)
            sealed, instead = seal(key, SECOND.pack(issued.issued) + token.encode()), b""
            for _ in range(2):  # others may replace it at the same time, by what is of no use either
                found = await self.registry.visit(live, name, sealed, minute, instead)
                if found == sealed:
                    return None
                kept = self._still_good(live, unseal(key, found))
                if kept is not None and live.may_show(kept.decided, among):
                    return kept
                if kept is not None and arms is None:
                    break
                instead = found
        return None

    def _still_good(self, live: Live, kept: bytes) -> Kept | None:
        """Return a token that was kept, if its arm may be shown and a report of it would be taken.

        The store keeps it up to a step longer than it lives (``pending.py``), since it counts in such steps.
        """
        try:
            (issued,), token = SECOND.unpack_from(kept), kept[SECOND.size :].decode("ascii")
            earlier = self.secrets.ring.read(token)
        except (struct.error, UnicodeDecodeError, ForgedToken):  # damaged, or its key was dropped since
            return None
        if earlier.expires < live.clock.now() + SHORTEST or not live.may_show(earlier, None):
            return None
        return Kept(token, earlier, issued)

    def _hashed(self, live: Live, visitor: str, among: tuple[int, ...] | None) -> tuple[bytes, bytes]:
        """Return what the store calls a visitor, and the key that seals the visitor's token."""
        what = msgspec.json.encode([live.id, visitor] if among is None else [live.id, visitor, among])
        name, key = (hmac.digest(self.secrets.visitor, use + what, "sha256") for use in (b"name", b"token"))
        return name[:VISITOR], key
