"""The log of the service, on standard error: one line for each event, in JSON or as text.

Each line has the time, a severity, the process, the worker, and the name of the event. `EVENTS` lists all names: they
are stable, so alerts can rely on them. The log never contains what a device sends: no token, visitor, bit, key, body or
query. A fault is logged with its type and the lines of code, never with values.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
import threading
import time
import traceback
from typing import Any, Literal, NamedTuple

MAX_FRAMES = 6  # lines of code that are logged of a fault
Format = Literal["json", "text"]
Severity = Literal["info", "warning", "error"]
JSON: Format = "json"
TEXT: Format = "text"


class Event(NamedTuple):
    """The severity of an event, and its meaning."""

    severity: Severity
    meaning: str


EVENTS = {
    "ready": Event("info", "The worker decides. The line has `retention_days`."),
    "stopped": Event("info", "The worker has ended and lost nothing."),
    "stopped without a snapshot": Event("warning", "Writing it took too long. The next start reads more of the log."),
    "store is shared with the earlier release": Event("warning", "No event is removed before `maskedbandits upgrade`."),
    "cannot start": Event("error", "A mistake in the settings or the store. A restart does not help."),
    "worker ended and is started again": Event("error", "A worker died. Its successor answers once it is ready."),
    "worker did not end and was killed": Event("warning", "The time for a stop was over."),
    "compiling for this machine": Event("info", "A child process compiles policies, once for each kind of processor."),
    "compiling in this process": Event("warning", "No child process could compile, so requests may wait."),
    "machine code": Event("warning", "The cache of machine code is not used as it should be. The message says why."),
    "store is gone": Event("error", "The store is unreachable or full. Decisions go on, reports are refused."),
    "store is back": Event("info", "The end of that, with its duration in seconds."),
    "following the log failed": Event("error", "This worker learns from no reports for now."),
    "following the log goes on": Event("info", "The end of that, with its duration in seconds."),
    "experiment is live": Event("info", "The worker decides for this experiment."),
    "experiment is set aside": Event("error", "The experiment cannot be read. It is tried again every minute."),
    "experiment could not be viewed": Event("error", "A dashboard's numbers could not be computed."),
    "experiment is not followed any more": Event("info", "It was archived or deleted."),
    "an archived experiment has no last snapshot": Event("warning", "It could not be written. A view takes longer."),
    "an archived experiment cannot be read": Event("error", "Its log or settings are damaged. Restore a backup."),
    "old events are removed": Event("info", "A snapshot covers them, and they are older than `retention_days`."),
    "old events are not removed": Event("error", "The store keeps them for now. It is tried again."),
    "old events cannot be removed": Event("error", "The store does not allow it, or cannot be reached."),
    "old events can be removed again": Event("info", "The end of that, with its duration in seconds."),
    "reports are not masked": Event("warning", "Devices of one block of addresses send what no mask gives."),
    "reports surge while an arm jumps": Event("warning", "Many reports came at once, and favour one arm."),
    "snapshot is not used": Event("warning", "It is damaged. More of the log is read instead."),
    "snapshot is not written": Event("warning", "The next start reads more of the log."),
    "key has an unknown role, and no rights": Event("warning", "The key comes from a newer version."),
    "key file is open to others": Event("warning", "Other users of the machine can read the secret."),
    "signing key is damaged and not used": Event("error", "Tokens that it signed are refused."),
    "keys could not be read": Event("error", "New and revoked keys are noticed later."),
    "request": Event("info", "A request, if `access_log` is set: its route, status and time."),
    "request failed": Event("error", "A fault of the service. The client got 500."),
    "web server": Event("error", "An error of the web server."),
}

_format: Format = JSON
_context: dict[str, Any] = {}  # facts of every line


def configure(form: Format, **context: Any) -> None:
    """Set the format of all lines from now on, and facts that each of them has, such as the worker."""
    global _format, _context
    _format, _context = form, context


def event(what: str, **facts: Any) -> None:
    """Log an event; facts are plain values without secrets."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    known = EVENTS.get(what)  # a name that is not listed would fail a test, and must not fail a service
    entry = {
        "time": f"{stamp}.{int(now * 1000) % 1000:03d}Z",
        "severity": known.severity if known else "error" if "kind" in facts else "info",
        "process": os.getpid(),
        **_context,
        "event": what,
        **facts,
    }
    with contextlib.suppress(OSError, ValueError):  # a closed log is no reason to stop
        sys.stderr.write(_format_line(entry) + "\n")  # one call, so that lines of processes do not mix
        sys.stderr.flush()


def _format_line(entry: dict[str, Any]) -> str:
    if _format == JSON:
        return json.dumps(entry, default=str)
    shown = {name: value for name, value in entry.items() if name not in ("time", "severity", "event")}
    facts = " ".join(f"{name}={json.dumps(value, default=str)}" for name, value in shown.items())
    name = json.dumps(entry["event"])[1:-1]  # control characters would make it two lines
    return f"{entry['time']} {entry['severity'].upper()} {name}: {facts}"


def kind_of(error: BaseException) -> str:
    """Return the type of an error with its module, since many are called Error."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def fault(what: str, error: BaseException, **facts: Any) -> None:
    """Log an unexpected error: its type, and where it was raised, innermost line first."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in reversed(frames)]
    event(what, **facts, kind=kind_of(error), places=places)


class Outage:
    """Something that fails for a while: one line when it begins, and one with its duration when it is over.

    Several parts of a process may notice the same. It lasts until all of them work again. It is thread-safe.
    """

    def __init__(self, loss: str, recovery: str) -> None:
        self._loss, self._recovery = loss, recovery
        self._parts: set[str] = set()
        self._lock = threading.Lock()
        self._start = 0.0  # by the monotonic clock
        self.since: float | None = None  # unix seconds, None while all is well

    def begin(self, part: str, *, is_logged: bool = False, **facts: Any) -> None:
        """Note that a part fails; ``is_logged`` tells that another process has logged it."""
        with self._lock:
            is_first = not self._parts
            self._parts.add(part)
            if is_first:
                self.since, self._start = time.time(), time.monotonic()
                if not is_logged:
                    event(self._loss, **facts)

    def end(self, part: str) -> None:
        """Note that a part works."""
        with self._lock:
            if part in self._parts:
                self._parts.discard(part)
                if not self._parts:
                    self.since = None
                    event(self._recovery, seconds=round(time.monotonic() - self._start, 1))


def build_store_outage() -> Outage:
    """Return what notes whether the store can be reached."""
    return Outage("store is gone", "store is back")


def format_events() -> str:
    """Return all events as a Markdown table."""
    rows = ["| event | severity | meaning |", "|---|---|---|"]
    return "\n".join([*rows, *(f"| `{name}` | {each.severity} | {each.meaning} |" for name, each in EVENTS.items())])


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
