"""Backends play the same numbers as this process, lose nothing when a worker dies, and compute nothing twice."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from children import LONGEST
from helpers.boundaries import shorten_loads
from maskedbandits import experiments
from maskedbandits.errors import UserError
from maskedbandits.experiments import backends, work_units
from maskedbandits.experiments.backends import Load, PlayedLoad, Processes
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.experiments.results import Results
from maskedbandits.experiments.work_units import LoadSplitter, WorkUnit
from small_experiment import same_numbers, write
from trials import examples

# A policy that kills the first worker that makes it, and then notes every run.
DEADLY = """
import os, pathlib, signal
FOLDER = pathlib.Path(__file__).parent

class Deadly:
    def __init__(self, generator):
        self.draw = generator.random()
        try:
            with (FOLDER / "died").open("x") as note:
                note.write(str(os.getpid()))
        except FileExistsError:
            (FOLDER / f"run-{self.draw}-{os.getpid()}-{id(self)}").touch()
        else:
            os.kill(os.getpid(), signal.SIGKILL)

    def choose(self):
        return int(self.draw < 0.5)

    def observe(self, arm, feedback):
        pass
"""
EXPERIMENT = """
runs = 6
epsilons = [1, inf]
[[problems]]
horizon = 50
means = [0.2, 0.8]
[[policies]]
name = "uniform"
[[policies]]
name = "deadly:Deadly"
"""


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Let every test import its own."""
    yield
    sys.modules.pop("deadly", None)


def play(folder: Path, out: str, backend: backends.Backend | None) -> Results:
    experiment = experiments.load(folder / "x.toml")
    return experiments.run(experiment, folder / out, SilentWatcher(), command="", backend=backend)


def survives(folder: Path, backend: backends.Backend) -> None:
    """Play where a worker dies, then here, and compare."""
    write(folder, EXPERIMENT)
    (folder / "deadly.py").write_text(DEADLY, encoding="utf-8")
    elsewhere = play(folder, "there", backend)
    noted = [path.name.split("-") for path in folder.glob("run-*")]
    assert len({draw for _, draw, *_ in noted}) == 12
    dead = (folder / "died").read_text(encoding="utf-8")
    assert dead not in {process for _, _, process, _ in noted}  # others have played what it had
    here = play(folder, "here", None)
    assert elsewhere.complete
    for one, other in zip(elsewhere.cells, here.cells, strict=True):
        assert same_numbers(one.outcome, other.outcome)
        assert one.outcome.pulls_over_time is not None
        assert other.outcome.pulls_over_time is not None
        assert np.array_equal(one.outcome.pulls_over_time, other.outcome.pulls_over_time)


def test_processes_survive_death_of_worker(tmp_path: Path) -> None:
    survives(tmp_path, Processes(2))


@pytest.mark.slow
def test_ray_survives_death_of_worker(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'maskedbandits[ray]'")
    survives(tmp_path, backends.open_backend("ray", workers=2))


class Here:
    """A backend that plays at once, gives back in the opposite order, and notes what it was sent."""

    workers = 2

    def __init__(self, stop_after: int = 10**9) -> None:
        self.sent: list[Load] = []
        self.open: list[Load] = []
        self.stop_after = stop_after

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def send(self, load: Load) -> None:
        self.sent.append(load)
        self.open.append(load)

    def count_steps(self) -> int:
        return 0

    def receive(self) -> list[PlayedLoad]:
        if len(self.sent) > self.stop_after:
            raise KeyboardInterrupt
        played = [(load, work_units.play_load(load)) for load in reversed(self.open)]
        self.open = []
        return played


def test_split_cells_are_joined_exactly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_loads(monkeypatch, 1e-4)
    write(tmp_path)
    there = Here()
    elsewhere, here = play(tmp_path, "there", there), play(tmp_path, "here", None)
    assert len(there.sent) > len(here.cells)
    assert all(same_numbers(a.outcome, b.outcome) for a, b in zip(elsewhere.cells, here.cells, strict=True))
    again = Here()
    play(tmp_path, "there", again)
    assert again.sent == []


def test_after_an_interrupt_finished_cells_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_loads(monkeypatch, 1e-4)
    write(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, "out", Here(stop_after=12))
    kept = len(list((tmp_path / "out" / "cells").iterdir()))
    rest = Here()
    results = play(tmp_path, "out", rest)
    assert 0 < kept < len(results.cells)
    assert len({unit.cell for load in rest.sent for unit in load}) == len(results.cells) - kept


@examples(30)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.floats(1e-9, 1e-3))
def test_loads_contain_every_run_once(
    tmp_path_factory: pytest.TempPathFactory, runs: list[int], seconds: float
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    task = experiments.load(write(folder)).tasks[0]
    splitter = LoadSplitter([WorkUnit(number, task, 0, 1, 0, count) for number, count in enumerate(runs)])
    splitter.seconds[task.policy] = seconds
    horizon = task.condition.problem.horizon
    found: list[tuple[int, int]] = []
    while load := splitter.next_load():
        found += [(unit.cell, run) for unit in load for run in range(unit.first, unit.first + unit.runs)]
        planned = sum(unit.runs for unit in load) * seconds * horizon
        assert planned <= work_units.MAX_LOAD_S + seconds * horizon
    assert found == [(number, run) for number, count in enumerate(runs) for run in range(count)]


def test_short_cells_share_a_load(tmp_path: Path) -> None:
    experiment = experiments.load(write(tmp_path))
    todo = [WorkUnit(n, task, 0, 1, 0, 4) for n, task in enumerate(experiment.tasks)]
    assert len(LoadSplitter(todo).next_load()) == len(todo)


def test_conflicting_backend_options_are_errors() -> None:
    with pytest.raises(UserError, match="only with --backend threads"):
        backends.open_backend("processes", threads=2)
    with pytest.raises(UserError, match="only with --backend ray"):
        backends.open_backend("processes", address="x:1")
    with pytest.raises(UserError, match="for threads, --threads"):
        backends.open_backend("threads", workers=2)


class Fragile(ThreadPoolExecutor):
    """A pool in this process, of which the first breaks between two loads."""

    made = 0
    _processes = None

    def __init__(self, workers: int, *_context: object, **_options: object) -> None:
        super().__init__(workers)
        Fragile.made += 1
        self.strength = 1 if Fragile.made == 1 else 9

    def submit(self, *work: Any, **options: Any) -> Future[Any]:
        if not self.strength:
            raise BrokenProcessPool
        self.strength -= 1
        return super().submit(*work, **options)


def test_broken_pool_is_replaced_between_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fragile, "made", 0)
    monkeypatch.setattr(backends, "ProcessPoolExecutor", Fragile)
    play_twice(tmp_path, lambda players: None)
    assert Fragile.made == 2


