"""Runs add up: what is stored is not played again, and the numbers are those of one run from scratch."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from children import PROGRAM, child, wait_until
from helpers.boundaries import shorten_loads
from maskedbandits import experiments
from maskedbandits.experiments import results
from maskedbandits.experiments.cache_key import CellSpec, build_specs
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.experiments.stored_runs import StoredRuns, list_gaps
from maskedbandits.simulation.results import Simulation
from small_experiment import GOOD, run, same_numbers, write

HORIZONS = 4 * 600 + 2 * 400  # steps of one run of each cell of GOOD


class Counter(SilentWatcher):
    """Counts the steps that are played, and may press Ctrl-C after some."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.played, self.most = 0, most

    def steps(self, done: int, total: int) -> None:
        self.played = total
        if self.most is not None and done > self.most:
            raise KeyboardInterrupt


def played(path: Path, out: Path, **options: object) -> int:
    watcher = Counter()
    run(path, out, watcher, **options)
    return watcher.played


def assert_equal(one: results.Results, other: results.Results) -> None:
    assert [cell.label for cell in one.cells] == [cell.label for cell in other.cells]
    for a, b in zip(one.cells, other.cells, strict=True):
        assert same_numbers(a.outcome, b.outcome)
        np.testing.assert_array_equal(a.outcome.pulls_over_time, b.outcome.pulls_over_time)
        assert a.outcome.spec == b.outcome.spec


@pytest.mark.parametrize("threads", [1, 2])
def test_more_runs_play_only_the_difference(tmp_path: Path, threads: int) -> None:
    path = write(tmp_path)
    assert played(path, tmp_path / "out", runs=5) == 5 * HORIZONS
    assert played(path, tmp_path / "out", runs=7, threads=threads) == 2 * HORIZONS
    assert played(path, tmp_path / "out", runs=7) == 0
    assert_equal(results.load(tmp_path / "out"), run(path, tmp_path / "whole", runs=7))


def test_fresh_runs_are_all_played(tmp_path: Path) -> None:
    path = write(tmp_path)
    run(path, tmp_path / "out", runs=2)
    assert played(path, tmp_path / "out", runs=3, fresh=True) == 3 * HORIZONS


@pytest.mark.parametrize(
    ("old", "new", "reused"),
    [
        ('title = "Small"', 'title = "Other"', 6),
        ("checkpoints = 10", "checkpoints = 11", 0),
        ("seed = 5", "seed = 6", 0),
        ("c = 0", "c = 1", 3),
        ("[0.8, 0.3]", "[0.8, 0.2]", 4),
    ],
)
def test_only_runs_with_equal_facts_are_continued(tmp_path: Path, old: str, new: str, reused: int) -> None:
    run(write(tmp_path), tmp_path / "out", runs=3)
    path = write(tmp_path, GOOD.replace(old, new))
    watcher = Counter()
    made = run(path, tmp_path / "out", watcher, runs=4)
    kept = [spec for spec in build_specs(experiments.load(path, runs=3)) if stored_key(tmp_path, spec)]
    assert len(kept) == reused
    horizons = sum(spec.facts["horizon"] for spec in kept)
    assert watcher.played == 4 * HORIZONS - 3 * horizons
    assert_equal(made, run(path, tmp_path / "whole", runs=4))


def stored_key(folder: Path, spec: CellSpec) -> bool:
    return (folder / "out" / "cells" / f"{spec.key}.npz").exists()


def test_interrupted_cells_keep_their_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    shorten_loads(monkeypatch)  # a run at a time
    with pytest.raises(KeyboardInterrupt):
        run(path, tmp_path / "out", Counter(most=1500), runs=6, threads=1)
    parts = list((tmp_path / "out" / "parts").iterdir())
    assert parts
    steps = played(path, tmp_path / "out", runs=6)
    assert steps == 6 * HORIZONS - 600 * len(parts)
    assert list((tmp_path / "out" / "parts").iterdir()) == []
    assert_equal(results.load(tmp_path / "out"), run(path, tmp_path / "whole", runs=6))


