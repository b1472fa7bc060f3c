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
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import uvicorn

from maskedbandits._util.signals import heard
from maskedbandits.errors import UserError
from maskedbandits.service.app import App
from maskedbandits.service.clock import Clock
from maskedbandits.service.server import logging, warmup
from maskedbandits.service.server.http_protocol import Wire
from maskedbandits.service.server.main import in_background, prepared
from maskedbandits.service.server.metrics import Metrics, shared_memory
from maskedbandits.service.server.settings import Settings
from maskedbandits.service.server.supervisor import MISTAKE
from maskedbandits.service.storage import StoreUnavailable

KEEP_ALIVE = 75  # seconds for which a connection may idle: longer than proxies in front keep theirs
LOOK = 0.1  # seconds between two looks at whether it is to end
WRITING = 10.0  # seconds for what is written down at the end; less than whoever waits for this process grants it
PAUSE = 1.0  # seconds between two tries to reach the store at the start

T = TypeVar("T")


class Server(uvicorn.Server):
    """The web server, which ends as it is told: first gently; told a second time by the keyboard, at once."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to those who run it: they are heard until the very end."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; what would go on for ever ends first."""
        self._end_streams()
        await super().shutdown(sockets)

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
    is_prepared: bool = True,
) -> None:
    """Answer until told to end, a patient one when all is ready; a user's mistake that shows at the start is raised.

    A store that is not prepared could not be reached so far, which has been said: it is waited for.
    """
    logging.take_over()
    app = App(settings, metrics, Clock())
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=Wire,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # whom to believe is a setting of ours
        server_header=False,
        date_header=False,  # ours tells the time by which tokens are made
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, int(settings.stop_after)),
    )
    server = Server(config, app.streams.end)
    if is_child:
        threading.Thread(target=_end_with_parent, args=(server,), name="maskedbandits-parent", daemon=True).start()
    hearing = heard(server.end, signal.SIGTERM, signal.SIGINT)
    with hearing, asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(server, app, listener, is_patient=is_patient, is_prepared=is_prepared))


async def _serve(server: Server, app: App, listener: socket.socket, *, is_patient: bool, is_prepared: bool) -> None:
    """Answer from now on, let people in when all is ready, and write everything down at the end."""
    starting = asyncio.create_task(_start(server, app, is_prepared))
    while is_patient and not starting.done() and not server.should_exit:
        await asyncio.wait([starting], timeout=LOOK)
    if not server.should_exit:
        await server.serve(sockets=[listener])
    listener.close()  # by whoever has not begun to answer, too: connections would wait for nobody
    if not starting.done():
        starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    await _write_down(app)
    logging.event("stopped")


async def _write_down(app: App) -> None:
    """Have the registry write its snapshots; one that takes too long is given up, and the process ends here.

    Nothing is lost with it: the next start reads more of the log. Its thread cannot be told to stop, so that Python
    would wait for it.
    """
    closing = asyncio.create_task(app.close())
    if (await asyncio.wait([closing], timeout=WRITING))[0]:
        return closing.result()
    logging.event("stopped without a snapshot: the next start reads more of the log", seconds=WRITING)
    sys.stdout.flush()
    os._exit(0)


async def _start(server: Server, app: App, is_prepared: bool) -> None:
    """Get ready beside those who are told to wait."""
    loop, settings = asyncio.get_running_loop(), app.settings
    try:
        if not is_prepared:
            await _reached(lambda: asyncio.wrap_future(in_background(prepared, settings)), told=True)
        await _warm(await _reached(lambda: loop.run_in_executor(None, _needed, settings.storage)))
        await _reached(lambda: _open(app))
        logging.event("ready")
    except BaseException:
        server.should_exit = True
        raise


async def _reached(work: Callable[[], Awaitable[T]], *, told: bool = False) -> T:
    """Return what some work with the store gives; while that cannot be reached, say so once, and try again."""
    while True:
        try:
            return await work()
        except StoreUnavailable as gone:
            if not told:
                logging.event("store is gone", reason=gone.reason)
            told = True
            await asyncio.sleep(PAUSE)


def _needed(storage: str) -> warmup.Names:
    """Import what takes long to import, beside those who are answered, and return what machine code it needs."""
    from maskedbandits._numba import cache

    cache.set_listener(logging.event)  # before there are kernels: then it may have something to say

    return warmup.needed(storage)


async def _warm(names: warmup.Names) -> None:
    """Get machine code, unless this process is told to end before."""
    warming = warmup.Warming()
    try:
        await warming.get(names)
    finally:
        warming.stop()


async def _open(app: App) -> None:
    """Open the registry."""
    from maskedbandits.service.registry import ExperimentRegistry

    registry = ExperimentRegistry(app.settings, clock=app.clock)
    try:
        await registry.start()
        await app.open(registry)
    except BaseException:
        await registry.stop()
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
        run(settings, listener, metrics, is_child=True, **told["ways"])
    except UserError as mistake:
        logging.event("cannot start", reason=str(mistake))
        sys.exit(MISTAKE)


if __name__ == "__main__":
    main()
