"""`maskedbandits run`: the experiment that a file describes."""

from __future__ import annotations

import dataclasses
import os
import shlex
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from maskedbandits._util import extras
from maskedbandits.cli.report import show
from maskedbandits.cli.verb import Failure, Interrupted, Verb, as_json, reason
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.experiments.progress import Silent


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits run experiments/paper.toml",
        "maskedbandits run experiments/paper.toml --runs 10 --out results/quick",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the results.  [default: results/<name of FILE>]",
)
@click.option("--runs", type=click.IntRange(1, 2**53), help="Runs of each policy, in place of the file's.")
@click.option("--seed", type=click.IntRange(0, 2**53), help="Seed, in place of the file's.")
@click.option("--threads", type=click.IntRange(1, 2**53), help="Threads to use; the numbers do not depend on it.")
@click.option(
    "--backend",
    type=click.Choice(["threads", "processes", "ray"]),
    default="threads",
    show_default=True,
    help="Where to play: the numbers do not depend on it.",
)
@click.option("--workers", type=click.IntRange(1, 2**16), help="Processes to use, in place of one for each core.")
@click.option("--address", help="Address of a Ray cluster; without it Ray is started on this machine.")
@click.option("--fresh", is_flag=True, help="Run everything again, also what is finished.")
@click.option("--no-progress", is_flag=True, help="Say nothing on the way.")
@as_json
def run(
    file: Path,
    out: Path | None,
    runs: int | None,
    seed: int | None,
    threads: int | None,
    backend: str,
    workers: int | None,
    address: str | None,
    fresh: bool,
    no_progress: bool,
    json_wanted: bool,
) -> None:
    """Run the experiment that a TOML FILE describes.

    Prints a table; leaves figures, a page and the results in a folder. Each cell (a policy on a problem at
    one epsilon) is saved when it is finished: after Ctrl-C the same command goes on from there.
    """
    extras.need("run")
    from maskedbandits import experiments
    from maskedbandits._util.signals import caught_signals
    from maskedbandits.experiments import backends
    from maskedbandits.experiments.progress import watcher

    players = backends.named(backend, threads=threads, workers=workers, address=address)
    experiment = experiments.load(file, runs=runs, seed=seed)
    experiment = dataclasses.replace(experiment, file=as_text(file))
    folder = prepared(out or Path("results") / file.stem)
    command = command_line(file, out, runs, seed)
    with watcher(quiet=no_progress) as watching, caught_signals() as signals:
        try:
            results = experiments.run(experiment, folder, watching, command=command, fresh=fresh, backend=players)
        except (KeyboardInterrupt, SystemExit) as end:
            number = signal.SIGINT if isinstance(end, KeyboardInterrupt) else signals.noted
            if number is None:
                raise
            raise interrupted(number, kept(watching, folder)) from None
        except OSError as error:
            raise Failure(
                f"{reason(error)}; {kept(watching, folder)}, and the same command goes on from there"
            ) from error
    show(results, folder, json_wanted)


def kept(watching: Silent, folder: Path) -> str:
    """Return what is not lost, in words."""
    return f"{watching.finished} of {watching.cells} cells are kept in {folder}"


def interrupted(number: int, kept: str) -> Interrupted:
    """Return what is said when a signal has ended the work: which, what is kept, and how to go on."""
    what = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    return Interrupted(f"{what}: {kept}; the same command goes on from there", 128 + number)


def prepared(folder: Path) -> Path:
    """Return the results folder, made and found writable before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise UserError(f"--out {folder}: cannot be written: {error.strerror}") from error


def command_line(file: Path, out: Path | None, runs: int | None, seed: int | None) -> str:
    """Return the command that makes the same results again."""
    parts = ["maskedbandits", "run", as_text(file)]
    for option, value in (("--out", out), ("--runs", runs), ("--seed", seed)):
        if value is not None:
            parts += [option, as_text(value) if isinstance(value, Path) else str(value)]
    return shlex.join(parts)


def as_text(path: Path) -> str:
    """Return a path as results keep it: bytes that the locale could not read are read as UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
