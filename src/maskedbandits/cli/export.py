"""`maskedbandits export`: the log of an experiment as a file, for other tools and for evaluate."""

from __future__ import annotations

from pathlib import Path

import click

from maskedbandits._util.safe_text import counted
from maskedbandits.cli.audit import Slow
from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.replay import chosen
from maskedbandits.cli.storage import Given, opened, storage
from maskedbandits.cli.verb import Verb, as_json
from maskedbandits.errors import UserError


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits export headlines headlines.csv --storage sqlite:///bandits.db",
        "maskedbandits export headlines headlines.parquet --config maskedbandits.toml --force",
    ],
)
@click.argument("experiment")
@click.argument("file", type=click.Path(path_type=Path))
@storage
@click.option("--force", is_flag=True, help="Replace a FILE that is there already.")
@as_json
def export(experiment: str, file: Path, storage: Given, force: bool, json_wanted: bool) -> None:
    """Write the log of an EXPERIMENT to a FILE whose name ends in .csv, .jsonl or .parquet.

    A row for each event: masked reports, and changes of arms and settings. Ids of decisions are not in it.
    """
    watch = Slow()
    with opened(storage, "export") as store:
        from maskedbandits.service.evaluation import export as exported
        from maskedbandits.service.evaluation.log import read_stored_events

        exported.get_format(file)
        if file.exists() and not force:
            raise UserError(f"{file}: it is there already: give another name, or --force to replace it")
        (row,) = chosen(store, experiment)
        try:
            exported.export(read_stored_events(store, row, watch), file)
        finally:
            watch.end()
    if json_wanted:
        echo_json({"file": str(file), "experiment": row.name, "events": row.seq})
    else:
        echo(f"{counted(row.seq, 'event')}: {file}")
