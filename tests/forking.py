"""Tests that fork: a child does one thing, tells what came of it, and is always ended."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

PATIENCE = 300.0  # seconds after which a child has hung

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
warned = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # threads and forks do not go well together


@contextmanager
def forked(work: Callable[[], bytes]) -> Iterator[int]:
    """Do it in a child, which is always ended; yield where what it returns can be read."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # nothing of the tests may run on in here
        status = 1
        try:
            os.write(writing, work())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    try:
        yield reading
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)


def receive(reading: int) -> bytes:
    """Return what a child writes, if it does so before it must have hung."""
    os.set_blocking(reading, False)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            return os.read(reading, 1 << 16)
        except BlockingIOError:
            time.sleep(0.01)
    pytest.fail("the child hangs")
