"""One process that answers: it listens at once, gets ready meanwhile, and loses nothing when it is asked to end.

It is the whole service, or one of several workers on one socket. A worker reads from its standard input what to do, and
ends when that is closed: then whoever started it has died. While others answer, a worker lets them until it is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn

from maskedbandits.errors import UserError
from maskedbandits.service import logs, warm
from maskedbandits.service.app import App
from maskedbandits.service.metrics import Metrics, shared_memory
from maskedbandits.service.settings import Settings
from maskedbandits.service.stores import StoreGone
from maskedbandits.service.supervisor import MISTAKE

KEEP_ALIVE = 75  # seconds for which a connection may idle: longer than proxies in front keep theirs
LOOK = 0.1  # seconds between two looks at whether it is to end
PAUSE = 1.0  # seconds between two tries to reach the store at the start


class Server(uvicorn.Server):
    """The web server, which ends as it is told: first gently; told a second time by the keyboard, at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to those who run it: they are heard until the very end."""
        yield

    def end(self, number: int, frame: object = None) -> None:
        """Hear a signal."""
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def run(
    settings: Settings,
    listener: socket.socket,
    metrics: Metrics | None = None,
    *,
    is_child: bool = False,
    is_patient: bool = False,
) -> None:
    """Answer until told to end, a patient one when all is ready; a user's mistake that shows at the start is raised."""
    logs.take_over()
    app = App(settings, metrics)
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # whom to believe is a setting of ours
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, int(settings.stop_after)),
    )
    server = Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.end)
    if is_child:
        threading.Thread(target=_end_with_parent, args=(server,), name="maskedbandits-parent", daemon=True).start()
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(server, app, settings, listener, is_patient))


async def _serve(server: Server, app: App, settings: Settings, listener: socket.socket, is_patient: bool) -> None:
    """Answer from now on, let people in when all is ready, and write everything down at the end."""
    starting = asyncio.create_task(_start(server, app, settings))
    while is_patient and not starting.done() and not server.should_exit:
        await asyncio.wait([starting], timeout=LOOK)
    if not server.should_exit:
        await server.serve(sockets=[listener])
    if not starting.done():
        starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    await app.close()
    logs.event("stopped")


async def _start(server: Server, app: App, settings: Settings) -> None:
    """Get ready beside those who are told to wait."""
    loop = asyncio.get_running_loop()
    try:
        needed = await loop.run_in_executor(None, _needed, settings.storage)
        if absent := warm.missing(needed):
            logs.event("compiling for this machine, once", kernels=len(absent))
            await warm.compile_beside(absent)
        await loop.run_in_executor(None, warm.load, needed)
        await _open(app, settings)
        logs.event("ready")
    except BaseException:
        server.should_exit = True
        raise


def _needed(storage: str) -> list[str]:
    """Import what takes long to import, and return what machine code it needs."""
    from maskedbandits.service import hall  # noqa: F401 -- it is needed soon

    return warm.needed(warm.policies_of(storage))


async def _open(app: App, settings: Settings) -> None:
    """Open the hall; while the store cannot be reached, try again."""
    from maskedbandits.service.hall import Hall

    told = False
    while True:
        hall = Hall(settings)
        try:
            await hall.start()
            return await app.open(hall)
        except StoreGone as gone:
            await hall.stop()
            if not told:
                logs.event("store is gone", reason=gone.reason)
            told = True
            await asyncio.sleep(PAUSE)
        except BaseException:
            await hall.stop()
            raise


def _end_with_parent(server: Server) -> None:
    """End when nobody is left who could tell this worker to."""
    while os.read(0, 4096):
        pass
    server.should_exit = True


def _ordered() -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := os.read(0, 1)):
            raise UserError("a worker is started by maskedbandits serve, not by hand")
        line += piece
    told: dict[str, Any] = json.loads(line)
    for name in ("cors", "trusted_proxies"):
        told["settings"][name] = tuple(told["settings"][name])
    return told


def main() -> None:
    """Be one of several workers."""
    try:
        told = _ordered()
        settings = Settings(**told["settings"])
        metrics = Metrics(shared_memory(told["memory"], settings.workers), told["worker"], settings.workers)
        listener = socket.socket(fileno=told["listener"])
        run(settings, listener, metrics, is_child=True, is_patient=told["is_patient"])
    except UserError as mistake:
        logs.event("cannot start", reason=str(mistake))
        sys.exit(MISTAKE)


if __name__ == "__main__":
    main()