@pytest.mark.slow
def test_process_death_between_loads_loses_nothing(tmp_path: Path) -> None:
    def kill(players: Processes) -> None:
        os.kill(players.pool.submit(os.getpid).result(LONGEST), signal.SIGKILL)
        with pytest.raises(BrokenProcessPool):  # it notices this somewhat later
            players.pool.submit(time.sleep, LONGEST).result(LONGEST)

    play_twice(tmp_path, kill)


def play_twice(tmp_path: Path, meanwhile: Callable[[Processes], None]) -> None:
    """Play a load, then something else happens, and the same load is played again."""
    experiment = experiments.load(write(tmp_path, EXPERIMENT.split('[[policies]]\nname = "deadly')[0]))
    load = [WorkUnit(n, task, 0, 1, 0, 4) for n, task in enumerate(experiment.tasks)]
    with Processes(1) as players:
        players.send(load)
        received(players)
        meanwhile(players)
        players.send(load)
        played = received(players)
    assert [part.regret.shape for part in played[0][1]] == [(4, 1)] * len(load)


def received(players: Processes) -> list[PlayedLoad]:
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        if played := players.receive():
            return played
    pytest.fail("nothing is played")


def test_repeated_worker_deaths_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "MAX_DEATHS", 0)
    write(tmp_path, EXPERIMENT.replace("runs = 6", "runs = 1").replace('[[policies]]\nname = "uniform"\n', ""))
    (tmp_path / "deadly.py").write_text(DEADLY.replace('open("x")', 'open("w")'))
    with pytest.raises(UserError, match="again and again"):
        play(tmp_path, "out", Processes(1))


def test_worker_with_other_code_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its numbers would be stored as those of the code that has planned the experiment."""
    harmless = DEADLY.replace("os.kill(", "print(")
    write(tmp_path, EXPERIMENT)
    (tmp_path / "deadly.py").write_text(harmless, encoding="utf-8")
    task = experiments.load(tmp_path / "x.toml").tasks[1]
    unit = WorkUnit(0, task, 0, 1, 0, 1, work_units.hash_code(task))
    assert len(work_units.play_remote_load([unit])) == 1
    (tmp_path / "deadly.py").write_text(DEADLY, encoding="utf-8")
    assert len(work_units.play_remote_load([unit])) == 1  # it has imported it before the edit

    def refuse_in_new_process() -> None:
        monkeypatch.setattr(work_units, "_checked_code", set())
        with pytest.raises(UserError, match=r"deadly:Deadly.*other code"):
            work_units.play_remote_load([unit])

    refuse_in_new_process()
    (tmp_path / "deadly.py").write_text(harmless, encoding="utf-8")
    monkeypatch.setattr(work_units, "first_hash", lambda use: "another version")
    refuse_in_new_process()


def test_policy_module_of_another_folder_is_an_error(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, EXPERIMENT)
        (tmp_path / name / "deadly.py").write_text(DEADLY.replace("os.kill(", "print("), encoding="utf-8")
    play(tmp_path / "one", "out", None)
    complaint = rf"deadly:Deadly: another .* from {tmp_path}/one/deadly.py"
    with pytest.raises(UserError, match=complaint):
        play(tmp_path / "two", "out", None)
