"""A real service in its own process, for requests over loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from children import LONGEST, PROGRAM, child, wait_until

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # never by way of a proxy


class Running:
    """A service that has begun to listen."""

    def __init__(self, process: subprocess.Popen[str], said: list[str]) -> None:
        self.process, self.said = process, said
        found = re.search(r"http://\S+:\d+", said[0])
        assert found, said
        self.address = found[0].rstrip(",")
        self.key = ""

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status, 0 without a response, and the body."""
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        sent = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, sent, headers, method=method)  # noqa: S310 -- loopback
        try:
            with OPENER.open(request, timeout=LONGEST) as reply:  # it may have to compile
                return reply.status, _read(reply.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, _read(refused.read())
        except OSError:
            return 0, None

    def wait_until_ready(self) -> None:
        """Wait until it is ready: then each of its workers is."""
        wait_until(lambda: self.ask("GET", "/readyz")[0] == 200, self.process)

    def stop(self, number: int) -> tuple[int, list[dict[str, Any]]]:
        """Send a signal, and return the exit code and the log."""
        self.process.send_signal(number)
        return self.finish()

    def finish(self) -> tuple[int, list[dict[str, Any]]]:
        """Wait for the end, and return the exit code and the log."""
        _, errors = self.process.communicate(timeout=LONGEST)
        return self.process.returncode, [json.loads(line) for line in errors.splitlines() if line.startswith("{")]


def _read(body: bytes) -> Any:
    return json.loads(body) if body[:1] in (b"{", b"[") else body.decode()


@contextmanager
def running(
    storage: str,
    *flags: object,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    under: Sequence[object] = (),
) -> Iterator[Running]:
    """Start a service on any port that is free; ``under`` another program, if one is given."""
    command = (*under, *PROGRAM, "serve", "--storage", storage, "--port", 0, *flags)
    with child(command, environment=environment, folder=folder) as process:
        assert process.stdout is not None
        said = [process.stdout.readline()]
        assert said[0], process.communicate(timeout=LONGEST)
        said += [process.stdout.readline() for _ in range(4)]
        yield Running(process, said)


def children_of(parent: int) -> list[int]:
    """Return the processes that a process has started, and that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, father = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if int(father) == parent and state != "Z":
            found.append(int(folder.name))
    return found


def workers_of(parent: int) -> list[int]:
    """Return those of them that answer requests."""
    return [each for each in children_of(parent) if "maskedbandits.service.server.worker" in command_of(each)]


def command_of(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for(what: Any) -> None:
    """Wait for something that no child of ours does."""
    deadline = time.monotonic() + LONGEST
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.05)
