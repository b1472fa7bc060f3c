"""Kill services and their database at random moments under load, then count everything.

    make crash        # 200 kills with SQLite, 50 with PostgreSQL and two services, 10 of PostgreSQL itself

A third of the kills come while the service starts: while it reads the log, forgets, or writes a snapshot, which it does
at nearly every start. Tokens live for 20 seconds, so ids of decisions are dropped during the test. Acknowledged reports
are sent once more, before that and after.

A failure is any of these: an acknowledged report that is not in the log, is there twice or has another bit; a report in
the log that was never sent; a gap in the numbers; a live state that differs from the log in any bit. A kill does not
test durability, because the operating system still has the written data. tests/service/test_durable_answers.py tests
that an fdatasync precedes every acknowledgement.
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
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))  # where the tests' PostgreSQL is
sys.path.insert(0, str(Path(__file__).parent))

from postgres import Cluster, cluster
from services import Service
from visitors import EPSILON, Visitors

from maskedbandits.service.replay import AGREES, BAD, Claim, replay
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.schema import list_columns

EXPERIMENT = "crash"
ARMS = 5
GROUPS = ("young", "grown", "old")
VISITORS = 8
TOKEN_LIFETIME_S = 20
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

    @property
    def holds(self) -> bool:
        """Tell whether there is no failure."""
        wrong = (self.lost, self.twice, self.changed, self.unknown, self.gaps, self.contradicting, len(self.faults))
        return not any(wrong) and self.in_log >= self.acknowledged > 0 and self.states > 0

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "DOES NOT HOLD"
        parts = [
            f"{self.kills} kills, {self.early} of them while it started; {self.sent:,} reports sent, "
            f"{self.acknowledged:,} acknowledged ({self.duplicates:,} of them at a second try), {self.again:,} sent "
            f"once more, {self.in_log:,} in the log, {self.dropped:,} of them without an id",
            f"{self.lost} lost, {self.twice} counted twice, {self.changed} with another bit, {self.unknown} never "
            f"sent, {self.gaps} gaps, {self.states} live states as the log says, {self.contradicting} not: {verdict}",
        ]
        return "; ".join([*parts, *self.faults[:5]])


def run_under_load(
    services: list[Service], kills: int, kill: Kill, say: Say, groups: Sequence[str] = ()
) -> tuple[Visitors, int]:
    """Run visitors while something is killed several times, at random moments.

    Return the visitors, and the number of kills before a service was ready.
    """
    rng, early = random.Random(), 0
    for service in services:
        service.start()
    arms = [{"name": f"arm {index}"} for index in range(ARMS)]
    about = {"name": EXPERIMENT, "epsilon": EPSILON, "arms": arms, "report_after": 1, "expires_after": TOKEN_LIFETIME_S}
    services[0].ask("/v1/experiments", about | ({"groups": groups} if groups else {}))
    visitors = Visitors([service.port for service in services], EXPERIMENT, VISITORS, len(groups))
    visitors.begin()
    said = time.monotonic()
    try:
        for done in range(kills):
            early += not kill(rng, done % 3 == 1)
            if time.monotonic() - said > 10.0:
                say(f"  {done + 1} of {kills} kills, {len(visitors.acknowledged):,} reports acknowledged")
                said = time.monotonic()
        for service in services:
            service.wait_until_ready()
    finally:
        visitors.end()
    return visitors, early


def count_outcomes(storage: str, services: list[Service], visitors: Visitors, kills: int, early: int) -> CrashResult:
    """Count the outcomes at the end, while the services still run."""
    with open_store(storage) as store:
        row = next(each for each in store.list_experiments() if each.name == EXPERIMENT)
        claims = [read_claim(service, row.seq) for service in services]
        found = replay(store, row, claims)
        events = read_rows(store, "event")
        ids = {each["seq"] for each in read_rows(store, "report_id")}
    reports = [event for event in events if event["kind"] == "report"]
    bits: dict[int, list[int]] = {}
    for event in reports:
        bits.setdefault(event["epsilon"], []).append(event["bit"])
    numbers = sorted(event["seq"] for event in events)
    return CrashResult(
        kills=kills,
        early=early,
        sent=len(visitors.sent),
        acknowledged=len(visitors.acknowledged),
        duplicates=visitors.statuses["duplicate"],
        again=visitors.sent_again.total(),
        in_log=len(reports),
        dropped=sum(event["seq"] not in ids for event in reports),
        lost=sum(mark not in bits for mark in visitors.acknowledged),
        twice=sum(len(each) - 1 for each in bits.values()),
        changed=sum(bit != bits[mark][0] for mark, bit in visitors.acknowledged.items() if mark in bits),
        unknown=sum(mark not in visitors.sent for mark in bits),
        gaps=sum(number != index for index, number in enumerate(numbers, 1)),
        states=len([claim for claim in found.list_claims(AGREES) if claim.source.startswith("port")]),
        contradicting=len(found.list_claims(*BAD)),
        faults=tuple(visitors.faults),
    )


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


def crash_sqlite(kills: int, say: Say, groups: Sequence[str] = ()) -> CrashResult:
    """Kill a service with SQLite."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        service = Service(f"sqlite:///{Path(made) / 'bandits.db'}", Path(made))
        stack.callback(service.kill)
        visitors, early = run_under_load([service], kills, build_service_killer([service]), say, groups)
        return count_outcomes(service.storage, [service], visitors, kills, early)


def crash_postgres(kills: int, say: Say, *, kill_database: bool = False) -> CrashResult:
    """Kill one of two services with PostgreSQL, or PostgreSQL itself."""
    with cluster() as server, tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        storage = server.place()
        services = [Service(storage, Path(made)) for _ in range(2)]
        for service in services:
            stack.callback(service.kill)
        killing = build_database_killer(server, services) if kill_database else build_service_killer(services)
        visitors, early = run_under_load(services, kills, killing, say)
        return count_outcomes(storage, services, visitors, kills, early)


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
    options = parser.parse_args()
    found = []
    for name, kills, run in (
        ("SQLite, one service", options.sqlite, crash_sqlite),
        ("SQLite, private groups", options.groups, lambda k, s: crash_sqlite(k, s, GROUPS)),
        ("PostgreSQL, two services, one killed", options.postgres, crash_postgres),
        ("PostgreSQL killed, two services", options.database, lambda k, s: crash_postgres(k, s, kill_database=True)),
    ):
        if kills:
            print(f"{name}: {kills} kills ...", flush=True)  # noqa: T201
            found.append(run(kills, lambda line: print(line, flush=True)))  # noqa: T201
            print(f"{name}: {found[-1]}", flush=True)  # noqa: T201
    sys.exit(not all(each.holds for each in found))


if __name__ == "__main__":
    main()
