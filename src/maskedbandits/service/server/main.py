"""The start of the service: it listens at once, and reports mistakes in one line before it accepts requests."""

from __future__ import annotations

import errno
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from maskedbandits._util.signals import handle_signals
from maskedbandits.errors import UserError
from maskedbandits.service.server import logging
from maskedbandits.service.server.settings import Settings, hide_password

MAX_BACKLOG = 2048  # connections that wait to be accepted
STORE_TIMEOUT_S = 0.5  # for the store to answer, before the service starts without it
SAMPLE = '{"name": "headlines", "epsilon": 1, "arms": [{"name": "short"}, {"name": "long"}]}'

T = TypeVar("T")


def serve(settings: Settings, say: Callable[[str], None]) -> int:
    """Serve until a signal; return the exit code."""
    check_workers(settings)
    logging.configure(settings.log_format)
    with listen(settings.host, settings.port) as listener, handle_signals(_leave, signal.SIGTERM):
        has_keys = _try_to_prepare(settings)
        for line in format_announcement(settings, listener, not settings.is_loopback if has_keys is None else has_keys):
            say(line)
        if settings.workers == 1:
            from maskedbandits.service.server.worker import run

            run(settings, listener, is_prepared=has_keys is not None)
            return 0
        from maskedbandits.service.server.supervisor import Supervisor

        return Supervisor(settings, listener, is_prepared=has_keys is not None).run()


def check_workers(settings: Settings) -> None:
    """Refuse several workers where they would make the service slower, or do not work."""
    from maskedbandits.service.storage.urls import parse_url

    if settings.workers > 1 and sys.platform == "win32":
        raise UserError("workers: Windows supports one: leave it out")
    if settings.workers > 1 and parse_url(settings.storage).dialect == "sqlite":
        what = f"workers = {settings.workers} needs PostgreSQL, because SQLite has one writer at a time"
        raise UserError(f"{what}: give 1, or a storage such as postgresql://user@host/database")


def _leave(number: int, frame: object) -> None:
    """Exit on a signal that comes before the server runs."""
    sys.exit(0)


def _try_to_prepare(settings: Settings) -> bool | None:
    """Prepare the store; return whether it has keys, or None if it cannot be reached now.

    The workers then wait for it. Until they know the keys, they refuse all requests.
    """
    from maskedbandits.service.storage import StoreUnavailable

    try:
        return run_in_background(prepare_store, settings).result(STORE_TIMEOUT_S)
    except StoreUnavailable as gone:
        logging.event("store is gone", reason=gone.reason)
    except TimeoutError:
        logging.event("store is gone", reason="it has not answered yet")
    return None


def run_in_background(work: Callable[..., T], *arguments: Any) -> Future[T]:
    """Run work in a thread that does not delay the end of the process: a store may not answer for long."""
    result: Future[T] = Future()

    def do() -> None:
        result.set_running_or_notify_cancel()
        try:
            result.set_result(work(*arguments))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=do, name="maskedbandits-store", daemon=True).start()
    return result


def prepare_store(settings: Settings) -> bool:
    """Open the store once, and create it if there is none; return whether it ever had keys."""
    from maskedbandits.service.secret import load_secrets
    from maskedbandits.service.server import logging
    from maskedbandits.service.storage import open_store
    from maskedbandits.service.storage.schema import VERSION

    with open_store(settings.storage, create=True) as store:
        rows = store.list_keys()
        load_secrets(store)  # which refuses a wrong secret
        if store.read_version() < VERSION:
            remedy = "run maskedbandits upgrade once all processes are of this release"
            logging.event("store is shared with the earlier release", remedy=remedy)
    if not settings.is_loopback and all(row.revoked is not None for row in rows):
        what = f"host = {settings.host!r} admits other machines, but there is no key"
        raise UserError(f"{what}: run maskedbandits key create --role admin, or leave out --host")
    return bool(rows)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=MAX_BACKLOG)
    except socket.gaierror:
        raise UserError(f"host = {host!r} is unknown: give an address of this machine such as 127.0.0.1") from None
    except OSError as error:
        raise UserError(_explain_failure(error, host, port)) from None


def _explain_failure(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: stop the other program, or give another --port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} is not permitted for this user: give a --port of at least 1024"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return f"host = {host!r} is not an address of this machine: give one such as 127.0.0.1"
    return f"port {port} of {host} cannot be used: {error.strerror}; give another --port"


def format_announcement(settings: Settings, listener: socket.socket, has_keys: bool) -> list[str]:
    """Return the lines for the person who starts the service: its address, and the next steps."""
    port = listener.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{port}"
    key = " -H 'Authorization: Bearer KEY'" if has_keys else ""
    lines = [f"Listening on {address}, storage {hide_password(settings.storage)}"]
    lines.append(f"Ready when this says so: curl {address}/readyz")
    lines.append(f"A first experiment: curl{key} {address}/v1/experiments -d '{SAMPLE}'")
    lines.append(f"A decision: curl{key} -X POST {address}/v1/experiments/headlines/decisions")
    lines.append(f"In a browser: {address}/dashboard")
    return lines
