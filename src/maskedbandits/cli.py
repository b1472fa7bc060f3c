"""The command line: thin verbs over the library.

Whatever is heavy (numpy, numba, matplotlib, rich) is imported inside the verb that needs it, so that `--help`
answers at once.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from maskedbandits.environments import Problem
    from maskedbandits.privacy.audit import Findings
    from maskedbandits.results import Results

FAILED, USAGE, UNMADE, INTERRUPTED = 1, 2, 3, 130


class Refusal(click.ClickException):
    """A mistake of the user's: one line on standard error, and the exit code for usage."""

    exit_code = USAGE

    def show(self, file: Any = None) -> None:
        """Print the line as it is: it already says where and what."""
        click.echo(f"maskedbandits: {self.message}", err=True)


class Failure(Refusal):
    """Something went wrong that no other command line would have put right, such as a full disk."""

    exit_code = FAILED


class Verbs(click.Group):
    """The verbs; every mistake and every Ctrl-C ends in one line, whichever verb it meets."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a verb and turn what it raises into an exit code."""
        try:
            return super().invoke(ctx)
        except UserError as mistake:
            raise Refusal(str(mistake)) from mistake
        except BrokenPipeError:
            raise  # the reader has seen enough (`| head`): click ends quietly
        except OSError as error:
            raise Failure(f"{error.filename or 'error'}: {error.strerror or error}") from error
        except KeyboardInterrupt:
            click.echo("maskedbandits: interrupted", err=True)
            ctx.exit(INTERRUPTED)


class Numbers(click.ParamType[list[float]]):
    """Numbers separated by commas, such as 0.9,0.4."""

    name = "NUMBERS"

    def __init__(self, kind: type[int] | type[float]) -> None:
        self.kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        """Return the numbers."""
        try:
            return [self.kind(part) for part in value.split(",")]
        except ValueError:
            expected = "whole numbers" if self.kind is int else "numbers"
            self.fail(f"expected {expected} separated by commas, got {value!r}", param, ctx)


