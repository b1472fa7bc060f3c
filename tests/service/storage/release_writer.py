"""A process of any release that writes to a store: `python release_writer.py URL COMMAND NUMBER`.

It uses what the storage of all releases since version 3 has, and prints one line of JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path

from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.backup import backup, restore
from maskedbandits.service.storage.models import NewArmRow, NewReport

BATCH, STEP, EXPIRES, HOUR = 20, 7, 30_000_000, 480_000
PAUSE_S = 0.005  # between two batches, for the others


def create(store: Store, _: int) -> int:
    config = '{"epsilon": 1, "policy": "klucb-cf", "parameters": {}}'
    return store.create_experiment("headline", config, [NewArmRow("a"), NewArmRow("b")], 0, HOUR).id


def report(decision: int) -> NewReport:
    """Return a report, whose epsilon names its decision."""
    return NewReport(1, decision % 2, 1, decision, 60_000, 0, decision.to_bytes(11, "big"), EXPIRES, HOUR, 1)


def write(store: Store, last: int) -> dict[int, int]:
    """Append reports of decisions in overlapping batches, in any order; return the numbers of those accepted."""
    accepted: dict[int, int] = {}
    starts = [*range(1, last, STEP)]
    random.shuffle(starts)
    wait_for("STARTED")
    for start in starts:
        wanted = range(start, min(last, start + BATCH))
        for decision, answer in zip(wanted, store.append([report(each) for each in wanted]), strict=True):
            if answer > 0:
                assert decision not in accepted
                accepted[decision] = answer
        store.read_events(1, max(accepted.values(), default=0), 100)
        if start % 5 == 0:
            store.forget(start)  # nothing has expired yet
        time.sleep(PAUSE_S)
    return accepted


def try_to_write(store: Store, decision: int) -> str:
    """Wait until the store is upgraded, and return the error of an append."""
    wait_for("UPGRADED")
    try:
        return str(store.append([report(decision)]))
    except Exception as error:  # which error depends on the database
        return f"{type(error).__name__}: {error}"


def wait_for(signal: str) -> None:
    """Wait until a file exists."""
    say("ready")
    while not Path(os.environ[signal]).exists():
        time.sleep(PAUSE_S)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def digest(store: Store, last: int) -> str:
    """Return a digest of the first events of the log and of the pending reports, as this release reads them."""
    events = [event[:7] + event[8:] for event in store.read_events(1, 0, last)]
    return hashlib.sha256(repr((events, sorted(store.count_reports(1, 0, last)))).encode()).hexdigest()


def fold(store: Store, _: int) -> list[object]:
    """Return the events that a state has applied, its arms, and their payloads as devices receive them."""
    state = ExperimentState()
    state.apply_events(store.read_events(1, 0, 1_000))
    return [state.seq, state.policy.arms, [arm.payload for arm in store.list_arms(1)]]


def back_up(store: Store, _: int) -> list[int]:
    return list(backup(store, Path(os.environ["BACKUP"])))


COMMANDS = {
    "create": create,
    "write": write,
    "try": try_to_write,
    "digest": digest,
    "fold": fold,
    "backup": back_up,
}

if __name__ == "__main__":
    url, command, number = sys.argv[1:]
    if command == "restore":
        say(json.dumps(restore(Path(os.environ["BACKUP"]), url)))
    else:
        with open_store(url, create=command == "create") as opened:
            say(json.dumps(COMMANDS[command](opened, int(number))))
