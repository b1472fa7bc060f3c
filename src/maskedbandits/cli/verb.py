"""The base of all verbs: help with examples, `--json`, errors and exit codes."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from maskedbandits._util import safe_text
from maskedbandits.errors import LARGEST

FAILED, USAGE, UNMADE, INTERRUPTED = 1, 2, 3, 130


def describe_limits(least: float | None, most: float | None, *, above: bool = False) -> str:
    """Describe the numbers between two limits; a limit of 2**53 is as good as none, and is left out."""
    if most is None or most >= LARGEST:
        return "" if least is None else f"more than {least:,g}" if above else f"{least:,} or more"
    return f"{least:,} to {most:,}" if least is not None else f"{most:,} or less"


class WholeNumber(click.IntRange):
    """A whole number between two limits, which help and errors describe in words."""

    name = "integer"

    def _describe_range(self) -> str:
        return describe_limits(self.min, self.max)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = click.INT.convert(value, param, ctx)
        if number < (self.min or 0) or (self.max is not None and number > self.max):
            most = "" if self.max is None or number < self.max else f", at most {self.max:,}"
            self.fail(f"{value} is out of range: give {self._describe_range()}{most}.", param, ctx)
        return number


class Number(click.FloatRange):
    """A number between two limits, which help and errors describe in words; NaN is refused."""

    name = "number"

    def _describe_range(self) -> str:
        return describe_limits(self.min, self.max, above=self.min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = click.FLOAT.convert(value, param, ctx)
        least, most = self.min or 0.0, math.inf if self.max is None else self.max
        if not (least <= number <= most) or (self.min_open and number == least):
            self.fail(f"{value} is out of range: give {self._describe_range()}.", param, ctx)
        return number


json_option = click.option("--json", "json_wanted", is_flag=True, help="Print one JSON document instead of a table.")


class Formatter(click.HelpFormatter):
    """A formatter that prints a default in words like any other, without parentheses."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write options or commands with their descriptions."""
        plain = [(name, re.sub(r"\[default: \((.*?)\)([;\]])", r"[default: \1\2", text)) for name, text in rows]
        super().write_dl(plain, col_max, col_spacing)


class Context(click.Context):
    """The context of a verb, which sets how its help is formatted."""

    formatter_class = Formatter


class Verb(click.Command):
    """A verb whose help ends with examples, each on one line also in a narrow terminal."""

    context_class = Context

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
        if isinstance(error, click.UsageError):
            raise UsageFailure(safe_text.format_line(describe_usage_error(error), sys.stderr)) from error
        error.message = safe_text.format_line(error.message, sys.stderr)  # type: ignore[misc]  # click declares it final
        raise


def describe_usage_error(error: click.UsageError) -> str:
    """Return a mistake in the command line and where to look, in one line."""
    message = error.format_message()
    end = "" if message.endswith((".", "?", ")")) else "."
    return message + end + ("" if error.ctx is None else f" See `{error.ctx.command_path} --help`.")


def describe_os_error(error: OSError) -> str:
    """Return the file and the message of an error of the operating system."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
