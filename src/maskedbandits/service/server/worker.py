"""A process that answers: it listens at once, gets ready meanwhile, and loses nothing when it stops.

It is the whole service, or one of several workers on one socket. A worker reads its orders from standard input, and
stops when that is closed, because then its supervisor has died. The first worker answers that the service is starting
until all workers are ready. The others accept no connection before that.
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
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import uvicorn

from maskedbandits._util.signals import handle_signals
from maskedbandits.errors import UserError
from maskedbandits.service.app import App
from maskedbandits.service.clock import Clock
from maskedbandits.service.server import logging, readiness, warmup
from maskedbandits.service.server.http_protocol import HttpProtocol
from maskedbandits.service.server.main import prepare_store, run_in_background
from maskedbandits.service.server.metrics import SIZE, Metrics
from maskedbandits.service.server.settings import Settings, decode_settings
from maskedbandits.service.server.supervisor import USER_ERROR
from maskedbandits.service.server.worker_memory import WorkerMemory, map_memory
from maskedbandits.service.shared_table import SharedTable
from maskedbandits.service.storage import StoreUnavailable

if TYPE_CHECKING:
    from maskedbandits.service.registry import ExperimentRegistry

KEEP_ALIVE_S = 75  # for an idle connection: longer than proxies keep theirs
CLOSE_TIMEOUT_S = 10.0  # for snapshots at the end; less than the supervisor grants
START = "start"  # the part of a worker that notices the loss of the store before it is ready
RETRY_S = 1.0  # between two attempts to reach the store at the start

T = TypeVar("T")


class Server(uvicorn.Server):
    """The web server. A signal stops it gently, and a second one from the keyboard at once."""

    def __init__(self, config: uvicorn.Config, end_streams: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_streams = end_streams

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `run`, which handles them until the very end."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; streams, which would never end, are ended first."""
        self._end_streams()
        await super().shutdown(sockets)

    def end(self, number: int, frame: object = None) -> None:
        """Handle a signal."""
        if self.should_exit and number == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def run(
    settings: Settings,
    listener: socket.socket,
    metrics: Metrics | None = None,
    table: SharedTable | None = None,
    *,
    is_child: bool = False,
    is_patient: bool = False,
    is_prepared: bool = True,
) -> None:
    """Answer requests until a signal; raise a user's mistake that shows at the start.

    A patient worker accepts no connection before it is ready, and before the first worker is or has died. If the store
    is not prepared, it could not be reached so far, which has been logged: the worker waits for it.
    """
    metrics = metrics or Metrics()
    metrics.memory.set("started_at", time.time())
    logging.configure(settings.log_format, worker=metrics.memory.worker)
    logging.capture_web_server()
    app = App(settings, metrics, Clock(), table)
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=HttpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # our own setting says which proxies to trust
        server_header=False,
        date_header=False,  # ours shows the clock that tokens are made by
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, int(settings.stop_after)),
    )
    server = Server(config, app.streams.end)
    if is_child:
        threading.Thread(target=_end_with_parent, args=(server,), name="maskedbandits-parent", daemon=True).start()
    hearing = handle_signals(server.end, signal.SIGTERM, signal.SIGINT)
    with hearing, asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(server, app, listener, is_patient=is_patient, is_prepared=is_prepared))


async def _serve(server: Server, app: App, listener: socket.socket, *, is_patient: bool, is_prepared: bool) -> None:
    """Answer requests, open the application when all is ready, and close it at the end."""
    memory = app.metrics.memory
    starting = asyncio.create_task(_start(server, app, is_patient=is_patient, is_prepared=is_prepared))
    while is_patient and not server.should_exit and not (starting.done() and readiness.has_first_started(memory)):
        await asyncio.sleep(readiness.CHECK_EVERY_S)
    if not server.should_exit:
        await server.serve(sockets=[listener])
    listener.close()  # even if it has not begun to answer, or connections would wait in vain
    if not starting.done():
        starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    await _finish(app.close())
    logging.event("stopped")


