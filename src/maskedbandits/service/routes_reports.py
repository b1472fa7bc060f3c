"""Answers to devices that report: each report is judged by its token alone, and answered when it is durable."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from maskedbandits.errors import UserError
from maskedbandits.service.group_experiment import GroupsLive
from maskedbandits.service.http import Answer, later
from maskedbandits.service.keys import Secrets, hidden_id
from maskedbandits.service.lookup import found
from maskedbandits.service.pending import expiry_minute
from maskedbandits.service.rate_limits import Buckets
from maskedbandits.service.schemas import MILLION, NAMELESS, ReportReader, ReportRequest
from maskedbandits.service.server.metrics import Metrics
from maskedbandits.service.sources import Entry, Source, Sources, settle
from maskedbandits.service.storage.models import DUPLICATE, NewReport
from maskedbandits.service.tokens import FLAG_SHOWN, ForgedToken, Token, UnknownKey

if TYPE_CHECKING:
    from starlette.types import Scope

    from maskedbandits.service.experiment import Live
    from maskedbandits.service.registry import ExperimentRegistry
    from maskedbandits.service.routes_admin import Request

WHY = {
    "late": "the token has expired, or its experiment is archived: drop the report",
    "forged": "no key of this service has signed this token: drop the report",
    "foreign": "the token is of another experiment than this one: drop the report",
    "invalid": "a report has a token and a bit of 0 or 1 (where there are groups, an answer of 0 or 1, or up to 2 G - "
    "1 without signs), and may have an epsilon, a multiple of a millionth and not above the decision's: "
    "send it again with a bit of 0 or 1 and the epsilon that it was masked with",  # a second draw would cost privacy
    "limited": "too many reports with one token, of which only the first counts: send it again later",
    "later": "this experiment cannot be followed now, as the log of the service says: send it again later",
}
NO_REPORT = "a report has a token and a bit (where there are groups, an answer): send both, or several as reports"
CODES = {"accepted": 200, "duplicate": 200, "late": 410, "forged": 400, "foreign": 403, "invalid": 400}
MINUTE = 60.0  # seconds
AGAIN = {"limited": 429, "later": 503}  # nothing became of it yet
ANSWERS = {
    status: Answer(code, msgspec.json.encode({"status": status} | ({"error": WHY[status]} if status in WHY else {})))
    for status, code in (CODES | AGAIN).items()
}


class UnknownExperiment(Exception):  # noqa: N818 -- it may be known in a moment
    """A token that this service has signed, of an experiment that this process has not heard of yet."""


class Bad(NamedTuple):
    """A report that is not taken: why, for which experiment that is counted, 0 if for none, and when to try again."""

    status: str
    experiment: int
    seconds: float = 1.0


@dataclass
class News:
    """What was read again for a token that this process could not place."""

    keys: bool = False
    caught_up: bool | None = None  # False if the logs could not be read to their end

    def unknown(self, experiment: int) -> Bad:
        """Return that a report is to come again; at first the logs have to be read."""
        if self.caught_up is None:
            raise UnknownExperiment
        return Bad("later", experiment, 1.0)


class Opened(NamedTuple):
    """A report whose token is good, and its experiment."""

    report: ReportRequest
    token: Token
    live: Live


class Reports:
    """Answers reports; ``renew`` reads the signing keys again, ``block`` returns a request's address block."""

    def __init__(
        self,
        registry: ExperimentRegistry,
        secrets: Secrets,
        metrics: Metrics,
        limits: Buckets,
        renew: Callable[[], Awaitable[None]],
        block: Callable[[Scope], str],
    ) -> None:
        self.registry, self.secrets, self.metrics = registry, secrets, metrics
        self._limits, self._renew, self._block = limits, renew, block
        self._sources = Sources()
        self._read = ReportReader()

    async def answer(self, ask: Request, body: bytes) -> Answer:
        """Return what became of a report, or of each of several; each is charged before any is taken."""
        request, name = self._read(body), ask.params.get("name")
        only = None if name is None else await found(self.registry, name)
        if request.reports is None:
            if request.token is None:
                raise UserError(NO_REPORT)
            one = ReportRequest(request.token, request.bit, request.epsilon, request.answer)
            ((status, seconds),) = await self._taken([one], only, ask)
            if status in AGAIN:
                raise later(AGAIN[status], WHY[status], seconds)
            return ANSWERS[status]
        if any(each is not None for each in (request.token, request.bit, request.epsilon, request.answer)):
            raise UserError("a body has one report or a list of reports, not both: leave out one of them")
        ask.charge(len(request.reports))
        results = await self._taken(request.reports, only, ask)
        body = b'{"results":[' + b",".join([ANSWERS[status].body for status, _ in results]) + b"]}"
        return Answer(200, body)

    async def _taken(
        self, reports: Sequence[ReportRequest], only: Live | None, ask: Request
    ) -> list[tuple[str, float]]:
        """Return what became of each report, and when to try again, once all that are taken are durable."""
        opened = await self._opened_all(reports, only)
        entered: list[Entry] = []
        judged = [each if isinstance(each, Bad) else self._judged(each, ask, entered) for each in opened]
        rows = [each for each in judged if isinstance(each, NewReport)]
        places = iter(await self._written(rows, entered) if rows else ())
        results = []
        for each in judged:
            status, seconds = (each.status, each.seconds) if isinstance(each, Bad) else (_status(next(places)), 0.0)
            self.metrics.count(status)
            if status != "accepted" and status not in AGAIN:
                self.registry.refuse(each.experiment, status)
            results.append((status, seconds))
        return results

    async def _written(self, rows: Sequence[NewReport], entered: Sequence[Entry]) -> list[int]:
        """Return the store's answer to each report, once all of them are durable; without an answer none is new."""
        try:
            places = await self.registry.write.reports(rows)
        except BaseException:
            settle(entered, rows, lambda place: False)
            raise
        if entered:
            settle(entered, rows, lambda place: places[place] > 0)
        return places

    async def _opened_all(self, reports: Sequence[ReportRequest], only: Live | None) -> list[Opened | Bad]:
        """Open reports; what another process may have written a moment ago is read before any is refused for it."""
        news = News()
        while True:
            try:
                return [self._opened(report, only, news) for report in reports]
            except UnknownKey:
                await self._renew()
                news.keys = True
            except UnknownExperiment:
                news.caught_up = await self.registry.catch_up()

    def _opened(self, report: ReportRequest, only: Live | None, news: News) -> Opened | Bad:
        """Return a report with its token and experiment, or why there are none."""
        if report is NAMELESS:
            return Bad("invalid", 0 if only is None else only.id)
        try:
            token = self.secrets.ring.read(report.token)
        except UnknownKey:
            if not news.keys:
                raise
            return Bad("forged", 0 if only is None else only.id)
        except ForgedToken:
            return Bad("forged", 0 if only is None else only.id)
        if token.flags & FLAG_SHOWN:  # which nobody was given
            return Bad("forged", 0 if only is None else only.id)
        live = self.registry.by_id(token.experiment)
        if live is None and self.registry.is_aside(token.experiment):
            return Bad("later", token.experiment, MINUTE)
        if live is None and not news.caught_up:
            return news.unknown(token.experiment)
        if live is None or (only is not None and only.id != live.id):
            return Bad("foreign", 0 if only is None else only.id)
        if not live.knows(token):  # an arm of another process, a moment ago; or of a time that no backup has kept
            return Bad("foreign", live.id) if news.caught_up else news.unknown(live.id)
        return Opened(report, token, live)

    def _judged(self, opened: Opened, ask: Request, entered: list[Entry]) -> NewReport | Bad:
        """Return the row of a report that can be taken, or why it cannot; each is charged to its token once."""
        report, token, live = opened
        if self._limits.rate and (seconds := self._limits.wait(token.id, time.monotonic())):
            return Bad("limited", live.id, seconds)
        if token.expires <= live.clock.now() or live.status == "archived":
            return Bad("late", live.id)
        epsilon = _epsilon(report, token)
        if epsilon is None:
            return Bad("invalid", live.id)
        minute = expiry_minute(token.expires, live.terms.expires_after, live.STEPS)
        decision = hidden_id(self.secrets.decision, token.id)
        if isinstance(live, GroupsLive):
            told = report.answer
            if told is None or report.bit is not None or not 0 <= told < live.answers(token.question):
                return Bad("invalid", live.id)
            row = NewReport(
                *(token.experiment, None, told, epsilon, None, token.flags, decision),
                *(minute, live.clock.hour(), token.config, token.question),
            )
        elif report.bit not in (0, 1) or report.answer is not None:
            return Bad("invalid", live.id)
        else:
            row = NewReport(
                *(token.experiment, token.arm, report.bit, epsilon, token.probability, token.flags, decision),
                *(minute, live.clock.hour(), token.config),
            )
        limit = live.terms.source_limit
        return row if limit is None else self._sources.enter(row, limit, self._source(live, ask), entered)

    def _source(self, live: Live, ask: Request) -> Source:
        return self._sources.digest(self._block(ask.scope), ask.key, int(live.clock.now()))


def _epsilon(report: ReportRequest, token: Token) -> int | None:
    """Return what a report was masked with, in millionths; None if that cannot be."""
    own = report.epsilon
    if own is None:
        return token.epsilon
    if not 0 < own <= token.epsilon / MILLION:
        return None
    found = round(own * MILLION)
    return found if found and found / MILLION == own else None


def _status(place: int) -> str:
    """Return what the store's answer means; an experiment that was archived meanwhile takes no reports."""
    return "accepted" if place > 0 else "duplicate" if place == DUPLICATE else "late"
