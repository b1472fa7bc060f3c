"""The base of all verbs: help with examples, `--json`, errors and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from maskedbandits._util import safe_text

FAILED, USAGE, UNMADE, INTERRUPTED = 1, 2, 3, 130

json_option = click.option("--json", "json_wanted", is_flag=True, help="Print one JSON document instead of a table.")


class Verb(click.Command):
    """A verb whose help ends with examples, each on one line also in a narrow terminal."""

    def __init__(self, *arguments: Any, examples: Sequence[str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = tuple(examples)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples so that they can be copied."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"{'':{formatter.current_indent}}{example}\n")


class VerbGroup(Verb, click.Group):
    """A verb with subcommands."""

    command_class = Verb


class UsageFailure(click.ClickException):
    """An error of the user: one line on standard error, and the exit code for usage."""

    exit_code = USAGE

    def show(self, file: Any = None) -> None:
        """Print the message alone, without the usage of the command."""
        click.echo(f"maskedbandits: {self.message}", err=True)


class Failure(UsageFailure):
    """An error that another command line would not prevent, such as a full disk."""

    exit_code = FAILED


class Interrupted(UsageFailure):
    """An end by Ctrl-C or by a signal; finished work is saved."""

    def __init__(self, message: str, code: int = INTERRUPTED) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # one for each signal


class AuditFailure(UsageFailure):
    """An audit that could not be made or printed: neither a refuted claim nor an error of the user."""

    exit_code = UNMADE


@contextmanager
def escape_errors() -> Iterator[None]:
    """Escape control characters in all errors, those of click included."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise  # the help has several lines, without texts of users
    except click.ClickException as error:
        error.message = safe_text.format_line(error.message, sys.stderr)  # type: ignore[misc]  # click declares it final
        raise


def describe_os_error(error: OSError) -> str:
    """Return the file and the message of an error of the operating system."""
    return f"{error.filename or 'error'}: {error.strerror or error}"
