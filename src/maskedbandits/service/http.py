"""The least of HTTP that handlers need: reading a body that is not too long, answering, and refusing in one line."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.types import Message, Receive, Scope, Send

SLOWEST = 30.0  # seconds for a body to arrive, and for a head
MOST_HEAD = 1 << 16  # bytes of a request before its body
Header = tuple[bytes, bytes]
JSON: tuple[Header, ...] = (
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),  # tokens and estimates are kept by nobody on the way
)


class Answer(NamedTuple):
    """What is sent back."""

    status: int
    body: bytes
    headers: Sequence[Header] = JSON


class Refused(Exception):  # noqa: N818 -- it is the request that is refused
    """A request that is not done, and why, in one line."""

    def __init__(self, status: int, error: str, headers: Sequence[Header] = ()) -> None:
        super().__init__(error)
        self.status, self.error, self.headers = status, error, tuple(headers)

    def answer(self) -> Answer:
        """Return it as an answer."""
        return Answer(self.status, msgspec.json.encode({"error": self.error}), (*JSON, *self.headers))


class ClientGone(Exception):  # noqa: N818
    """Whoever asked does not wait for the answer."""


def later(status: int, error: str, seconds: float = 1.0) -> Refused:
    """Return a refusal that says when to come again."""
    return Refused(status, error, [(b"retry-after", b"%d" % max(1, math.ceil(seconds)))])


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the whole body, if it is not longer than the limit, however it is sent."""
    message = await receive()
    if not message.get("more_body") and message["type"] == "http.request":
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise too_long(limit)
        return body
    try:
        async with asyncio.timeout(SLOWEST):
            return await _read_on(message, scope, receive, limit)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {SLOWEST:g} seconds: send it again") from None


async def _read_on(message: Message, scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read a body that comes in pieces."""
    if declared_length(scope) > limit:
        raise too_long(limit)
    body = bytearray()
    while message["type"] == "http.request":
        body += message.get("body", b"")
        if len(body) > limit:
            raise too_long(limit)
        if not message.get("more_body"):
            return bytes(body)
        message = await receive()
    raise ClientGone


def declared_length(scope: Scope) -> int:
    """Return how long a body says it is; 0 if it does not say."""
    told = dict(scope["headers"]).get(b"content-length", b"")
    return int(told) if told.isdigit() and len(told) < 20 else 0


def too_long(limit: int) -> Refused:
    """Return the refusal of a body that is too long; the rest of it is not read, so that the connection ends."""
    return Refused(413, f"the body is longer than {limit} bytes: send less at once", [(b"connection", b"close")])


async def respond(send: Send, answer: Answer, extra: Sequence[Header] = (), *, is_bare: bool = False) -> None:
    """Send an answer; a bare one is what the method HEAD asks for."""
    status, body, headers = answer
    sent = [*headers, *extra] if status in (204, 304) else [*headers, (b"content-length", b"%d" % len(body)), *extra]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": b"" if is_bare else body})


def as_json(status: int, document: Any, headers: Sequence[Header] = ()) -> Answer:
    """Return an answer that is JSON; numbers that JSON has not are null."""
    return Answer(status, msgspec.json.encode(document), (*JSON, *headers))