class Within(click.FloatRange):
    """A number within bounds; NaN, which is not outside any, is refused too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if number != number:
            self.fail(f"{value} is not in the range {self._describe_range()}.", param, ctx)
        return number


as_json = click.option("--json", "json_wanted", is_flag=True, help="Print one JSON document instead of a table.")


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="maskedbandits")
def main() -> None:
    """Choose again and again, under local differential privacy, in a changing world."""


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the results.  [default: results/<name of FILE>]",
)
@click.option("--runs", type=click.IntRange(1, 2**53), help="Runs of each policy, in place of the file's.")
@click.option("--seed", type=click.IntRange(0, 2**53), help="Seed, in place of the file's.")
@click.option("--threads", type=click.IntRange(1, 2**53), help="Threads to use; the numbers do not depend on it.")
@click.option("--fresh", is_flag=True, help="Run everything again, also what is finished.")
@click.option("--no-progress", is_flag=True, help="Say nothing on the way.")
@as_json
def run(
    file: Path,
    out: Path | None,
    runs: int | None,
    seed: int | None,
    threads: int | None,
    fresh: bool,
    no_progress: bool,
    json_wanted: bool,
) -> None:
    """Run the experiment that a TOML FILE describes.

    Prints a table; leaves figures, a page and the results in a folder. Each cell (a policy on a problem at
    one epsilon) is saved when it is finished: after Ctrl-C the same command goes on from there.
    """
    from maskedbandits import experiments
    from maskedbandits.experiments.progress import watcher

    experiment = experiments.load(file, runs=runs, seed=seed)
    folder = prepared(out or Path("results") / file.stem)
    command = command_line(file, out, runs, seed)
    with watcher(quiet=no_progress) as watching:
        try:
            results = experiments.run(experiment, folder, watching, command=command, threads=threads, fresh=fresh)
        except KeyboardInterrupt:
            finished = f"{watching.finished} of {watching.cells} cells are kept in {folder}"
            raise Interrupted(f"interrupted: {finished}; the same command goes on from there") from None
    show(results, folder, json_wanted)


class Interrupted(Refusal):
    """Ctrl-C: what is finished is kept."""

    exit_code = INTERRUPTED


def prepared(folder: Path) -> Path:
    """Return the results folder, made and found writable before any work is done."""
    import tempfile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written: {error.strerror}") from error


def command_line(file: Path, out: Path | None, runs: int | None, seed: int | None) -> str:
    """Return the command that makes the same results again."""
    parts = ["maskedbandits", "run", str(file)]
    for option, value in (("--out", out), ("--runs", runs), ("--seed", seed)):
        if value is not None:
            parts += [option, str(value)]
    return shlex.join(parts)


def show(results: Results, folder: Path, json_wanted: bool) -> None:
    """Write the figures and the page, then print the table or the JSON document."""
    from maskedbandits import report

    written = report.write(results, folder)
    if json_wanted:
        files = {"page": str(written.page), "figures": [str(path) for path in written.figures]}
        echo_json({**report.as_json(results), **files})
        return
    out = console()
    for problem, groups in report.problems(results.cells):
        out.print(report.as_table(problem, groups, out.width))
        out.print()
    missing = len(results.plan.labels) - len(results.cells)
    if missing:
        unfinished = f"{missing} of {len(results.plan.labels)} cells are not finished"
        out.print(f"{unfinished}; go on with: {results.plan.command}")
    out.print(f"Page:    {written.page}")
    out.print(f"Figures: {folder / 'figures'} ({len(written.figures)} files, png and pdf)")


def console() -> Console:
    """Return the terminal, or something as wide as a table where there is none to ask."""
    from rich.console import Console

    # Names and paths are a user's own and may hold brackets: nothing in them is markup.
    terminal = Console(highlight=False, markup=False, soft_wrap=True)
    if not terminal.is_terminal:
        terminal.width = 160
    return terminal


def echo_json(document: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))


@main.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@as_json
def report(folder: Path, json_wanted: bool) -> None:
    """Draw the figures and the page of a results folder DIR again, and print its table."""
    from maskedbandits.results import load

    results = load(folder)
    if not results.cells:
        raise UserError(f"{folder}: no cell is finished yet; go on with: {results.plan.command}")
    show(results, folder, json_wanted)


@main.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--horizon", type=click.IntRange(1, 2**53), help="T: how many steps.")
@click.option(
    "--changes", type=click.IntRange(1, 2**53), help="L: stationary segments; a world that never changes has 1."
)
@click.option(
    "--means",
    type=Numbers(float),
    multiple=True,
    help="Mean rewards of the arms, such as 0.9,0.4; once for each segment.",
)
@click.option("--starts", type=Numbers(int), help="Where segments start, such as 0,5000.  [default: equal lengths]")
@click.option("--epsilon", type=float, multiple=True, help="Privacy of a report, or inf; may be given several times.")
@click.option("--window", type=click.IntRange(1, 2**53), help="A window of your own, beside the others.")
@as_json
def bound(
    file: Path | None,
    horizon: int | None,
    changes: int | None,
    means: tuple[list[float], ...],
    starts: list[int] | None,
    epsilon: tuple[float, ...],
    window: int | None,
    json_wanted: bool,
) -> None:
    """Print windows for SW-KLUCB-CF and bounds on its suboptimal pulls.

    \b
    Windows alone:   maskedbandits bound --horizon 100000 --changes 4
    Of a problem:    maskedbandits bound --horizon 100000 --means 0.9,0.4 --means 0.4,0.9 --epsilon 0.5
    Of a file:       maskedbandits bound experiments/paper.toml
    """  # noqa: D301 -- click's mark for lines to leave alone
    if file is not None:
        if horizon or changes or means or starts or epsilon:
            raise click.UsageError("give a FILE, or --horizon and the others, not both")
        show_bounds(worlds_of_file(file), window, json_wanted)
    elif horizon is None:
        raise click.UsageError("give --horizon and --changes, or --horizon, --means and --epsilon, or a FILE")
    elif means:
        if changes not in (None, len(means)):
            raise click.UsageError(
                f"--changes {changes} but --means {len(means)} times: give --means once for each segment"
            )
        if not epsilon:
            raise click.UsageError("give --epsilon with --means, such as --epsilon 1 or --epsilon inf")
        show_bounds(worlds_of_options(horizon, means, starts, epsilon), window, json_wanted)
    elif changes is None or starts or epsilon or window:
        raise click.UsageError("without --means there are windows alone: give --horizon and --changes")
    else:
        show_windows(horizon, changes, json_wanted)


World = tuple[str, float | None, "Problem"]


def worlds_of_file(file: Path) -> list[World]:
    """Return the problems of an experiment, at each of their epsilons."""
    from maskedbandits import experiments

    return [(world.name, world.epsilon, world.problem) for world in experiments.load(file).worlds]


def worlds_of_options(
    horizon: int, means: tuple[list[float], ...], starts: list[int] | None, epsilons: tuple[float, ...]
) -> list[World]:
    """Return the problem that the options describe, at each epsilon."""
    from maskedbandits.corruption import RandomizedResponse
    from maskedbandits.environments import Problem

    if starts is None:
        starts = [place * horizon // len(means) for place in range(len(means))]
    try:
        return [
            (
                "problem",
                epsilon,
                Problem(list(means), starts, horizon, RandomizedResponse.from_epsilon(epsilon)),
            )
            for epsilon in epsilons
        ]
    except ValueError as error:
        raise UserError(str(error)) from error


def show_windows(horizon: int, changes: int, json_wanted: bool) -> None:
    """Print the windows that need no problem."""
    from maskedbandits.report import bounds

    try:
        windows = bounds.windows_of(horizon, changes)
    except ValueError as error:
        raise UserError(str(error)) from error
    if json_wanted:
        echo_json({"horizon": horizon, "changes": changes, "windows": windows})
    else:
        console().print(bounds.windows_table(windows))


def show_bounds(worlds: list[World], window: int | None, json_wanted: bool) -> None:
    """Print windows and bounds of each problem."""
    from maskedbandits.report import bounds
    from maskedbandits.results import Label, plain

    documents, out = [], console()
    for name, epsilon, problem in worlds:
        try:
            found = bounds.bounds_of(problem, window)
        except ValueError as error:
            raise UserError(str(error)) from error
        if json_wanted:
            documents.append({"problem": name, "epsilon": plain(epsilon), **found})
        else:
            title = f"{name}, {Label('', name, '', epsilon).setting}"
            out.print(bounds.bounds_table(title, found), "", sep="\n")
    if json_wanted:
        echo_json(documents)
    else:
        out.print("Bounds are on the pulls of suboptimal arms, all arms together.")
        out.print("The published bound can be exceeded; the corrected one is proved in docs/theory.md.")


@main.command()
@as_json
def policies(json_wanted: bool) -> None:
    """List the policies, with their parameters."""
    from maskedbandits.policies import REGISTRY, names

    if json_wanted:
        echo_json([policy_as_json(name) for name in names()])
        return
    width = max(len(name) for name in names())
    for name in names():
        parameters = ", ".join(parameter_text(key, value) for key, value in REGISTRY[name].parameters.items())
        click.echo(f"{name:{width}}  {REGISTRY[name].summary}" + (f"  [{parameters}]" if parameters else ""))


@main.command()
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
    """Check the epsilon of a randomiser from its reports.

    \b
    Our own:         maskedbandits audit --epsilon 1
    Anybody's:       maskedbandits audit --epsilon 1 --command "python mine.py"
    The exact one:   maskedbandits audit --exact

    Prints a lower confidence bound on epsilon, the claimed one, and what excess so many trials could have seen.
    Exit code 0 if nothing contradicts the claim, 1 if it is refuted, 2 for a mistake in the command, 3 if the audit
    could not be made (the program fails, a full disk) or cannot tell.

    A program reads one 0 or 1 a line on standard input and writes one report, of at most 256 characters, a line on
    standard output. It is started 8 times with the same opening, so that a fixed seed shows. With --retries R a line
    is a bit and the name of a decision, and every decision comes R times, in a row and later: a program that promises
    one permanent answer for each decision, and draws a new one, is refuted.
    """  # noqa: D301 -- click's mark for lines to leave alone
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


class Unmade(Refusal):
    """The audit could not be made, or nobody could read it: neither a refuted claim nor a mistake in the command."""

    exit_code = UNMADE


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
        raise Unmade(f"{error.filename or 'error'}: {error.strerror or error}") from error


def drop_output() -> None:
    """Let what could not be written go: Python would try again at the end, and end with an exit code of its own."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


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
        click.echo("\n".join(verdict.lines(findings)))
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
        click.echo("\n".join(verdict.exact_lines(randomizers)))


def parameter_text(key: str, default: object) -> str:
    """Return a parameter and its default, if it has one."""
    return key if default is ... else f"{key}={default}"


def policy_as_json(name: str) -> dict[str, Any]:
    """Return what a program needs to know of a policy; a parameter without a default is required."""
    from maskedbandits.policies import REGISTRY
    from maskedbandits.results import plain

    parameters = {
        key: {"required": True} if default is ... else {"required": False, "default": plain(default)}
        for key, default in REGISTRY[name].parameters.items()
    }
    return {"name": name, "summary": REGISTRY[name].summary, "parameters": parameters}


if __name__ == "__main__":
    main()
