"""Answers that go on: server-sent events, as the HTML standard has them, to so many readers and no slow ones.

A stream is read with a header that carries the key, by ``fetch`` in a browser: its ``EventSource`` sends no header, and
a key in an address would stand in every log on the way. What is sent is made once for all readers (``broadcast.py``);
here it is only handed out. So an open stream costs a write a second, and nobody who decides waits for one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from maskedbandits.service.http import Header, later

MOST = 100  # streams at once in one process
STALLED = 10.0  # seconds after which whoever has not read what was sent is dropped
LAST = 1.0  # seconds for the end of a stream when the service stops
STILL_HERE = b": still here\n\n"  # a comment: proxies close what is silent
ABORT = "maskedbandits.abort"  # what our connections offer beyond ASGI: to end without a goodbye
FULL = f"there are {MOST} streams already: close a dashboard that nobody looks at, or ask again in a moment"
HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would wait until there is more of it
    (b"x-content-type-options", b"nosniff"),
)


class Stream(NamedTuple):
    """An answer whose pieces are sent as they come."""

    pieces: AsyncGenerator[bytes, None]
    status: int = 200


def framed(event: str, document: Any) -> bytes:
    """Return one event; JSON has no line breaks, so that it is one line."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), msgspec.json.encode(document))


class Streams:
    """The streams that are open in this process."""

    def __init__(self, most: int = MOST) -> None:
        self.most, self.open = most, 0
        self._ending = asyncio.Event()

    def refuse_if_full(self) -> None:
        """Refuse one more than there may be."""
        if self.open >= self.most or self._ending.is_set():
            raise later(503, FULL, 5.0)

    def end(self) -> None:
        """End all of them now."""
        self._ending.set()

    async def pour(self, scope: Scope, receive: Receive, send: Send, stream: Stream, extra: Sequence[Header]) -> None:
        """Send a stream until it ends, nobody reads it any more, or all are to end."""
        self.open += 1
        sent = {"type": "http.response.start", "status": stream.status, "headers": [*HEADERS, *extra]}
        pieces = stream.pieces if scope["method"] != "HEAD" else None
        gone, ending = asyncio.create_task(_gone(receive)), asyncio.create_task(self._ending.wait())
        pouring = asyncio.create_task(_sent(send, pieces, sent))
        try:
            await asyncio.wait([gone, ending, pouring], return_when=asyncio.FIRST_COMPLETED)
            await _cancelled(pouring)
            if not gone.done():
                await self._closed(scope, send, gone, is_slow=_has_stalled(pouring))
        finally:
            self.open -= 1
            await _cancelled(gone, ending, pouring)
            await stream.pieces.aclose()
        if not pouring.cancelled() and not _has_stalled(pouring):
            pouring.result()  # a fault of ours is told as such

    async def _closed(self, scope: Scope, send: Send, gone: asyncio.Task[None], *, is_slow: bool) -> None:
        """Say goodbye to whoever reads; leave whoever does not."""
        if not is_slow:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
        abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
        if abort is not None:
            abort()
            await asyncio.wait([gone], timeout=LAST)  # the web server hears of it in a moment


async def _gone(receive: Receive) -> None:
    """Wait until whoever reads has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _sent(send: Send, pieces: AsyncGenerator[bytes, None] | None, start: dict[str, Any]) -> None:
    await send(start)
    if pieces is not None:
        async for piece in pieces:
            async with asyncio.timeout(STALLED):
                await send({"type": "http.response.body", "body": piece, "more_body": True})


def _has_stalled(pouring: asyncio.Task[None]) -> bool:
    return pouring.done() and not pouring.cancelled() and isinstance(pouring.exception(), TimeoutError)


async def _cancelled(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
