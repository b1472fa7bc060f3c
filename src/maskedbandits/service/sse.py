"""Server-sent events, as the HTML standard defines them, for a limited number of readers and no slow ones.

Browsers read a stream with ``fetch``, whose header carries the key. ``EventSource`` sends no header, and a key in the
address would be in every log on the way. Events are built once for all readers (``dashboard/broadcast.py``) and only
sent here. So an open stream costs one write a second, and decisions do not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from maskedbandits.service.http import Header, retry_later

MAX_STREAMS = 100  # at once in one process
SEND_TIMEOUT_S = 10.0  # after which a reader who does not read is dropped
CLOSE_TIMEOUT_S = 1.0  # for the end of a stream when the service stops
STILL_HERE = b": still here\n\n"  # a comment, because proxies close silent connections
ABORT = "maskedbandits.abort"  # an extension of our connections beyond ASGI: to close without a last message
FULL = f"too many streams, {MAX_STREAMS}: close an unused dashboard, or try again in a moment"
HEADERS: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # or nginx would wait for more
    (b"x-content-type-options", b"nosniff"),
)


class Stream(NamedTuple):
    """A response whose pieces are sent as they come."""

    pieces: AsyncGenerator[bytes, None]
    status: int = 200


def format_event(event: str, document: Any) -> bytes:
    """Return one event; encoded JSON has no line breaks."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), msgspec.json.encode(document))


class Streams:
    """The open streams of this process."""

    def __init__(self, max_streams: int = MAX_STREAMS) -> None:
        self.max_streams, self.open = max_streams, 0
        self._ending = asyncio.Event()

    def refuse_if_full(self) -> None:
        """Raise an error if there are too many streams."""
        if self.open >= self.max_streams or self._ending.is_set():
            raise retry_later(503, FULL, 5.0, "too_many_streams")

    def end(self) -> None:
        """End all streams now."""
        self._ending.set()

    async def send_stream(
        self, scope: Scope, receive: Receive, send: Send, stream: Stream, extra: Sequence[Header]
    ) -> None:
        """Send a stream until it ends, its reader leaves, or all streams end."""
        self.open += 1
        start = {"type": "http.response.start", "status": stream.status, "headers": [*HEADERS, *extra]}
        pieces = stream.pieces if scope["method"] != "HEAD" else None
        gone, ending = asyncio.create_task(_wait_for_leave(receive)), asyncio.create_task(self._ending.wait())
        sending = asyncio.create_task(_send_pieces(send, pieces, start))
        try:
            await asyncio.wait([gone, ending, sending], return_when=asyncio.FIRST_COMPLETED)
            await _cancel(sending)
            if not gone.done():
                await self._close(scope, send, gone, is_slow=_has_stalled(sending))
        finally:
            self.open -= 1
            await _cancel(gone, ending, sending)
            await stream.pieces.aclose()
        if not sending.cancelled() and not _has_stalled(sending):
            sending.result()  # which raises a fault of ours

    async def _close(self, scope: Scope, send: Send, gone: asyncio.Task[None], *, is_slow: bool) -> None:
        """Send the last message, or abort the connection of a reader who does not read."""
        if not is_slow:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
        abort: Callable[[], None] | None = scope.get("extensions", {}).get(ABORT)
        if abort is not None:
            abort()
            await asyncio.wait([gone], timeout=CLOSE_TIMEOUT_S)  # until the web server has noticed


async def _wait_for_leave(receive: Receive) -> None:
    """Wait until the reader leaves."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_pieces(send: Send, pieces: AsyncGenerator[bytes, None] | None, start: dict[str, Any]) -> None:
    await send(start)
    if pieces is not None:
        async for piece in pieces:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await send({"type": "http.response.body", "body": piece, "more_body": True})


def _has_stalled(sending: asyncio.Task[None]) -> bool:
    return sending.done() and not sending.cancelled() and isinstance(sending.exception(), TimeoutError)


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
