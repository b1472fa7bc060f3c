"""Run an experiment: play its cells, save each as soon as it is finished, note where results come from.

Where results come from: versions, machine, and the commit of the experiment's folder, as a reader would ask.

Running an experiment: cells are played somewhere, and each is saved as soon as it is finished.
"""

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
from maskedbandits.experiments.cache_key import Question, code, questions_of
from maskedbandits.experiments.canonical_json import canonical, digest
from maskedbandits.experiments.config import Experiment
from maskedbandits.experiments.results import Cell, Label, Outcome, Plan, Results, load_outcome, save_outcome, save_plan
from maskedbandits.experiments.work_units import Cutter, Piece, code_behind, joined
from maskedbandits.simulation.simulator import Simulation, cores

PACKAGES = ("maskedbandits", "numpy", "numba", "scipy")


def provenance(file: Path, code: str) -> dict[str, str]:
    """Return what is worth knowing of a run of an experiment, in words."""
    told = {"python": platform.python_version()}
    for package in PACKAGES:
        told[package] = version_of(package)
    told["system"] = f"{platform.system()} {platform.release()}, {platform.machine()}, {cores()} cores"
    told["code"] = code
    told["commit"] = commit_of(file.absolute().parent)
    return {key: value for key, value in told.items() if value}


def version_of(package: str) -> str:
    """Return an installed package's version; nothing where there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def commit_of(folder: Path) -> str:
    """Return the commit that a folder stands at, marked if something in it has changed; nothing outside of git."""
    git = shutil.which("git")
    if git is None:
        return ""
    asked = [git, "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603 -- ours
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


class Watcher(Protocol):
    """Somebody who is told how far the experiment has come."""

    def start(self, cells: int, kept: int) -> None:
        """Hear how many cells there are, and how many of them an earlier run has finished."""

    def begin(self, number: int, label: Label) -> None:
        """Hear that a cell, or several from this one on, are given to somebody to play."""

    def steps(self, done: int, total: int) -> None:
        """Hear how many steps are done, of those of all cells that are to be played."""

    def end(self, number: int, cell: Cell) -> None:
        """Hear that a cell is finished and saved."""


def plan_of(experiment: Experiment, questions: Sequence[Question], command: str) -> Plan:
    """Return the plan that is kept beside the results."""
    labels = tuple(
        Label(
            question.key,
            task.condition.name,
            task.label,
            task.condition.epsilon,
            task.window_rule,
            task.published,
        )
        for task, question in zip(experiment.tasks, questions, strict=True)
    )
    return Plan(
        title=experiment.title,
        version=version("maskedbandits"),
        command=command,
        file=experiment.file,
        source=experiment.source,
        labels=labels,
        provenance=provenance(Path(experiment.file), code()),
        arms={each.name: list(each.arms) for each in experiment.conditions if each.arms},
    )


def finished(folder: Path, key: str) -> Outcome | None:
    """Return a cell that an earlier run has finished; a damaged one counts as not run, and is replaced."""
    try:
        outcome = load_outcome(folder, key)
    except UserError:
        return None
    return outcome if outcome is not None and digest(canonical(outcome.question)) == key else None


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
    """Run what is not finished yet, in threads or by a backend, and return all of it; `fresh` runs even what is."""
    questions = questions_of(experiment)
    plan = plan_of(experiment, questions, command)
    save_plan(folder, plan)
    numbers: defaultdict[str, list[int]] = defaultdict(list)  # cells that ask the same are one
    for number, label in enumerate(plan.labels):
        numbers[label.key].append(number)
    outcomes = {} if fresh else {key: outcome for key in numbers if (outcome := finished(folder, key)) is not None}
    watcher.start(len(plan.labels), sum(len(numbers[key]) for key in outcomes))
    behind = {task.policy: code_behind(task) for task in {each.policy: each for each in experiment.tasks}.values()}
    places = [each[0] for key, each in numbers.items() if key not in outcomes]
    todo = [whole_cell(experiment, place, questions, behind[experiment.tasks[place].policy]) for place in places]
    with closing(shared_out(plan, todo, backend or Threads(threads), watcher)) as played:
        for first, parts in played:
            question, key, task = questions[first], plan.labels[first].key, experiment.tasks[first]
            outcomes[key] = joined(question.facts, parts)
            if task.factory is not None and code_behind(task) != behind[task.policy]:
                cache.say(f"{task.label}: files were edited during the run, so the cell is not stored: run it again")
            else:
                save_outcome(folder, key, outcomes[key], question.text)
            for number in numbers[key]:
                watcher.end(number, Cell(plan.labels[number], outcomes[key]))
    return Results(plan, tuple(Cell(label, outcomes[label.key]) for label in plan.labels))


def whole_cell(experiment: Experiment, number: int, questions: Sequence[Question], code: str) -> Piece:
    """Return all runs of a cell."""
    asked = questions[number].facts
    return Piece(number, experiment.tasks[number], asked["seed"], asked["checkpoints"], 0, experiment.runs, code)


def shared_out(
    plan: Plan, todo: Sequence[Piece], backend: Backend, watcher: Watcher
) -> Generator[tuple[int, list[Simulation]]]:
    """Yield cells as they are finished by the workers of a backend: the parts of each, in the order of its runs."""
    if not todo:
        return
    missing = {piece.cell: piece.runs for piece in todo}
    parts: dict[int, dict[int, Simulation]] = {piece.cell: {} for piece in todo}
    total, done, under_way = sum(piece.steps for piece in todo), 0, 0
    with backend:
        cutter = Cutter(todo, backend.workers)
        while missing:
            while under_way < 2 * backend.workers and (load := cutter.next_load()):
                watcher.begin(load[0].cell, plan.labels[load[0].cell])
                backend.send(load)
                under_way += 1
            for played, found in backend.back():
                under_way -= 1
                cutter.learn(played, found)
                for piece, part in zip(played, found, strict=True):
                    done += piece.steps
                    parts[piece.cell][piece.first] = part
                    missing[piece.cell] -= piece.runs
                    if missing[piece.cell] == 0:
                        del missing[piece.cell]
                        yield piece.cell, [part for _, part in sorted(parts.pop(piece.cell).items())]
            watcher.steps(done + backend.under_way(), total)
