"""Kill services and their database at random moments under load, then count everything.

    make crash        # 200 kills with SQLite, 30 with private groups, 50 with PostgreSQL and two services,
                      # 10 of PostgreSQL itself, and 30 with each database while old events are removed

A third of the kills come while the service starts: while it reads the log, forgets, or writes a snapshot, which it does
at nearly every start. An hour of the services takes 20 seconds and tokens live for ten, so ids of decisions are dropped
during the test. Acknowledged reports are sent once more, before that and after.

With retention, processes remove old events all the time, and are killed as well (``removal.py``). Each event is copied
before it may be removed. What is called the log below are then all events that were copied.

A failure is any of these: an acknowledged report that is not in the log, is there twice or has another bit; a report in
the log that was never sent; a gap in the numbers; a live state that differs in any bit from a replay, which begins with
the oldest snapshot if events were removed; a replay that differs from the log; a running hash, at the end or where the
log was cut, that differs from that of the log; an event that was removed although its id was not, or that differs from
its copy; a service that sets the experiment aside; a process that cannot remove events; no removal at all.

A kill does not test durability, because the operating system still has the written data.
tests/service/test_durable_answers.py tests that an fdatasync precedes every acknowledgement.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "service"))  # where the tests' PostgreSQL is
sys.path.insert(0, str(Path(__file__).parent))

from postgres import Cluster, cluster
from removal import LogCopy, Removal, find_experiment
from services import Service, WorldClock
from visitors import EPSILON, Visitors

from maskedbandits.service.replay import AGREES, BAD, Claim, ReplayResult, replay
from maskedbandits.service.state import ExperimentState
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.models import EventRow, ExperimentRow
from maskedbandits.service.storage.retention import LOG_HASH
from maskedbandits.service.storage.schema import list_columns
from naive.log_hash import running_hash

EXPERIMENT = "crash"
ARMS = 5
GROUPS = ("young", "grown", "old")
VISITORS = 8
HOUR_S = 20  # real seconds of an hour of the services
TOKEN_LIFETIME_S = 1800  # in their time
NO_REMOVAL_S = 180.0  # real seconds without any removal, after which the test ends
Say = Callable[[str], None]
Kill = Callable[[random.Random, bool], bool]  # early or not; tells whether it was ready


@dataclass(frozen=True)
class CrashResult:
    """The counts at the end of a crash test."""

    kills: int
    early: int  # of them, before the service was ready
    sent: int
    acknowledged: int
    duplicates: int  # reports that had been written before their service was killed
    again: int  # acknowledged, and sent once more
    in_log: int
    dropped: int  # of them, without the id of their decision
    lost: int  # acknowledged, and not in the log
    twice: int
    changed: int  # in the log with another bit
    unknown: int  # in the log, and never sent
    gaps: int
    states: int  # live states that match the log
    contradicting: int
    faults: tuple[str, ...]
    removed: int | None = None  # events of the log; None: there was no retention
    removals_killed: int = 0  # processes that removed events
    interrupted: int = 0  # of them, in the midst of a removal

    @property
    def holds(self) -> bool:
        """Tell whether there is no failure."""
        wrong = (self.lost, self.twice, self.changed, self.unknown, self.gaps, self.contradicting, len(self.faults))
        return not any(wrong) and self.in_log >= self.acknowledged > 0 and self.states > 0 and self.removed != 0

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        parts = [
            f"{self.kills} kills, {self.early} of them while it started; {self.sent:,} reports sent, "
            f"{self.acknowledged:,} acknowledged ({self.duplicates:,} of them at a second try), {self.again:,} sent "
            f"once more, {self.in_log:,} in the log, {self.dropped:,} of them without an id",
            f"{self.lost} lost, {self.twice} counted twice, {self.changed} with another bit, {self.unknown} never "
            f"sent, {self.gaps} gaps, {self.states} live states as the log says, {self.contradicting} not: {verdict}",
        ]
        if self.removed is not None:
            parts.insert(
                1,
                f"{self.removed:,} events removed, by processes of which {self.removals_killed} were killed, "
                f"{self.interrupted} of them in the midst of a removal",
            )
        return "; ".join([*parts, *self.faults[:5]])


@dataclass
class Trial:
    """The services under trial, their world and their load."""

    services: list[Service]
    clock: WorldClock
    groups: Sequence[str] = ()
    removal: Removal | None = None
    kills: int = 0
    early: int = 0  # of them, before the service was ready

    def run(self, kills: int, kill: Kill, say: Say) -> Visitors:
        """Run visitors while something is killed several times at random moments, and until an event was removed."""
        visitors = self._begin()
        rng, began = random.Random(), time.monotonic()
        said = began
        try:
            while self.kills < kills or self._awaits_removal(began):
                self.early += not kill(rng, self.kills % 3 == 1)
                self.kills += 1
                if time.monotonic() - said > 10.0:
                    say(f"  {self.kills} of {kills} kills, {len(visitors.acknowledged):,} reports acknowledged")
                    said = time.monotonic()
            for service in self.services:
                service.wait_until_ready()
        finally:
            if self.removal is not None:
                self.removal.end()
            visitors.end()
        return visitors

    def _begin(self) -> Visitors:
        for service in self.services:
            service.start()
        arms = [{"name": f"arm {index}"} for index in range(ARMS)]
        about = {"name": EXPERIMENT, "epsilon": EPSILON, "arms": arms, "groups": self.groups}
        about |= {"report_after": 1, "expires_after": TOKEN_LIFETIME_S}
        self.services[0].ask("/v1/experiments", {name: value for name, value in about.items() if value})
        ports = [service.port for service in self.services]
        visitors = Visitors(ports, EXPERIMENT, VISITORS, self.clock.now, len(self.groups))
        visitors.begin()
        if self.removal is not None:
            self.removal.begin()
        return visitors

    def _awaits_removal(self, began: float) -> bool:
        is_late = time.monotonic() > began + NO_REMOVAL_S
        return self.removal is not None and not (self.removal.removed or self.removal.faults or is_late)


def count_outcomes(storage: str, trial: Trial, visitors: Visitors) -> CrashResult:
    """Count the outcomes at the end, while the services still run."""
    removal, copy = trial.removal, trial.removal.copy if trial.removal is not None else LogCopy()
    with open_store(storage) as store:
        row = find_experiment(store)
        claims = [read_claim(service, row.seq) for service in trial.services]
        found = replay(store, row, claims)
        copy.read_on(store, row.id)
        ids = {each["seq"] for each in read_rows(store, "report_id")}
        faults = [*visitors.faults, *list_faults_of_log(store, row, copy.events, ids, found)]
    faults += [
        f"a service set the experiment aside: {line}" for each in trial.services for line in each.list_set_aside()
    ]
    reports = [event for event in copy.events if event.kind == "report"]
    bits: dict[int, list[int]] = {}
    for event in reports:
        bits.setdefault(event.epsilon or 0, []).append(-1 if event.bit is None else event.bit)
    return CrashResult(
        kills=trial.kills,
        early=trial.early,
        sent=len(visitors.sent),
        acknowledged=len(visitors.acknowledged),
        duplicates=visitors.statuses["duplicate"],
        again=visitors.sent_again.total(),
        in_log=len(reports),
        dropped=sum(event.seq not in ids for event in reports),
        lost=sum(mark not in bits for mark in visitors.acknowledged),
        twice=sum(len(each) - 1 for each in bits.values()),
        changed=sum(bit != bits[mark][0] for mark, bit in visitors.acknowledged.items() if mark in bits),
        unknown=sum(mark not in visitors.sent for mark in bits),
        gaps=sum(event.seq != index for index, event in enumerate(copy.events, 1)),
        states=len([claim for claim in found.list_claims(AGREES) if claim.source.startswith("port")]),
        contradicting=len(found.list_claims(*BAD)),
        faults=(*faults, *(removal.faults if removal is not None else ())),
        removed=row.first_seq - 1 if removal is not None else None,
        removals_killed=removal.killed if removal is not None else 0,
        interrupted=removal.interrupted if removal is not None else 0,
    )


def list_faults_of_log(
    store: Store, row: ExperimentRow, copies: list[EventRow], ids: set[int], found: ReplayResult
) -> list[str]:
    """Return how the log that is left, or what was proved from it, differs from the copies of all its events."""
    left = LogCopy()
    left.read_on(store, row.id)
    state = ExperimentState()
    state.apply_events(copies)
    hashes = {row.seq: found.log_hash} | dict(store.list_snapshots(row.id, LOG_HASH))
    faults = {
        "the events that are left differ from their copies": left.events != copies[row.first_seq - 1 :],
        "an event was removed and its id was not": any(seq < row.first_seq for seq in ids),
        "the state is not that of all events": (found.seq, found.digest) != state.compute_digest(),
    }
    wrong = [seq for seq, value in hashes.items() if value != running_hash(copies[:seq])]
    return [
        *(what for what, is_true in faults.items() if is_true),
        *(f"the hash of the log up to event {seq} is not that of its events" for seq in sorted(wrong)),
    ]


def read_rows(store: Store, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table."""
    with store.dump() as tables:
        rows = [row for name, some in tables if name == table for row in some]
    return [dict(zip(list_columns(table), row, strict=True)) for row in rows]


