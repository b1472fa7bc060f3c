"""Replies to devices that report: each report is judged by its token, and acknowledged when it is durable."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from msgspec import UNSET

from maskedbandits.errors import UserError
from maskedbandits.service.group_experiment import GroupExperiment
from maskedbandits.service.http import RequestError, Response, retry_later
from maskedbandits.service.pending import round_expiry
from maskedbandits.service.report_status import REPORT_STATUSES
from maskedbandits.service.schemas import (
    MILLION,
    WITHOUT_TOKEN,
    ReportAnswer,
    ReportDecoder,
    ReportRequest,
    ReportsAnswer,
)
from maskedbandits.service.secret import Secrets, hash_decision_id
from maskedbandits.service.server import logging
from maskedbandits.service.source_limits import PendingSource, Source, SourceHasher, enter_report, settle_all
from maskedbandits.service.storage import StoreUnavailable
from maskedbandits.service.storage.models import ARCHIVED, DUPLICATE, NewReport
from maskedbandits.service.tokens import FLAG_SHOWN, ForgedToken, Token, UnknownKey

if TYPE_CHECKING:
    from starlette.types import Scope

    from maskedbandits.service.experiment import LiveExperiment
    from maskedbandits.service.http import Request
    from maskedbandits.service.rate_limits import TokenBuckets
    from maskedbandits.service.registry import Experiment, ExperimentRegistry
    from maskedbandits.service.server.metrics import Metrics

NO_REPORT = "a report needs a token and a bit (with groups, an answer): send both, or a list as reports"
QUARANTINE_RETRY_S = 60.0
REPLIES = {  # encoded once
    name: msgspec.Raw(msgspec.json.encode(ReportAnswer(name, status.error or UNSET)))
    for name, status in REPORT_STATUSES.items()
}
RESPONSES = {  # to a single report
    name: RequestError(status.code, status.error, code=name).to_response()
    if status.error
    else Response(status.code, bytes(REPLIES[name]))
    for name, status in REPORT_STATUSES.items()
}


class UnknownExperiment(Exception):  # noqa: N818 -- it may be known in a moment
    """A valid token of an experiment that this process does not know yet, or of an unknown arm of it."""

    def __init__(self, experiment_id: int) -> None:
        super().__init__(experiment_id)
        self.experiment_id = experiment_id


class Rejection(NamedTuple):
    """A report that is not accepted: the status, the experiment that counts it (0 for none), and when to try again."""

    status: str
    experiment: int
    seconds: float = 1.0


@dataclass
class Refresh:
    """The data that was read again for a token that this process could not resolve."""

    has_keys: bool = False
    has_caught_up: bool | None = None  # False if the logs could not be read to their end

    def defer(self, experiment_id: int) -> Rejection:
        """Return that a report is to be sent again, once the logs were read."""
        if self.has_caught_up is None:
            raise UnknownExperiment(experiment_id)
        return Rejection("later", experiment_id, 1.0)


class OpenedReport(NamedTuple):
    """A report with a valid token, and its experiment."""

    report: ReportRequest
    token: Token
    experiment: LiveExperiment


class ReportRoutes:
    """Handles reports; ``renew_keys`` reads the signing keys again, ``find_block`` returns an address block."""

    def __init__(
        self,
        registry: ExperimentRegistry,
        secrets: Secrets,
        metrics: Metrics,
        token_limits: TokenBuckets,
        renew_keys: Callable[[], Awaitable[None]],
        find_block: Callable[[Scope], str],
    ) -> None:
        self.registry, self.secrets, self.metrics = registry, secrets, metrics
        self._token_limits, self._renew_keys, self._find_block = token_limits, renew_keys, find_block
        self._source_hasher = SourceHasher()
        self._decode = ReportDecoder()

    async def report(self, request: Request, body: bytes) -> Response:
        """Reply with the status of a report, or of each of several; a batch is charged before it is processed."""
        content, name = self._decode(body), request.params.get("name")
        only = None if name is None else await self.registry.resolve(name)
        if content.reports is None:
            if content.token is None:
                raise UserError(NO_REPORT)
            one = ReportRequest(content.token, content.bit, content.epsilon, content.answer)
            ((status, seconds),) = await self._process([one], only, request)
            if not REPORT_STATUSES[status].is_final:
                raise retry_later(REPORT_STATUSES[status].code, REPORT_STATUSES[status].error, seconds, status)
            return RESPONSES[status]
        if any(each is not None for each in (content.token, content.bit, content.epsilon, content.answer)):
            raise UserError("send one report or a list of reports, not both")
        request.charge(len(content.reports))
        results = await self._process(content.reports, only, request)
        replies: list[Any] = [REPLIES[status] for status, _ in results]
        return Response(200, msgspec.json.encode(ReportsAnswer(replies)))

    async def _process(
        self, reports: Sequence[ReportRequest], only: Experiment | None, request: Request
    ) -> list[tuple[str, float]]:
        """Return the status of each report, and the seconds until a retry, once all accepted ones are durable."""
        opened = await self._open_all(reports, only, request)
        entered: list[PendingSource] = []
        judged = [each if isinstance(each, Rejection) else self._judge(each, request, entered) for each in opened]
        rows = [each for each in judged if isinstance(each, NewReport)]
        appended = await self._append(rows, entered) if rows else []
        self._observe([row for row, answer in zip(rows, appended, strict=True) if answer > 0], request)
        answers = iter(appended)
        results = []
        for each in judged:
            if isinstance(each, Rejection):
                status, seconds = each.status, each.seconds
            else:
                status, seconds = _translate_answer(next(answers)), 0.0
            self.metrics.count(status)
            if status != "accepted" and REPORT_STATUSES[status].is_final:
                self.registry.count_refused(each.experiment, status)
            results.append((status, seconds))
        return results

    def _observe(self, accepted: Sequence[NewReport], request: Request) -> None:
        """Test whether the reports of an address block are masked; with groups their arms are unknown."""
        known = [row for row in accepted if row.arm is not None]
        block = self._find_block(request.scope) if known else ""
        for row in known:
            experiment = self.registry.get_by_id(row.experiment)
            if experiment is None:  # closed since it was written
                continue
            now, arm = self.registry.clock.now(), cast("int", row.arm)
            is_sign = experiment.unmasked.observe(block, arm, row.bit, row.epsilon, now)
            if is_sign and self.registry.unmasked_alarms.raise_alarm(experiment.id):
                logging.event("reports are not masked", experiment=experiment.name)

    async def _append(self, rows: Sequence[NewReport], entered: Sequence[PendingSource]) -> list[int]:
        """Return the store's answer to each report, once all of them are durable."""
        try:
            answers = await self.registry.log_writer.append(rows)
        except BaseException:
            settle_all(entered, rows, lambda index: False)
            raise
        if entered:
            settle_all(entered, rows, lambda index: answers[index] > 0)
        return answers

    async def _open_all(
        self, reports: Sequence[ReportRequest], only: Experiment | None, request: Request
    ) -> list[OpenedReport | Rejection]:
        """Open reports. Keys and logs are read again before a report is refused, since both may be new."""
        refresh = Refresh()
        while True:
            try:
                return [self._check_scope(self._open(report, only, refresh), request) for report in reports]
            except UnknownKey:
                await self._renew_keys()
                refresh.has_keys = True
            except UnknownExperiment as unknown:
                if not await self._is_closed(unknown.experiment_id):
                    refresh.has_caught_up = await self.registry.catch_up()

    async def _is_closed(self, experiment_id: int) -> bool:
        """Tell whether an experiment is archived or deleted; no, if the store cannot be asked."""
        try:
            return await self.registry.is_closed(experiment_id)
        except StoreUnavailable:
            return False

    def _open(self, report: ReportRequest, only: Experiment | None, refresh: Refresh) -> OpenedReport | Rejection:
        """Return a report with its token and experiment, or the rejection."""
        expected = 0 if only is None else only.id
        if report is WITHOUT_TOKEN:
            return Rejection("invalid", expected)
        try:
            token = self.secrets.ring.read(report.token)
        except UnknownKey:
            if not refresh.has_keys:
                raise
            return Rejection("forged", expected)
        except ForgedToken:
            return Rejection("forged", expected)
        if token.flags & FLAG_SHOWN:  # no device was given this token
            return Rejection("forged", expected)
        experiment = self.registry.get_by_id(token.experiment)
        if experiment is None and self.registry.is_quarantined(token.experiment):
            return Rejection("later", token.experiment, QUARANTINE_RETRY_S)
        if experiment is None and self.registry.is_known_closed(token.experiment):
            return self._refuse_closed(token.experiment, only)
        if experiment is None and not refresh.has_caught_up:
            return refresh.defer(token.experiment)
        if experiment is None or (only is not None and only.id != experiment.id):
            return Rejection("foreign", expected)
        if not experiment.knows(token):  # another process has just added the arm, or a restored backup lacks it
            return Rejection("foreign", experiment.id) if refresh.has_caught_up else refresh.defer(experiment.id)
        return OpenedReport(report, token, experiment)

    def _check_scope(self, opened: OpenedReport | Rejection, request: Request) -> OpenedReport | Rejection:
        """Reject a report to an experiment that does not exist for the key of the caller."""
        if isinstance(opened, OpenedReport) and not request.may_reach(opened.experiment.name):
            return Rejection("foreign", 0)
        if isinstance(opened, Rejection) and opened.status == "late" and request.experiments is not None:
            return Rejection("foreign", 0)  # the name of an archived experiment is not known here
        return opened

    def _refuse_closed(self, experiment_id: int, only: Experiment | None) -> Rejection:
        """Return the rejection of a report to an experiment that takes none any more."""
        if only is not None and only.id != experiment_id:
            return Rejection("foreign", only.id)
        return Rejection("late", 0 if self.registry.is_known_deleted(experiment_id) else experiment_id)

    def _judge(self, opened: OpenedReport, request: Request, entered: list[PendingSource]) -> NewReport | Rejection:
        """Return the row of an acceptable report, or the rejection; each is charged to its token once."""
        report, token, experiment = opened
        if self._token_limits.rate and (seconds := self._token_limits.wait(token.id, time.monotonic())):
            return Rejection("limited", experiment.id, seconds)
        if token.expires <= experiment.clock.now() or experiment.status == ARCHIVED:
            return Rejection("late", experiment.id)
        epsilon = _find_epsilon(report, token)
        if epsilon is None or not _is_valid(report, token, experiment):
            return Rejection("invalid", experiment.id)
        row = self._build_row(report, token, experiment, epsilon)
        limit = experiment.config.source_limit
        if limit is None:
            return row
        return enter_report(experiment.sources, row, limit, self._find_source(experiment, request), entered)

    def _build_row(self, report: ReportRequest, token: Token, experiment: LiveExperiment, epsilon: int) -> NewReport:
        minute = round_expiry(token.expires, experiment.config.expires_after, experiment.EXPIRY_STEPS)
        is_grouped = isinstance(experiment, GroupExperiment)
        bit = report.answer if is_grouped else report.bit
        return NewReport(
            token.experiment,
            None if is_grouped else token.arm,
            cast("int", bit),
            epsilon,
            None if is_grouped else token.probability,
            token.flags,
            hash_decision_id(self.secrets.decision, token.id),
            minute,
            experiment.clock.hour(),
            token.config,
            token.question if is_grouped else None,
        )

    def _find_source(self, experiment: LiveExperiment, request: Request) -> Source:
        block = self._find_block(request.scope)
        return self._source_hasher.hash_source(block, request.key, int(experiment.clock.now()))


def _is_valid(report: ReportRequest, token: Token, experiment: LiveExperiment) -> bool:
    """Tell whether a report has a bit, or with groups one of the answers to its question."""
    if isinstance(experiment, GroupExperiment):
        if report.answer is None or report.bit is not None:
            return False
        return 0 <= report.answer < experiment.count_answers(token.question)
    return report.bit in (0, 1) and report.answer is None


def _find_epsilon(report: ReportRequest, token: Token) -> int | None:
    """Return the epsilon of a report in millionths, or None if it is invalid."""
    own = report.epsilon
    if own is None:
        return token.epsilon
    if not 0 < own <= token.epsilon / MILLION:
        return None
    rounded = round(own * MILLION)
    return rounded if rounded and rounded / MILLION == own else None


def _translate_answer(answer: int) -> str:
    """Return the status for an answer of the store; an experiment that was just archived accepts no reports."""
    return "accepted" if answer > 0 else "duplicate" if answer == DUPLICATE else "late"
