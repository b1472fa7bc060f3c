"""Run an experiment: play its cells, save each when it is finished, and record the provenance of the results."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Protocol

from maskedbandits._numba import cache
from maskedbandits.experiments.backends import Backend, Threads
from maskedbandits.experiments.cache_key import CellSpec, build_specs, code_key
from maskedbandits.experiments.config import ExperimentConfig
from maskedbandits.experiments.policy_spec import Task
from maskedbandits.experiments.results import (
    Cell,
    CellOutcome,
    Label,
    Manifest,
    Results,
    save_manifest,
)
from maskedbandits.experiments.stored_runs import StoredRuns, list_gaps
from maskedbandits.experiments.work_units import LoadSplitter, WorkUnit, hash_code
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


def build_manifest(experiment: ExperimentConfig, specs: Sequence[CellSpec], command: str) -> Manifest:
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


def run(
    experiment: ExperimentConfig,
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
        The results folder; its finished cells are reused, and the finished runs of others.
    watcher
        An observer of the progress.
    command
        The command to note in the manifest.
    threads
        The number of threads, by default one for each core; the numbers do not depend on it.
    fresh
        Play everything again, also what is finished.
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
    stored = StoredRuns(folder)
    outcomes: dict[str, CellOutcome] = {}
    for key, each in numbers.items() if not fresh else ():
        if (found := stored.load_cell(specs[each[0]])) is not None:
            outcomes[key] = found
    watcher.start(len(manifest.labels), sum(len(numbers[key]) for key in outcomes))
    code = {task.policy: hash_code(task) for task in {each.policy: each for each in experiment.tasks}.values()}
    missing = [each[0] for key, each in numbers.items() if key not in outcomes]
    parts = {number: {} if fresh else stored.load_parts(specs[number]) for number in missing}
    cells = [
        unit
        for number in missing
        for unit in build_units(experiment, number, specs[number], parts[number], code[experiment.tasks[number].policy])
    ]

    def is_edited(task: Task) -> bool:
        return task.outside is not None and hash_code(task) != code[task.policy]

    def keep(unit: WorkUnit, part: Simulation) -> None:
        if not is_edited(unit.task):
            stored.save_part(specs[unit.cell], unit.first, part)

    with closing(play_cells(manifest, cells, parts, backend or Threads(threads), watcher, keep)) as played:
        for first, simulations in played:
            spec, key, task = specs[first], manifest.labels[first].key, experiment.tasks[first]
            outcomes[key] = CellOutcome.join(spec.facts, simulations)
            if is_edited(task):
                cache.say(f"{task.label}: files were edited during the run, so the cell is not stored: run it again")
            else:
                stored.save_cell(spec, outcomes[key])
            for number in numbers[key]:
                watcher.end(number, Cell(manifest.labels[number], outcomes[key]))
    return Results(manifest, tuple(Cell(label, outcomes[label.key]) for label in manifest.labels))


def build_units(
    experiment: ExperimentConfig, number: int, spec: CellSpec, parts: dict[int, Simulation], code: str
) -> list[WorkUnit]:
    """Return units with all runs of a cell that are not stored."""
    seed, checkpoints = spec.facts["seed"], spec.facts["checkpoints"]
    return [
        WorkUnit(number, experiment.tasks[number], seed, checkpoints, first, runs, code)
        for first, runs in list_gaps(parts, spec.runs)
    ]


def play_cells(
    manifest: Manifest,
    cells: Sequence[WorkUnit],
    parts: dict[int, dict[int, Simulation]],
    backend: Backend,
    watcher: Watcher,
    keep: Callable[[WorkUnit, Simulation], None],
) -> Generator[tuple[int, list[Simulation]]]:
    """Yield cells when the workers of a backend have finished them: their simulations, in the order of the runs.

    ``parts`` has the stored runs of each cell. ``keep`` stores runs of cells that are not finished yet.
    """
    missing: Counter[int] = Counter()
    for unit in cells:
        missing[unit.cell] += unit.runs
    for cell in [cell for cell in parts if cell not in missing]:
        yield cell, _in_order(parts.pop(cell))
    if not cells:
        return
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
                        yield unit.cell, _in_order(parts.pop(unit.cell))
                    else:
                        keep(unit, part)
            watcher.steps(done + backend.count_steps(), total)


def _in_order(parts: dict[int, Simulation]) -> list[Simulation]:
    """Return the parts of a cell in the order of their runs."""
    return [part for _, part in sorted(parts.items())]