def read_claim(service: Service, seq: int) -> Claim:
    """Return the live state of a service once it has read the whole log."""
    for _ in range(200):
        state = service.ask(f"/v1/experiments/{EXPERIMENT}/state")
        if state["seq"] >= seq:
            return Claim(f"port {service.port}", state["seq"], state["digest"])
        time.sleep(0.05)
    raise AssertionError(f"the service on port {service.port} does not follow the log")


def crash_sqlite(kills: int, say: Say, groups: Sequence[str] = (), *, retention: bool = False) -> CrashResult:
    """Kill a service with SQLite."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        clock = WorldClock(time.time(), 3600 / HOUR_S)
        service = Service(f"sqlite:///{Path(made) / 'bandits.db'}", Path(made), clock)
        stack.callback(service.kill)
        trial = Trial([service], clock, groups, Removal(service.storage, clock) if retention else None)
        visitors = trial.run(kills, build_service_killer([service]), say)
        return count_outcomes(service.storage, trial, visitors)


def crash_postgres(kills: int, say: Say, *, kill_database: bool = False, retention: bool = False) -> CrashResult:
    """Kill one of two services with PostgreSQL, or PostgreSQL itself."""
    with cluster() as server, tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        storage, clock = server.place(), WorldClock(time.time(), 3600 / HOUR_S)
        services = [Service(storage, Path(made), clock) for _ in range(2)]
        for service in services:
            stack.callback(service.kill)
        killing = build_database_killer(server, services) if kill_database else build_service_killer(services)
        trial = Trial(services, clock, removal=Removal(storage, clock) if retention else None)
        visitors = trial.run(kills, killing, say)
        return count_outcomes(storage, trial, visitors)


def build_service_killer(services: list[Service]) -> Kill:
    """Return a function that kills and restarts a service; an early kill hits the one just started."""
    newest = services[0]

    def kill(rng: random.Random, early: bool) -> bool:
        nonlocal newest
        if early:
            time.sleep(rng.uniform(0.0, 1.1 * newest.took))
        else:
            newest = rng.choice(services)
            newest.wait_until_ready()
            time.sleep(rng.uniform(0.0, 0.6))
        was_ready = not early or newest.is_ready()
        newest.kill()
        newest.launch()
        return was_ready

    return kill


def build_database_killer(server: Cluster, services: list[Service]) -> Kill:
    """Return a function that kills and restarts PostgreSQL; the services reconnect on their own."""

    def kill(rng: random.Random, early: bool) -> bool:
        time.sleep(rng.uniform(0.0, 0.6))
        server.kill()
        time.sleep(rng.uniform(0.0, 2.0))
        server.start()
        until = time.monotonic() + 60.0
        while not all(service.is_ready() for service in services):
            if time.monotonic() > until:
                raise AssertionError("a service does not find PostgreSQL again")
            time.sleep(0.05)
        return True

    return kill


def main() -> None:
    """Run the crash tests and print their results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sqlite", type=int, default=200, help="kills of a service with SQLite")
    parser.add_argument("--groups", type=int, default=30, help="kills of the same where people are of private groups")
    parser.add_argument("--postgres", type=int, default=50, help="kills of one of two services with PostgreSQL")
    parser.add_argument("--database", type=int, default=10, help="kills of PostgreSQL itself")
    parser.add_argument(
        "--retention", type=int, default=30, help="kills while old events are removed, with each database"
    )
    options = parser.parse_args()
    found = []
    for name, kills, run in (
        ("SQLite, one service", options.sqlite, crash_sqlite),
        ("SQLite, private groups", options.groups, partial(crash_sqlite, groups=GROUPS)),
        ("PostgreSQL, two services, one killed", options.postgres, crash_postgres),
        ("PostgreSQL killed, two services", options.database, partial(crash_postgres, kill_database=True)),
        ("SQLite with retention", options.retention, partial(crash_sqlite, retention=True)),
        (
            "PostgreSQL with retention, one of two services killed",
            options.retention,
            partial(crash_postgres, retention=True),
        ),
    ):
        if kills:
            print(f"{name}: {kills} kills ...", flush=True)  # noqa: T201
            found.append(run(kills, lambda line: print(line, flush=True)))  # noqa: T201
            print(f"{name}: {found[-1]}", flush=True)  # noqa: T201
    sys.exit(not all(each.holds for each in found))


if __name__ == "__main__":
    main()
