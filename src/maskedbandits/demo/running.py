"""The demonstration from beginning to end: a service in a temporary folder, its visitors, and the page.

The service is the same program that serves real people, in a process of its own. When the demonstration ends, so does
the service, and the folder is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from maskedbandits._util.signals import heard
from maskedbandits.demo.crowd import Crowd, Service
from maskedbandits.demo.site import Site
from maskedbandits.errors import UserError
from maskedbandits.service.server.main import listen
from maskedbandits.service.server.worker import Server

HOST = "127.0.0.1"
LOOK = 0.1  # seconds between two looks at whether something has happened
STOP = 10.0  # seconds that the service has to end in
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def run(port: int, seconds: float | None, *, opens: bool, say: Callable[[str], None]) -> None:
    """Show the demonstration until told to end, or for so many seconds."""
    listener = listen(HOST, port)
    address = f"http://{HOST}:{listener.getsockname()[1]}"
    site = Site()
    config = uvicorn.Config(site.app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    server = Server(config, site.end)
    hearing = heard(server.end, signal.SIGINT, signal.SIGTERM)
    with hearing, tempfile.TemporaryDirectory(prefix="maskedbandits-demo-") as folder:
        say(f"Open {address} in a browser. Ctrl-C ends it, and leaves nothing behind.")
        if opens and _has_a_screen():
            webbrowser.open(address)
        with _service(Path(folder), address) as (process, service):
            site.service = service
            asyncio.run(_shown(server, site, listener, process, seconds, say))


def _has_a_screen() -> bool:
    """Tell whether a browser could open a window: one in the terminal would hide what is said here."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextlib.contextmanager
def _service(folder: Path, page: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a service that this page may ask, and end it."""
    settings = {"MASKEDBANDITS_CORS": page, "MASKEDBANDITS_STORAGE": f"sqlite:///{folder / 'demo.db'}"}
    settings["MASKEDBANDITS_SIMULATION"] = "1"  # reports after seconds: nobody is behind these visitors
    others = {name: text for name, text in os.environ.items() if name != "MASKEDBANDITS_CONFIG"}
    program = [sys.executable, "-P", "-m", "maskedbandits"]  # -P: nothing in the folder where it was typed is imported
    command = [*program, "serve", "--port", "0", "--host", HOST, "--workers", "1"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603 -- this program
            command, env=others | settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        first = process.stdout.readline() if process.stdout is not None else ""
        found = re.search(r"http://[0-9.:]+", first)
        if found is None:
            raise UserError(f"the service did not start: {_last(folder / 'log')}")
        yield process, found[0].rstrip(":")
    finally:
        process.terminate()
        try:
            process.wait(STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _last(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")


async def _shown(
    server: Server,
    site: Site,
    listener: socket.socket,
    process: subprocess.Popen[str],
    seconds: float | None,
    say: Callable[[str], None],
) -> None:
    """Serve the page, and let the crowd in as soon as the service is ready."""
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    crowd: Crowd | None = None
    try:
        if await _ready(server, process, site.service, say):
            host, _, port = site.service.removeprefix("http://").rpartition(":")
            crowd = Crowd(Service(host, int(port)))
            await asyncio.to_thread(crowd.start)
            site.crowd = crowd
            say(f"People visit, 150 a second at each epsilon. What the service's owner sees: {site.service}/dashboard")
            await _watched(server, crowd, process, seconds)
    finally:
        server.should_exit = True
        if crowd is not None:
            await asyncio.to_thread(crowd.end)
        await serving


async def _ready(server: Server, process: subprocess.Popen[str], service: str, say: Callable[[str], None]) -> bool:
    """Wait until the service can decide; tell whether it can."""
    waited = 0.0
    while not server.should_exit:
        if process.poll() is not None:
            raise UserError("the service has ended before it was ready: run maskedbandits serve to see why")
        if await asyncio.to_thread(_answers, f"{service}/readyz"):
            return True
        await asyncio.sleep(LOOK)
        if waited < 2.0 <= waited + LOOK:
            say("The service gets ready; the first time it compiles for this machine, about a quarter of a minute ...")
        waited += LOOK
    return False


def _answers(address: str) -> bool:
    try:
        with NO_PROXY.open(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _is_told(server: Server) -> bool:
    """Tell whether it has been told to end, perhaps only just now."""
    return bool(server.should_exit)


async def _watched(server: Server, crowd: Crowd, process: subprocess.Popen[str], seconds: float | None) -> None:
    """Wait for the end; what keeps the crowd from visiting is an error."""
    while not server.should_exit and (seconds is None or crowd.now < seconds):
        if crowd.trouble is not None or process.poll() is not None:
            await asyncio.sleep(LOOK)
            if _is_told(server):  # Ctrl-C ends both
                return
            raise UserError(f"the service has gone: {crowd.trouble or 'it has ended'}; start the demonstration again")
        await asyncio.sleep(LOOK)
