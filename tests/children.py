"""Children of tests: started as from a terminal, whatever signals the tests themselves ignore, and always ended."""

import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def start(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a command; it is ended at the latest when this is left."""
    with subprocess.Popen(command, preexec_fn=_restore, **options) as child:
        try:
            yield child
        finally:
            child.kill()


def _restore() -> None:
    """Let signals do what they do by default: a background job or nohup hands some down ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
