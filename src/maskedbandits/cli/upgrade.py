"""`maskedbandits upgrade`: tables of an older version of the service become those of this one."""

from __future__ import annotations

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.storage import StoreOptions, resolve_url, store_options
from maskedbandits.cli.verb import Verb, json_option


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits upgrade",
        "maskedbandits upgrade --storage postgresql://bandits@db/bandits",
    ],
)
@store_options
@json_option
def upgrade(storage: StoreOptions, json_wanted: bool) -> None:
    """Upgrade the database of an older version of the service.

    Make a backup first. Tables of version 3 are upgraded while the service runs, once all its processes are of this
    release. An upgrade that was interrupted goes on where it stopped. Tables of versions 1 and 2 need the service to be
    stopped, and are upgraded completely or not at all. Afterwards the service removes events older than retention_days,
    which earlier releases kept. To keep them, set retention_days = 0 before.
    """
    from maskedbandits.service.secret import upgrade_store
    from maskedbandits.service.server.settings import load_settings
    from maskedbandits.service.storage import open_store

    with resolve_url(storage) as url, open_store(url, any_version=True) as store:
        days = load_settings({"storage": url}, config=storage.config).retention_days
        before, now = upgrade_store(store)
    if json_wanted:
        echo_json({"from": before, "to": now, "retention_days": days, "notice": format_retention(days)})
    elif before == now:
        echo(f"The tables already have version {now}: nothing to do.")
    else:
        echo(f"Upgraded the tables from version {before} to {now}.")
        echo(format_retention(days))


def format_retention(days: int) -> str:
    """Return what the service does with old events after an upgrade, and how to keep them."""
    if not days:
        return "The service keeps all events, since retention_days = 0 here. Give the service the same setting."
    what = f"From now on the service removes events that are older than {days} days (retention_days)."
    return f"{what} To keep them, set retention_days = 0 and restart it now."
