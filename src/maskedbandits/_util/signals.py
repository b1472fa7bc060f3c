"""Signals that would end this process: they raise, so that what it has begun is put away first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
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
    """Catch signals that would end this process for a while."""
    signals = Signals()
    with heard(signals, *ENDING):
        yield signals


@contextmanager
def heard(handler: Callable[[int, FrameType | None], None], *numbers: int) -> Iterator[None]:
    """Have signals handled for a while, by a main thread, which alone gets any.

    One that is ignored stays so: nohup ignores SIGHUP, and a shell SIGINT for what it starts in the background, which a
    Ctrl-C is not meant for.
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
