"""`maskedbandits evaluate`: off-policy evaluation, from the log of a service or an exported file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from maskedbandits.cli.output import SlowProgress, echo, echo_json
from maskedbandits.cli.storage import StoreOptions, find_experiments, open_for_verb, store_options
from maskedbandits.cli.verb import Verb, json_option

if TYPE_CHECKING:
    from maskedbandits.service.evaluation import ReportLog


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits evaluate headlines --storage sqlite:///bandits.db --policy klucb-cf --policy auto",
        "maskedbandits evaluate headlines.parquet --policy sw-klucb-cf:window=5000 --periods 4",
    ],
)
@click.argument("log", metavar="LOG")
@store_options
@click.option(
    "--policy", "policies", multiple=True, help="A learning policy, as NAME or NAME:key=value,... May be repeated."
)
@click.option("--periods", type=int, default=1, show_default=True, help="Also evaluate this many periods of the log.")
@click.option("--repeats", type=int, default=10, show_default=True, help="Runs of each learning policy.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of these runs.")
@click.option("--approximate", is_flag=True, help="Print narrower intervals, which hold for many reports only.")
@json_option
def evaluate(
    log: str,
    storage: StoreOptions,
    policies: tuple[str, ...],
    periods: int,
    repeats: int,
    seed: int,
    approximate: bool,
    json_wanted: bool,
) -> None:
    """Estimate how other policies would have performed.

    This is off-policy evaluation of a LOG: an experiment of the service, or a file written by export. A LOG with a dot
    or a slash is a file, unless --storage or --config is given.

    Prints estimates with 95 % confidence intervals: for each arm if everybody had seen it, for arms at random, and for
    the learning policies that you name. They use the masked reports and the logged probabilities.
    """
    from maskedbandits._util import extras

    extras.require("evaluate", extras.SERVICE, "service")
    from maskedbandits.service import evaluation
    from maskedbandits.service.evaluation import text

    progress = SlowProgress()
    try:
        events = read_file(Path(log)) if is_file(log, storage) else read_store(storage, log, progress)
        result = evaluation.evaluate(events, policies, periods=periods, repeats=repeats, seed=seed, progress=progress)
    finally:
        progress.end()
    if json_wanted:
        echo_json(text.to_json(result))
    else:
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        for line in text.EvaluationText(result, approximate, encoding).format_lines():
            echo(line)


def is_file(log: str, storage: StoreOptions) -> bool:
    """Return whether a log is a file: names of experiments have neither dots nor slashes."""
    return storage == StoreOptions(None, None) and bool(Path(log).suffix or Path(log).name != log)


def read_store(storage: StoreOptions, name: str, progress: SlowProgress) -> ReportLog:
    """Return the log of an experiment in a store."""
    with open_for_verb(storage, "evaluate") as store:
        from maskedbandits.service.evaluation.log import read_log, read_stored_events

        (row,) = find_experiments(store, name)
        return read_log(name, read_stored_events(store, row, progress))


def read_file(file: Path) -> ReportLog:
    """Return the log in an exported file."""
    from maskedbandits.service.evaluation.export import read_export
    from maskedbandits.service.evaluation.log import read_log

    return read_log(str(file), read_export(file))
