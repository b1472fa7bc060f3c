"""`maskedbandits export`: the log of an experiment as a file, for other tools and for evaluate."""

from __future__ import annotations

from pathlib import Path

import click

from maskedbandits._util.safe_text import format_count
from maskedbandits.cli.output import SlowProgress, echo, echo_json
from maskedbandits.cli.storage import StoreOptions, find_experiments, open_for_verb, store_options
from maskedbandits.cli.verb import Verb, json_option
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
@store_options
@click.option("--force", is_flag=True, help="Replace a FILE that is there already.")
@json_option
def export(experiment: str, file: Path, storage: StoreOptions, force: bool, json_wanted: bool) -> None:
    """Write the log of an EXPERIMENT to a FILE whose name ends in .csv, .jsonl or .parquet.

    A row for each event: masked reports, and changes of arms and settings. Ids of decisions are not in it.
    """
    progress = SlowProgress()
    with open_for_verb(storage, "export") as store:
        from maskedbandits.service.evaluation import export as exported
        from maskedbandits.service.evaluation.log import read_stored_events

        exported.get_format(file)
        if file.exists() and not force:
            raise UserError(f"{file}: it is there already: give another name, or --force to replace it")
        (row,) = find_experiments(store, experiment)
        try:
            exported.export(read_stored_events(store, row, progress), file)
        finally:
            progress.end()
    if json_wanted:
        echo_json({"file": str(file), "experiment": row.name, "events": row.seq})
    else:
        echo(f"{format_count(row.seq, 'event')}: {file}")