async def _finish(work: Coroutine[Any, Any, None]) -> None:
    """Finish some work, which writes snapshots; if that takes too long, end the process at once.

    Nothing is lost with it: the next start reads more of the log. Python would wait for the thread that writes.
    """
    closing = asyncio.create_task(work)
    if (await asyncio.wait([closing], timeout=CLOSE_TIMEOUT_S))[0]:
        return closing.result()
    logging.event("stopped without a snapshot", seconds=CLOSE_TIMEOUT_S)
    sys.stdout.flush()
    os._exit(0)


async def _start(server: Server, app: App, *, is_patient: bool, is_prepared: bool) -> None:
    """Get ready while requests get a Retry-After, or wait to be accepted."""
    loop, settings, memory = asyncio.get_running_loop(), app.settings, app.metrics.memory
    outage = logging.build_store_outage()
    try:
        if not is_prepared:
            if memory.worker == readiness.FIRST:  # one line at the end for all workers
                outage.begin(START, is_logged=True)
            prepare = lambda: asyncio.wrap_future(run_in_background(prepare_store, settings))  # noqa: E731
            await _retry_store(prepare, None)
        listing = lambda: loop.run_in_executor(None, _import_and_list, settings.storage)  # noqa: E731
        await _load_code(await _retry_store(listing, outage))
        registry = await _retry_store(lambda: _start_registry(app, outage), outage)
        try:
            await readiness.wait_until_compiled(registry)
            if not is_patient:
                await readiness.wait_for_others(memory)
            await _retry_store(lambda: app.open(registry), outage)
        except BaseException:
            await _finish(registry.stop())
            raise
        logging.event("ready", retention_days=settings.retention_days)
    except BaseException:
        server.should_exit = True
        raise


async def _retry_store(work: Callable[[], Awaitable[T]], outage: logging.Outage | None) -> T:
    """Return the result of some work with the store; try again while that is unavailable, which is logged once."""
    while True:
        try:
            result = await work()
        except StoreUnavailable as gone:
            if outage is not None:
                outage.begin(START, reason=gone.reason)
            await asyncio.sleep(RETRY_S)
        else:
            if outage is not None:
                outage.end(START)
            return result


def _import_and_list(storage: str) -> warmup.Names:
    """Do the slow imports beside the event loop, and return the names of the code to load."""
    from maskedbandits._numba import cache

    # Before the kernels are imported, which may log something.
    cache.set_listener(lambda message: logging.event("machine code", message=message))

    return warmup.list_store_code(storage)


async def _load_code(names: warmup.Names) -> None:
    """Load code, unless this process stops before."""
    loader = warmup.CodeLoader()
    try:
        await loader.load(names)
    finally:
        loader.stop()


async def _start_registry(app: App, outage: logging.Outage) -> ExperimentRegistry:
    """Return a registry that has read the logs."""
    from maskedbandits.service.registry import ExperimentRegistry

    registry = ExperimentRegistry(app.settings, clock=app.clock, table=app.table, store_outage=outage)
    try:
        await registry.start()
    except BaseException:
        await registry.stop()
        raise
    return registry


def _end_with_parent(server: Server) -> None:
    """Stop when the supervisor has died, which closes standard input."""
    while os.read(0, 4096):
        pass
    server.should_exit = True


def _read_order() -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := os.read(0, 1)):
            raise UserError("start workers with maskedbandits serve, not directly")
        line += piece
    return dict(json.loads(line))


def main() -> None:
    """Run one of several workers."""
    try:
        order = _read_order()
        settings = decode_settings(order["settings"])
        shared = map_memory(order["memory"], SIZE, settings.workers)
        metrics = Metrics(WorkerMemory(SIZE, shared, order["worker"], settings.workers))
        listener = socket.socket(fileno=order["listener"])
        table = SharedTable(order["table"], bytes.fromhex(order["secret"]))
        run(settings, listener, metrics, table, is_child=True, **order["options"])
    except UserError as mistake:
        logging.event("cannot start", reason=str(mistake))
        sys.exit(USER_ERROR)


if __name__ == "__main__":
    main()
