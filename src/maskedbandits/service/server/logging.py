"""The log of the service: one JSON object a line, on standard error.

It never contains what a device sends: no token, visitor, bit, key, body or query. A fault is logged with its type and
the lines of code, never with values.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import time
import traceback
from typing import Any

MAX_FRAMES = 6  # lines of code that are logged of a fault


def event(what: str, **facts: Any) -> None:
    """Log an event; facts are plain values without secrets."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    entry = {"time": f"{stamp}.{int(now * 1000) % 1000:03d}Z", "process": os.getpid(), "event": what, **facts}
    with contextlib.suppress(OSError, ValueError):  # a closed log is no reason to stop
        sys.stderr.write(json.dumps(entry, default=str) + "\n")  # one call, so that lines of processes do not mix
        sys.stderr.flush()


def kind_of(error: BaseException) -> str:
    """Return the type of an error with its module, since many are called Error."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def fault(what: str, error: BaseException, **facts: Any) -> None:
    """Log an unexpected error: its type, and where it was raised, innermost line first."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
    event(what, **facts, kind=kind_of(error), places=places)


class _WebServerHandler(logging.Handler):
    """Logs the errors of the web server in this format."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            event("web server", message=record.getMessage())
        else:
            fault("web server", error)


def capture_web_server() -> None:
    """Log the web server's errors, and nothing else of it, in this format."""
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [_WebServerHandler()], False
    logger.setLevel(logging.ERROR)
