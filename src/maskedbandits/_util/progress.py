"""Progress of a simulation: calls a function, draws a bar in a terminal, or writes a line in a notebook."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from maskedbandits._util import extras
from maskedbandits.errors import check_flag

SHOW_AFTER_S = 2.0  # no bar before

Progress = Callable[[int, int], None]


def format_speed(steps: float) -> str:
    """Return a number of steps a second in words."""
    for size, word in ((1e9, " billion"), (1e6, " million"), (1e3, " thousand")):
        if steps >= size:
            return f"{steps / size:.3g}{word}"
    return f"{steps:.0f}"


def is_notebook() -> bool:
    """Tell whether the output goes to a notebook; IPython in a terminal has no kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextlib.contextmanager
def show_progress(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield what to call with steps done and steps in all."""
    if callable(progress):
        yield progress
        return
    if progress is not None:
        progress = check_flag("progress", progress)
    in_notebook = is_notebook()
    if progress is True and not in_notebook:
        extras.require("progress=True", ["rich"])
    can_draw = in_notebook or (sys.stderr.isatty() and not extras.list_missing(["rich"]))
    if progress is True or (progress is None and can_draw):
        with NotebookLine() if in_notebook else Bar() as bar:
            yield bar.show
    else:
        yield lambda done, total: None


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
            TextColumn("{task.percentage:3.0f} %  {task.fields[speed]} steps/s  time left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._open.enter_context(bar)
        task = bar.add_task("", total=total, speed="0")

        def draw(done: int, total: int) -> None:
            speed = done / (time.perf_counter() - self._started)
            bar.update(task, completed=done, total=total, speed=format_speed(speed))

        return draw


class NotebookLine(Bar):
    """A line under a notebook's cell, which vanishes at the end. It needs no widgets."""

    def _begin(self, total: int) -> Progress:
        from IPython.display import display

        line = display({"text/plain": ""}, raw=True, display_id=True)
        self._open.callback(lambda: line.update({"text/plain": ""}, raw=True))

        def draw(done: int, total: int) -> None:
            seconds = time.perf_counter() - self._started
            left = seconds * (total - done) / max(done, 1)
            text = f"simulating {done / total:.0%}, {format_speed(done / seconds)} steps/s, about {left:.0f} s left"
            line.update({"text/plain": text}, raw=True)

        return draw
