"""Requests of administrators that change something: If-Match, Idempotency-Key, and the audit trail."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from maskedbandits.errors import UserError
from maskedbandits.service.http import Header, QueryParameter, Request, RequestError, Response, json_response
from maskedbandits.service.problems import PROBLEMS
from maskedbandits.service.storage import Conflict
from maskedbandits.service.storage.audit import AdminRequest
from maskedbandits.service.storage.idempotency import KEPT_MINUTES, RepeatableRequest, RepeatedRequest
from maskedbandits.service.storage.models import ArmRow, ExperimentRow

if TYPE_CHECKING:
    from maskedbandits.service.registry import ExperimentRegistry
    from maskedbandits.service.schemas import ExperimentAnswer

MAX_KEY_LENGTH = 255
IDEMPOTENCY_KEY = re.compile(rf"[!-~]{{1,{MAX_KEY_LENGTH}}}")
ETAG = re.compile(r'(W/)?"([^"]*)"')  # RFC 9110, section 8.8.3
IF_MATCH = QueryParameter(
    "If-Match",
    {"type": "string"},
    "The ETag of the version that you have seen. If the experiment has changed since, the reply is 412.",
)
REPEATABLE = QueryParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": "^[!-~]+$"},
    f"A random text. The same request with it gets the first reply again for {KEPT_MINUTES // 60} hours.",
)

Describe = Callable[[ExperimentRow, Sequence[ArmRow]], "ExperimentAnswer"]


def read_versions(request: Request) -> frozenset[int] | None:
    """Return the versions in If-Match, one of which must be the present one; None if any will do."""
    text = request.header("if-match")
    if text is None or text == "*":
        return None
    versions = set()
    for part in text.split(","):
        found = ETAG.fullmatch(part.strip())
        if found is None:
            raise UserError('If-Match: send the ETag of the experiment with its quotes, such as "7"')
        if not found[1] and found[2].isascii() and found[2].isdigit() and len(found[2]) < 20:  # a weak one matches none
            versions.add(int(found[2]))
    return frozenset(versions)


def format_etag(version: int) -> tuple[Header]:
    """Return the header with the ETag of an experiment: the version of its configuration."""
    return ((b"etag", b'"%d"' % version),)


class AdminRequests:
    """Carries out requests that change something."""

    def __init__(self, describe: Describe) -> None:
        self._describe = describe

    def build(self, request: Request, registry: ExperimentRegistry, action: str, what: dict[str, Any]) -> AdminRequest:
        """Return what the store has to know of a request."""
        return AdminRequest(action, request.key or None, registry.clock.now(), what, read_versions(request))

    def build_repeatable(
        self, request: Request, registry: ExperimentRegistry, action: str, what: dict[str, Any], body: bytes
    ) -> AdminRequest:
        """Return the same for a request that creates something, and may have an Idempotency-Key."""
        admin = self.build(request, registry, action, what)
        key = request.header("idempotency-key")
        if key is None:
            return admin
        if not IDEMPOTENCY_KEY.fullmatch(key):
            raise UserError(f"Idempotency-Key: send 1 to {MAX_KEY_LENGTH} visible ASCII characters, such as a UUID")
        scope = msgspec.json.encode([request.key, request.scope["path"], key])
        repeatable = RepeatableRequest(
            hashlib.sha256(scope).hexdigest(),
            hashlib.sha256(body).digest(),
            registry.clock.minute(),
            201,
            lambda row, arms: msgspec.json.encode(self._describe(row, arms)).decode(),
        )
        return replace(admin, repeatable=repeatable)

    async def carry_out(
        self,
        registry: ExperimentRegistry,
        admin: AdminRequest,
        work: Callable[[], Awaitable[Response]],
    ) -> Response:
        """Carry out a request, or return the stored reply to an earlier one; translate conflicts."""
        repeatable = admin.repeatable
        try:
            if repeatable is not None:
                await registry.call_store(lambda store: store.refuse_repeated(repeatable))
            response = await work()
        except RepeatedRequest as repeated:
            return _format_stored(repeated)
        except Conflict as conflict:
            raise RequestError(PROBLEMS[conflict.code].status, str(conflict), code=conflict.code) from conflict
        if repeatable is None:
            return response
        return await self._read_stored(registry, repeatable, response)

    async def _read_stored(
        self, registry: ExperimentRegistry, repeatable: RepeatableRequest, response: Response
    ) -> Response:
        """Return the stored reply, so that all replies to a repeated request are the same."""
        try:
            await registry.call_store(lambda store: store.refuse_repeated(repeatable))
        except RepeatedRequest as repeated:
            return _format_stored(repeated)
        return response


def _format_stored(repeated: RepeatedRequest) -> Response:
    document = msgspec.json.decode(repeated.reply.body)
    response = json_response(repeated.reply.status, None, format_etag(document["config_version"]))
    return response._replace(body=repeated.reply.body.encode())
