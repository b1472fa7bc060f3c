"""The page of the demonstration, and its stream of events, twice a second."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from maskedbandits.demo.crowd import Crowd
from maskedbandits.service import static

PAGE = Path(__file__).with_name("page")
FILES = {"/": PAGE / "index.html", "/demo.css": PAGE / "demo.css", "/demo.js": PAGE / "demo.js"}
INTERVAL_S = 0.5
BEFORE_START = -1.0  # to get all events so far


class Site:
    """Serves the page, which waits until the crowd visits."""

    def __init__(self) -> None:
        self.crowd: Crowd | None = None
        self.service = ""  # its address
        self.is_ending = False
        files = FILES | {"/client.js": static.find_client()}
        self.app = Starlette(
            routes=[
                *(Route(path, self._file(file)) for path, file in files.items()),
                Route("/where", self._send_address),
                Route("/live", self._send_events),
            ],
            # refuse pages of other sites whose names resolve to this machine
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        )

    def end(self) -> None:
        """End the streams."""
        self.is_ending = True

    def _file(self, path: Path) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return FileResponse(
                path, media_type=static.MEDIA_TYPES[path.suffix].decode(), headers=self._build_headers()
            )

        return answer

    def _build_headers(self) -> dict[str, str]:
        """Return headers that let the page connect to this machine alone."""
        connect = f"connect-src 'self' {self.service}".strip()
        policy = static.CONTENT_SECURITY_POLICY.decode().replace("connect-src 'self'", connect)
        return {"content-security-policy": policy, "cache-control": "no-store", "x-content-type-options": "nosniff"}

    async def _send_address(self, request: Request) -> Response:
        """Send the address of the service, once it is ready."""
        return JSONResponse({"service": self.service if self.crowd else None}, headers={"cache-control": "no-store"})

    async def _send_events(self, request: Request) -> Response:
        return StreamingResponse(self._stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def _stream(self) -> AsyncIterator[str]:
        since = BEFORE_START
        while not self.is_ending:
            if self.crowd is not None:
                news = await asyncio.to_thread(self.crowd.describe, since)
                since = max((at for each in news["experiments"] for at, _ in each["ticks"]), default=since)
                yield f"data: {json.dumps(news)}\n\n"
            await asyncio.sleep(INTERVAL_S)
