"""HTTP pieces that all handlers share: requests, responses, errors in one line, and tables of routes."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from maskedbandits.errors import UserError, abbreviate, suggest_nearest
from maskedbandits.service.problems import GENERAL_CODES, PROBLEMS, format_type

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from maskedbandits.service.sse import Stream

BODY_TIMEOUT_S = 30.0  # for a body, and for the head of a request
MAX_HEAD_BYTES = 1 << 16  # of a request before its body
Header = tuple[bytes, bytes]
JSON_HEADERS: tuple[Header, ...] = (
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),  # no cache on the way may keep tokens or estimates
)


PROBLEM_MEDIA_TYPE = "application/problem+json"  # RFC 9457
PROBLEM_HEADERS: tuple[Header, ...] = ((b"content-type", PROBLEM_MEDIA_TYPE.encode()), *JSON_HEADERS[1:])


class Response(NamedTuple):
    """A status, a body and the headers that belong to the body."""

    status: int
    body: bytes
    headers: Sequence[Header] = JSON_HEADERS


class RequestError(Exception):
    """A request that is refused, with the reason in one line and a code of `PROBLEMS`.

    Without a code it has the general one of its status.
    """

    def __init__(self, status: int, error: str, headers: Sequence[Header] = (), code: str = "") -> None:
        super().__init__(error)
        self.status, self.error, self.headers = status, error, tuple(headers)
        self.code = code or GENERAL_CODES[status]
        if PROBLEMS[self.code].status != status:
            raise ValueError(f"the code {self.code!r} belongs to the status {PROBLEMS[self.code].status}, not {status}")

    def to_response(self) -> Response:
        """Return the error as a response (RFC 9457)."""
        problem = {
            "type": format_type(self.code),
            "title": PROBLEMS[self.code].title,
            "status": self.status,
            "detail": self.error,
            "code": self.code,
        }
        return Response(self.status, msgspec.json.encode(problem), (*PROBLEM_HEADERS, *self.headers))


LIMITED_KEY = "this key is limited to some experiments, and {}: use a key without --experiment"


class ClientGone(Exception):  # noqa: N818 -- the client is gone, and no program has failed
    """The client closed its connection before the response."""


def retry_later(status: int, error: str, seconds: float = 1.0, code: str = "") -> RequestError:
    """Return an error whose Retry-After header says when to try again."""
    return RequestError(status, error, [(b"retry-after", b"%d" % max(1, math.ceil(seconds)))], code)


def unknown_experiment() -> RequestError:
    """Return the error for an experiment that does not exist, or not for the key of the caller."""
    return RequestError(404, "no such experiment: GET /v1/experiments lists all", code="unknown_experiment")


@dataclass(slots=True)
class Request:
    """A request with the parts of its path and the rights of its caller."""

    scope: Scope
    receive: Receive
    max_body_bytes: int
    params: dict[str, str] = field(default_factory=dict)  # parts of the path
    roles: frozenset[str] = frozenset()  # of the caller, where the route needs a role
    charge: Callable[[int], None] = lambda cost: None  # counts it as that many requests, or refuses it
    key: str = ""  # name of the key that it carries
    experiments: frozenset[str] | None = None  # to which the key is limited; None: all

    def may_reach(self, name: str) -> bool:
        """Tell whether the key of the caller is for this experiment."""
        return self.experiments is None or name in self.experiments

    def header(self, name: str) -> str | None:
        """Return a header, or None."""
        found = dict(self.scope["headers"]).get(name.encode())
        return None if found is None else found.decode("latin-1").strip()

    def query(self, known: Sequence[QueryParameter]) -> dict[str, str]:
        """Return the parameters in the query; refuse unknown and repeated ones."""
        try:
            pairs = parse_qsl(self.scope["query_string"].decode(), keep_blank_values=True, errors="strict")
        except ValueError:
            raise UserError("the query is not UTF-8: send other characters percent-encoded") from None
        names = [each.name for each in known]
        for name, _ in pairs:
            if name not in names:
                raise UserError(f"no parameter is called {abbreviate(name)}{suggest_nearest(name, names)}")
        values = dict(pairs)
        if len(values) < len(pairs):
            raise UserError("a parameter is in the query twice: send it once")
        return values

    async def body(self) -> bytes:
        """Read the whole body."""
        return await read_body(self.scope, self.receive, self.max_body_bytes)


class QueryParameter(NamedTuple):
    """A parameter in the query of a path: its name, its JSON schema, and what it means."""

    name: str
    schema: Mapping[str, Any]
    description: str


@dataclass(frozen=True)
class Operation:
    """A route as the dispatcher, the metrics and the OpenAPI description need it: its one definition.

    ``replies`` are the types of a JSON body, ``media_types`` those of any other body. ``errors`` are statuses beside
    the ones that follow from ``role``, ``body`` and the path.
    """

    method: str
    path: str
    id: str
    summary: str
    label: str  # in the metrics
    role: str = ""
    query: tuple[QueryParameter, ...] = field(default=(), hash=False)
    headers: tuple[QueryParameter, ...] = field(default=(), hash=False)  # request headers that have a meaning here
    body: tuple[Any, ...] = ()
    is_body_optional: bool = False
    status: int = 200
    replies: tuple[Any, ...] = ()
    media_types: tuple[str, ...] = ()
    description: str = ""  # of the success; the summary unless given
    errors: tuple[int, ...] = ()


Handler = Callable[..., Awaitable["Response | Stream"]]


class Endpoint(NamedTuple):
    """An operation and the method that handles it."""

    operation: Operation
    run: Callable[[Request], Awaitable[Response | Stream]]


class RouteTable:
    """The routes of a class; its methods enter themselves with the decorator ``add``."""

    def __init__(self) -> None:
        self._entries: list[tuple[Operation, Handler]] = []

    def add(self, *args: Any, **options: Any) -> Callable[[Handler], Handler]:
        """Return a decorator that makes a method the handler of an `Operation` with these arguments."""

        def enter(handler: Handler) -> Handler:
            self._entries.append((Operation(*args, **options), handler))
            return handler

        return enter

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All operations in the order in which they were added."""
        return tuple(operation for operation, _ in self._entries)

    def bind(self, owner: object) -> list[Endpoint]:
        """Return the endpoints with the methods of one object."""
        return [Endpoint(operation, handler.__get__(owner)) for operation, handler in self._entries]


