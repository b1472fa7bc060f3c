"""`maskedbandits run`: run the experiment of a TOML file."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from maskedbandits._util import extras
from maskedbandits.cli.output import make_folder
from maskedbandits.cli.report import show
from maskedbandits.cli.verb import Failure, Interrupted, Verb, WholeNumber, describe_os_error, json_option

if TYPE_CHECKING:
    from maskedbandits.experiments.progress_bar import SilentWatcher


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
    show_default="results/<name of FILE>",
    help="Folder for the results.",
)
@click.option("--runs", type=WholeNumber(1, 2**53), help="Runs of each policy. Overrides the file.")
@click.option("--seed", type=WholeNumber(0, 2**53), help="Seed. Overrides the file.")
@click.option("--threads", type=WholeNumber(1, 2**53), help="Threads to use. The results do not depend on it.")
@click.option(
    "--backend",
    type=click.Choice(["threads", "processes", "ray"]),
    default="threads",
    show_default=True,
    help="Where to run. The results do not depend on it.",
)
@click.option("--workers", type=WholeNumber(1, 2**16), show_default="one for each core", help="Processes to use.")
@click.option("--address", show_default="start Ray on this machine", help="Address of a Ray cluster.")
@click.option("--fresh", is_flag=True, help="Run all cells again, finished ones too.")
@click.option("--no-progress", is_flag=True, help="Show no progress.")
@json_option
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

    Prints a table, and writes figures, a report page and the results into a folder. Each cell (a policy on a problem
    at one epsilon) is saved when it finishes. After Ctrl-C, the same command continues from there.
    """
    extras.require("run")
    from maskedbandits import experiments
    from maskedbandits._util.signals import catch_signals
    from maskedbandits.experiments import backends
    from maskedbandits.experiments.experiment import format_command, path_to_text
    from maskedbandits.experiments.progress_bar import choose_watcher

    workers_backend = backends.open_backend(backend, threads=threads, workers=workers, address=address)
    experiment = experiments.load(file, runs=runs, seed=seed)
    experiment = dataclasses.replace(experiment, file=path_to_text(file))
    folder = make_folder(out or Path("results") / file.stem)
    command = format_command(file, out, runs, seed)
    with choose_watcher(quiet=no_progress) as watcher, catch_signals() as signals:
        try:
            results = experiments.run(
                experiment, folder, watcher, command=command, fresh=fresh, backend=workers_backend
            )
        except (KeyboardInterrupt, SystemExit) as end:
            number = signal.SIGINT if isinstance(end, KeyboardInterrupt) else signals.noted
            if number is None:
                raise
            raise interruption(number, describe_saved(watcher, folder)) from None
        except OSError as error:
            saved = describe_saved(watcher, folder)
            raise Failure(f"{describe_os_error(error)}; {saved}, and the same command continues from there") from error
    show(results, folder, json_wanted)


def describe_saved(watcher: SilentWatcher, folder: Path) -> str:
    """Return how many cells are saved."""
    return f"{watcher.finished} of {watcher.cells} cells are saved in {folder}"


def interruption(number: int, saved: str) -> Interrupted:
    """Return the error for a signal: which one, how many cells are saved, and how to continue."""
    cause = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    return Interrupted(f"{cause}: {saved}; the same command continues from there", 128 + number)
