"""How fast the service is, as ratios to a trivial Starlette endpoint on the same server in the same run.

Times on shared machines wander, so every round measures everything once, one after the other; a ratio is formed within
a round, and the median over the rounds is printed with its range. Load comes from this machine alone.

    make bench-service               # or: python -m bench.service [--rounds N] [--memory REPORTS] [--json]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
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
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.load import HOST, cpu_seconds, loaded, request, resident_bytes

SECONDS = 3.0  # of a measurement
CONNECTIONS = 64
PATIENCE = 180.0  # seconds for a server to be there
MANY = 10_000  # arms
BATCH = 20  # reports at once
RATE = 1_000  # requests a second at which latencies are compared
TRIVIAL = "trivial"

GOALS = {
    "decisions, auto, K = 10": 0.6,
    "decisions, klucb-cf, K = 10": 0.6,
    f"decisions, klucb-cf, K = {MANY}": 0.5,
    f"reports, one by one, {CONNECTIONS} connections": 0.25,
    f"reports, in batches of {BATCH}": 1.0,
}


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


@contextmanager
def running(command: Sequence[str], port: int, path: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
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


def asked(port: int, path: str, body: Any) -> Any:
    """Ask the service something, and return the answer."""
    sent = urllib.request.Request(
        f"http://{HOST}:{port}{path}", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(sent, timeout=60) as answer:  # noqa: S310 -- this machine
        return json.load(answer)


def create(port: int, name: str, policy: str, arms: int) -> None:
    """Create an experiment."""
    listed = [{"name": f"arm {place}"} for place in range(arms)]
    asked(port, "/v1/experiments", {"name": name, "arms": listed, "epsilon": 1, "policy": policy})


def tokens(port: int, name: str, count: int) -> list[str]:
    """Return the tokens of so many decisions."""
    found: list[str] = []
    while len(found) < count:
        n = min(1000, count - len(found))
        found += [each["token"] for each in asked(port, decisions_of(name), {"n": n})["decisions"]]
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


class Bench:
    """Both servers, and what is measured of them."""

    def __init__(self, ours: int, theirs: int, seconds: float) -> None:
        self.ours, self.theirs, self.seconds = ours, theirs, seconds

    def measure(self) -> dict[str, float]:
        """Measure everything once: good answers a second, reports counted one by one."""
        found = {TRIVIAL: self._rate(self.theirs, itertools.repeat(request("/answer", b"{}")))}
        for key, name in {
            "decisions, auto, K = 10": "auto",
            "decisions, klucb-cf, K = 10": "klucb",
            f"decisions, klucb-cf, K = {MANY}": "many",
        }.items():
            found[key] = self._rate(self.ours, itertools.repeat(request(decisions_of(name), b"{}")))
        for batch in (1, BATCH):
            enough = int(found[TRIVIAL] * self.seconds * (1.2 if batch == 1 else 3.0))
            sent = reports(tokens(self.ours, "auto", enough), batch)
            key = f"in batches of {batch}" if batch > 1 else f"one by one, {CONNECTIONS} connections"
            found[f"reports, {key}"] = self._rate(self.ours, iter(sent)) * batch
        return found

    def _rate(self, port: int, requests: Iterator[bytes]) -> float:
        load = loaded(port, requests, CONNECTIONS, self.seconds)
        refused = sum(load.statuses.values()) - load.statuses[200]
        if refused:
            raise SystemExit(f"{refused} requests were refused: {dict(load.statuses)}")
        return load.rate


def table(rounds: Sequence[dict[str, float]]) -> list[str]:
    """Return the rows: what, the median ratio and its range, the goal."""
    rows = ["| what, to a trivial endpoint | ratio | range | goal |", "|---|--:|--:|--:|"]
    for key, goal in GOALS.items():
        ratios = [each[key] / each[TRIVIAL] for each in rounds]
        rows.append(
            f"| {key} | {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} | {goal:.2f} |"
        )
    return rows


def latencies(ours: int, theirs: int, folder: Path) -> list[str]:
    """Return the 99th percentiles of a decision and of the trivial answer, at the same offered rate, by h2load."""
    if shutil.which("h2load") is None:
        return ["No h2load: latencies are not compared. On Debian: sudo apt-get install nghttp2-client"]
    body = folder / "body.json"
    body.write_text("{}")
    found = {
        name: [offered(port, path, body, folder) for _ in range(3)]
        for name, port, path in (("decision", ours, decisions_of("auto")), (TRIVIAL, theirs, "/answer"))
    }
    p99 = {name: statistics.median(each) for name, each in found.items()}
    ratio = p99["decision"] / p99[TRIVIAL]
    return [
        f"p99 at {RATE} requests a second: decision {p99['decision'] * 1e3:.2f} ms, "
        f"trivial {p99[TRIVIAL] * 1e3:.2f} ms, ratio {ratio:.2f} (goal: at most 2)"
    ]


def offered(port: int, path: str, body: Path, folder: Path) -> float:
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
        load = loaded(port, iter(sent), 8, 600.0)
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
        with running(service(port, folder), port, "/readyz", MASKEDBANDITS_CACHE=str(cache)):
            found.append(f"start to /readyz, {name} cache: {time.perf_counter() - began:.1f} s")
    return found


def measured(rounds: int, reports_for_memory: int, seconds: float) -> Iterator[str]:
    """Yield what was measured, line by line."""
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        yield from starts(folder)
        ours, theirs = free_port(), free_port()
        process = stack.enter_context(running(service(ours, folder), ours, "/readyz"))
        stack.enter_context(running(trivial(theirs), theirs, "/answer-is-for-post"))
        for name, policy, arms in (("auto", "auto", 10), ("klucb", "klucb-cf", 10), ("many", "klucb-cf", MANY)):
            create(ours, name, policy, arms)
        bench = Bench(ours, theirs, seconds)
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
    told = parser.parse_args()
    for line in measured(told.rounds, told.memory, told.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
