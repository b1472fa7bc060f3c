"""Runs the demonstration: a service in a temporary folder, its visitors, and the page.

The service is the real one, in another process. When the demonstration ends, the service ends and the folder is
removed.
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

from maskedbandits._util.signals import handle_signals
from maskedbandits.demo.crowd import Crowd, ServiceClient
from maskedbandits.demo.site import Site
from maskedbandits.errors import UserError
from maskedbandits.service.server.main import listen
from maskedbandits.service.server.worker import Server

HOST = "127.0.0.1"
POLL_S = 0.1
STOP_TIMEOUT_S = 10.0
NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def run(port: int, seconds: float | None, *, open_browser: bool, say: Callable[[str], None]) -> None:
    """Run the demonstration until it is interrupted, or for a number of seconds."""
    listener = listen(HOST, port)
    address = f"http://{HOST}:{listener.getsockname()[1]}"
    site = Site()
    config = uvicorn.Config(site.app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    server = Server(config, site.end)
    hearing = handle_signals(server.end, signal.SIGINT, signal.SIGTERM)
    with hearing, tempfile.TemporaryDirectory(prefix="maskedbandits-demo-") as folder:
        say(f"Open {address} in a browser. Ctrl-C ends it, and leaves nothing behind.")
        if open_browser and _has_screen():
            webbrowser.open(address)
        with _start_service(Path(folder), address) as (process, service):
            site.service = service
            asyncio.run(_serve(server, site, listener, process, seconds, say))


def _has_screen() -> bool:
    """Tell whether a browser can open a window: one in the terminal would hide this program's output."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


@contextlib.contextmanager
def _start_service(folder: Path, page: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a service that accepts requests of this page."""
    settings = {"MASKEDBANDITS_CORS": page, "MASKEDBANDITS_STORAGE": f"sqlite:///{folder / 'demo.db'}"}
    settings["MASKEDBANDITS_SIMULATION"] = "1"  # simulated visitors may report after seconds
    others = {name: text for name, text in os.environ.items() if name != "MASKEDBANDITS_CONFIG"}
    program = [sys.executable, "-P", "-m", "maskedbandits"]  # -P: import nothing from the current folder
    command = [*program, "serve", "--port", "0", "--host", HOST, "--workers", "1"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(  # noqa: S603 -- this program
            command, env=others | settings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        first = process.stdout.readline() if process.stdout is not None else ""
        found = re.search(r"http://[0-9.:]+", first)
        if found is None:
            raise UserError(f"the service did not start: {_read_last_line(folder / 'log')}")
        yield process, found[0].rstrip(":")
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _read_last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")


async def _serve(
    server: Server,
    site: Site,
    listener: socket.socket,
    process: subprocess.Popen[str],
    seconds: float | None,
    say: Callable[[str], None],
) -> None:
    """Serve the page, and start the crowd when the service is ready."""
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    crowd: Crowd | None = None
    try:
        if await _wait_until_ready(server, process, site.service, say):
            host, _, port = site.service.removeprefix("http://").rpartition(":")
            crowd = Crowd(ServiceClient(host, int(port)))
            await asyncio.to_thread(crowd.start)
            site.crowd = crowd
            say(f"Simulated visitors arrive, 150 a second at each epsilon. Dashboard: {site.service}/dashboard")
            await _wait_for_end(server, crowd, process, seconds)
    finally:
        server.should_exit = True
        if crowd is not None:
            await asyncio.to_thread(crowd.end)
        await serving


async def _wait_until_ready(
    server: Server, process: subprocess.Popen[str], service: str, say: Callable[[str], None]
) -> bool:
    """Wait for the service; return False if the demonstration ends before."""
    waited = 0.0
    while not server.should_exit:
        if process.poll() is not None:
            raise UserError("the service has ended before it was ready: run maskedbandits serve to see why")
        if await asyncio.to_thread(_is_ready, f"{service}/readyz"):
            return True
        await asyncio.sleep(POLL_S)
        if waited < 2.0 <= waited + POLL_S:
            say("Starting the service. The first start compiles for this machine, about 15 s ...")
        waited += POLL_S
    return False


def _is_ready(address: str) -> bool:
    try:
        with NO_PROXY.open(address, timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _is_ending(server: Server) -> bool:
    """Tell whether it is to end; mypy must not remember an earlier answer."""
    return bool(server.should_exit)


async def _wait_for_end(server: Server, crowd: Crowd, process: subprocess.Popen[str], seconds: float | None) -> None:
    """Wait for the end; raise if the crowd or the service has failed."""
    while not server.should_exit and (seconds is None or crowd.now < seconds):
        if crowd.trouble is not None or process.poll() is not None:
            await asyncio.sleep(POLL_S)
            if _is_ending(server):  # Ctrl-C ends both
                return
            raise UserError(f"the service has gone: {crowd.trouble or 'it has ended'}; start the demonstration again")
        await asyncio.sleep(POLL_S)
