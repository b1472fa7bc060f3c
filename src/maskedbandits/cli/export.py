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
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@json_option
def export(experiment: str, file: Path, storage: StoreOptions, force: bool, json_wanted: bool) -> None:
    """Export the log of an EXPERIMENT to a FILE.

    The name of the FILE ends in .csv, .jsonl or .parquet. Each row is an event: a masked report, or a change of arms
    or settings. Ids of decisions are left out. `maskedbandits replay EXPERIMENT --export FILE` checks the FILE later.
    """
    progress = SlowProgress()
    with open_for_verb(storage, "export") as store:
        from maskedbandits.service.evaluation import export as exported
        from maskedbandits.service.evaluation.log import read_stored_events
        from maskedbandits.service.recovery import save_log_hash

        exported.get_format(file)
        if file.exists() and not force:
            raise UserError(f"{file}: already exists: give another name, or --force to replace it")
        (row,) = find_experiments(store, experiment)
        try:
            exported.export(read_stored_events(store, row, progress), file)
            log_hash = save_log_hash(store, row)
        finally:
            progress.end()
        first = store.read_first(row.id) or row.seq + 1
    if json_wanted:
        echo_json(
            {"file": str(file), "experiment": row.name, "first": first, "events": row.seq - first + 1, "hash": log_hash}
        )
        return
    echo(f"{format_count(row.seq - first + 1, 'event')}: {file}")
    if first > 1:
        echo(f"The log starts at event {first:,}: earlier events were removed by retention.")