async def read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """Return the whole body; refuse one that is too long or too slow."""
    message = await receive()
    if not message.get("more_body") and message["type"] == "http.request":
        body: bytes = message.get("body", b"")
        if len(body) > max_bytes:
            raise too_long(max_bytes)
        return body
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _read_pieces(message, scope, receive, max_bytes)
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {BODY_TIMEOUT_S:g} seconds: send it again") from None


async def _read_pieces(message: Message, scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    if _declared_length(scope) > max_bytes:
        raise too_long(max_bytes)
    body = bytearray()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise too_long(max_bytes)
        if not message.get("more_body"):
            return bytes(body)
        message = await receive()
    raise ClientGone


def _declared_length(scope: Scope) -> int:
    """Return the Content-Length, or 0 if there is none."""
    text = dict(scope["headers"]).get(b"content-length", b"")
    return int(text) if text.isdigit() and len(text) < 20 else 0


def too_long(max_bytes: int) -> RequestError:
    """Return the error for a long body. The rest of the body is not read, so the connection has to close."""
    error = f"the body is longer than {max_bytes} bytes: send less per request"
    return RequestError(413, error, [(b"connection", b"close")])


async def send_response(send: Send, response: Response, extra: Sequence[Header] = (), *, is_head: bool = False) -> None:
    """Send a response; the method HEAD gets the headers alone."""
    status, body, headers = response
    sent = [*headers, *extra] if status in (204, 304) else [*headers, (b"content-length", b"%d" % len(body)), *extra]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": b"" if is_head else body})


def json_response(status: int, document: Any, headers: Sequence[Header] = ()) -> Response:
    """Return a response in JSON, in which NaN is null."""
    return Response(status, msgspec.json.encode(document), (*JSON_HEADERS, *headers))
