"""Signals that would end this process raise an exception, so that it can clean up first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Signals:
    """Raises on a signal that would end this process; while held, only notes it, so that no run is lost."""

    def __init__(self) -> None:
        self.held = False
        self.noted: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self.noted = number
        if not self.held:
            self.raise_noted()

    def raise_noted(self) -> None:
        """Raise the exception of a noted signal once: a second signal must not interrupt the clean-up."""
        if self.noted is not None:
            self.held = True
            raise KeyboardInterrupt if self.noted == signal.SIGINT else SystemExit(128 + self.noted)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Delay signals until the end of the block."""
        self.held = True
        yield
        self.held = False
        self.raise_noted()


@contextmanager
def catch_signals() -> Iterator[Signals]:
    """Catch signals that would end this process, within a block."""
    signals = Signals()
    with handle_signals(signals, *ENDING):
        yield signals


@contextmanager
def handle_signals(handler: Callable[[int, FrameType | None], None], *numbers: int) -> Iterator[None]:
    """Let a function handle signals within a block; only the main thread receives any.

    Ignored signals stay ignored: nohup ignores SIGHUP, and a shell ignores SIGINT for its background jobs.
    """
    main = threading.current_thread() is threading.main_thread()
    before = {one: signal.getsignal(one) for one in numbers if main}
    caught = {one: earlier for one, earlier in before.items() if earlier not in (signal.SIG_IGN, None)}
    try:
        for one in caught:
            signal.signal(one, handler)
        yield
    finally:
        for one, earlier in caught.items():
            signal.signal(one, earlier)
