"""Running an experiment: cell after cell, each saved as soon as it is finished.

Every cell has a seed of its own, derived from the experiment's seed and from what the cell asks (problem,
corruption, policy), never from its place in the file. So a cell's numbers stay the same when others are
added, removed or reordered, and more runs repeat the first ones and go on. The seeds differ between cells on
purpose: the errors of two intervals are then independent, and one unlucky draw cannot bend a whole figure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from maskedbandits.errors import UserError
from maskedbandits.experiments.config import Experiment
from maskedbandits.experiments.results import (
    Cell,
    Label,
    Outcome,
    Plan,
    Results,
    canonical,
    digest,
    load_outcome,
    plain,
    save_outcome,
    save_plan,
)
from maskedbandits.experiments.tasks import Task
from maskedbandits.policies import make_policy
from maskedbandits.simulation import simulate

# What cannot change a cell's numbers, because it only shows them. Whatever is not named here counts: a file that is
# forgotten costs a run too many, and never a number that is out of date.
PRESENTATION = ("__main__.py", "cli", "cli.py", "experiments/progress.py", "report")


class Watcher(Protocol):
    """Somebody who is told how far the experiment has come."""

    def start(self, cells: int, kept: int) -> None:
        """Hear how many cells there are, and how many of them an earlier run has finished."""

    def begin(self, number: int, label: Label) -> None:
        """Hear that a cell starts."""

    def steps(self, done: int, total: int) -> None:
        """Hear how many steps of the cell are done."""

    def end(self, number: int, cell: Cell) -> None:
        """Hear that the cell is finished and saved."""


@cache
def code() -> str:
    """Return a digest of the code that makes the numbers: another code's cells are not taken for ours."""
    return code_in(Path(__file__).parents[1])


def code_in(package: Path) -> str:
    """Return a digest of everything in a package but its presentation."""
    found = hashlib.sha256()
    for path in sorted(files_that_matter(package)):
        name, content = path.relative_to(package).as_posix().encode(), path.read_bytes()
        found.update(b"%d %d " % (len(name), len(content)) + name + content)
    return found.hexdigest()[:24]


def files_that_matter(package: Path) -> Iterator[Path]:
    """Yield all files of a package but those that show things, and what the interpreter leaves there."""
    shown = [package / name for name in PRESENTATION]
    for path in package.rglob("*"):
        within = {path, *path.parents}
        if path.is_file() and "__pycache__" not in path.parts and within.isdisjoint(shown):
            yield path


def asked_of(task: Task) -> dict[str, Any]:
    """Return what a cell asks, in plain values."""
    problem, matrices = task.condition.problem, task.condition.matrices
    asked = {
        "means": problem.means,
        "starts": problem.starts,
        "horizon": problem.horizon,
        "p00": [matrix.p00 for matrix in matrices],
        "p11": [matrix.p11 for matrix in matrices],
        "policy": task.policy,
        "parameters": task.parameters,
    }
    return {key: plain(value) for key, value in asked.items()}


def cell_seed(seed: int, asked: dict[str, Any]) -> int:
    """Return a cell's own seed from the experiment's and from what the cell asks."""
    words = np.frombuffer(hashlib.sha256(canonical(asked).encode()).digest(), dtype="<u4")
    state = np.random.SeedSequence([seed, *map(int, words)]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))  # 63 bits: a signed integer anywhere


def up_to_the_end(checkpoints: int | list[int], horizon: int) -> int | list[int]:
    """Return the checkpoints, the horizon among them: tables tell the regret of the whole play."""
    if isinstance(checkpoints, int) or checkpoints[-1] == horizon:
        return checkpoints
    return [*checkpoints, horizon]


def question_of(experiment: Experiment, task: Task) -> dict[str, Any]:
    """Return everything that determines a cell's numbers."""
    asked = asked_of(task)
    return {
        **asked,
        "runs": experiment.runs,
        "seed": cell_seed(experiment.seed, asked),
        "checkpoints": up_to_the_end(experiment.checkpoints, task.condition.problem.horizon),
        "code": code(),
    }


def plan_of(experiment: Experiment, command: str) -> Plan:
    """Return the plan that is kept beside the results."""
    labels = tuple(
        Label(
            digest(question_of(experiment, task)),
            task.condition.name,
            task.label,
            task.condition.epsilon,
            task.window_rule,
            task.published,
        )
        for task in experiment.tasks
    )
    return Plan(
        title=experiment.title,
        version=version("maskedbandits"),
        command=command,
        file=experiment.file,
        source=experiment.source,
        labels=labels,
    )


def play(question: dict[str, Any], task: Task, threads: int | None, progress: Callable[[int, int], None]) -> Outcome:
    """Run one cell."""
    problem = task.condition.problem
    try:
        policy = make_policy(task.policy, arms=problem.arms, corruption=problem.corruption, **task.parameters)
        result = simulate(
            problem,
            policy,
            runs=question["runs"],
            seed=question["seed"],
            checkpoints=question["checkpoints"],
            threads=threads,
            progress=progress,
        )
    except MemoryError as error:
        remedy = "ask for fewer runs or checkpoints, or for a shorter window"
        raise UserError(f"{task.label} on {task.condition}: there is not enough memory; {remedy}") from error
    except ValueError as error:
        raise UserError(f"{task.label} on {task.condition}: {error}") from error
    return Outcome(question, result.times, result.regret, result.pulls, result.suboptimal_pulls, result.seconds)


def finished(folder: Path, key: str) -> Outcome | None:
    """Return a cell that an earlier run has finished; a damaged one counts as not run, and is replaced."""
    try:
        outcome = load_outcome(folder, key)
    except UserError:
        return None
    return outcome if outcome is not None and digest(outcome.question) == key else None


def run(
    experiment: Experiment,
    folder: Path,
    watcher: Watcher,
    *,
    command: str,
    threads: int | None = None,
    fresh: bool = False,
) -> Results:
    """Run what is not finished yet and return all of it; `fresh` runs even what is."""
    plan = plan_of(experiment, command)
    save_plan(folder, plan)
    outcomes = [None if fresh else finished(folder, label.key) for label in plan.labels]
    watcher.start(len(outcomes), sum(outcome is not None for outcome in outcomes))
    cells = []
    for number, (task, label, outcome) in enumerate(zip(experiment.tasks, plan.labels, outcomes, strict=True)):
        if outcome is not None:
            cells.append(Cell(label, outcome))
            continue
        watcher.begin(number, label)
        outcome = play(question_of(experiment, task), task, threads, watcher.steps)
        save_outcome(folder, label.key, outcome)
        cells.append(Cell(label, outcome))
        watcher.end(number, cells[-1])
    return Results(plan, tuple(cells))
