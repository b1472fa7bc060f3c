"""`maskedbandits replay`: replay the log of a service, and compare it with snapshots and with a live service."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maskedbandits._util.safe_text import format_count
from maskedbandits.cli.output import SlowProgress, echo, echo_json
from maskedbandits.cli.storage import StoreOptions, find_experiments, open_for_verb, store_options
from maskedbandits.cli.verb import Failure, Verb, json_option
from maskedbandits.errors import UserError

if TYPE_CHECKING:
    from maskedbandits.service.replay import Claim, ReplayResult

SERVER_TIMEOUT_S = 10.0


@click.command(
    cls=Verb,
    examples=[
        "maskedbandits replay --storage sqlite:///bandits.db",
        "maskedbandits replay headlines --storage sqlite:///bandits.db --server http://127.0.0.1:8080",
        "maskedbandits replay headlines --export headlines.csv",
    ],
)
@click.argument("experiment", required=False)
@store_options
@click.option("--server", help="Address of a running service, to compare its live states.")
@click.option("--key", help="A key with the role read, if the service requires keys.", envvar="MASKEDBANDITS_KEY")
@click.option("--export", type=click.Path(path_type=Path), help="Check this file, an earlier export of the EXPERIMENT.")
@json_option
def replay(
    experiment: str | None,
    storage: StoreOptions,
    server: str | None,
    key: str | None,
    export: Path | None,
    json_wanted: bool,
) -> None:
    """Recompute states from the log and compare them bit by bit.

    Replays the log of each experiment from its first event, or from the snapshot that covers events which were removed.
    Compares the result with stored snapshots and, with --server, with a running service. With --export, only checks
    that a file is an honest copy of the log, also of events that were removed since.
    """
    if export is not None:
        check_file(storage, experiment, export, json_wanted)
        return
    with open_for_verb(storage, "replay") as store:
        rows = find_experiments(store, experiment)
        results = [replay_one(store, row, server, key) for row in rows]
    if json_wanted:
        echo_json([as_document(row.name, result) for row, result in zip(rows, results, strict=True)])
    else:
        for result in results:
            echo(result if isinstance(result, str) else format_result(result))
        if not results:
            echo("No experiments: nothing to replay.")
    if any(isinstance(result, str) for result in results):
        raise Failure("a log is damaged, so its state cannot be verified: restore a backup")
    if not all(isinstance(result, str) or result.holds for result in results):
        raise Failure("a state contradicts its log: restart the service, which trusts the log, and report the fault")


def check_file(storage: StoreOptions, experiment: str | None, file: Path, json_wanted: bool) -> None:
    """Check an exported file against the log."""
    if experiment is None:
        raise UserError("--export requires the EXPERIMENT that the file is from")
    with open_for_verb(storage, "replay") as store:
        from maskedbandits.service.evaluation.export_check import check_export

        (row,) = find_experiments(store, experiment)
        try:
            found = check_export(store, row, file)
        except UserError as refusal:
            raise Failure(str(refusal)) from refusal
    if json_wanted:
        echo_json({"file": str(file), "experiment": row.name, **found._asdict()})
        return
    rest = ", and later ones are not known any more: export more often" if found.confirmed < found.last else ""
    echo(f"{file}: events {found.first:,} to {found.confirmed:,} are those of the log of {row.name}{rest}.")


def replay_one(store: Any, row: Any, server: str | None, key: str | None) -> ReplayResult | str:
    """Replay one experiment; return the fault of a damaged log as text."""
    from maskedbandits.service.recovery import DamagedError
    from maskedbandits.service.replay import replay as replay_log

    claims = [] if server is None else [fetch_claim(server, row.name, key)]
    progress = SlowProgress()
    try:
        return replay_log(store, row, claims, progress)
    except DamagedError as error:  # other experiments may be sound
        return str(error)
    finally:
        progress.end()


def fetch_claim(server: str, name: str, key: str | None) -> Claim:
    """Return the live state that a service claims."""
    from maskedbandits.service.replay import Claim

    if not server.startswith(("http://", "https://")):
        raise UserError(f"--server {server}: give an address such as http://127.0.0.1:8080")
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{server.rstrip('/')}/v1/experiments/{name}/state", headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=SERVER_TIMEOUT_S) as answer:  # noqa: S310 -- checked above
            state = json.load(answer)
        return Claim(server, int(state["seq"]), str(state["digest"]), str(state["kernel"]))
    except urllib.error.HTTPError as error:
        raise UserError(f"--server {server}: it answers {error.code}; give a --key with the role read") from error
    except (OSError, ValueError, KeyError) as error:
        raise Failure(f"--server {server}: no state received ({error}): check the address of the service") from error


def format_result(result: ReplayResult) -> str:
    """Return the result of a replay in one line."""
    texts = {
        "agrees": "agrees",
        "rounded otherwise": "agrees up to rounding on another machine or release",
        "other machine": "is of another machine or release, and cannot be compared",
        "early release": "is of an early release, which nothing reads any more",
        "contradicts": "CONTRADICTS the log",
        "beyond the end": "is BEYOND THE END of the log",
    }
    claims = [f"{each.claim.source} at {each.claim.seq} {texts[each.verdict]}" for each in result.verdicts]
    verdicts = "; ".join(claims) or "nothing to compare with"
    size = f"{format_count(result.seq, 'event')}, {format_count(result.reports, 'report')}"
    start = f", from the snapshot at event {result.start:,} (earlier events were removed)" if result.start else ""
    return f"{result.name}: {size}{start}, state {result.digest[:16]}: {verdicts}"


def as_document(name: str, result: ReplayResult | str) -> dict[str, Any]:
    """Return the result of a replay as plain values for JSON."""
    if isinstance(result, str):
        return {"experiment": name, "holds": False, "fault": result}
    states = [
        {"source": each.claim.source, "seq": each.claim.seq, "digest": each.claim.digest, "verdict": each.verdict}
        for each in result.verdicts
    ]
    about = {"experiment": result.name, "start": result.start, "events": result.seq, "reports": result.reports}
    about |= {"digest": result.digest, "hash": result.log_hash, "kernel": result.kernel}
    return {**about, "holds": result.holds, "states": states}
