"""`maskedbandits export`: the log of an experiment as a file, for other tools and for evaluate."""

from __future__ import annotations

from pathlib import Path

import click

from maskedbandits.cli.audit import Slow
from maskedbandits.cli.output import echo
from maskedbandits.cli.replay import chosen
from maskedbandits.cli.verb import Failure, Verb


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits export headlines headlines.csv --storage sqlite:///bandits.db",
        "maskedbandits export headlines headlines.parquet --storage sqlite:///bandits.db",
    ],
)
@click.argument("experiment")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--storage", required=True, help="Where the log is, as for serve.")
def export(experiment: str, file: Path, storage: str) -> None:
    """Write the log of an EXPERIMENT to a FILE whose name ends in .csv, .jsonl or .parquet.

    A row for each event: masked reports, and changes of arms and settings. Ids of decisions are not in it.
    """
    from maskedbandits import extras

    extras.need("export", extras.SERVICE, "service")
    from maskedbandits.service.evaluation import exported
    from maskedbandits.service.evaluation.reading import events_of
    from maskedbandits.service.stores import StoreGone, open_store

    exported.format_of(file)
    store, watch = open_store(storage), Slow()
    try:
        (row,) = chosen(store, experiment)
        exported.export(events_of(store, row, watch), file)
    except StoreGone as error:
        raise Failure(f"{error.reason}: try again") from error
    finally:
        watch.end()
        store.close()
    echo(f"{row.seq:,} events: {file}")
