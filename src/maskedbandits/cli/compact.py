"""`maskedbandits compact`: remove events of the log that are older than some days."""

from __future__ import annotations

import time

import click

from maskedbandits._util.safe_text import format_count
from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.storage import StoreOptions, find_experiments, open_for_verb, store_options
from maskedbandits.cli.verb import Failure, Verb, WholeNumber, json_option
from maskedbandits.errors import UserError


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits compact --storage sqlite:///bandits.db --days 90",
        "maskedbandits compact headlines --config maskedbandits.toml",
    ],
)
@click.argument("experiment", required=False)
@store_options
@click.option("--days", type=WholeNumber(1), show_default="retention_days", help="Keep the events of so many days.")
@json_option
def compact(experiment: str | None, storage: StoreOptions, days: int | None, json_wanted: bool) -> None:
    """Remove events of the log that are older than some days.

    The service may keep running; it does the same every hour. States stay as they are: before an event is removed, a
    snapshot that covers it is computed from the log, compared with all others, and stored. Events whose reports may
    still be repeated stay. Export the log first if you want to evaluate it later.
    """
    results, faults = [], []
    with open_for_verb(storage, "compact") as store:
        from maskedbandits.service.compaction import compact as compact_log
        from maskedbandits.service.compaction import get_cutoff
        from maskedbandits.service.server.settings import load_settings

        days = days or load_settings({"storage": storage.url}, config=storage.config).retention_days
        if not days:
            raise UserError("retention_days = 0 keeps events for ever: give --days")
        for row in find_experiments(store, experiment):
            try:
                results.append(compact_log(store, row, get_cutoff(store.read_status().now or time.time(), days)))
            except UserError as fault:  # other experiments may be sound
                faults.append(str(fault))
    if json_wanted:
        listed = [{"experiment": each.name, "removed": each.removed, "first": each.first_seq} for each in results]
        echo_json({"experiments": listed, "faults": faults})
    else:
        for each in results:
            echo(f"{each.name}: {format_count(each.removed, 'event')} removed; the log starts at {each.first_seq:,}.")
        for text in faults:
            echo(text)
        if not results and not faults:
            echo("No experiments: nothing to remove.")
    if faults:
        raise Failure("some logs were left as they are, because they could not be verified")
