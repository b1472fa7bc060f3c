"""Streams of the application, read piece by piece without a web server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message


class BodyDecoder:
    """A reader of a stream, who may stall or leave."""

    def __init__(self) -> None:
        self.start: Message = {}
        self.rest, self.ended, self.aborted = b"", False, False
        self._came = asyncio.Event()
        self._left, self._reads = asyncio.Event(), asyncio.Event()
        self._reads.set()

    async def receive(self) -> Message:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self._reads.wait()
        if message["type"] == "http.response.start":
            self.start = message
        else:
            self.rest += message["body"]
            self.ended = not message.get("more_body", False)
        self._came.set()

    def abort(self) -> None:
        self.aborted = True
        self._left.set()

    def leave(self) -> None:
        self._left.set()

    def stop_reading(self) -> None:
        self._reads.clear()

    async def event(self, wanted: str = "") -> Any:
        """The next event of this kind, or of any with its kind; those before are passed over."""
        while True:
            while b"\n\n" not in self.rest:
                assert not self.ended, self.rest
                self._came.clear()
                await asyncio.wait_for(self._came.wait(), 30)
            text, _, self.rest = self.rest.partition(b"\n\n")
            if text.startswith(b":"):
                continue
            kind, data = text.decode().split("\n")
            if not wanted:
                return kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))
            if kind == f"event: {wanted}":
                return json.loads(data.removeprefix("data: "))


def scope_of(path: str, headers: Mapping[str, str], reader: BodyDecoder, method: str = "GET") -> dict[str, Any]:
    values = {"host": "127.0.0.1:8080", **headers}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in values.items()],
        "client": ("127.0.0.1", 1234),
        "extensions": {"maskedbandits.abort": reader.abort},
    }


@asynccontextmanager
async def reading(app: ASGIApp, path: str, *, key: str = "", method: str = "GET") -> AsyncIterator[BodyDecoder]:
    """Read a stream; it must end when its reader leaves."""
    reader = BodyDecoder()
    headers = {"authorization": f"Bearer {key}"} if key else {}
    coroutine: Any = app(scope_of(path, headers, reader, method), reader.receive, reader.send)
    asking: asyncio.Task[None] = asyncio.create_task(coroutine)
    try:
        yield reader
    finally:
        reader.leave()
        await asyncio.wait_for(asking, 30)
