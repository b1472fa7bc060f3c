"""Progress of a simulation: calls a function, or draws a bar in a terminal."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from maskedbandits._util import extras

SHOW_AFTER_S = 2.0  # no bar before

Progress = Callable[[int, int], None]


@contextlib.contextmanager
def show_progress(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield what to call with steps done and steps in all."""
    if callable(progress):
        yield progress
        return
    if progress is True:
        extras.require("progress=True", ["rich"])
    watched = progress is True or (progress is None and sys.stderr.isatty() and not extras.list_missing(["rich"]))
    if not watched:
        yield lambda done, total: None
        return
    with Bar() as bar:
        yield bar.show


class Bar:
    """A progress bar on standard error, drawn once it has lasted long enough to be worth one."""

    def __enter__(self) -> "Bar":
        self._started = time.perf_counter()
        self._draw: Progress | None = None
        self._open = contextlib.ExitStack()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def show(self, done: int, total: int) -> None:
        """Say how far it is."""
        if self._draw is None and time.perf_counter() - self._started > SHOW_AFTER_S:
            self._draw = self._begin(total)
        if self._draw is not None:
            self._draw(done, total)

    def _begin(self, total: int) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("simulating"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %  {task.fields[speed]:.1f} million steps/s  time left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._open.enter_context(bar)
        task = bar.add_task("", total=total, speed=0.0)

        def draw(done: int, total: int) -> None:
            speed = done / 1e6 / (time.perf_counter() - self._started)
            bar.update(task, completed=done, total=total, speed=speed)

        return draw
