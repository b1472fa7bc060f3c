"""Progress of an experiment: a bar in a terminal, plain lines in a log."""

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

MIN_LOGGED_S = 2.0  # shorter runs need no log
OTHER_COLUMNS = 10 + 1 + 4 + 1 + 1 + 8 + 1  # width of the bar, the percentage and the time left, with gaps
SPEED_WIDTH = len("123.4 M steps/s")
MIN_WIDTH_WITH_SPEED = 72  # columns of a terminal that leave enough room for the name


class SilentWatcher:
    """Counts finished cells and prints nothing; the base of the other watchers."""

    def __init__(self) -> None:
        self.cells = self.finished = self.reused = 0
        self.started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing."""

    def say(self, line: str) -> None:
        """Print a line; here, nothing."""

    def start(self, cells: int, reused: int) -> None:
        """Take the number of cells, and of those that are finished already."""
        self.cells, self.finished, self.reused = cells, reused, reused
        if reused:
            self.say(f"{reused} of {cells} cells were finished before and are reused (--fresh runs them again)")

    def begin(self, number: int, label: Label) -> None:
        """Take the first cell of a load."""

    def steps(self, done: int, total: int) -> None:
        """Take the number of steps done."""

    def end(self, number: int, cell: Cell) -> None:
        """Count a finished cell."""
        self.finished += 1


class LogWatcher(SilentWatcher):
    """Writes a line for each finished cell to standard error, unless the run is short."""

    def say(self, line: str) -> None:
        """Write a line to standard error."""
        print(line, file=sys.stderr, flush=True)  # noqa: T201 -- the log

    def end(self, number: int, cell: Cell) -> None:
        """Count a finished cell and write its regret."""
        super().end(number, cell)
        if time.monotonic() - self.started >= MIN_LOGGED_S:
            regret = f"regret {cell.mean[-1]:,.1f} ± {cell.half_width[-1]:,.1f}"
            self.say(f"{number + 1}/{self.cells} {format_label(cell.label)}: {regret}")


class NameColumn(ProgressColumn):
    """The name of the current cell, shortened to leave room for the bar and the time left; epsilon always shows."""

    def __init__(self, console: Console) -> None:
        super().__init__(Column(no_wrap=True))
        self.console = console

    def render(self, task: Task) -> Text:
        """Return the name, shortened to fit."""
        width = self.console.width
        room = width - OTHER_COLUMNS - (SPEED_WIDTH if width >= MIN_WIDTH_WITH_SPEED else 0)
        mark = "…" if self.console.encoding.startswith("utf") else "..."
        label: Label | None = task.fields["label"]
        return Text(
            shorten(task.description, room, mark) if label is None else fit_label(task.description, label, room, mark)
        )


class SpeedColumn(ProgressColumn):
    """The speed, if the terminal is wide enough."""

    def __init__(self, console: Console) -> None:
        super().__init__(Column(no_wrap=True))
        self.console = console

    def render(self, task: Task) -> Text:
        """Return the speed, or an empty text."""
        return Text(task.fields["speed"] if self.console.width >= MIN_WIDTH_WITH_SPEED else "")


class BarWatcher(SilentWatcher):
    """Draws one bar for the whole experiment."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        console = console or Console(stderr=True)
        self.progress = Progress(
            NameColumn(console),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            SpeedColumn(console),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            expand=True,
        )
        # With a total from the start, 0 % is shown while policies are compiled.
        self.task = self.progress.add_task("starting", total=1, speed="", label=None)

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
        """Show the name of the cell beside the bar."""
        self.progress.update(self.task, description=f"{number + 1}/{self.cells} ", label=label)

    def steps(self, done: int, total: int) -> None:
        """Move the bar."""
        rate = done / max(time.monotonic() - self.started, 1e-9)
        self.progress.update(self.task, completed=done, total=total, speed=f"{format_rate(rate)} steps/s")


def format_rate(rate: float) -> str:
    """Return steps a second in a unit in which they do not round to zero."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if rate >= 0.05 * size:
            return f"{rate / size:.1f}{letter}"
    return f"{rate:.0f}"


def format_label(label: Label) -> str:
    """Return the name of a cell on one line."""
    return safe_text.one_line(f"{label.problem} · {label.setting} · {label.policy}")


def fit_label(start: str, label: Label, room: int, mark: str = "…") -> str:
    """Return the name of a cell in ``room`` columns: the names of problem and policy give way, epsilon stays."""
    whole = start + format_label(label)
    middle = f" · {label.setting} · "
    spare = room - cell_len(start) - cell_len(middle)
    if cell_len(whole) <= room or spare < 2 * len(mark) + 2:
        return shorten(whole if cell_len(whole) <= room else f"{start}{label.setting}", room, mark)
    problem, policy = safe_text.one_line(label.problem), safe_text.one_line(label.policy)
    least = spare // 2
    for_problem = min(cell_len(problem), max(least, spare - cell_len(policy)))
    for_policy = spare - for_problem
    return f"{start}{shorten(problem, for_problem, mark)}{middle}{shorten(policy, for_policy, mark)}"


def shorten(text: str, room: int, mark: str = "…") -> str:
    """Return a text that fits into ``room`` columns: its beginning, a mark for the omitted middle, and its end."""
    if cell_len(text) <= room:
        return text
    spare = max(room - len(mark), 0)
    head, tail = text, text
    while cell_len(head) > spare - spare // 2:
        head = head[:-1]
    while cell_len(tail) > spare // 2:
        tail = tail[1:]
    return (head + mark + tail)[: max(room, 0)] if room < len(mark) else head + mark + tail


def choose_watcher(quiet: bool) -> SilentWatcher:
    """Return the watcher that suits standard error."""
    if quiet:
        return SilentWatcher()
    console = Console(stderr=True)
    return BarWatcher(console) if sys.stderr.isatty() and not console.is_dumb_terminal else LogWatcher()
