"""Running an experiment: cell after cell, each saved as soon as it is finished.

Every cell has a seed of its own, derived from the experiment's seed and from what the cell asks (problem,
corruption, policy), never from its place in the file. So a cell's numbers stay the same when others are
added, removed or reordered, and more runs repeat the first ones and go on. The seeds differ between cells on
purpose: the errors of two intervals are then independent, and one unlucky draw cannot bend a whole figure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from maskedbandits import outside
from maskedbandits.errors import UserError
from maskedbandits.experiments.backends import Backend
from maskedbandits.experiments.config import Experiment
from maskedbandits.experiments.pieces import Cutter, Piece, joined, play
from maskedbandits.experiments.provenance import provenance
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
from maskedbandits.problems import Log, Replay

# What cannot change a cell's numbers, because it only shows them. Whatever is not named here counts: a file that is
# forgotten costs a run too many, and never a number that is out of date.
PRESENTATION = (
    "__main__.py",
    "cli",
    "cli.py",
    "device",
    "experiments/frame.py",
    "experiments/progress.py",
    "experiments/provenance.py",
    "report",
    "service",
)


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
    if isinstance(problem, Replay | Log):
        asked["record"] = record_of(problem)
    if task.factory is not None:
        asked["source"] = outside.source_of(task.factory.found())
    return {key: plain(value) for key, value in asked.items()}


def record_of(problem: Replay | Log) -> list[str]:
    """Return whether rounds or a log are played, and a digest of what was recorded."""
    arrays = [problem.outcomes] if isinstance(problem, Replay) else [problem.chosen, problem.rewards]
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.shape} {array.dtype.str} ".encode() + np.ascontiguousarray(array).tobytes())
    return ["rounds" if isinstance(problem, Replay) else "log", found.hexdigest()[:24]]


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


def plan_of(experiment: Experiment, questions: Sequence[dict[str, Any]], command: str) -> Plan:
    """Return the plan that is kept beside the results."""
    labels = tuple(
        Label(
            digest(question),
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
    )


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
    backend: Backend | None = None,
) -> Results:
    """Run what is not finished yet, in threads or by a backend, and return all of it; `fresh` runs even what is."""
    questions = [question_of(experiment, task) for task in experiment.tasks]
    plan = plan_of(experiment, questions, command)
    save_plan(folder, plan)
    cells: dict[int, Cell] = {}
    for number, label in enumerate(plan.labels):
        outcome = None if fresh else finished(folder, label.key)
        if outcome is not None:
            cells[number] = Cell(label, outcome)
    watcher.start(len(plan.labels), len(cells))
    todo = [
        Piece(number, task, questions[number], 0, experiment.runs)
        for number, task in enumerate(experiment.tasks)
        if number not in cells
    ]
    played = played_here(plan, todo, watcher, threads) if backend is None else shared_out(todo, backend)
    for number, outcome in played:
        save_outcome(folder, plan.labels[number].key, outcome)
        cells[number] = Cell(plan.labels[number], outcome)
        watcher.end(number, cells[number])
    return Results(plan, tuple(cells[number] for number in sorted(cells)))


def played_here(
    plan: Plan, todo: Sequence[Piece], watcher: Watcher, threads: int | None
) -> Iterator[tuple[int, Outcome]]:
    """Yield cell after cell, played in threads."""
    for piece in todo:
        watcher.begin(piece.cell, plan.labels[piece.cell])
        yield piece.cell, play(piece, threads, watcher.steps)


def shared_out(todo: Sequence[Piece], backend: Backend) -> Iterator[tuple[int, Outcome]]:
    """Yield cells as they are finished by the workers of a backend."""
    if not todo:
        return
    missing = {piece.cell: piece.runs for piece in todo}
    parts: dict[int, dict[int, Outcome]] = {piece.cell: {} for piece in todo}
    cutter, under_way = Cutter(todo), 0
    with backend:
        while missing:
            while under_way < 2 * backend.workers and (load := cutter.next_load()):
                backend.send(load)
                under_way += 1
            for played, outcomes in backend.back():
                under_way -= 1
                cutter.learn(played, outcomes)
                for piece, outcome in zip(played, outcomes, strict=True):
                    parts[piece.cell][piece.first] = outcome
                    missing[piece.cell] -= piece.runs
                    if missing[piece.cell] == 0:
                        del missing[piece.cell]
                        yield piece.cell, joined([part for _, part in sorted(parts.pop(piece.cell).items())])
