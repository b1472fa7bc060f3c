"""However a sweep is ended: nothing finished is lost or played again, nobody is left behind, numbers are the same."""

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
from maskedbandits.experiments.results import Results
from small_experiment import same_numbers, write

needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="who is left is looked up in /proc")
SIGNALS = {
    signal.SIGINT: (cli.INTERRUPTED, "interrupted"),
    signal.SIGTERM: (128 + 15, "ended by SIGTERM"),
    signal.SIGHUP: (128 + 1, "ended by SIGHUP"),
}
QUICK = [("threads", signal.SIGINT)]
SLOW = [(backend, number) for backend in ("threads", "processes", "ray") for number in SIGNALS]
CELLS = 60
MARK = "MASKEDBANDITS_TEST_SWEEP"

SWEEP = """
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
seed = [{}]
""".format(", ".join(map(str, range(CELLS))))


def marked(mark: str) -> list[int]:
    """Return the processes that were started with a mark in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:  # it has just ended, or is somebody else's
            continue
    return found


def all_gone(mark: str) -> bool:
    """Wait until nobody with a mark is left."""
    deadline = time.monotonic() + LONGEST
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not marked(mark)


def cells(folder: Path) -> dict[str, int]:
    """Return the cells of a folder, and when each was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("out/cells/*.npz")}


def ended(folder: Path, backend: str, end: Callable[[int], None]) -> tuple[int, str, dict[str, int]]:
    """Start a sweep and end it on its way; return its exit code, its last words, and the cells that it has left."""
    write(folder, SWEEP)
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


def gone_on(folder: Path, kept: dict[str, int]) -> Results:
    """Go on with a sweep, here; what was kept is not played again."""
    experiments.run(experiments.load(folder / "x.toml"), folder / "out", SilentWatcher(), command="")
    assert {key: written for key, written in cells(folder).items() if key in kept} == kept
    return results.load(folder / "out")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("undisturbed")
    return experiments.run(experiments.load(write(folder, SWEEP)), folder / "out", SilentWatcher(), command="")


def same(made: Results, expected: Results) -> bool:
    assert [cell.label for cell in made.cells] == [cell.label for cell in expected.cells]
    return all(same_numbers(a.outcome, b.outcome) for a, b in zip(made.cells, expected.cells, strict=True))


@needs_proc
@pytest.mark.parametrize(
    ("backend", "number"),
    [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW if each not in QUICK)],
)
def test_signal_ends_run_in_one_line(
    tmp_path: Path, undisturbed: Results, backend: str, number: signal.Signals
) -> None:
    code, words = SIGNALS[number]
    # as from a terminal, which tells everybody
    returned, said, kept = ended(tmp_path, backend, lambda process: os.killpg(process, number))
    assert returned == code, said
    assert 0 < len(kept) < CELLS
    # a signal may come between the saving of a cell and its counting
    counts = (len(kept), len(kept) - 1)
    end = f"of {CELLS} cells are kept in {tmp_path / 'out'}; the same command goes on from there\n"
    assert said in [f"maskedbandits: {words}: {count} {end}" for count in counts]
    assert same(gone_on(tmp_path, kept), undisturbed)


@needs_proc
@pytest.mark.parametrize("backend", ["processes", pytest.param("ray", marks=pytest.mark.slow)])
def test_killed_run_resumes_and_leaves_no_process(tmp_path: Path, undisturbed: Results, backend: str) -> None:
    returned, _, kept = ended(tmp_path, backend, lambda process: os.kill(process, signal.SIGKILL))
    assert returned == -signal.SIGKILL
    assert 0 < len(kept) < CELLS
    assert same(gone_on(tmp_path, kept), undisturbed)
