"""How fast the service is, as ratios to a trivial Starlette endpoint on the same server in the same run.

Times on shared machines wander, so every round measures everything once, one after the other; a ratio is formed within
a round, and the median over the rounds is printed with its range. Beside it stands the ratio of what a second of the
servers' own processor time answers, which wanders less. Load comes from this machine alone.

    make bench-service               # or: python -m bench.service [--rounds N] [--memory REPORTS]
    python -m bench.service --only starts      # seconds and processor seconds to /readyz
    python -m bench.service --only writers     # two processes on one SQLite file
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.load import HOST, cpu_seconds, request, resident_bytes, send_load

SECONDS = 3.0  # of a measurement
CONNECTIONS = 64
PATIENCE = 180.0  # seconds for a server to be there
MANY = 10_000  # arms
BATCH = 20  # reports at once
RATE = 1_000  # requests a second at which latencies are compared
TRIES = 7  # at latencies, by turns: each by itself wanders
TRIVIAL = "trivial"

GOALS = {
    "decisions, auto, K = 10": 0.6,
    "decisions, klucb-cf, K = 10": 0.6,
    f"decisions, klucb-cf, K = {MANY}": 0.5,
    f"reports, one by one, {CONNECTIONS} connections": 0.25,
    f"reports, in batches of {BATCH}": 1.0,
}


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


@contextmanager
def run_server(command: Sequence[str], port: int, path: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the end of the block; it is there when a path answers."""
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, path, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(port: int, path: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a path answers, or the server has ended."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if answers(f"http://{HOST}:{port}{path}"):
            return
        time.sleep(0.02)
    raise SystemExit(f"the server on port {port} did not begin: {process.args!r}")


def answers(address: str) -> bool:
    """Tell whether a server is there, and does not ask for patience."""
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310 -- this machine
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


def trivial(port: int) -> list[str]:
    """Return the command of the trivial server."""
    options = ["--port", str(port), "--log-level", "error", "--loop", "uvloop", "--http", "httptools"]
    return [sys.executable, "-m", "uvicorn", "bench.trivial:app", *options, "--no-access-log"]


def service(port: int, folder: Path) -> list[str]:
    """Return the command of the service."""
    storage = f"sqlite:///{folder / 'bandits.db'}"
    return [sys.executable, "-m", "maskedbandits", "serve", "--port", str(port), "--storage", storage]


def request_json(port: int, path: str, body: Any) -> Any:
    """Ask the service something, and return the answer."""
    sent = urllib.request.Request(
        f"http://{HOST}:{port}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(sent, timeout=60) as answer:  # noqa: S310 -- this machine
        return json.load(answer)


def create(port: int, name: str, policy: str, arms: int) -> None:
    """Create an experiment."""
    listed = [{"name": f"arm {place}"} for place in range(arms)]
    request_json(port, "/v1/experiments", {"name": name, "arms": listed, "epsilon": 1, "policy": policy})


def tokens(port: int, name: str, count: int) -> list[str]:
    """Return the tokens of so many decisions."""
    found: list[str] = []
    while len(found) < count:
        n = min(1000, count - len(found))
        found += [each["token"] for each in request_json(port, decisions_of(name), {"n": n})["decisions"]]
    return found


def decisions_of(name: str) -> str:
    """Return where decisions of an experiment are asked for."""
    return f"/v1/experiments/{name}/decisions"


def reports(found: Sequence[str], batch: int) -> list[bytes]:
    """Return requests that report, one by one or in batches."""
    each = [{"token": token, "bit": place % 2} for place, token in enumerate(found)]
    if batch == 1:
        return [request("/v1/reports", json.dumps(one).encode()) for one in each]
    return [
        request("/v1/reports", json.dumps({"reports": each[place : place + batch]}).encode())
        for place in range(0, len(each), batch)
    ]


class Rate(NamedTuple):
    """Good answers, reports counted one by one."""

    a_second: float
    a_cpu_second: float  # of the server that answers

    def times(self, many: int) -> Rate:
        """Return the rate of what comes so many at once."""
        return Rate(self.a_second * many, self.a_cpu_second * many)


class Bench:
    """Both servers, by port and process, and what is measured of them."""

    def __init__(self, ours: tuple[int, int], theirs: tuple[int, int], seconds: float) -> None:
        self.ours, self.theirs, self.seconds = ours, theirs, seconds

    def measure(self) -> dict[str, Rate]:
        """Measure everything once."""
        found = {TRIVIAL: self._rate(self.theirs, itertools.repeat(request("/answer", b"{}")))}
        for key, name in {
            "decisions, auto, K = 10": "auto",
            "decisions, klucb-cf, K = 10": "klucb",
            f"decisions, klucb-cf, K = {MANY}": "many",
        }.items():
            found[key] = self._rate(self.ours, itertools.repeat(request(decisions_of(name), b"{}")))
        for batch in (1, BATCH):
            enough = int(found[TRIVIAL].a_second * self.seconds * (1.2 if batch == 1 else 3.0))
            sent = reports(tokens(self.ours[0], "auto", enough), batch)
            key = f"in batches of {batch}" if batch > 1 else f"one by one, {CONNECTIONS} connections"
            found[f"reports, {key}"] = self._rate(self.ours, iter(sent)).times(batch)
        return found

    def _rate(self, server: tuple[int, int], requests: Iterator[bytes]) -> Rate:
        port, process = server
        before = cpu_seconds(process)
        load = send_load(port, requests, CONNECTIONS, self.seconds)
        refused = sum(load.statuses.values()) - load.statuses[200]
        if refused:
            raise SystemExit(f"{refused} requests were refused: {dict(load.statuses)}")
        return Rate(load.rate, load.statuses[200] / (cpu_seconds(process) - before))


def table(rounds: Sequence[dict[str, Rate]]) -> list[str]:
    """Return the rows: what, the median ratio and its range, both by processor time, too, and the goal."""
    rows = ["| what, to a trivial endpoint | ratio | range | of processor time | range | goal |"]
    rows.append("|---|--:|--:|--:|--:|--:|")
    for key, goal in GOALS.items():
        cells = []
        for which in range(2):
            ratios = [each[key][which] / each[TRIVIAL][which] for each in rounds]
            cells += [f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f} to {max(ratios):.2f}"]
        rows.append(f"| {key} | {' | '.join(cells)} | {goal:.2f} |")
    return rows


def latencies(ours: int, theirs: int, folder: Path) -> list[str]:
    """Return the 99th percentiles of a decision and of the trivial answer, by turns, at the same offered rate."""
    if shutil.which("h2load") is None:
        return ["No h2load: latencies are not compared. On Debian: sudo apt-get install nghttp2-client"]
    body = folder / "body.json"
    body.write_text("{}")
    pairs = [
        (measure_latency(ours, decisions_of("auto"), body, folder), measure_latency(theirs, "/answer", body, folder))
        for _ in range(TRIES)
    ]
    ratios = [mine / other for mine, other in pairs]
    mine, other = (", ".join(f"{each * 1e3:.1f}" for each in column) for column in zip(*pairs, strict=True))
    return [
        f"p99 at {RATE} requests a second: decision {mine} ms, trivial {other} ms, by turns; "
        f"ratio {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f} (goal: at most 2)"
    ]


def measure_latency(port: int, path: str, body: Path, folder: Path) -> float:
    """Return the 99th percentile of the latency at a fixed rate, in seconds."""
    log = folder / "latencies.txt"
    log.unlink(missing_ok=True)
    clients = 10
    command = ["h2load", "--h1", "-c", str(clients), "-n", str(5 * RATE), f"--rps={RATE // clients}"]
    command += ["-d", str(body), "-H", "content-type: application/json", f"--log-file={log}"]
    subprocess.run([*command, f"http://{HOST}:{port}{path}"], check=True, capture_output=True, timeout=120)
    times = sorted(int(line.split()[2]) for line in log.read_text().splitlines())
    return times[int(0.99 * len(times))] / 1e6


def memory(port: int, process: int, wanted: int) -> Iterator[str]:
    """Yield how much memory the service holds as reports come in."""
    done = 0
    step = max(1, wanted // 10)
    cpu = cpu_seconds(process)
    while done < wanted:
        sent = reports(tokens(port, "auto", min(step, 100_000)), 200)
        load = send_load(port, iter(sent), 8, 600.0)
        done += load.statuses[200] * 200
        if done % step < 100_000 or done >= wanted:
            yield f"after {done:>10,} reports: {resident_bytes(process) / 2**20:.0f} MiB"
    each = (cpu_seconds(process) - cpu) / done * 1e6
    yield f"CPU of the service: {each:.1f} us a report, its decision included"


def starts(folder: Path) -> list[str]:
    """Return how long it takes from the command to /readyz, with an empty cache of machine code and with a full one."""
    found = []
    cache = folder / "cache"
    for name in ("cold", "warm"):
        port, began = free_port(), time.perf_counter()
        before = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        with run_server(service(port, folder), port, "/readyz", MASKEDBANDITS_CACHE=str(cache)):
            seconds = time.perf_counter() - began
        cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - before
        found.append(f"start to /readyz, {name} cache: {seconds:.1f} s; processor time with its stop: {cpu:.1f} s")
    return found


def writers(folder: Path, seconds: float) -> Iterator[str]:
    """Yield the latency of reports to one process with SQLite, and to two that share its file, with as many clients."""
    slowest = []
    for count in (1, 2):
        shared = folder / f"writers-{count}"
        shared.mkdir()
        ports = [free_port() for _ in range(count)]
        with ExitStack() as stack:
            for port in ports:
                stack.enter_context(run_server(service(port, shared), port, "/readyz"))
            create(ports[0], "auto", "auto", 10)
            sent = [iter(reports(tokens(port, "auto", int(6_000 * seconds / count)), 1)) for port in ports]
            with ThreadPoolExecutor(count) as pool:
                loads = pool.map(send_load, ports, sent, [CONNECTIONS // count] * count, [seconds] * count)
                found = sorted(latency for load in loads for latency in load.latencies)
        slowest.append(found[int(0.99 * len(found))])
        yield f"reports, {count} process with SQLite: p99 {slowest[-1] * 1e3:.0f} ms, longest {found[-1] * 1e3:.0f} ms"
    yield f"p99 of two processes on one file, to one process: {slowest[1] / slowest[0]:.1f}"


def measure_one(which: str, seconds: float) -> Iterator[str]:
    """Yield one of the shorter measurements."""
    with tempfile.TemporaryDirectory() as made:
        yield from starts(Path(made)) if which == "starts" else writers(Path(made), seconds)


def measure(rounds: int, reports_for_memory: int, seconds: float) -> Iterator[str]:
    """Yield what was measured, line by line."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        yield from starts(folder)
        yield from writers(folder, seconds)
        ours, theirs = free_port(), free_port()
        process = stack.enter_context(run_server(service(ours, folder), ours, "/readyz"))
        other = stack.enter_context(run_server(trivial(theirs), theirs, "/answer-is-for-post"))
        for name, policy, arms in (("auto", "auto", 10), ("klucb", "klucb-cf", 10), ("many", "klucb-cf", MANY)):
            create(ours, name, policy, arms)
        bench = Bench((ours, process.pid), (theirs, other.pid), seconds)
        bench.measure()  # once for nothing: all is warm then
        yield from table([bench.measure() for _ in range(rounds)])
        yield from latencies(ours, theirs, folder)
        if reports_for_memory:
            yield from memory(ours, process.pid, reports_for_memory)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a measurement")
    parser.add_argument(
        "--memory", type=int, default=1_000_000, metavar="REPORTS", help="after which memory is looked at"
    )
    parser.add_argument("--only", choices=("starts", "writers"), help="measure the start, or writers of SQLite, alone")
    options = parser.parse_args()
    everything = partial(measure, options.rounds, options.memory, options.seconds)
    for line in measure_one(options.only, options.seconds) if options.only else everything():
        print(line, flush=True)


if __name__ == "__main__":
    main()
