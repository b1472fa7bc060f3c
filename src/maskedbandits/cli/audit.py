"""`maskedbandits audit`: the epsilon of a randomiser, checked from its reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from maskedbandits.cli.output import SlowProgress, drop_output, echo, echo_json
from maskedbandits.cli.verb import FAILED, UNMADE, AuditFailure, Verb, describe_os_error, json_option

if TYPE_CHECKING:
    from maskedbandits.privacy.audit import Findings


class FiniteRange(click.FloatRange):
    """A range of numbers that does not accept NaN, as click's own does."""

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
        "maskedbandits audit --epsilon 1 --groups 5",
        "maskedbandits audit --exact",
    ],
)
@click.option("--epsilon", default="1", show_default=True, metavar="E", help="The claim, as a decimal or a ratio.")
@click.option(
    "--trials",
    type=click.IntRange(100, 10**9),
    show_default="1000000; with --groups 10000",
    help="Reports (with --retries: decisions) for each input: a bit, or a group and a reward.",
)
@click.option("--command", help="Audit this program instead of our own randomiser; no shell is asked.")
@click.option("--groups", type=click.IntRange(1, 64), help="Audit answers to questions to so many private groups.")
@click.option(
    "--answers",
    type=click.Choice(["bit", "one of many", "one of parts"]),
    show_default="what takes fewer visitors",
    help="With --groups: what is answered.",
)
@click.option(
    "--arms", type=click.IntRange(1, 10**6), show_default="as many as groups", help="With --groups: arms in the tables."
)
@click.option(
    "--retries",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Send every decision so many times, as lines `BIT NAME`; the claim covers all its reports together.",
)
@click.option(
    "--starts",
    type=click.IntRange(0, 10**5),
    show_default="one for each 650 trials, 1536 at most, none below 32",
    help="With --command: short starts for seeds, standard error, exit codes and time; 0 for none.",
)
@click.option(
    "--timeout",
    type=FiniteRange(0.1, 86_400),
    default=60.0,
    show_default=True,
    help="Seconds that the program may take.",
)
@click.option(
    "--confidence",
    type=FiniteRange(0.5, 0.9999999),
    default=0.99,
    show_default=True,
    help="Of all bounds together.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Draw nothing: print the real epsilon, proved, for --epsilon or for a grid; with --groups, count all words.",
)
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    epsilon: str,
    trials: int | None,
    command: str | None,
    groups: int | None,
    answers: str | None,
    arms: int | None,
    retries: int,
    starts: int | None,
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

    With --groups G a line is a question and what is true on the device, TABLE SIGNS EPSILON GROUP REWARD, such as
    `0,2,1 1,0,1 1 2 1`; SIGNS is `-` if the answer is one of 2 G. With --answers "one of parts" it ends in PARTS, such
    as `0,2,1 - 1 2 1 0,0,1`, and the answer is 2 times the part of the group, and the reward. The program writes its
    answer, and an empty line for none. Tables, signs and parts are hostile, and some questions ask for an epsilon far
    above the claim.
    """
    has_epsilon = ctx.get_parameter_source("epsilon") is not click.core.ParameterSource.DEFAULT
    if exact and command is not None:
        raise click.UsageError("--exact is of our own randomiser, and draws nothing: leave out --exact or --command")
    if groups is None and (answers, arms) != (None, None):
        raise click.UsageError("--answers and --arms are of questions to groups: give --groups, too")
    if exact:
        with translate_audit_errors():
            show_exact(ctx, epsilon if has_epsilon else None, groups, json_wanted)
        return
    if retries != 1 and (command is None or groups is not None):
        raise click.UsageError("--retries goes with --command, and not with --groups: leave out --retries")
    if starts and (command is None or groups is not None or retries != 1 or starts < 32):
        raise click.UsageError("--starts takes 0, or 32 or more, and requires --command without --groups and --retries")
    with translate_audit_errors():
        if groups is None:
            findings = audit_bits(command, epsilon, trials or 10**6, retries, starts, timeout, confidence)
        else:
            options = GroupOptions(groups, answers or choose_answers(epsilon, groups), arms or groups, trials or 10**4)
            findings = audit_groups(command, epsilon, options, timeout, confidence)
        show_findings(ctx, findings, json_wanted)


@contextmanager
def translate_audit_errors() -> Iterator[None]:
    """Turn errors that prevent an audit into its exit code."""
    from maskedbandits.privacy.audit.program import ProgramError

    try:
        yield
    except ProgramError as error:
        raise AuditFailure(str(error)) from error
    except MemoryError as error:
        raise AuditFailure("the audit does not fit into memory: give fewer --trials") from error
    except OSError as error:
        drop_output()
        raise AuditFailure(describe_os_error(error)) from error


def audit_bits(
    command: str | None,
    epsilon: str,
    trials: int,
    retries: int,
    starts: int | None,
    timeout: float,
    confidence: float,
) -> Findings:
    """Return the findings about the built-in randomiser, or about a program."""
    from maskedbandits.privacy import audit as audits
    from maskedbandits.privacy.audit.program import MAX_LINES
    from maskedbandits.privacy.audit.starts import choose_starts

    if command is not None and trials * retries > MAX_LINES:
        raise click.UsageError(f"--trials {trials} with --command: at most {MAX_LINES} lines for each input")
    progress = SlowProgress()
    try:
        if command is None:
            return audits.audit_own(epsilon, trials, confidence, progress)
        short = choose_starts(trials) if starts is None else starts
        return audits.audit_program(command, epsilon, trials, confidence, retries, timeout, progress, short)
    finally:
        progress.end()


class GroupOptions(NamedTuple):
    """The options of an audit of answers to groups."""

    groups: int
    answers: str
    arms: int
    trials: int


def choose_answers(epsilon: str, groups: int) -> str:
    """Return the kind of answers that a contextual policy would choose."""
    import numpy as np

    from maskedbandits.contextual import masks
    from maskedbandits.privacy import as_epsilon

    return masks.better_kind(float(as_epsilon(epsilon)), np.full(groups, 1.0 / groups))


def audit_groups(
    command: str | None, epsilon: str, options: GroupOptions, timeout: float, confidence: float
) -> Findings:
    """Return the findings about the built-in answers to group queries, or about a program."""
    from maskedbandits.privacy import audit as audits
    from maskedbandits.privacy.audit.groups import MAX_LINES

    if 2 * options.groups * options.trials > MAX_LINES:
        most = MAX_LINES // (2 * options.groups)
        raise click.UsageError(
            f"--trials {options.trials} with --groups {options.groups}: at most {most} for each input"
        )
    progress = SlowProgress()
    try:
        if command is None:
            return audits.audit_own_groups(epsilon, *options, confidence, progress)
        return audits.audit_group_program(command, epsilon, *options, confidence, timeout, progress)
    finally:
        progress.end()


def show_findings(ctx: click.Context, findings: Findings, json_wanted: bool) -> None:
    """Print the findings; the exit code says whether the claim is refuted."""
    from maskedbandits.privacy.audit import text

    if json_wanted:
        echo_json(text.as_json(findings))
    else:
        for line in text.format_findings(findings):
            echo(line)
    if findings.outcome != "not refuted":
        ctx.exit(UNMADE if findings.outcome == "cannot tell" else FAILED)


def show_exact(ctx: click.Context, epsilon: str | None, groups: int | None, json_wanted: bool) -> None:
    """Print the real epsilon of one stated epsilon, or of a grid; with groups, by enumeration of all random words."""
    from maskedbandits.privacy import Randomizer
    from maskedbandits.privacy.audit import text
    from maskedbandits.privacy.audit.exhaustive import enumerate_words

    if groups is None:
        randomizers = [Randomizer(stated) for stated in (text.EPSILON_GRID if epsilon is None else [epsilon])]
        lines, document = text.format_randomizers(randomizers), [text.exact_as_json(one) for one in randomizers]
    else:
        results = enumerate_words("1" if epsilon is None else epsilon, groups)
        lines, document = text.format_enumerations(results), [text.enumeration_as_json(one) for one in results]
    if json_wanted:
        echo_json(document)
    else:
        for line in lines:
            echo(line)
    if groups is not None and not all(one.holds for one in results):
        ctx.exit(FAILED)
