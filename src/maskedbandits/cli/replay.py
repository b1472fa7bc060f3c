"""`maskedbandits replay`: fold the log of a service again, and compare it with snapshots and with a live service."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util.safe_text import counted
from maskedbandits.cli.audit import Slow
from maskedbandits.cli.output import echo, echo_json
from maskedbandits.cli.storage import Given, opened, storage
from maskedbandits.cli.verb import Failure, Verb, as_json
from maskedbandits.errors import UserError, nearest

if TYPE_CHECKING:
    from maskedbandits.service.replay import Claim, Replayed

PATIENCE = 10.0  # seconds that a service may take to answer


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits replay --storage sqlite:///bandits.db",
        "maskedbandits replay headlines --storage sqlite:///bandits.db --server http://127.0.0.1:8080",
    ],
)
@click.argument("experiment", required=False)
@storage
@click.option("--server", help="Address of a running service, whose live states are compared as well.")
@click.option("--key", help="A key with the role read, if the service asks for one.", envvar="MASKEDBANDITS_KEY")
@as_json
def replay(experiment: str | None, storage: Given, server: str | None, key: str | None, json_wanted: bool) -> None:
    """Prove that states are what the log says: fold it from its first event on, and compare to the last bit."""
    with opened(storage, "replay") as store:
        rows = chosen(store, experiment)
        found = [played(store, row, server, key) for row in rows]
    if json_wanted:
        echo_json([as_document(row.name, each) for row, each in zip(rows, found, strict=True)])
    else:
        for each in found:
            echo(each if isinstance(each, str) else in_words(each))
        if not found:
            echo("There is no experiment: nothing to replay.")
    if any(isinstance(each, str) for each in found):
        raise Failure("a log is damaged, and its state cannot be proved: restore a backup")
    if not all(isinstance(each, str) or each.holds for each in found):
        raise Failure("a state is not what the log says; the log is the truth: restart the service, and report it")


def chosen(store: Any, name: str | None) -> list[Any]:
    """Return the experiment of a name, or all of them."""
    rows = store.list_experiments()
    if name is None:
        return list(rows)
    known = [row.name for row in rows]
    if name not in known:
        raise UserError(f"no experiment is called {name!r}{nearest(name, known)}")
    return [row for row in rows if row.name == name]


def played(store: Any, row: Any, server: str | None, key: str | None) -> Replayed | str:
    """Replay one experiment, and say how far it has come if that takes long; return why it cannot be, if so."""
    from maskedbandits.service.replay import DamagedError
    from maskedbandits.service.replay import replay as folded

    claims = [] if server is None else [claim_of(server, row.name, key)]
    watch = Slow()
    try:
        return folded(store, row, claims, watch)
    except DamagedError as fault:  # others may be sound
        return str(fault)
    finally:
        watch.end()


def claim_of(server: str, name: str, key: str | None) -> Claim:
    """Ask a service for its live state."""
    from maskedbandits.service.replay import Claim

    if not server.startswith(("http://", "https://")):
        raise UserError(f"--server {server}: give an address such as http://127.0.0.1:8080")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{server.rstrip('/')}/v1/experiments/{name}/state", headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 -- checked above
            told = json.load(answer)
        return Claim(server, int(told["seq"]), str(told["digest"]))
    except urllib.error.HTTPError as error:
        raise UserError(f"--server {server}: it answers {error.code}; give a --key with the role read") from error
    except (OSError, ValueError, KeyError) as error:
        raise Failure(f"--server {server}: no state to be had ({error}); is it the address of a service?") from error


def in_words(found: Replayed) -> str:
    """Return what a replay found, on a line."""
    claims = [f"{claim.source} at {claim.seq} agrees" for claim in found.agreeing]
    claims += [f"{claim.source} at {claim.seq} CONTRADICTS the log" for claim in found.contradicting]
    claims += [f"{claim.source} at {claim.seq} is BEYOND THE END of the log" for claim in found.out_of_reach]
    told = "; ".join(claims) or "nothing to compare with"
    size = f"{counted(found.seq, 'event')}, {counted(found.reports, 'report')}"
    return f"{found.name}: {size}, state {found.digest[:16]}: {told}"


def as_document(name: str, found: Replayed | str) -> dict[str, Any]:
    """Return what a program needs to know of it."""
    if isinstance(found, str):
        return {"experiment": name, "holds": False, "fault": found}
    states = [
        {"source": claim.source, "seq": claim.seq, "digest": claim.digest, "verdict": verdict}
        for verdict, claims in (
            ("agrees", found.agreeing),
            ("contradicts", found.contradicting),
            ("beyond the end", found.out_of_reach),
        )
        for claim in claims
    ]
    about = {"experiment": found.name, "events": found.seq, "reports": found.reports}
    return {**about, "digest": found.digest, "kernel": found.kernel, "holds": found.holds, "states": states}
