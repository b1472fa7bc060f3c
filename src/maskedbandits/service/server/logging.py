"""What the service says while it runs: one JSON object a line, on standard error.

Nothing that a device sends is ever in one: no token, no visitor, no bit, no key, no body, no query. Of a fault of ours
its type and the places in the code are told, never the values.
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

DEEPEST = 6  # places in the code that are told of a fault


def event(what: str, **facts: Any) -> None:
    """Say that something happened; facts are plain values that anybody may read."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    told = {"time": f"{stamp}.{int(now * 1000) % 1000:03d}Z", "process": os.getpid(), "event": what, **facts}
    with contextlib.suppress(OSError, ValueError):  # nobody reads it any more: that is no reason to end
        sys.stderr.write(json.dumps(told, default=str) + "\n")  # one call: lines of processes do not mix
        sys.stderr.flush()


def kind_of(error: BaseException) -> str:
    """Return the type of an error, with its module: many are called Error."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def fault(what: str, error: BaseException, **facts: Any) -> None:
    """Say that something went wrong that never should: of what type, and where, the innermost place first."""
    frames = traceback.extract_tb(error.__traceback__)[-DEEPEST:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
    event(what, **facts, kind=kind_of(error), places=places)


class _Told(logging.Handler):
    """Turns what the web server complains of into such lines."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            event("web server", message=record.getMessage())
        else:
            fault("web server", error)


def take_over() -> None:
    """Let the web server speak in these lines, of errors alone."""
    logger = logging.getLogger("uvicorn.error")
    logger.handlers, logger.propagate = [_Told()], False
    logger.setLevel(logging.ERROR)
