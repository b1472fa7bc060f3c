"""`maskedbandits evaluate`: judge other choices off-line, by the log of a service or by a file of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from maskedbandits.cli.audit import Slow
from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.replay import chosen
from maskedbandits.cli.storage import Given, opened, storage
from maskedbandits.cli.verb import Verb, as_json

if TYPE_CHECKING:
    from maskedbandits.service.evaluation import Log


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits evaluate headlines --storage sqlite:///bandits.db --policy klucb-cf --policy auto",
        "maskedbandits evaluate headlines.parquet --policy sw-klucb-cf:window=5000 --periods 4",
    ],
)
@click.argument("log", metavar="LOG")
@storage
@click.option(
    "--policy", "policies", multiple=True, help="A policy that learns, as NAME or NAME:key=value,...; may be repeated."
)
@click.option("--periods", type=int, default=1, show_default=True, help="Judge so many stretches of the log, too.")
@click.option("--repeats", type=int, default=10, show_default=True, help="Runs of each policy that learns.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of these runs.")
@click.option("--approximate", is_flag=True, help="Print narrower intervals, which need many reports to hold.")
@as_json
def evaluate(
    log: str,
    storage: Given,
    policies: tuple[str, ...],
    periods: int,
    repeats: int,
    seed: int,
    approximate: bool,
    json_wanted: bool,
) -> None:
    """Judge other choices by what is in a LOG: an experiment of the service, or a file that export has made.

    A LOG with a dot or a slash is a file, unless --storage or --config says where an experiment is.

    Prints what each arm would have earned if everybody had seen it, what arms at random would have, and what policies
    that learn would have, from masked reports and the probabilities of what was shown; with 95 % intervals.
    """
    from maskedbandits._util import extras

    extras.need("evaluate", extras.SERVICE, "service")
    from maskedbandits.service import evaluation
    from maskedbandits.service.evaluation import text

    watch = Slow()
    try:
        held = of_file(Path(log)) if is_file(log, storage) else of_store(storage, log, watch)
        found = evaluation.evaluate(held, policies, periods=periods, repeats=repeats, seed=seed, progress=watch)
    finally:
        watch.end()
    if json_wanted:
        echo_json(text.to_json(found))
    else:
        for line in text.EvaluationText(
            found, approximate, getattr(sys.stdout, "encoding", None) or "utf-8"
        ).format_lines():
            echo(line)


def is_file(log: str, storage: Given) -> bool:
    """Tell whether a log is a file: names of experiments have neither dots nor slashes."""
    return storage == Given(None, None) and bool(Path(log).suffix or Path(log).name != log)


def of_store(storage: Given, name: str, watch: Slow) -> Log:
    """Return the log of an experiment in a store."""
    with opened(storage, "evaluate") as store:
        from maskedbandits.service.evaluation.log import read_log, read_stored_events

        (row,) = chosen(store, name)
        return read_log(name, read_stored_events(store, row, watch))


def of_file(file: Path) -> Log:
    """Return the log that a file holds."""
    from maskedbandits.service.evaluation.export import read_export
    from maskedbandits.service.evaluation.log import read_log

    return read_log(str(file), read_export(file))
