"""`maskedbandits key`: keys of the service, and the keys that sign its tokens."""

from __future__ import annotations

import time
from typing import Any

import click

from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.storage import StoreOptions, open_for_verb, store_options
from maskedbandits.cli.verb import VerbGroup, WholeNumber, json_option

HOUR_S = 3600
ROLES = ("device", "backend", "read", "admin")


@click.group(
    cls=VerbGroup,
    examples=["maskedbandits key create --role admin", "maskedbandits key list", "maskedbandits key revoke shop-web"],
)
def key() -> None:
    """Create, list, revoke and rotate keys of the service.

    A running service applies the change within seconds.
    """


@key.command(
    examples=[
        "maskedbandits key create --role admin",
        "maskedbandits key create --role device --name shop-web --storage postgresql://bandits@db/bandits",
        "maskedbandits key create --role device --experiment headlines --experiment banner",
        "maskedbandits key create --role read --config maskedbandits.toml",
    ],
)
@click.option(
    "--role",
    required=True,
    type=click.Choice(ROLES),
    help="device: decide and report, in pages; backend: the same, on servers; read: view; admin: all that, and change.",
)
@click.option("--name", show_default="random letters", help="Name of the key, which the log of changes shows.")
@click.option(
    "--experiment",
    "experiments",
    multiple=True,
    help="Limit the key to this experiment; repeat for more.  [default: all]",
)
@store_options
@json_option
def create(role: str, name: str | None, experiments: tuple[str, ...], storage: StoreOptions, json_wanted: bool) -> None:
    """Create a key and print it once; only its digest is stored."""
    with open_for_verb(storage, "key", create=True) as store:
        from maskedbandits.service.auth import create_key

        name, secret = create_key(store, role, name, current_hour(), experiments)
        known = [row.name for row in store.list_experiments()] if experiments else []
    if json_wanted:
        echo_json({"name": name, "role": role, "experiments": list(experiments) or None, "key": secret})
        return
    echo(secret)
    for each in experiments:
        if each not in known:
            echo(f"No experiment is called {each} yet: the key is for it once you create it.")
    echo(f"This is the key {name} with the role {role}. It is shown only once: store it with your secrets.")
    echo("Send it as: Authorization: Bearer KEY")


@key.command("list", examples=["maskedbandits key list", "maskedbandits key list --json"])
@store_options
@json_option
def list_keys(storage: StoreOptions, json_wanted: bool) -> None:
    """List the keys by name and role; secrets are not stored."""
    with open_for_verb(storage, "key") as store:
        rows = store.list_keys()
    if json_wanted:
        echo_json([as_document(row) for row in rows])
        return
    width = max([len(row.id) for row in rows], default=0)
    for row in rows:
        only = "" if row.experiments is None else f"  only {', '.join(row.experiments)}"
        revoked = "" if row.revoked is None else f"  revoked {format_day(row.revoked)}"
        echo(f"{row.id:{width}}  {row.role:7}  created {format_day(row.created)}{only}{revoked}")
    if not rows:
        echo("No keys yet: the service answers this machine alone. Create one with `maskedbandits key create`.")


@key.command(examples=["maskedbandits key revoke shop-web"])
@click.argument("name")
@store_options
@json_option
def revoke(name: str, storage: StoreOptions, json_wanted: bool) -> None:
    """Revoke the key called NAME.

    A running service refuses it within seconds.
    """
    with open_for_verb(storage, "key") as store:
        from maskedbandits.service.auth import revoke_key

        revoke_key(store, name, current_hour())
    if json_wanted:
        echo_json({"name": name, "revoked": True})
        return
    echo(f"The key {name} is revoked.")


@key.command(examples=["maskedbandits key rotate", "maskedbandits key rotate --keep 1"])
@click.option(
    "--keep",
    type=WholeNumber(0),
    help="Earlier signing keys to accept.  [default: all] Tokens of the others become invalid.",
)
@store_options
@json_option
def rotate(keep: int | None, storage: StoreOptions, json_wanted: bool) -> None:
    """Sign new tokens with a new signing key.

    A running service starts within seconds. Tokens signed with an older key stay valid until they expire, unless --keep
    drops that key.
    """
    from maskedbandits.service.secret import rotate_signing_key

    with open_for_verb(storage, "key") as store:
        number, dropped = rotate_signing_key(store, keep)
    if json_wanted:
        echo_json({"signing_key": number, "dropped": dropped})
        return
    echo(f"New tokens are signed with key number {number}. A running service starts within seconds.")
    if dropped:
        echo(f"Tokens signed with key number {', '.join(map(str, dropped))} are then rejected as forged.")


def current_hour() -> int:
    """Return the time in whole hours, as the store has it."""
    return int(time.time() // HOUR_S)


def format_day(hour: int) -> str:
    """Return an hour as a date."""
    return time.strftime("%Y-%m-%d", time.gmtime(hour * HOUR_S))


def as_document(row: Any) -> dict[str, Any]:
    """Return a key as plain values for JSON, without its secret."""
    hours = {"created_hour": row.created, "revoked_hour": row.revoked}
    return {"name": row.id, "role": row.role, "experiments": row.experiments, **hours}
