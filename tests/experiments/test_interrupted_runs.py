"""However a sweep ends, what is finished is kept and not played again, no process is left, and numbers are the same."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from children import LONGEST, PROGRAM, child, wait_until
from maskedbandits import cli, experiments
from maskedbandits.experiments import results
from maskedbandits.experiments.progress_bar import SilentWatcher
from small_experiment import same_numbers, write

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked up in /proc")
SIGNALS = {
    signal.SIGINT: (cli.INTERRUPTED, "interrupted"),
    signal.SIGTERM: (128 + 15, "ended by SIGTERM"),
    signal.SIGHUP: (128 + 1, "ended by SIGHUP"),
}
QUICK = [("threads", signal.SIGINT)]
SLOW = [(backend, number) for backend in ("threads", "processes", "ray") for number in SIGNALS]
CELLS, MORE = 60, 4  # of a sweep, and how many it plays beyond those that are kept
MARK = "MASKEDBANDITS_TEST_SWEEP"


def sweep(cells: int) -> str:
    return f"""
runs = 20
checkpoints = 5
epsilons = [1]
[[problems]]
name = "p"
generator = "random-segments"
arms = 3
horizon = 10_000
segments = 2
[[policies]]
name = "klucb-cf"
[grid.problems]
seed = {list(range(cells))}
"""


def marked(mark: str) -> list[int]:
    """Return the processes that were started with a mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:  # it has just ended, or is another user's
            continue
    return found


def all_gone(mark: str) -> bool:
    """Wait until no process with a mark is left."""
    deadline = time.monotonic() + LONGEST
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not marked(mark)


def cells(folder: Path) -> dict[str, int]:
    """Return the cells of a folder, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("out/cells/*.npz")}


def ended(folder: Path, backend: str, end: Callable[[int], None]) -> tuple[int, str, dict[str, int]]:
    """Start a sweep and end it midway; return its exit code, its messages, and the cells that it has left."""
    write(folder, sweep(CELLS))
    mark = uuid.uuid4().hex
    if backend == "ray":
        pytest.importorskip("ray", reason="Ray is not installed: pip install 'maskedbandits[ray]'")
    workers = [] if backend == "threads" else ["--workers", 2]
    command = [*PROGRAM, "run", folder / "x.toml", "--out", folder / "out", "--no-progress", "--backend", backend]
    with child([*command, *workers], environment={MARK: mark}) as process:
        wait_until(lambda: bool(cells(folder)), process)
        end(process.pid)
        _, words = process.communicate(timeout=LONGEST)
        assert all_gone(mark)
    return process.returncode, words, cells(folder)


def resumes(folder: Path, kept: dict[str, int]) -> None:
    """Play a few cells more than were kept: those are not played again, and all are as without an interruption."""
    experiment = experiments.load(write(folder, sweep(min(len(kept) + MORE, CELLS))))
    experiments.run(experiment, folder / "out", SilentWatcher(), command="")
    now = cells(folder)
    assert {key: written for key, written in now.items() if key in kept} == kept
    assert len(now) > len(kept)
    made = results.load(folder / "out")
    undisturbed = experiments.run(experiment, folder / "undisturbed", SilentWatcher(), command="")
    assert [cell.label for cell in made.cells] == [cell.label for cell in undisturbed.cells]
    assert all(same_numbers(a.outcome, b.outcome) for a, b in zip(made.cells, undisturbed.cells, strict=True))


@needs_proc
@pytest.mark.parametrize(
    ("backend", "number"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW if each not in QUICK)],
)
def test_signal_ends_run_in_one_line(tmp_path: Path, backend: str, number: signal.Signals) -> None:
    code, words = SIGNALS[number]
    # as from a terminal, which sends it to the whole group
    returned, said, kept = ended(tmp_path, backend, lambda process: os.killpg(process, number))
    assert returned == code, said
    assert 0 < len(kept) < CELLS
    # a signal may come between the saving of a cell and its counting
    counts = (len(kept), len(kept) - 1)
    end = f"of {CELLS} cells are saved in {tmp_path / 'out'}; the same command continues from there\n"
    assert said in [f"maskedbandits: {words}: {count} {end}" for count in counts]
    resumes(tmp_path, kept)


@needs_proc
@pytest.mark.parametrize("backend", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
def test_killed_run_resumes_and_leaves_no_process(tmp_path: Path, backend: str) -> None:
    returned, _, kept = ended(tmp_path, backend, lambda process: os.kill(process, signal.SIGKILL))
    assert returned == -signal.SIGKILL
    assert 0 < len(kept) < CELLS
    resumes(tmp_path, kept)
