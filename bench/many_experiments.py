"""What many experiments cost a service: archived ones at the start, idle and in retention, running ones in latency.

CPU is the processor time of the whole service. Latencies wander on shared machines: each round measures few and many
running experiments one after the other, and the ratio within a round counts.

    python -m bench.many_experiments [--archived N] [--running N] [--rounds N] [--seconds S]
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.load import cpu_seconds, request, send_load
from bench.service import decisions_of, free_port, run_server, service
from maskedbandits.service.clock import Clock
from maskedbandits.service.compaction import HOURS_PER_DAY, Compactor
from maskedbandits.service.config import StoredConfig
from maskedbandits.service.schemas import ExperimentConfig, NewArm
from maskedbandits.service.server.warmup import CodeLoader
from maskedbandits.service.storage import Store, open_store
from maskedbandits.service.storage.models import Change, NewArmRow, NewReport

FEW = 10  # running experiments to compare with
REPORTS = 10  # of each archived experiment
CONNECTIONS = 8
MAX_START_S, MAX_IDLE_SHARE, MAX_RATIO = 2.0, 0.01, 1.5  # the bars
MAX_ROUND_S = 0.2  # of retention, each hour, when nothing is due
HOUR, EXPIRES = 400_000, 25_000_000  # long ago


def fill(folder: Path, running: int, archived: int) -> None:
    """Make the store of a service, with running and archived experiments."""
    folder.mkdir()
    config = ExperimentConfig("any", [NewArm("a"), NewArm("b")], epsilon=1.0, policy="klucb-cf")
    text = StoredConfig.from_request(config).encode()
    with open_store(f"sqlite:///{folder / 'bandits.db'}?durable=no", create=True) as store:
        for number in range(archived):
            row = store.create_experiment(f"archived-{number}", text, [NewArmRow("a"), NewArmRow("b")], 0, HOUR)
            append_reports(store, row.id)
            store.change(row.id, Change("status", HOUR, status="archived"))
        for number in range(running):
            store.create_experiment(f"running-{number}", text, [NewArmRow("a"), NewArmRow("b")], 0, HOUR)


def append_reports(store: Store, experiment: int) -> None:
    """Append some reports."""
    ids = [(experiment * REPORTS + place).to_bytes(11, "big") for place in range(REPORTS)]
    store.append([NewReport(experiment, 0, 1, 1_000_000, 65_536, 0, each, EXPIRES, HOUR) for each in ids])


def measure_archived(folder: Path, archived: int, rounds: int, seconds: float) -> Iterator[str]:
    """Yield what archived experiments add to the start and to an idle service."""
    fill(folder / "none", FEW, 0)
    fill(folder / "archived", FEW, archived)
    starts: dict[str, list[float]] = {"none": [], "archived": []}
    shares: dict[str, list[float]] = {"none": [], "archived": []}
    for _ in range(rounds):
        for name in starts:
            port = free_port()
            with run_server(service(port, folder / name), port, "/readyz") as process:
                starts[name].append(cpu_seconds(process.pid))
                time.sleep(3.0)  # what follows a start
                before, began = cpu_seconds(process.pid), time.perf_counter()
                time.sleep(seconds)
                shares[name].append((cpu_seconds(process.pid) - before) / (time.perf_counter() - began))
    for what, found, unit, bar in (
        ("start", starts, "CPU s", MAX_START_S),
        ("idle", shares, "of a core", MAX_IDLE_SHARE),
    ):
        none, many = (statistics.median(found[name]) for name in ("none", "archived"))
        yield (
            f"{what}: {none:.3f} {unit} without archived experiments, {many:.3f} with {archived:,}; "
            f"difference {many - none:.3f} (bar: at most {bar})"
        )


def measure_retention(folder: Path, rounds: int) -> Iterator[str]:
    """Yield what a round of retention costs with archived experiments whose events are young."""
    loader, now = CodeLoader(), 3600.0 * (HOUR + HOURS_PER_DAY)
    found: dict[str, float] = {}
    for name in ("none", "archived"):
        with open_store(f"sqlite:///{folder / name / 'bandits.db'}?durable=no") as store:
            compactor = Compactor(lambda: store, "bench", Clock(lambda: now), 2, loader)
            spent = []
            for _ in range(rounds):
                before = time.process_time()
                compactor.compact_all(store)
                spent.append(time.process_time() - before)
        found[name] = statistics.median(spent)
    yield (
        f"round of retention: {found['none']:.3f} CPU s without archived experiments, "
        f"{found['archived']:.3f} with them (bar: at most {MAX_ROUND_S})"
    )


def measure_running(folder: Path, running: int, rounds: int, seconds: float) -> Iterator[str]:
    """Yield how the latency of decisions grows with the number of running experiments."""
    ports: dict[int, int] = {}
    with ExitStack() as stack:
        for count in (FEW, running):
            fill(folder / f"running-{count}", count, 0)
            ports[count] = free_port()
            stack.enter_context(run_server(service(ports[count], folder / f"running-{count}"), ports[count], "/readyz"))
        for count in ports:
            measure_latency(ports[count], count, seconds)  # once for nothing: all is warm then
        found = [{count: measure_latency(ports[count], count, seconds) for count in ports} for _ in range(rounds)]
    ratios = [each[running] / each[FEW] for each in found]
    yield (
        f"p99 of a decision: {format_milliseconds([each[FEW] for each in found])} with {FEW} running experiments, "
        f"{format_milliseconds([each[running] for each in found])} with {running:,}, by turns"
    )
    yield (
        f"ratio {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f} (bar: at most {MAX_RATIO}), "
        f"median of {rounds} rounds"
    )


def measure_latency(port: int, running: int, seconds: float) -> float:
    """Return the 99th percentile of the seconds of a decision, for all experiments in turn."""
    requests = itertools.cycle([request(decisions_of(f"running-{number}"), b"{}") for number in range(running)])
    load = send_load(port, requests, CONNECTIONS, seconds)
    if set(load.statuses) != {200}:
        raise SystemExit(f"decisions were refused: {dict(load.statuses)}")
    return load.quantile(0.99)


def format_milliseconds(values: Sequence[float]) -> str:
    """Return seconds as milliseconds."""
    return ", ".join(f"{1e3 * value:.1f}" for value in values) + " ms"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archived", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a measurement")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for line in measure_archived(folder, options.archived, options.rounds, options.seconds):
            print(line, flush=True)
        for line in measure_retention(folder, options.rounds):
            print(line, flush=True)
        for line in measure_running(folder, options.running, options.rounds, options.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
