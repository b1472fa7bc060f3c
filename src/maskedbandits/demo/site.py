"""The page of the demonstration, and what it is told twice a second."""

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
EVERY = 0.5  # seconds
KEPT = -1.0  # before the beginning: all that is kept


class Site:
    """Serves the page; until the crowd visits, it says that all is being prepared."""

    def __init__(self) -> None:
        self.crowd: Crowd | None = None
        self.service = ""  # its address
        self.is_ending = False
        files = FILES | {"/client.js": static.client()}
        self.app = Starlette(
            routes=[
                *(Route(path, self._file(file)) for path, file in files.items()),
                Route("/where", self._where),
                Route("/live", self._live),
            ],
            # a page elsewhere whose name leads here, too, may not read along
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        )

    def end(self) -> None:
        """Tell nothing more: whoever listens has heard the last of it."""
        self.is_ending = True

    def _file(self, path: Path) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return FileResponse(path, media_type=static.KINDS[path.suffix].decode(), headers=self._guarded())

        return answer

    def _guarded(self) -> dict[str, str]:
        """Return headers under which the page asks this machine, and nobody else."""
        connect = f"connect-src 'self' {self.service}".strip()
        policy = static.POLICY.decode().replace("connect-src 'self'", connect)
        return {"content-security-policy": policy, "cache-control": "no-store", "x-content-type-options": "nosniff"}

    async def _where(self, request: Request) -> Response:
        """Tell where the service is, once it can be asked."""
        return JSONResponse({"service": self.service if self.crowd else None}, headers={"cache-control": "no-store"})

    async def _live(self, request: Request) -> Response:
        return StreamingResponse(self._told(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def _told(self) -> AsyncIterator[str]:
        since = KEPT
        while not self.is_ending:
            if self.crowd is not None:
                told = await asyncio.to_thread(self.crowd.told, since)
                since = max((at for each in told["experiments"] for at, _ in each["ticks"]), default=since)
                yield f"data: {json.dumps(told)}\n\n"
            await asyncio.sleep(EVERY)
