"""How far an experiment has come: a bar for a person who is watching, plain lines for a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from maskedbandits import readable
from maskedbandits.results import Cell, Label

LINES_AFTER_SECONDS = 2.0  # what is over sooner needs no log


class Silent:
    """Says nothing, and counts what is finished; the others add a voice."""

    def __init__(self) -> None:
        self.cells = self.finished = self.kept = 0
        self.started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is to be put away."""

    def say(self, line: str) -> None:
        """Keep a line to itself."""

    def start(self, cells: int, kept: int) -> None:
        """Take note of the work, and of what is already done."""
        self.cells, self.finished, self.kept = cells, kept, kept
        if kept:
            self.say(f"{kept} of {cells} cells were finished before and are kept (--fresh runs them again)")

    def begin(self, number: int, label: Label) -> None:
        """Let a cell start in silence."""

    def steps(self, done: int, total: int) -> None:
        """Let steps pass in silence."""

    def end(self, number: int, cell: Cell) -> None:
        """Count a cell."""
        self.finished += 1


class Lines(Silent):
    """Writes a plain line for each finished cell, once the work has lasted a while."""

    def say(self, line: str) -> None:
        """Write a line to the log."""
        print(line, file=sys.stderr, flush=True)  # noqa: T201 -- the log

    def end(self, number: int, cell: Cell) -> None:
        """Count a cell and say what came out."""
        super().end(number, cell)
        if time.monotonic() - self.started >= LINES_AFTER_SECONDS:
            regret = f"regret {cell.mean[-1]:,.1f} ± {cell.half_width[-1]:,.1f}"
            self.say(f"{number + 1}/{self.cells} {name(cell.label)}: {regret}")


class Bar(Silent):
    """Draws one bar for the whole experiment."""

    def __init__(self) -> None:
        super().__init__()
        self.progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            transient=True,
            expand=True,
        )
        self.task = self.progress.add_task("starting", total=None, speed="")
        self.cell_started = self.started

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def start(self, cells: int, kept: int) -> None:
        """Set the bar's length: one unit for each cell that is still to be run."""
        super().start(cells, kept)
        self.progress.update(self.task, total=cells - kept)

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        self.progress.console.print(line, markup=False, highlight=False)

    def begin(self, number: int, label: Label) -> None:
        """Name the cell beside the bar."""
        self.cell_started = time.monotonic()
        self.progress.update(self.task, description=f"{number + 1}/{self.cells} {name(label)}", speed="")

    def steps(self, done: int, total: int) -> None:
        """Move the bar within the cell."""
        rate = done / max(time.monotonic() - self.cell_started, 1e-9) / 1e6
        completed = self.finished - self.kept + done / total
        self.progress.update(self.task, completed=completed, speed=f"{rate:.1f} M steps/s")

    def end(self, number: int, cell: Cell) -> None:
        """Move the bar to the cell's end."""
        super().end(number, cell)
        self.progress.update(self.task, completed=self.finished - self.kept)


def name(label: Label) -> str:
    """Return a cell's name on one line."""
    return readable.one_line(f"{label.problem} · {label.setting} · {label.policy}")


def watcher(quiet: bool) -> Silent:
    """Return the watcher that suits whoever reads standard error."""
    if quiet:
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()
