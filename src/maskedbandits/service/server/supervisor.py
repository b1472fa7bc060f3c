"""The supervisor of several workers on one socket: each is a process, and one that dies is started again.

The supervisor binds the socket, and the workers inherit it: connections wait in it while a worker starts. The
supervisor stays small, and imports nothing that computes. The first worker answers at once that the service is
starting, until all workers are ready. All others, and replacements of workers that died, accept no requests before they
are ready. So once the service has said that it is ready, no worker refuses a decision.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from maskedbandits._util.signals import handle_signals
from maskedbandits.service.server import logging
from maskedbandits.service.server.metrics import SIZE
from maskedbandits.service.server.settings import Settings, encode_settings
from maskedbandits.service.server.worker_memory import WorkerMemory, WorkerState, count_bytes, map_memory
from maskedbandits.service.shared_table import TABLE_BYTES, draw_secret, open_memory

CHECK_EVERY_S = 0.1
SHORT_LIFE_S = 10.0  # a worker that lived for less is started again only after a pause
MAX_PAUSE_S = 10.0
GRACE_S = 15.0  # beyond the time that requests have, for what is written at the end
ENDS_WITH_WORKER = ("store_lost_at", "log_failed_at", "compiling", "queued", "resident_bytes", "open_files")
USER_ERROR = 2  # exit code of a worker for a mistake that another worker would make, too


class WorkerSlot:
    """The place of a worker, which holds one process after another."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.pause_s = 0.0
        self.due_at = 0.0  # when the next process is started
        self.had_one = False


class Supervisor:
    """Keeps all workers running until a signal ends it."""

    def __init__(self, settings: Settings, listener: socket.socket, *, is_prepared: bool = True) -> None:
        self.settings, self.listener, self.is_prepared = settings, listener, is_prepared
        self.slots = [WorkerSlot() for _ in range(settings.workers)]
        self.file = open_memory(count_bytes(SIZE, settings.workers))
        self.memory = WorkerMemory(SIZE, map_memory(self.file.fileno(), SIZE, settings.workers), 0, settings.workers)
        self.table, self.secret = open_memory(TABLE_BYTES), draw_secret()
        self.is_stopping = False

    def run(self) -> int:
        """Run until a signal, or until a worker cannot start by a user's mistake; return the exit code."""
        code = 0
        with handle_signals(self._end, signal.SIGTERM, signal.SIGINT):
            while not self.is_stopping and not code:
                for number, slot in enumerate(self.slots):
                    code = code or self._check_worker(number, slot)
                time.sleep(CHECK_EVERY_S)
            self._stop_all()
        return code

    def _end(self, number: int, frame: object) -> None:
        self.is_stopping = True

    def _check_worker(self, number: int, slot: WorkerSlot) -> int:
        """Start a worker in an empty slot; return the exit code of one that no other could replace."""
        now = time.monotonic()
        if slot.process is None:
            if now >= slot.due_at:
                self._start(number, slot)
            return 0
        code = slot.process.poll()
        if code is None or self.is_stopping:
            return 0
        if code == USER_ERROR:
            return code
        self.memory.set("state", WorkerState.ABSENT, number)  # so that no other waits for it
        for name in ENDS_WITH_WORKER:
            self.memory.set(name, 0.0, number)
        self.memory.set("restarts", self.memory.get("restarts", number) + 1, number)
        is_short = now - slot.started_at < SHORT_LIFE_S
        slot.pause_s = min(MAX_PAUSE_S, 2 * slot.pause_s + 0.5) if is_short else 0.0
        slot.process, slot.due_at = None, now + slot.pause_s
        logging.event("worker ended and is started again", worker=number, code=code, pause=slot.pause_s)
        return 0

    def _start(self, number: int, slot: WorkerSlot) -> None:
        handles = self.listener.fileno(), self.file.fileno(), self.table.fileno()
        module = "maskedbandits.service.server.worker"
        command = [sys.executable, "-P", "-m", module]  # -P: files in the working directory are no modules
        slot.process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=handles)  # noqa: S603 -- this program
        slot.started_at = time.monotonic()
        had_one, slot.had_one = slot.had_one, True
        if slot.process.stdin is not None:  # it stays open, because a worker ends when it is closed
            with contextlib.suppress(BrokenPipeError):  # it has died at once, which the next check finds
                options = {"is_patient": number > 0 or had_one, "is_prepared": self.is_prepared}
                slot.process.stdin.write(encode_order(self.settings, *handles, self.secret, number, **options))
                slot.process.stdin.flush()

    def _stop_all(self) -> None:
        """Stop all workers, and wait for them; each closes the socket as well, so no new connection is accepted."""
        self.listener.close()
        running = [slot.process for slot in self.slots if slot.process is not None]
        for process in running:
            process.terminate()
        until = time.monotonic() + self.settings.stop_after + GRACE_S
        for process in running:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                logging.event("worker did not end and was killed")


def encode_order(
    settings: Settings, listener: int, memory: int, table: int, secret: bytes, worker: int, **options: bool
) -> bytes:
    """Return the orders of a worker for its standard input, where no other user sees a password in the settings."""
    order: dict[str, Any] = {"settings": encode_settings(settings), "worker": worker, "options": options}
    handles = {"listener": listener, "memory": memory, "table": table}
    return json.dumps({**order, **handles, "secret": secret.hex()}).encode() + b"\n"
