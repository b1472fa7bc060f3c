"""Children of tests: they start with signals as a terminal gives them, and are always ended.

A shell that runs tests in the background ignores SIGINT, nohup ignores SIGHUP, and children inherit that: a test that
sends one would wait for ever. So a child is started by a few lines that set signals right and then become the child.
It leads a process group of its own, which is killed at the end of the `with`, whatever happens in it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

LONGEST = 1200.0  # seconds that a child may take: on the busiest machine, only one that hangs takes as long
PROGRAM = (sys.executable, "-m", "maskedbandits")

# Not a preexec_fn: what runs between fork and exec in a process with threads may lock up.
BECOME = """
import os, signal, sys
ignored = [int(number) for number in sys.argv[1].split(",") if number]
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
os.execvp(sys.argv[2], sys.argv[2:])
"""


@contextmanager
def child(
    command: Sequence[object],
    *,
    ignoring: Sequence[signal.Signals] = (),
    stdout: int | IO[str] = subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Start a child, with `environment` on top of ours, and end it and all that it started."""
    ignored = ",".join(str(int(number)) for number in ignoring)
    process = subprocess.Popen(
        [sys.executable, "-ISc", BECOME, ignored, *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, **(environment or {})},
        cwd=folder,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def finished(
    command: Sequence[object],
    *,
    stdout: int | IO[str] = subprocess.PIPE,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Return what a child printed and how it ended."""
    with child(command, stdout=stdout, environment=environment, folder=folder) as process:
        out, errors = process.communicate(timeout=LONGEST)
    return subprocess.CompletedProcess(list(map(str, command)), process.returncode, out, errors)


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that a child does; a child that ends before has failed."""
    deadline = time.monotonic() + LONGEST
    while not ready():
        if process.poll() is not None:
            pytest.fail(f"the child ended with {process.returncode}: {process.communicate(timeout=LONGEST)}")
        if time.monotonic() > deadline:
            pytest.fail(f"the child is not ready after {LONGEST:g} s")
        time.sleep(0.05)
