"""`maskedbandits compact`: remove events of the log that are older than some days."""

from __future__ import annotations

import threading
import time
import uuid
from typing import TYPE_CHECKING

import click

from maskedbandits._util.safe_text import format_count
from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.storage import StoreOptions, find_experiments, open_for_verb, store_options
from maskedbandits.cli.verb import Failure, Verb, WholeNumber, json_option
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.service.compaction import CompactionResult
    from maskedbandits.service.storage import Store
    from maskedbandits.service.storage.models import ExperimentRow

IS_TAKEN = "a service, or another command, removes old events now: try again in ten minutes"


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
    with open_for_verb(storage, "compact") as store:
        from maskedbandits.service.compaction import get_cutoff
        from maskedbandits.service.server.settings import load_settings

        days = days or load_settings({"storage": storage.url}, config=storage.config).retention_days
        if not days:
            raise UserError("retention_days = 0 keeps events for ever: give --days")
        cutoff = get_cutoff(store.read_status().now or time.time(), days)
        results, faults = compact_in_turn(store, find_experiments(store, experiment), cutoff)
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


def compact_in_turn(store: Store, rows: list[ExperimentRow], cutoff: int) -> tuple[list[CompactionResult], list[str]]:
    """Compact experiments, unless a service does it now; return the results, and the faults of damaged logs."""
    from maskedbandits.service.compaction import StoppedError, Turn
    from maskedbandits.service.compaction import compact as compact_log
    from maskedbandits.service.server.warmup import load_code

    turn = Turn(store, f"command-{uuid.uuid4().hex}", lambda: store.read_status().now or time.time())
    if not turn.take():
        raise Failure(IS_TAKEN)
    results, faults = [], []
    try:
        for row in rows:
            try:
                results.append(
                    compact_log(store, row, cutoff, turn.renew, lambda names: load_code(names, threading.Event()))
                )
            except UserError as fault:  # other experiments may be sound
                faults.append(str(fault))
    except StoppedError:
        raise Failure(IS_TAKEN) from None
    finally:
        turn.end()
    return results, faults
