"""Child processes of tests, with the default handling of signals.

A shell that runs tests in the background ignores SIGINT, nohup ignores SIGHUP, and children inherit that: a test that
sends one would hang. So a few lines reset the signals and then become the child. It leads its own process group, which
is killed at the end of the `with`.
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

LONGEST = 1200.0  # seconds that a child may take, also on a busy machine
PROGRAM = (sys.executable, "-m", "maskedbandits")

# Not a preexec_fn, which may deadlock in a process with threads.
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
    """Start a child with additional variables; end it and its descendants."""
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
    """Run a child and return its output and exit code."""
    with child(command, stdout=stdout, environment=environment, folder=folder) as process:
        out, errors = process.communicate(timeout=LONGEST)
    return subprocess.CompletedProcess(list(map(str, command)), process.returncode, out, errors)


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until a child is ready; fail if it ends before."""
    deadline = time.monotonic() + LONGEST
    while not ready():
        if process.poll() is not None:
            pytest.fail(f"the child ended with {process.returncode}: {process.communicate(timeout=LONGEST)}")
        if time.monotonic() > deadline:
            pytest.fail(f"the child is not ready after {LONGEST:g} s")
        time.sleep(0.05)
