"""Starting the service: it listens at once, and what is wrong is said in one line before anybody is let in."""

from __future__ import annotations

import errno
import signal
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from maskedbandits._util import extras
from maskedbandits._util.signals import heard
from maskedbandits.errors import UserError
from maskedbandits.service.server.settings import Settings, without_password

BACKLOG = 2048  # connections that wait to be taken
SOON = 0.5  # seconds that a store has to answer in, before those who ask are answered that it has not
SAMPLE = '{"name": "headlines", "epsilon": 1, "arms": [{"name": "short"}, {"name": "long"}]}'

T = TypeVar("T")


def serve(settings: Settings, say: Callable[[str], None]) -> int:
    """Serve until told to end; return the exit code."""
    extras.need("serve", extras.SERVICE, "service")
    if settings.workers > 1 and sys.platform == "win32":
        raise UserError("workers: on Windows there is one: leave it out")
    with listen(settings.host, settings.port) as listener, heard(_leave, signal.SIGTERM):
        has_keys = _prepared_or_told(settings)
        for line in announced(settings, listener, not settings.is_loopback if has_keys is None else has_keys):
            say(line)
        if settings.workers == 1:
            from maskedbandits.service.server.worker import run

            run(settings, listener, is_prepared=has_keys is not None)
            return 0
        from maskedbandits.service.server.supervisor import Supervisor

        return Supervisor(settings, listener, is_prepared=has_keys is not None).run()


def _leave(number: int, frame: object) -> None:
    """Be told to end before there is anything to be ended."""
    sys.exit(0)


def _prepared_or_told(settings: Settings) -> bool | None:
    """Prepare the store; one that cannot be reached now is waited for by those who answer, and None is returned.

    Until it is there they let nobody in: whether there are keys is not known.
    """
    from maskedbandits.service.server import logging
    from maskedbandits.service.storage import StoreUnavailable

    try:
        return in_background(prepared, settings).result(SOON)
    except StoreUnavailable as gone:
        logging.event("store is gone", reason=gone.reason)
    except TimeoutError:
        logging.event("store is gone", reason="it has not answered yet")
    return None


def in_background(work: Callable[..., T], *arguments: Any) -> Future[T]:
    """Have a thread work that nobody waits for when the process ends: a store may not answer for long."""
    result: Future[T] = Future()

    def do() -> None:
        result.set_running_or_notify_cancel()
        try:
            result.set_result(work(*arguments))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=do, name="maskedbandits-store", daemon=True).start()
    return result


def prepared(settings: Settings) -> bool:
    """Open the store once, making it if there is none; tell whether it has ever had keys."""
    from maskedbandits.service.keys import secrets_of
    from maskedbandits.service.storage import open_store

    with open_store(settings.storage, create=True) as store:
        rows = store.list_keys()
        secrets_of(store)  # a wrong secret is refused before anybody is let in
    if not settings.is_loopback and all(row.revoked is not None for row in rows):
        what = f"host = {settings.host!r} lets other machines ask, and there is no key"
        raise UserError(f"{what}: make one with maskedbandits key create --role admin, or leave out --host")
    return bool(rows)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that takes connections from now on."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except socket.gaierror:
        raise UserError(f"host = {host!r} is not known: give an address of this machine such as 127.0.0.1") from None
    except OSError as error:
        raise UserError(_why_not(error, host, port)) from None


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken by another program: end that one, or give another with --port"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} may not be used by this user: give one of at least 1024 with --port"
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        return f"host = {host!r} is no address of this machine: give one that is, such as 127.0.0.1"
    return f"port {port} of {host} cannot be used: {error.strerror}; give another with --port"


def announced(settings: Settings, listener: socket.socket, has_keys: bool) -> list[str]:
    """Return what to tell whoever has started it: where it is, and what to do next."""
    port = listener.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{port}"
    key = " -H 'Authorization: Bearer KEY'" if has_keys else ""
    lines = [f"Listening on {address}, storage {without_password(settings.storage)}"]
    lines.append(f"Ready when this says so: curl {address}/readyz")
    lines.append(f"A first experiment: curl{key} {address}/v1/experiments -d '{SAMPLE}'")
    lines.append(f"A decision: curl{key} -X POST {address}/v1/experiments/headlines/decisions")
    lines.append(f"In a browser: {address}/dashboard")
    return lines
