"""Run an experiment: play its cells, save each when it is finished, and record the provenance of the results."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from maskedbandits._numba import cache
from maskedbandits.errors import UserError
from maskedbandits.experiments.backends import Backend, Threads
from maskedbandits.experiments.cache_key import CellSpec, build_specs, code_key
from maskedbandits.experiments.canonical_json import encode_canonical, hash_text
from maskedbandits.experiments.config import Experiment
from maskedbandits.experiments.results import (
    Cell,
    CellOutcome,
    Label,
    Manifest,
    Results,
    load_outcome,
    save_manifest,
    save_outcome,
)
from maskedbandits.experiments.work_units import LoadSplitter, WorkUnit, hash_code, join_simulations
from maskedbandits.simulation.simulator import Simulation, count_cores

PACKAGES = ("maskedbandits", "numpy", "numba", "scipy")


def collect_provenance(file: Path, code: str) -> dict[str, str]:
    """Return the versions, the machine and the commit behind a run."""
    facts = {"python": platform.python_version()}
    for package in PACKAGES:
        facts[package] = version_of(package)
    facts["system"] = f"{platform.system()} {platform.release()}, {platform.machine()}, {count_cores()} cores"
    facts["code"] = code
    facts["commit"] = commit_of(file.absolute().parent)
    return {key: value for key, value in facts.items() if value}


def version_of(package: str) -> str:
    """Return the version of an installed package, or an empty text."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def commit_of(folder: Path) -> str:
    """Return the git commit of a folder, marked if files have changed; an empty text outside of git."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        reply = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603 -- ours
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return reply.stdout.strip() if reply.returncode == 0 else ""


class Watcher(Protocol):
    """An observer of the progress of an experiment."""

    def start(self, cells: int, reused: int) -> None:
        """Take the number of cells, and of those that an earlier run has finished."""

    def begin(self, number: int, label: Label) -> None:
        """Take the first cell of a load that goes to a worker."""

    def steps(self, done: int, total: int) -> None:
        """Take the number of steps done, and of all cells to be played."""

    def end(self, number: int, cell: Cell) -> None:
        """Take a cell that is finished and saved."""


def build_manifest(experiment: Experiment, specs: Sequence[CellSpec], command: str) -> Manifest:
    """Return the manifest of an experiment."""
    labels = tuple(
        Label(
            spec.key,
            task.condition.name,
            task.label,
            task.condition.epsilon,
            task.window_rule,
            task.published,
        )
        for task, spec in zip(experiment.tasks, specs, strict=True)
    )
    return Manifest(
        title=experiment.title,
        version=version("maskedbandits"),
        command=command,
        file=experiment.file,
        source=experiment.source,
        labels=labels,
        provenance=collect_provenance(Path(experiment.file), code_key()),
        arms={each.name: list(each.arms) for each in experiment.conditions if each.arms},
    )


def load_finished(folder: Path, key: str) -> CellOutcome | None:
    """Return a cell that an earlier run has finished; a damaged one is played again."""
    try:
        outcome = load_outcome(folder, key)
    except UserError:
        return None
    return outcome if outcome is not None and hash_text(encode_canonical(outcome.spec)) == key else None


def run(
    experiment: Experiment,
    folder: Path,
    watcher: Watcher,
    *,
    command: str,
    threads: int | None = None,
    fresh: bool = False,
    backend: Backend | None = None,
) -> Results:
    """Play the cells of an experiment that are not finished, and return all of them.

    Parameters
    ----------
    experiment
        The experiment.
    folder
        The results folder; its finished cells are reused.
    watcher
        An observer of the progress.
    command
        The command to note in the manifest.
    threads
        The number of threads, by default one for each core; the numbers do not depend on it.
    fresh
        Play finished cells again.
    backend
        The workers, in place of threads.

    Returns
    -------
    Results
        All cells.

    Raises
    ------
    UserError
        If a policy cannot be played on a problem.

    """
    specs = build_specs(experiment)
    manifest = build_manifest(experiment, specs, command)
    save_manifest(folder, manifest)
    numbers: defaultdict[str, list[int]] = defaultdict(list)  # cells with the same key are played once
    for number, label in enumerate(manifest.labels):
        numbers[label.key].append(number)
    outcomes = {} if fresh else {key: found for key in numbers if (found := load_finished(folder, key)) is not None}
    watcher.start(len(manifest.labels), sum(len(numbers[key]) for key in outcomes))
    code = {task.policy: hash_code(task) for task in {each.policy: each for each in experiment.tasks}.values()}
    missing = [each[0] for key, each in numbers.items() if key not in outcomes]
    cells = [build_unit(experiment, number, specs, code[experiment.tasks[number].policy]) for number in missing]
    with closing(play_cells(manifest, cells, backend or Threads(threads), watcher)) as played:
        for first, parts in played:
            spec, key, task = specs[first], manifest.labels[first].key, experiment.tasks[first]
            outcomes[key] = join_simulations(spec.facts, parts)
            if task.outside is not None and hash_code(task) != code[task.policy]:
                cache.say(f"{task.label}: files were edited during the run, so the cell is not stored: run it again")
            else:
                save_outcome(folder, key, outcomes[key], spec.text)
            for number in numbers[key]:
                watcher.end(number, Cell(manifest.labels[number], outcomes[key]))
    return Results(manifest, tuple(Cell(label, outcomes[label.key]) for label in manifest.labels))


def build_unit(experiment: Experiment, number: int, specs: Sequence[CellSpec], code: str) -> WorkUnit:
    """Return a unit with all runs of a cell."""
    facts = specs[number].facts
    return WorkUnit(number, experiment.tasks[number], facts["seed"], facts["checkpoints"], 0, experiment.runs, code)


def play_cells(
    manifest: Manifest, cells: Sequence[WorkUnit], backend: Backend, watcher: Watcher
) -> Generator[tuple[int, list[Simulation]]]:
    """Yield cells when the workers of a backend have finished them: their simulations, in the order of the runs."""
    if not cells:
        return
    missing = {unit.cell: unit.runs for unit in cells}
    parts: dict[int, dict[int, Simulation]] = {unit.cell: {} for unit in cells}
    total, done, loads = sum(unit.steps for unit in cells), 0, 0
    with backend:
        splitter = LoadSplitter(cells, backend.workers)
        while missing:
            while loads < 2 * backend.workers and (load := splitter.next_load()):
                watcher.begin(load[0].cell, manifest.labels[load[0].cell])
                backend.send(load)
                loads += 1
            for played, simulations in backend.receive():
                loads -= 1
                splitter.update(played, simulations)
                for unit, part in zip(played, simulations, strict=True):
                    done += unit.steps
                    parts[unit.cell][unit.first] = part
                    missing[unit.cell] -= unit.runs
                    if missing[unit.cell] == 0:
                        del missing[unit.cell]
                        yield unit.cell, [part for _, part in sorted(parts.pop(unit.cell).items())]
            watcher.steps(done + backend.count_steps(), total)