def test_fewer_runs_than_parts_are_not_played(tmp_path: Path) -> None:
    path = write(tmp_path)
    specs, stored = one_part(path, tmp_path / "out")
    assert played(path, tmp_path / "out", runs=3) == 3 * (HORIZONS - 600)
    assert results.load(tmp_path / "out").cells[0].label.key == specs[0].key
    assert stored.load_parts(specs[0]) == {}  # deleted: the finished cell has them


def one_part(path: Path, out: Path) -> tuple[list[CellSpec], StoredRuns]:
    """Store the first three runs of the first cell as a part."""
    whole = run(path, out.parent / "source", runs=3)
    specs = build_specs(experiments.load(path, runs=3))
    out.mkdir()
    stored = StoredRuns(out)
    stored.save_part(specs[0], 0, whole.cells[0].outcome.simulation("x"))
    return specs, StoredRuns(out)


def broken(content: bytes) -> Iterator[bytes]:
    """Yield what is left of a file that was written halfway, or has a wrong byte."""
    for length in range(0, len(content), 97):
        yield content[:length]
        yield content[:length] + bytes(len(content) - length)
        yield content[:length] + bytes([content[length] ^ 0x55]) + content[length + 1 :]


def test_torn_part_is_never_read_as_good(tmp_path: Path) -> None:
    specs, stored = one_part(write(tmp_path), tmp_path / "out")
    good = stored.load_parts(specs[0])[0]
    (file,) = (tmp_path / "out" / "parts").iterdir()
    content = file.read_bytes()
    refused = 0
    for torn in broken(content):
        file.write_bytes(torn)
        found = stored.load_parts(specs[0])
        refused += not found
        for part in found.values():  # a byte that nothing depends on
            for name in results.ARRAYS:
                np.testing.assert_array_equal(getattr(part, name), getattr(good, name))
    assert refused > 2 * len(content) / 97


@pytest.mark.parametrize("wrong", ["0-2", "1-3", "0-4"])
def test_part_under_another_name_is_refused(tmp_path: Path, wrong: str) -> None:
    specs, _ = one_part(write(tmp_path), tmp_path / "out")
    (file,) = (tmp_path / "out" / "parts").iterdir()
    file.rename(file.with_name(f"{specs[0].name}-{wrong}.npz"))
    specs = build_specs(experiments.load(tmp_path / "x.toml", runs=9))
    assert StoredRuns(tmp_path / "out").load_parts(specs[0]) == {}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 8)), max_size=8), st.integers(1, 40))
def test_gaps_are_the_runs_that_no_part_has(spans: list[tuple[int, int]], runs: int) -> None:
    taken: set[int] = set()
    parts: dict[int, Simulation] = {}
    for first, count in spans:
        each = set(range(first, first + count))
        if not each & taken and max(each) < runs:
            taken |= each
            counts = np.zeros((count, 1), dtype=np.int64)
            parts[first] = Simulation(np.array([1]), np.zeros((count, 1)), counts, counts, counts[:1], 0.0)
    gaps = list_gaps(parts, runs)
    missing = [run for first, count in gaps for run in range(first, first + count)]
    assert missing == [run for run in range(runs) if run not in taken]


LONG = """
runs = 4000
checkpoints = 5
epsilons = [1]
[[problems]]
horizon = 200_000
means = [0.6, 0.5]
[[policies]]
name = "klucb-cf"
"""


def test_killed_cell_keeps_its_finished_runs(tmp_path: Path) -> None:
    path, out = write(tmp_path, LONG), tmp_path / "out"
    command = [*PROGRAM, "run", path, "--out", out, "--no-progress", "--threads", 1]
    with child(command) as process:
        wait_until(lambda: len(list(out.glob("parts/*.npz"))) > 1, process)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    ends = [int(first) + int(runs) for file in out.glob("parts/*.npz") for _, first, runs in [file.stem.split("-")]]
    kept = max(ends)
    assert 0 < kept < 4000
    assert played(path, out, runs=kept + 1) == 200_000
    assert_equal(results.load(out), run(path, tmp_path / "whole", runs=kept + 1))
