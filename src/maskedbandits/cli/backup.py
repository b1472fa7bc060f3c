"""`maskedbandits backup` and `maskedbandits restore`: everything that the service knows, in one file, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util.safe_text import format_count
from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.storage import StoreOptions, open_for_verb, resolve_url, store_options
from maskedbandits.cli.verb import Verb, json_option

if TYPE_CHECKING:
    from maskedbandits.service.storage import Store


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits backup bandits.backup",
        "maskedbandits backup --storage postgresql://bandits@db/bandits bandits.backup",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@store_options
@json_option
def backup(file: Path, storage: StoreOptions, json_wanted: bool) -> None:
    """Back up everything that the service stores to a FILE.

    The service may keep running. An earlier backup of that name is replaced once the new one is complete. Only you can
    read the file. It does not contain the secret of the service: store a copy of its key file, or of
    MASKEDBANDITS_SECRET, in another place.
    """
    with open_for_verb(storage, "backup") as store:
        from maskedbandits.service.storage.backup import backup as write

        copied, starts = write(store, file), list_starts(store)
    show_copy(file, copied.experiments, copied.events, "backed up", json_wanted, starts)


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits restore bandits.backup --storage sqlite:///restored.db",
        "maskedbandits restore bandits.backup --storage postgresql://bandits@db/bandits",
    ],
)
@click.argument("file", type=click.Path(path_type=Path))
@store_options
@json_option
def restore(file: Path, storage: StoreOptions, json_wanted: bool) -> None:
    """Restore a backup FILE into an empty database.

    The database may be SQLite or PostgreSQL, whatever the backup came from. A missing SQLite file is created. The
    backup does not contain the secret: also copy the key file of the service, or set MASKEDBANDITS_SECRET.
    """
    from maskedbandits.service.storage import open_store
    from maskedbandits.service.storage.backup import restore as read

    with resolve_url(storage) as url:
        copied, faults = read(file, url), list_faults(url)
        with open_store(url) as store:
            starts = list_starts(store)
    show_copy(file, copied.experiments, copied.events, "restored", json_wanted, starts, faults)


def list_faults(url: str) -> list[str]:
    """Return the faults of experiments that a service would quarantine."""
    from maskedbandits.service.config import find_fault
    from maskedbandits.service.storage import open_store

    with open_store(url) as store:
        faults = (find_fault(row, store.list_arms(row.id)) for row in store.list_experiments())
        return [fault for fault in faults if fault is not None]


def list_starts(store: Store) -> dict[str, int]:
    """Return the first event of each log whose earlier events were removed."""
    return {row.name: row.first_seq for row in store.list_experiments() if row.first_seq > 1}


def show_copy(
    file: Path,
    experiments: int,
    events: int,
    done: str,
    json_wanted: bool,
    starts: Mapping[str, int],
    faults: Sequence[str] | None = None,
) -> None:
    """Print how much was copied, where logs begin, and the faults in it."""
    if json_wanted:
        about: dict[str, Any] = {} if faults is None else {"faults": list(faults)}
        about |= {"starts": dict(starts)} if starts else {}
        echo_json({"file": str(file), "experiments": experiments, "events": events, **about})
        return
    echo(f"{done.capitalize()}: {format_count(experiments, 'experiment')}, {format_count(events, 'event')}. {file}")
    for name, first in starts.items():
        echo(f"{name}: the log starts at event {first:,}: earlier events were removed by retention.")
    for fault in faults or ():
        echo(f"Quarantined: {fault}")
