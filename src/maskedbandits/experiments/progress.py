"""How far an experiment has come: a bar for a person who is watching, plain lines for a log."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskProgressColumn, TimeRemainingColumn
from rich.table import Column
from rich.text import Text

from maskedbandits._util import safe_text
from maskedbandits.experiments.results import Cell, Label

LINES_AFTER_SECONDS = 2.0  # what is over sooner needs no log
BESIDE_NAME = 10 + 1 + 4 + 1 + 1 + 8 + 1  # columns of the bar, the percentage and the time left, with their gaps
SPEED = len("123.4 M steps/s")
ROOM_FOR_SPEED = 72  # columns of a terminal in which the name is not squeezed by it


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


class Name(ProgressColumn):
    """What runs now, shortened in its middle: there is always room for the bar and for how long it will take."""

    def __init__(self, console: Console) -> None:
        super().__init__(Column(no_wrap=True))
        self.console = console

    def render(self, task: Task) -> Text:
        """Return as much of the name as there is room for."""
        width = self.console.width
        room = width - BESIDE_NAME - (SPEED if width >= ROOM_FOR_SPEED else 0)
        mark = "…" if self.console.encoding.startswith("utf") else "..."
        return Text(shortened(task.description, room, mark))


class Speed(ProgressColumn):
    """How fast it goes, where there is room to say so."""

    def __init__(self, console: Console) -> None:
        super().__init__(Column(no_wrap=True))
        self.console = console

    def render(self, task: Task) -> Text:
        """Return the speed, or nothing."""
        return Text(task.fields["speed"] if self.console.width >= ROOM_FOR_SPEED else "")


class Bar(Silent):
    """Draws one bar for the whole experiment."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        console = console or Console(stderr=True)
        self.progress = Progress(
            Name(console),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            Speed(console),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            expand=True,
        )
        self.task = self.progress.add_task("starting", total=None, speed="")

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        self.progress.console.print(line, markup=False, highlight=False)

    def begin(self, number: int, label: Label) -> None:
        """Name the cell beside the bar."""
        self.progress.update(self.task, description=f"{number + 1}/{self.cells} {name(label)}")

    def steps(self, done: int, total: int) -> None:
        """Move the bar."""
        rate = done / max(time.monotonic() - self.started, 1e-9) / 1e6
        self.progress.update(self.task, completed=done, total=total, speed=f"{rate:.1f} M steps/s")


def name(label: Label) -> str:
    """Return a cell's name on one line."""
    return safe_text.one_line(f"{label.problem} · {label.setting} · {label.policy}")


def shortened(text: str, room: int, mark: str = "…") -> str:
    """Return a text that fits into so many columns: its beginning and its end, and a mark for what is left out."""
    if cell_len(text) <= room:
        return text
    spare = max(room - len(mark), 0)
    head, tail = text, text
    while cell_len(head) > spare - spare // 2:
        head = head[:-1]
    while cell_len(tail) > spare // 2:
        tail = tail[1:]
    return (head + mark + tail)[: max(room, 0)] if room < len(mark) else head + mark + tail


def watcher(quiet: bool) -> Silent:
    """Return the watcher that suits whoever reads standard error."""
    if quiet:
        return Silent()
    console = Console(stderr=True)
    return Bar(console) if sys.stderr.isatty() and not console.is_dumb_terminal else Lines()
