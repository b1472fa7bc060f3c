"""Pieces of cells: some runs of one, which a worker plays, and which are joined again.

A run's numbers depend on the seed of its cell and on its place among the runs, and on nothing else: so cells can be cut
anywhere, and the same numbers come back from any number of workers. A load for a worker is as many pieces as take it
about a second: what a cell of a kind takes is learnt from the pieces that have come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maskedbandits.errors import UserError
from maskedbandits.experiments.results import Outcome
from maskedbandits.experiments.tasks import Task
from maskedbandits.policies import make_policy
from maskedbandits.simulation import simulate

LOAD = 1.0  # seconds of work that are sent at once
GUESS = 3e-7  # seconds of a step, of a policy that has not been played yet


@dataclass(frozen=True)
class Piece:
    """Some runs of a cell."""

    cell: int  # its place in the plan
    task: Task
    question: dict[str, Any]
    first: int
    runs: int


def play(piece: Piece, threads: int | None, progress: Callable[[int, int], None] | bool) -> Outcome:
    """Play the runs of a piece."""
    task, problem = piece.task, piece.task.condition.problem
    try:
        result = simulate(
            problem,
            task.factory
            or make_policy(task.policy, arms=problem.arms, corruption=problem.corruption, **task.parameters),
            runs=piece.runs,
            seed=piece.question["seed"],
            checkpoints=piece.question["checkpoints"],
            first_run=piece.first,
            threads=threads,
            progress=progress,
        )
    except MemoryError as error:
        remedy = "ask for fewer runs or checkpoints, or for a shorter window"
        raise UserError(f"{task.label} on {task.condition}: there is not enough memory; {remedy}") from error
    except ValueError as error:
        raise UserError(f"{task.label} on {task.condition}: {error}") from error
    return Outcome(
        piece.question,
        result.times,
        result.regret,
        result.pulls,
        result.suboptimal_pulls,
        result.seconds,
        result.pulls_over_time,
    )


def play_load(load: Sequence[Piece]) -> list[Outcome]:
    """Play all pieces of a load in one thread: what a worker does."""
    return [play(piece, 1, False) for piece in load]


def joined(parts: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a cell from those of its pieces, in their order."""
    over_time = [part.pulls_over_time for part in parts if part.pulls_over_time is not None]
    return Outcome(
        parts[0].question,
        parts[0].times,
        regret=np.concatenate([part.regret for part in parts]),
        pulls=np.concatenate([part.pulls for part in parts]),
        suboptimal_pulls=np.concatenate([part.suboptimal_pulls for part in parts]),
        seconds=sum(part.seconds for part in parts),
        pulls_over_time=np.sum(over_time, axis=0),
    )


class Cutter:
    """Cuts cells into loads, one after the other."""

    def __init__(self, cells: Iterable[Piece]) -> None:
        self.rest = deque(cells)
        self.seconds: dict[str, float] = {}  # of a step, by policy

    def next_load(self) -> list[Piece]:
        """Return the next load; an empty one when all are cut."""
        load: list[Piece] = []
        room = LOAD
        while self.rest and room > 0.0:
            cell = self.rest.popleft()
            each = self.seconds.get(cell.task.policy, GUESS) * cell.task.condition.problem.horizon
            runs = min(cell.runs, max(1, int(room / each)))
            load.append(Piece(cell.cell, cell.task, cell.question, cell.first, runs))
            room -= runs * each
            if runs < cell.runs:
                rest = Piece(cell.cell, cell.task, cell.question, cell.first + runs, cell.runs - runs)
                self.rest.appendleft(rest)
        return load

    def learn(self, load: Sequence[Piece], parts: Sequence[Outcome]) -> None:
        """Learn from a load that has come back how long a step takes."""
        for piece, part in zip(load, parts, strict=True):
            found = part.seconds / (piece.runs * piece.task.condition.problem.horizon)
            before = self.seconds.get(piece.task.policy, found)
            self.seconds[piece.task.policy] = max(0.5 * (before + found), 1e-9)
