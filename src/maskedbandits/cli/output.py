"""Output of the verbs: escaped for terminals, in any encoding; and their progress and output folders."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util import safe_text
from maskedbandits.cli.verb import Failure, Interrupted, describe_os_error
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_WIDTH = 160  # columns of a table without a terminal


def open_console() -> Console:
    """Return the terminal, or a console as wide as a table without one."""
    from rich.console import Console

    # Names and paths of users may have brackets, which are not markup.
    terminal = Console(highlight=False, markup=False, soft_wrap=True)
    if not terminal.is_terminal:
        terminal.width = DEFAULT_WIDTH
    return terminal


def echo(line: str = "") -> None:
    """Print a line."""
    click.echo(safe_text.format_line(line, sys.stdout))  # click itself would write UTF-8 where the encoding is ASCII


def echo_json(document: Any) -> None:
    """Print one JSON document, in ASCII if the encoding is not Unicode."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    text = json.dumps(document, indent=1, ensure_ascii=not unicode, allow_nan=False)
    click.echo(safe_text.json_text(text))


def drop_output() -> None:
    """Discard output that could not be written: Python would try again at exit, and change the exit code."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


class SlowProgress:
    """Prints the share of work done on standard error, every two seconds: a bar in a terminal, lines in a log."""

    INTERVAL_S = 2.0
    BAR_LETTERS = 30

    def __init__(self) -> None:
        self.printed_at = time.monotonic()
        self.is_terminal = sys.stderr.isatty()
        self.has_line = False
        self.printed = ""

    def __call__(self, share: float) -> None:
        """Take the share of the work that is done."""
        if share < 1 and time.monotonic() - self.printed_at >= self.INTERVAL_S:
            self.printed_at = time.monotonic()
            self.has_line = self.is_terminal
            text = f"{share:4.0%} done"
            if text == self.printed:
                return
            self.printed = text
            if self.is_terminal:  # one line in a terminal, several in a log
                text = f"\r[{'#' * int(share * self.BAR_LETTERS):{self.BAR_LETTERS}}]{text}"
            click.echo(text, err=True, nl=not self.is_terminal)

    def end(self) -> None:
        """Clear the line."""
        if self.has_line:
            click.echo("\r" + " " * (self.BAR_LETTERS + 11) + "\r", err=True, nl=False)


def make_folder(folder: Path) -> Path:
    """Make an output folder, and check that it can be written to before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written: {error.strerror}") from error


@contextmanager
def translate_drawing_errors(remedy: str) -> Iterator[None]:
    """Turn errors while figures are drawn and written into one line that ends with the remedy."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while drawing; {remedy}") from None
    except OSError as error:
        raise Failure(f"{describe_os_error(error)}; {remedy}") from error
    except (RuntimeError, ValueError) as error:  # raised by matplotlib for fonts that it cannot read
        message = " ".join(str(error).split()) or type(error).__name__
        raise Failure(f"figures cannot be drawn: {message}; {remedy}") from error
