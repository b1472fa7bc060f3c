"""Signals that would end this process: they raise, so that what it has begun is put away first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Signals:
    """Raises on a signal that would end this process; while held it only takes note, so that no run is lost."""

    def __init__(self) -> None:
        self.held = False
        self.noted: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        self.noted = number
        if not self.held:
            self.raise_noted()

    def raise_noted(self) -> None:
        """Raise what a signal has asked for, once: a second one must not interrupt the cleaning up."""
        if self.noted is not None:
            self.held = True
            raise KeyboardInterrupt if self.noted == signal.SIGINT else SystemExit(128 + self.noted)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Let no signal in between."""
        self.held = True
        yield
        self.held = False
        self.raise_noted()


@contextmanager
def caught_signals() -> Iterator[Signals]:
    """Catch signals for a while; one that is ignored, as nohup does, stays so, and only a main thread gets any."""
    signals = Signals()
    main = threading.current_thread() is threading.main_thread()
    before = {one: signal.getsignal(one) for one in ENDING if main}
    caught = {one: handler for one, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    try:
        for one in caught:
            signal.signal(one, signals)
        yield signals
    finally:
        for one, handler in caught.items():
            signal.signal(one, handler)
