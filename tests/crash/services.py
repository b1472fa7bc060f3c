"""Services that are killed and started again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

SETTINGS = {
    "MASKEDBANDITS_SNAPSHOT_EVERY": "20",  # events: so that there is one to be written at every start
    "MASKEDBANDITS_SECRET": "the secret that services under trial share",
    "MASKEDBANDITS_SIMULATION": "1",  # tokens that live for seconds
}
SET_ASIDE = '"experiment is set aside"'  # in the log
PROGRAM = Path(__file__).with_name("fast_service.py")
MACHINE_TIME = time.time
LONGEST = 120.0  # seconds until a service is ready, on the busiest machine


class WorldClock(NamedTuple):
    """The clock of a world: the unix time when it began, and how many of its seconds pass in a second."""

    began: float
    speed: float

    def now(self) -> float:
        """Return the unix time in this world."""
        return self.began + (MACHINE_TIME() - self.began) * self.speed


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Service:
    """One process of the service."""

    def __init__(self, storage: str, folder: Path, clock: WorldClock | None = None) -> None:
        self.storage, self.port = storage, free_port()
        self._program = ["-m", "maskedbandits"] if clock is None else [str(PROGRAM), *map(repr, clock)]
        self.log = folder / f"service-{self.port}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.took = 1.0  # seconds until it was ready, the last time
        self._since = 0.0

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.launch()
        self.wait_until_ready()

    def launch(self) -> None:
        """Start it."""
        command = [sys.executable, *self._program, "serve", "--storage", self.storage, "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **SETTINGS}
            )
        self._since = time.monotonic()

    def wait_until_ready(self) -> None:
        """Wait until it is ready."""
        assert self.process is not None
        until, waited = time.monotonic() + LONGEST, False
        while not self.is_ready():
            waited = True
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the service is not ready: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)
        if waited:
            self.took = time.monotonic() - self._since

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return bool(json.load(answer)["status"] == "ready")  # and not degraded
        except OSError:
            return False

    def list_set_aside(self) -> list[str]:
        """Return the lines of its log about experiments that it could not follow."""
        return [line for line in self.log.read_text().splitlines() if SET_ASIDE in line]

    def kill(self) -> None:
        """Kill the service and its children with SIGKILL."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Ask it to end."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(60.0)

    def ask(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 -- this machine
            return json.load(answer)
