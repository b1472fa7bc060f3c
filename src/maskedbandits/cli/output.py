"""Where the verbs print: nothing of it gives orders to a terminal, and any encoding can write it."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util import safe_text

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 160  # columns of a table where there is no terminal to ask


def console() -> Console:
    """Return the terminal, or something as wide as a table where there is none."""
    from rich.console import Console

    # Names and paths are a user's own and may hold brackets: nothing in them is markup.
    terminal = Console(highlight=False, markup=False, soft_wrap=True)
    if not terminal.is_terminal:
        terminal.width = WIDTH
    return terminal


def echo(line: str = "") -> None:
    """Print a line."""
    click.echo(safe_text.printed(line, sys.stdout))  # click itself would write UTF-8 where the encoding is ASCII


def echo_json(document: Any) -> None:
    """Print one JSON document; where the encoding is not Unicode's, with escapes alone."""
    unicode = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    text = json.dumps(document, indent=1, ensure_ascii=not unicode, allow_nan=False)
    click.echo(safe_text.json_text(text))


def drop_output() -> None:
    """Let what could not be written go: Python would try again at the end, and end with an exit code of its own."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
