"""`maskedbandits audit`: the epsilon of a randomiser, checked from its reports."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from maskedbandits.cli.output import drop_output, echo, echo_json
from maskedbandits.cli.verb import FAILED, UNMADE, Unmade, Verb, as_json, reason

if TYPE_CHECKING:
    from maskedbandits.privacy.audit import Findings


class Within(click.FloatRange):
    """A number within bounds; NaN, which is not outside any, is refused too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if number != number:
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits audit --epsilon 1",
        'maskedbandits audit --epsilon 1 --command "python mine.py"',
        "maskedbandits audit --exact",
    ],
)
@click.option("--epsilon", default="1", show_default=True, metavar="E", help="The claim, as a decimal or a ratio.")
@click.option(
    "--trials",
    type=click.IntRange(100, 10**9),
    default=10**6,
    show_default=True,
    help="Reports (with --retries: decisions) for each of the two inputs.",
)
@click.option("--command", help="Audit this program instead of our own randomiser; no shell is asked.")
@click.option(
    "--retries",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Send every decision so many times, as lines `BIT NAME`; the claim covers all its reports together.",
)
@click.option(
    "--timeout",
    type=Within(0.1, 86_400),
    default=60.0,
    show_default=True,
    help="Seconds that the program may take.",
)
@click.option(
    "--confidence",
    type=Within(0.5, 0.9999999),
    default=0.99,
    show_default=True,
    help="Of all bounds together.",
)
@click.option(
    "--exact", is_flag=True, help="Draw nothing: print the real epsilon, proved, for --epsilon or for a grid."
)
@as_json
@click.pass_context
def audit(
    ctx: click.Context,
    epsilon: str,
    trials: int,
    command: str | None,
    retries: int,
    timeout: float,
    confidence: float,
    exact: bool,
    json_wanted: bool,
) -> None:
    """Check the epsilon of a randomiser, our own or anybody's, from its reports.

    Prints a lower confidence bound on epsilon, the claimed one, and what excess so many trials could have seen.
    Exit code 0 if nothing contradicts the claim, 1 if it is refuted, 2 for a mistake in the command, 3 if the audit
    could not be made (the program fails, a full disk) or cannot tell.

    A program reads one 0 or 1 a line on standard input and writes one report, of at most 256 characters, a line on
    standard output. It is started 8 times with the same opening, so that a fixed seed shows. With --retries R a line
    is a bit and the name of a decision, and every decision comes R times, in a row and later: a program that promises
    one permanent answer for each decision, and draws a new one, is refuted.
    """
    given = ctx.get_parameter_source("epsilon") is not click.core.ParameterSource.DEFAULT
    if exact and command is not None:
        raise click.UsageError("--exact is of our own randomiser, and draws nothing: leave out --exact or --command")
    if exact:
        with unmade():
            show_exact(epsilon if given else None, json_wanted)
        return
    if command is None and retries != 1:
        raise click.UsageError("--retries goes with --command: our own randomiser draws every report anew")
    with unmade():
        show_findings(ctx, audited(command, epsilon, trials, retries, timeout, confidence), json_wanted)


@contextmanager
def unmade() -> Iterator[None]:
    """Turn whatever keeps an audit from being made into its own exit code."""
    from maskedbandits.privacy.audit.program import ProgramError

    try:
        yield
    except ProgramError as error:
        raise Unmade(str(error)) from error
    except MemoryError as error:
        raise Unmade("the audit does not fit into memory: give fewer --trials") from error
    except OSError as error:
        drop_output()
        raise Unmade(reason(error)) from error


def audited(
    command: str | None, epsilon: str, trials: int, retries: int, timeout: float, confidence: float
) -> Findings:
    """Return the findings about our own randomiser, or about somebody's."""
    from maskedbandits.privacy import audit as audits
    from maskedbandits.privacy.audit.program import MOST_LINES

    if command is not None and trials * retries > MOST_LINES:
        raise click.UsageError(f"--trials {trials} with --command: at most {MOST_LINES} lines for each input")
    watch = Slow()
    try:
        if command is None:
            return audits.audit_own(epsilon, trials, confidence, watch)
        return audits.audit_program(command, epsilon, trials, confidence, retries, timeout, watch)
    finally:
        watch.end()


class Slow:
    """Says on standard error how far some work is, once it has lasted two seconds, and every two seconds."""

    EVERY = 2.0

    def __init__(self) -> None:
        self.said = time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.open = False

    def __call__(self, share: float) -> None:
        """Take note of a share of the work that is done."""
        if share < 1 and time.monotonic() - self.said >= self.EVERY:
            self.said = time.monotonic()
            self.open = self.terminal
            start = "\r" if self.terminal else ""  # a person sees one line, a log gets many
            click.echo(f"{start}{share:4.0%} done", err=True, nl=not self.terminal)

    def end(self) -> None:
        """Leave the line."""
        if self.open:
            click.echo("\r" + " " * 9 + "\r", err=True, nl=False)


def show_findings(ctx: click.Context, findings: Findings, json_wanted: bool) -> None:
    """Print the findings; a refuted claim is a failure."""
    from maskedbandits.privacy.audit import words as verdict

    if json_wanted:
        echo_json(verdict.as_json(findings))
    else:
        for line in verdict.lines(findings):
            echo(line)
    if findings.outcome != "not refuted":
        ctx.exit(UNMADE if findings.outcome == "cannot tell" else FAILED)


def show_exact(epsilon: str | None, json_wanted: bool) -> None:
    """Print the real epsilon of one stated epsilon, or of a grid of them."""
    from maskedbandits.privacy import Randomizer
    from maskedbandits.privacy.audit import words as verdict

    randomizers = [Randomizer(stated) for stated in (verdict.GRID if epsilon is None else [epsilon])]
    if json_wanted:
        echo_json([verdict.exact_as_json(randomizer) for randomizer in randomizers])
    else:
        for line in verdict.exact_lines(randomizers):
            echo(line)
