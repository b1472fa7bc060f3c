"""Several workers on one socket: each is a process of its own, and one that dies is started again.

The socket is bound once, here, and inherited: connections wait in it while a worker starts. This process stays small:
it imports nothing that computes. The first worker answers at once, that it is starting; all others, and whoever takes
the place of one that has died, answer when they are ready.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

from maskedbandits._util.signals import heard
from maskedbandits.service.server import logging
from maskedbandits.service.server.metrics import BYTES
from maskedbandits.service.server.settings import Settings

LOOK = 0.1  # seconds between two looks at the workers
SHORT = 10.0  # seconds: a worker that lived for less is started again only after a while
LONGEST_PAUSE = 10.0  # seconds
GRACE = 15.0  # seconds beyond those that requests have, for what is written down at the end
MISTAKE = 2  # exit code of a worker, which no other would do better than


class Post:
    """A worker's place: who works there, and since when."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.since = 0.0
        self.pause = 0.0
        self.due = 0.0  # when the next one is to be started
        self.had_one = False


class Supervisor:
    """Keeps all posts filled until told to end."""

    def __init__(self, settings: Settings, listener: socket.socket, *, is_prepared: bool = True) -> None:
        self.settings, self.listener, self.is_prepared = settings, listener, is_prepared
        self.posts = [Post() for _ in range(settings.workers)]
        self.memory = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with this process
        self.memory.truncate(BYTES * settings.workers)
        self.is_stopping = False

    def run(self) -> int:
        """Return the exit code: 0 when told to end, that of a worker that cannot start by a user's mistake."""
        code = 0
        with heard(self._end, signal.SIGTERM, signal.SIGINT):
            while not self.is_stopping and not code:
                for place, post in enumerate(self.posts):
                    code = code or self._look_after(place, post)
                time.sleep(LOOK)
            self._stop_all()
        return code

    def _end(self, number: int, frame: object) -> None:
        self.is_stopping = True

    def _look_after(self, place: int, post: Post) -> int:
        """Start a worker where there is none; return the code of one that says that none can."""
        now = time.monotonic()
        if post.process is None:
            if now >= post.due:
                self._start(place, post)
            return 0
        code = post.process.poll()
        if code is None or self.is_stopping:
            return 0
        if code == MISTAKE:
            return code
        post.pause = min(LONGEST_PAUSE, 2 * post.pause + 0.5) if now - post.since < SHORT else 0.0
        post.process, post.due = None, now + post.pause
        logging.event("worker ended and is started again", worker=place, code=code, pause=post.pause)
        return 0

    def _start(self, place: int, post: Post) -> None:
        handles = self.listener.fileno(), self.memory.fileno()
        command = [
            sys.executable,
            "-P",
            "-m",
            "maskedbandits.service.server.worker",
        ]  # what is in this folder is no module
        post.process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=handles)  # noqa: S603 -- this program
        post.since = time.monotonic()
        had_one, post.had_one = post.had_one, True
        if post.process.stdin is not None:  # it stays open: a worker ends when it is closed
            with contextlib.suppress(BrokenPipeError):  # it has died at once, which is seen soon
                ways = {"is_patient": place > 0 or had_one, "is_prepared": self.is_prepared}
                post.process.stdin.write(order(self.settings, *handles, place, **ways))
                post.process.stdin.flush()

    def _stop_all(self) -> None:
        """Tell all workers to end, and wait until they have; nobody new is let in: each closes the socket, too."""
        self.listener.close()
        running = [post.process for post in self.posts if post.process is not None]
        for process in running:
            process.terminate()
        until = time.monotonic() + self.settings.stop_after + GRACE
        for process in running:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                logging.event("worker did not end and was killed")


def order(settings: Settings, listener: int, memory: int, worker: int, **ways: bool) -> bytes:
    """Return what a worker is told on its standard input: nobody else sees a password that is in the settings."""
    told: dict[str, Any] = {"settings": dataclasses.asdict(settings), "worker": worker, "ways": ways}
    return json.dumps({**told, "listener": listener, "memory": memory}).encode() + b"\n"
