"""Running an experiment: cell after cell, each saved as soon as it is finished.

Every cell has a seed of its own, derived from the experiment's seed and from what the cell asks (problem,
corruption, policy), never from its place in the file. So a cell's numbers stay the same when others are
added, removed or reordered, and more runs repeat the first ones and go on. The seeds differ between cells on
purpose: the errors of two intervals are then independent, and one unlucky draw cannot bend a whole figure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import maskedbandits
from maskedbandits.errors import UserError
from maskedbandits.experiments.config import Experiment, Task
from maskedbandits.policies import make_policy
from maskedbandits.results import (
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
from maskedbandits.simulation import simulate

# What can change a cell's numbers; the rest of the package only asks for them or shows them.
NUMBERS_COME_FROM = ("core/*.py", "corruption.py", "environments.py", "policies.py", "simulation.py")


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
    root = Path(maskedbandits.__file__).parent
    files = sorted(path for pattern in NUMBERS_COME_FROM for path in root.glob(pattern))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:24]


def world_and_policy(task: Task) -> dict[str, Any]:
    """Return what a cell asks, in plain values."""
    problem = task.world.problem
    asked = {
        "means": problem.means,
        "starts": problem.starts,
        "horizon": problem.horizon,
        "p00": [matrix.p00 for matrix in task.world.matrices],
        "p11": [matrix.p11 for matrix in task.world.matrices],
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
    asked = world_and_policy(task)
    return {
        **asked,
        "runs": experiment.runs,
        "seed": cell_seed(experiment.seed, asked),
        "checkpoints": up_to_the_end(experiment.checkpoints, task.world.problem.horizon),
        "code": code(),
    }


def plan_of(experiment: Experiment, command: str) -> Plan:
    """Return the plan that is kept beside the results."""
    labels = tuple(
        Label(
            digest(question_of(experiment, task)),
            task.world.name,
            task.label,
            task.world.epsilon,
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
    problem = task.world.problem
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
    return Outcome(question, result.times, result.regret, result.pulls, result.suboptimal_pulls, result.seconds)


def finished(folder: Path, key: str) -> Outcome | None:
    """Return a cell that an earlier run has finished; a damaged one counts as not run, and is replaced."""
    try:
        return load_outcome(folder, key)
    except UserError:
        return None


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
