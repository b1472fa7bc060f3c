"""What the verbs share: help with examples, `--json`, and how a verb ends when it cannot go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from maskedbandits._util import safe_text

FAILED, USAGE, UNMADE, INTERRUPTED = 1, 2, 3, 130

as_json = click.option("--json", "json_wanted", is_flag=True, help="Print one JSON document instead of a table.")


class Verb(click.Command):
    """A verb; its help ends with examples, each on a line of its own however narrow the terminal is."""

    def __init__(self, *arguments: Any, examples: Sequence[str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, to be copied as they stand."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class VerbGroup(Verb, click.Group):
    """A verb that has verbs of its own."""

    command_class = Verb


class Refusal(click.ClickException):
    """A mistake of the user's: one line on standard error, and the exit code for usage."""

    exit_code = USAGE

    def show(self, file: Any = None) -> None:
        """Print the line as it is: it already says where and what."""
        click.echo(f"maskedbandits: {self.message}", err=True)


class Failure(Refusal):
    """Something went wrong that no other command line would have put right, such as a full disk."""

    exit_code = FAILED


class Interrupted(Refusal):
    """Ctrl-C, or a signal that would end the program: what is finished is kept."""

    def __init__(self, message: str, code: int = INTERRUPTED) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # one for each signal


class Unmade(Refusal):
    """The audit could not be made, or nobody could read it: neither a refuted claim nor a mistake in the command."""

    exit_code = UNMADE


@contextmanager
def plain_complaints() -> Iterator[None]:
    """Let no complaint, click's own among them, repeat what gives orders to a terminal."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # the help is several lines, and all of them are ours
    except click.ClickException as complaint:
        complaint.message = safe_text.printed(complaint.message, sys.stderr)  # type: ignore[misc]  # click declares it final
        raise


def reason(error: OSError) -> str:
    """Return what the operating system complains of, and where."""
    return f"{error.filename or 'error'}: {error.strerror or error}"
