"""The cost of a long past: starts, refolds and retention, in CPU seconds of the process that does the work.

    python -m bench.lifecycle                     ten million past events, of which the last million is kept
    python -m bench.lifecycle --past 2000000 --postgres    another size, also in a PostgreSQL of its own

A start is measured in a new process, with its imports and the loading of machine code. "After an upgrade" no snapshot
is left but the one from which the log begins, so all events that are kept are folded again. Bars: a start takes at most
5 CPU s, and a refold at most 1 us an event.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from maskedbandits.service.compaction import compact
from maskedbandits.service.recovery import SNAPSHOT_KERNEL, load_newest, load_oldest, read_all
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.models import ExperimentRow, NewArmRow
from maskedbandits.service.storage.retention import PERMANENT

HOUR = 490_000  # of the first event that is kept
EVENTS_AN_HOUR = 20_000
ROWS_AT_ONCE = 20_000
OTHERS = ("bench.many_experiments", "bench.store_size")  # further measurements of a service that runs for years
START_BAR_S, REFOLD_BAR_US = 5.0, 1.0
CONFIG = {"epsilon": 1.0, "policy": "auto", "parameters": {}, "floor": 0.05, "holdout": 0.0}
TIMES = {"report_after": 60, "expires_after": 3600}
START = """
import sys
from maskedbandits.service.recovery import load_newest, read_all
from maskedbandits.service.storage import open_store
import time
with open_store(sys.argv[1]) as store:
    (row,) = store.list_experiments()
    state = load_newest(store, row)
    begin = state.seq
    for events in read_all(store, row, state.seq, row.seq):
        state.apply_columns(events)
    state.policy.choose()
print(row.seq - begin, time.process_time())
"""


def fill(store: Store, past: int, kept: int) -> None:
    """Create an experiment with so many events, the last of which came after an hour."""
    arms = [NewArmRow(f"arm {place}") for place in range(5)]
    row = store.create_experiment("long", json.dumps({**CONFIG, **TIMES}), arms, 0, HOUR - past // EVENTS_AN_HOUR - 1)
    columns = [name for name in PERMANENT if name not in ("detail", "question")]
    names = ["experiment", *columns]
    with store._begin_write() as tx:
        statement = f"INSERT INTO event ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - our own names
        for rows in draw_rows(past, kept, columns):
            tx.execute_many(statement, rows)
        tx.execute("UPDATE experiment SET seq = ? WHERE id = ?", (past, row.id))


def draw_rows(past: int, kept: int, columns: list[str]) -> Iterator[list[tuple[object, ...]]]:
    """Yield rows of reports, some at a time; those before the last ``kept`` came before the hour."""
    rng, rows = np.random.default_rng(1), []
    arms, bits = rng.integers(5, size=997), rng.integers(2, size=991)
    for seq in range(2, past + 1):
        report = {"seq": seq, "kind": "report", "arm": int(arms[seq % 997]), "bit": int(bits[seq % 991])}
        report |= {"epsilon": 1_000_000, "probability": 13_107, "flags": 0, "config": 1}
        report["hour"] = HOUR + (seq - (past - kept) - 1) // EVENTS_AN_HOUR
        rows.append((1, *(report[name] for name in columns)))
        if len(rows) == ROWS_AT_ONCE or seq == past:
            yield rows
            rows = []


def measure_start(url: str) -> tuple[int, float]:
    """Return how many events a new process folds until it can decide, and its CPU seconds."""
    done = subprocess.run([sys.executable, "-c", START, url], check=True, capture_output=True, text=True)
    events, seconds = done.stdout.split()
    return int(events), float(seconds)


def measure_refold(store: Store, row: ExperimentRow) -> float:
    """Return the CPU microseconds of reading and folding an event, with the hash of the log."""
    state = load_oldest(store, row)
    begin, since = state.seq, time.process_time()
    for events in read_all(store, row, state.seq, row.seq):
        state.apply_columns(events)
    return (time.process_time() - since) / (state.seq - begin) * 1e6


def save_newest(store: Store, row: ExperimentRow) -> None:
    """Store a snapshot at the end of the log, as a service does when it stops."""
    state = load_newest(store, row)
    for events in read_all(store, row, state.seq, row.seq):
        state.apply_columns(events)
    seq, body, digest = state.snapshot()
    store.save_snapshot(row.id, seq, SNAPSHOT_KERNEL, body, digest)


def measure(url: str, past: int, kept: int) -> None:
    """Print all figures of one store."""
    with open_store(url, create=True) as store:
        fill(store, past, kept)
        (row,) = store.list_experiments()
        since = time.process_time()
        removed = compact(store, row, HOUR).removed
        cost = (time.process_time() - since) / max(1, removed) * 1e6
        (row,) = store.list_experiments()
        name = url.partition(":")[0]
        print(f"{name}: {past:,} past events; retention removed {removed:,} in {cost:.2f} CPU us each")
        print(f"{name}: refold {measure_refold(store, row):.2f} CPU us an event (bar {REFOLD_BAR_US})")
        report_start(name, "after an upgrade", url)
        save_newest(store, row)
        report_start(name, "as usual", url)


def report_start(name: str, case: str, url: str) -> None:
    """Print the cost of a start."""
    events, seconds = measure_start(url)
    print(f"{name}: start {case} {seconds:.2f} CPU s with {events:,} events to fold (bar {START_BAR_S})")


def run_others() -> None:
    """Run the other measurements of long-lived services."""
    for name in OTHERS:
        if importlib.util.find_spec(name) is not None:
            print(f"\n{name}")
            subprocess.run([sys.executable, "-m", name], check=True)


def main(arguments: list[str] | None = None) -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--past", type=int, default=10_000_000, help="events before the start")
    parser.add_argument("--kept", type=int, default=1_000_000, help="of these, events that retention keeps")
    parser.add_argument("--postgres", action="store_true", help="measure PostgreSQL as well")
    parser.add_argument("--alone", action="store_true", help="leave out the measurements of other modules")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        measure(f"sqlite:///{Path(folder) / 'bandits.db'}?durable=no", given.past, given.kept)
    if given.postgres:
        sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "service"))
        from postgres import cluster

        with cluster(fsync="off") as server:
            measure(f"{server.url()}&durable=no", given.past, given.kept)
    if not given.alone:
        run_others()


if __name__ == "__main__":
    main()
