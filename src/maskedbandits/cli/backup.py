"""`maskedbandits backup` and `maskedbandits restore`: everything that the service knows, in one file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.storage import Given, opened, storage, storage_of
from maskedbandits.cli.verb import Verb, as_json
from maskedbandits.readable import counted


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits backup bandits.backup",
        "maskedbandits backup --storage postgresql://bandits@db/bandits bandits.backup",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@storage
@as_json
def backup(file: Path, storage: Given, json_wanted: bool) -> None:
    """Write everything that the service has stored at this moment into a FILE, while it goes on.

    An earlier backup of that name is replaced once the new one is whole. The file holds the secrets that sign tokens:
    nobody but you can read it, and so it should stay.
    """
    with opened(storage, "backup") as store:
        from maskedbandits.service.stores.portable import backup as write

        copied = write(store, file)
    told(file, copied.experiments, copied.events, "backed up", json_wanted)


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits restore bandits.backup --storage sqlite:///restored.db",
        "maskedbandits restore bandits.backup --storage postgresql://bandits@db/bandits",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@storage
@as_json
def restore(file: Path, storage: Given, json_wanted: bool) -> None:
    """Write everything that is in a FILE made by backup into an empty store, of either kind; it is made if needed."""
    from maskedbandits.service.stores.portable import restore as read

    with storage_of(storage) as url:
        copied = read(file, url)
    told(file, copied.experiments, copied.events, "restored", json_wanted)


def told(file: Path, experiments: int, events: int, done: str, json_wanted: bool) -> None:
    """Say how much was copied."""
    if json_wanted:
        echo_json({"file": str(file), "experiments": experiments, "events": events})
    else:
        echo(f"{done.capitalize()}: {counted(experiments, 'experiment')}, {counted(events, 'event')}. {file}")
