"""What a sweep of many short cells spends outside the kernels, by backend, in CPU seconds of all its processes.

The sweep is what a user would type, `maskedbandits run`, from the start of Python to the page. Measured is what it and
everybody that it starts take of the processors, Ray's own processes among them; what the kernels take of that is noted
by each cell, in the thread that plays it. The rest is outside. Needs Linux.

    make bench-sweep                 # or: python -m bench.sweep [--cells N] [--backends NAME ...] [--json]
"""

import argparse
import ctypes
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from maskedbandits._util import extras
from maskedbandits.experiments import results

BACKENDS = ("threads", "processes", "ray")
SIZES = {"short": (40_000, 10), "very short": (1_000, 5)}  # steps and runs of a cell
EACH = 20  # cells of a problem
GOAL = 0.10  # of the time, for short cells
SET_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
OFTEN = 0.2  # seconds between two looks: what a process takes after the last of them is not counted
EXIT_TIMEOUT_S = 60.0  # for all processes of a sweep

SWEEP = """
title = "A sweep"
runs = {runs}
checkpoints = 20
epsilons = [0.5, 1, 2, 4]
[[problems]]
name = "abrupt"
generator = "random-segments"
arms = 5
horizon = {horizon}
segments = 4
[grid.problems]
seed = {seeds}
[[policies]]
name = "sw-klucb-cf"
[[policies]]
name = "sw-ucb-cf"
[grid.policies]
window = [500, 1000]
[[policies]]
name = "klucb-cf"
"""


@dataclass(frozen=True)
class Spent:
    """What a sweep took."""

    size: str
    backend: str
    cells: int
    kernels: float  # CPU seconds in them
    total: float  # CPU seconds in all
    numbers: str  # a digest: the same for every backend

    @property
    def outside(self) -> float:
        """The share of the time that is spent outside the kernels."""
        return 1.0 - self.kernels / self.total


class Meter:
    """Adds up what all descendants take of the processors.

    They are polled, because Ray's processes do not wait for their children, whose CPU time would be lost.
    """

    def __init__(self) -> None:
        self.seen: dict[tuple[int, str], float] = {}  # CPU seconds, by number and time of start
        self.others = set(self.descendants())  # who were there before, and go on

    def descendants(self) -> dict[int, list[str]]:
        """Return what the system knows of every descendant: the fields of proc(5)'s stat from the third on."""
        facts = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has just ended
                facts[int(path.parent.name)] = path.read_text(encoding="utf-8").rpartition(")")[2].split()
        ours = {os.getpid()}
        while more := {pid for pid, fact in facts.items() if int(fact[1]) in ours} - ours:
            ours |= more
        return {pid: facts[pid] for pid in ours - {os.getpid()}}

    def look(self) -> int:
        """Take note of what everybody has taken so far; return how many are still there."""
        found = 0
        for pid, fact in self.descendants().items():
            if pid not in self.others:
                found += fact[0] != "Z"
                self.seen[pid, fact[19]] = (int(fact[11]) + int(fact[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def watch(self, process: subprocess.Popen[bytes]) -> float:
        """Wait until a process and its descendants have ended; return the CPU time of all."""
        while process.poll() is None:
            self.look()
            time.sleep(OFTEN)
        deadline = time.monotonic() + EXIT_TIMEOUT_S
        while self.look():
            if time.monotonic() > deadline:
                raise SystemExit(f"somebody whom the sweep has started is still there after {EXIT_TIMEOUT_S:g} s")
            time.sleep(OFTEN)
        for pid, _ in self.seen:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # those whose own parents have ended are ours
        return sum(self.seen.values())


def measure(size: str, backend: str, cells: int) -> Spent:
    """Play a sweep and return what it took."""
    horizon, runs = SIZES[size]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = SWEEP.format(horizon=horizon, runs=runs, seeds=list(range(max(1, cells // EACH))))
        (folder / "sweep.toml").write_text(text, encoding="utf-8")
        options = ["--out", str(folder / "out"), "--backend", backend, "--no-progress"]
        command = [sys.executable, "-m", "maskedbandits", "run", str(folder / "sweep.toml"), *options]
        meter = Meter()  # before it starts: who is there already is not counted
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            total = meter.watch(process)
        if process.returncode != 0:
            raise SystemExit(f"the sweep by {backend} has failed")
        made = results.load(folder / "out")
    kernels = sum(cell.outcome.kernel_seconds or 0.0 for cell in made.cells)
    found = hashlib.sha256(b"".join(cell.outcome.regret.tobytes() for cell in made.cells)).hexdigest()
    return Spent(size, backend, len(made.cells), kernels, total, found)


@contextmanager
def adopt_orphans() -> Iterator[None]:
    """Let descendants whose parents end be ours, so that none is lost sight of."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if not sys.platform.startswith("linux") or prctl is None or prctl(SET_SUBREAPER, 1, 0, 0, 0) != 0:
        raise SystemExit("this needs Linux, which tells what processes take whose parents have ended")
    yield
    prctl(SET_SUBREAPER, 0, 0, 0, 0)


def list_backends() -> list[str]:
    """Return the backends that are there."""
    return [name for name in BACKENDS if name != "ray" or not extras.list_missing(["ray"])]


def verdicts(rows: Sequence[Spent]) -> list[str]:
    """Return whether the goal is met, and whether all backends agree, in a sentence each."""
    short = [row.outside for row in rows if row.size == "short"]
    goal = f"The goal, at most {100 * GOAL:.0f} % outside the kernels where cells are short, is"
    numbers = {size: {row.numbers for row in rows if row.size == size} for size in SIZES}
    same = "made" if all(len(found) <= 1 for found in numbers.values()) else "did not make"
    said = [f"{goal} {'met' if max(short) <= GOAL else 'missed'}."] if short else []
    return [*said, f"All backends {same} the same numbers."]


def format_table(rows: Sequence[Spent]) -> str:
    """Return what was measured as a table of Markdown."""
    lines = [
        "| cells | backend | of a cell, kernels | of a cell, everything else | outside the kernels |",
        "| --- | --- | --: | --: | --: |",
    ]
    for row in rows:
        inside, outside = (1e3 * each / row.cells for each in (row.kernels, row.total - row.kernels))
        cells = f"{row.cells:,} {row.size} | {row.backend} | {inside:.2f} ms | {outside:.2f} ms | {row.outside:.1%}"
        lines.append(f"| {cells.replace('%', ' %')} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and say whether the goal is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cells", type=int, default=10_000, help="of each sweep")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=list_backends())
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    options = parser.parse_args()
    rows = []
    with adopt_orphans():
        measure("very short", "threads", EACH)  # compiled from here on
        for size in options.sizes:
            for backend in options.backends:
                print(f"{options.cells:,} {size} cells by {backend} ...", file=sys.stderr, flush=True)
                rows.append(measure(size, backend, options.cells))
                print(f"{rows[-1].outside:.1%} outside the kernels", file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps([{**asdict(row), "outside": row.outside} for row in rows], indent=2))
        return
    print(format_table(rows), "", " ".join(verdicts(rows)), sep="\n")


if __name__ == "__main__":
    main()
