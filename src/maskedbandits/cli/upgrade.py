"""`maskedbandits upgrade`: the tables of an older version become those of this one."""

from __future__ import annotations

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.storage import Given, storage, storage_of
from maskedbandits.cli.verb import Verb, as_json


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits upgrade",
        "maskedbandits upgrade --storage postgresql://bandits@db/bandits",
    ],
)
@storage
@as_json
def upgrade(storage: Given, json_wanted: bool) -> None:
    """Upgrade what an older version of the service has stored, whole or not at all.

    Stop the service and make a backup first. Versions are of the tables: most releases leave them as they are.
    """
    from maskedbandits.service.storage import open_store
    from maskedbandits.service.upgrade import upgraded

    with storage_of(storage) as url, open_store(url, any_version=True) as store:
        before, now = upgraded(store)
    if json_wanted:
        echo_json({"from": before, "to": now})
    elif before == now:
        echo(f"The tables have version {now} already: nothing to do.")
    else:
        echo(f"The tables had version {before}, now {now}.")
