"""Bytes of a store for each report that is kept, under churn.

A step is six hours. It appends reports, forgets ids that have expired, and deletes the oldest events once those of 30
days are there. Ids live for a day, which is the default. PostgreSQL runs with its ordinary autovacuum. Only its clock
is faster: it looks for work every second instead of every minute, and a step waits until it has found its work. Sizes
are those of all tables with indexes and TOAST, and of the SQLite file after a checkpoint.

    python -m bench.store_size [--days N] [--reports N] [--json]        # some minutes
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.models import DECISION_ID_BYTES, NewArmRow, NewReport
from maskedbandits.service.storage.schema import REUSE_SHARE

STEPS = 4  # of a day
KEPT = 30  # days of events
BATCH = 500  # reports in a transaction
BAR = 130  # bytes a report
LONGEST_S = 60.0  # for autovacuum
STEP = 24 * 60 // STEPS  # minutes

Statement = Callable[[str], object]


class Opened(NamedTuple):
    """An empty store, its size now, and a way around its interface."""

    store: Store
    measure: Callable[[], int]
    execute: Statement
    wait: Callable[[], None] = lambda: None  # until room is used again


def churn(opened: Opened, days: int, reports: int) -> list[tuple[int, int, float]]:
    """Append, forget and delete; return days, reports and bytes a kept report at some moments."""
    store = opened.store
    store.create_experiment("headline", '{"epsilon": 1}', [NewArmRow("short"), NewArmRow("long")], 0, 0)
    sizes = []
    for step in range(1, days * STEPS + 1):
        for start in range(0, reports, BATCH):
            store.append([_draw_report(step) for _ in range(min(BATCH, reports - start))])
        store.forget(STEP * step)
        if step > KEPT * STEPS:
            opened.execute(f"DELETE FROM event WHERE seq <= {1 + (step - KEPT * STEPS) * reports}")  # noqa: S608 - a number
        opened.wait()
        if step % (KEPT * STEPS) == 0:
            sizes.append((step // STEPS, KEPT * STEPS * reports, opened.measure() / (KEPT * STEPS * reports)))
    return sizes


def _draw_report(step: int) -> NewReport:
    expires, hour = STEP * (step + STEPS), STEP * step // 60
    return NewReport(1, 1, 1, 1_000_000, 60_000, 0, os.urandom(DECISION_ID_BYTES), expires, hour, 1)


@contextmanager
def open_sqlite() -> Iterator[Opened]:
    """Open an empty store in a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"

        def measure() -> int:
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return path.stat().st_size

        def execute(statement: str) -> None:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(statement)

        with open_store(f"sqlite:///{path}?durable=no", create=True) as store:
            yield Opened(store, measure, execute)


@contextmanager
def open_postgres() -> Iterator[Opened]:
    """Open an empty store in a server of its own."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "service"))
    from postgres import cluster

    with cluster(fsync="off", autovacuum_naptime="1s", max_wal_size="256MB") as server:

        def measure() -> int:
            return int(server.execute(_TOTAL)[0][0])

        def wait() -> None:
            until = time.monotonic() + LONGEST_S
            while server.execute(_WORK) and time.monotonic() < until:
                time.sleep(0.1)

        with open_store(f"{server.url()}&durable=no", create=True) as store:
            yield Opened(store, measure, server.execute, wait)


_TOTAL = (
    "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = 'public' AND c.relkind = 'r'"
)
_WORK = (  # tables that autovacuum is about to clean, by their settings
    "SELECT 1 FROM pg_stat_user_tables AS s JOIN pg_class AS c ON c.oid = s.relid "  # noqa: S608 - our own number
    f"WHERE s.relname IN ('event', 'report_id') AND s.n_dead_tup > 50 + {REUSE_SHARE} * greatest(c.reltuples, 0)"
)
STORES = {"SQLite": open_sqlite, "PostgreSQL": open_postgres}


def main() -> None:
    """Print the bytes a report of both stores."""
    parser = argparse.ArgumentParser(description="Measure the bytes of a store for each report in its log.")
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--reports", type=int, default=5_000, help="in six hours")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {}
    for name, open_empty in STORES.items():
        with open_empty() as opened:
            found[name] = churn(opened, options.days, options.reports)
    if options.json:
        print(json.dumps({"bar": BAR, "kept_days": KEPT, "sizes": found}))
        return
    print(f"Bytes a kept report; {STEPS * options.reports:,} reports a day, {KEPT} days are kept; bar: {BAR}")
    for name, sizes in found.items():
        for day, kept, size in sizes:
            print(f"{name:<10}  day {day:>3}  {kept:>9,} reports  {size:6.1f} bytes a report")


if __name__ == "__main__":
    main()
