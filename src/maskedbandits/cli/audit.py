"""`maskedbandits audit`: the epsilon of a randomiser, checked from its reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from maskedbandits.cli.output import SlowProgress, drop_output, echo, echo_json
from maskedbandits.cli.verb import (
    FAILED,
    UNMADE,
    AuditFailure,
    Number,
    Verb,
    WholeNumber,
    describe_os_error,
    json_option,
)

if TYPE_CHECKING:
    from maskedbandits.privacy.audit import Findings


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits audit --epsilon 1",
        'maskedbandits audit --epsilon 1 --command "python mine.py"',
        "maskedbandits audit --epsilon 1 --groups 5",
        "maskedbandits audit --exact",
    ],
)
@click.option(
    "--epsilon", default="1", show_default=True, metavar="E", help="Claimed epsilon, as a decimal or a ratio."
)
@click.option(
    "--trials",
    type=WholeNumber(100, 10**9),
    show_default="1,000,000; with --groups 10,000",
    help="Reports for each input; with --retries, decisions. An input is a bit, or a group and a reward.",
)
@click.option("--command", show_default="the built-in randomiser", help="Program to audit, run without a shell.")
@click.option("--groups", type=WholeNumber(1, 64), help="Audit answers to group queries with this many private groups.")
@click.option(
    "--answers",
    type=click.Choice(["bit", "one of many", "one of parts"]),
    show_default="the kind that needs fewer visitors",
    help="With --groups: kind of answer.",
)
@click.option(
    "--arms", type=WholeNumber(1, 10**6), show_default="the number of groups", help="With --groups: arms in the tables."
)
@click.option(
    "--retries",
    type=WholeNumber(1, 100),
    default=1,
    show_default=True,
    help="Send each decision this many times, as lines `BIT NAME`. The claim covers its reports together.",
)
@click.option(
    "--starts",
    type=WholeNumber(0, 10**5),
    show_default="one for each 650 trials, at most 1,536, none below 32",
    help="With --command: short starts that check seeds, standard error, exit codes and time; 0 for none.",
)
@click.option(
    "--timeout",
    type=Number(0.1, 86_400),
    default=60.0,
    show_default=True,
    help="Time limit of the program in seconds.",
)
@click.option(
    "--confidence",
    type=Number(0.5, 0.9999999),
    default=0.99,
    show_default=True,
    help="Confidence of all bounds together.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Print the proved epsilon of the built-in randomiser, for --epsilon or a grid. Draws nothing.",
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
    """Test whether a randomiser keeps its claimed epsilon.

    Prints a lower confidence bound on epsilon, the claim, and the smallest excess that these trials would detect.
    Exit codes: 0 the claim is not refuted; 1 refuted; 2 a mistake in the command; 3 the audit failed or cannot tell.

    Your program reads one 0 or 1 a line on standard input. It writes one report a line on standard output, of at most
    256 characters. It starts 8 times with the same opening, which exposes a fixed seed. With --retries R, a line is a
    bit and the name of a decision. Each decision comes R times, in a row and later. A program that draws a new answer
    for the same decision is refuted.

    With --groups G, a line is a query and the truth on the device: TABLE SIGNS EPSILON GROUP REWARD, such as
    `0,2,1 1,0,1 1 2 1`. SIGNS is `-` if the answer is one of 2 G. With --answers "one of parts" it ends in PARTS, such
    as `0,2,1 - 1 2 1 0,0,1`; the answer is 2 times the part of the group, plus the reward. The program writes its
    answer, or an empty line for none. Tables, signs and parts are hostile. Some queries ask for an epsilon far above
    the claim.
    """
    has_epsilon = ctx.get_parameter_source("epsilon") is not click.core.ParameterSource.DEFAULT
    if exact and command is not None:
        raise click.UsageError("--exact works on the built-in randomiser only: leave out --exact or --command")
    if groups is None and (answers, arms) != (None, None):
        raise click.UsageError("--answers and --arms require --groups")
    if exact:
        with translate_audit_errors():
            show_exact(ctx, epsilon if has_epsilon else None, groups, json_wanted)
        return
    if retries != 1 and (command is None or groups is not None):
        raise click.UsageError("--retries requires --command, and excludes --groups: leave out --retries")
    if starts and (command is None or groups is not None or retries != 1 or starts < 32):
        raise click.UsageError(
            "--starts must be 0, or 32 or more; it requires --command, and excludes --groups and --retries"
        )
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
