"""Pieces of cells: some runs of one, which a worker plays, and which are joined again.

A run's numbers depend on the seed of its cell and on its place among the runs, and on nothing else: so cells can be cut
anywhere, and the same numbers come back from any number of workers. A load for a worker is as many pieces as take it
about a second, and less towards the end, so that all workers end together. What a step takes is learnt from the pieces
that have come back.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.progress import Progress
from maskedbandits.contextual import Contextual, make_contextual
from maskedbandits.errors import UserError
from maskedbandits.experiments.policy_spec import Task
from maskedbandits.experiments.results import Outcome
from maskedbandits.fingerprint import CELLS, first_hash
from maskedbandits.policies import Policy, kind_of, make_policy
from maskedbandits.problems import ContextualProblem
from maskedbandits.simulation import simulator
from maskedbandits.simulation.simulator import Simulation

KEPT, LIGHT = 64, 1 << 20  # policies that are kept, if they take up fewer bytes
TOGETHER = 1 << 22  # steps, about, of pieces that are prepared together: their windows lie in memory at once
ALONE = threading.Lock()  # for policies from outside: nobody knows what they share
LOAD = 1.0  # seconds of work that are sent at once
LEAST = 0.05  # and at the end, when little is left
BESIDE = 1e-3  # seconds that a piece takes beside its steps
# Seconds of a step, of a policy that has not been played yet: rather too many, which makes the first loads short.
GUESS, GUESS_OUTSIDE = 3e-6, 1e-4


_made: dict[Any, Policy | Contextual] = {}  # simulations change none of them

Play = Callable[[Progress | bool], Simulation]


@dataclass(frozen=True)
class Piece:
    """Some runs of a cell."""

    cell: int  # its place in the plan
    task: Task
    seed: int
    checkpoints: int | list[int]
    first: int
    runs: int
    code: str = ""  # what ``code_behind`` returns where it was asked for

    @property
    def horizon(self) -> int:
        """How many steps one run has."""
        return self.task.condition.problem.horizon

    @property
    def steps(self) -> int:
        """How many steps all of them have."""
        return self.runs * self.horizon


def policy_of(task: Task) -> Policy | Contextual:
    """Return the policy of a task that is one of ours: many cells have the same."""
    problem = task.condition.problem
    shape = (problem.groups, task.condition.epsilon) if isinstance(problem, ContextualProblem) else None
    key = (task.policy, kind_of(task.policy).layout, repr(task.parameters), problem.corruption, shape)
    if key in _made:
        return _made[key]
    policy = made_for(task)
    if policy.nbytes < LIGHT:
        if len(_made) == KEPT:
            _made.clear()
        _made[key] = policy
    return policy


def made_for(task: Task) -> Policy | Contextual:
    """Make the policy of a task."""
    problem, epsilon = task.condition.problem, task.condition.epsilon
    parameters = {key: value for key, value in task.parameters.items() if key != "context"}
    if isinstance(problem, ContextualProblem) and task.parameters["context"]:
        assert epsilon is not None  # noqa: S101 -- such problems have no mask of their own
        return make_contextual(task.policy, groups=problem.groups, arms=problem.arms, epsilon=epsilon, **parameters)
    return make_policy(task.policy, arms=problem.arms, corruption=problem.corruption, **parameters)


def get_ready(load: Sequence[Piece], known: set[Any], *, only_new: bool = False) -> None:
    """Compile what plays a load, or load it, unless it is known to be: see ``simulation.get_ready``."""
    for task in (piece.task for piece in load):
        kind = (task.policy, type(task.condition.problem))
        if task.factory is None and kind not in known:
            known.add(kind)
            simulator.get_ready(task.condition.problem, policy_of(task), only_new=only_new)


def prepared(piece: Piece) -> Play:
    """Return the runs of a piece ready to be played, in the thread that plays them."""
    task = piece.task
    with told(task):
        return simulator.prepared(
            task.condition.problem,
            task.factory or policy_of(task),
            piece.runs,
            piece.seed,
            piece.checkpoints,
            first_run=piece.first,
            threads=1,
        )


def code_behind(task: Task) -> str:
    """Return a digest of the files that play a task: this package's, and those of a policy from outside."""
    return f"{first_hash(CELLS)} {task.factory.origin().sources if task.factory is not None else ''}"


_same: set[tuple[str, str]] = set()  # policies and the code behind them that this process has, too


def play_elsewhere(load: Sequence[Piece]) -> list[Simulation]:
    """Play a load in a process that did not plan it; its numbers are stored as those of the code that did."""
    for piece in load:
        if piece.code and (piece.task.policy, piece.code) not in _same:
            if code_behind(piece.task) != piece.code:
                raise UserError(
                    f"{piece.task.label}: a worker has other code than the process that started it: have the same on "
                    "all machines, edit nothing during a run, and start it again"
                )
            _same.add((piece.task.policy, piece.code))
    return play_load(load)


def play_load(load: Sequence[Piece], progress: Progress | bool = False) -> list[Simulation]:
    """Play all pieces of a load: what a worker does; steps are told of each piece anew."""
    played: list[Simulation] = []
    while len(played) < len(load):
        steps, ready = 0, list[tuple[Task, Play]]()
        for piece in load[len(played) :]:
            ready.append((piece.task, prepared(piece)))
            steps += piece.steps
            if steps > TOGETHER:
                break
        for task, play in ready:
            with told(task), nullcontext() if task.factory is None else ALONE:
                played.append(play(progress))
    return played


@contextmanager
def told(task: Task) -> Iterator[None]:
    """Tell in a line what cannot be played."""
    try:
        yield
    except MemoryError as error:
        remedy = "ask for fewer runs or checkpoints, or for a shorter window"
        raise UserError(f"{task.label} on {task.condition}: there is not enough memory; {remedy}") from error
    except ValueError as error:
        raise UserError(f"{task.label} on {task.condition}: {error}") from error


def joined(question: dict[str, Any], parts: Sequence[Simulation]) -> Outcome:
    """Return the outcome of a cell from its pieces, in their order."""
    return Outcome(
        question,
        parts[0].times,
        regret=np.concatenate([part.regret for part in parts]),
        pulls=np.concatenate([part.pulls for part in parts]),
        suboptimal_pulls=np.concatenate([part.suboptimal_pulls for part in parts]),
        seconds=sum(part.seconds for part in parts),
        pulls_over_time=np.sum([part.pulls_over_time for part in parts], axis=0),
        kernel_seconds=sum(part.kernel_seconds for part in parts),
        group_regret=together([part.group_regret for part in parts if part.group_regret is not None]),
    )


def together(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """Return the regret of groups from that of some runs each; nothing where there are no groups."""
    return np.concatenate(parts) if parts else None


class Cutter:
    """Cuts cells into loads, one after the other."""

    def __init__(self, cells: Iterable[Piece], workers: int = 1) -> None:
        self.rest = deque(cells)
        self.workers = workers
        self.seconds: dict[str, float] = {}  # of a step, by policy
        self.steps: Counter[tuple[str, bool]] = Counter()  # that are left, likewise, and whether it is from outside
        for cell in self.rest:
            self.steps[_kind(cell)] += cell.steps

    def next_load(self) -> list[Piece]:
        """Return the next load; an empty one when all are cut."""
        load: list[Piece] = []
        room = self._room()
        while self.rest and room > 0.0:
            cell = self.rest.popleft()
            each = self._seconds(*_kind(cell)) * cell.horizon
            runs = min(cell.runs, max(1, int(room / each)))
            load.append(replace(cell, runs=runs))
            self.steps[_kind(cell)] -= load[-1].steps
            room -= runs * each + BESIDE
            if runs < cell.runs:
                self.rest.appendleft(replace(cell, first=cell.first + runs, runs=cell.runs - runs))
        return load

    def _seconds(self, policy: str, outside: bool) -> float:
        return self.seconds.get(policy, GUESS_OUTSIDE if outside else GUESS)

    def _room(self) -> float:
        """Return how many seconds the next load may take."""
        left = sum(steps * self._seconds(*kind) for kind, steps in self.steps.items())
        left += BESIDE * len(self.rest)
        return min(LOAD, max(LEAST, left / (2 * self.workers)))

    def learn(self, load: Sequence[Piece], parts: Sequence[Simulation]) -> None:
        """Learn from a load that has come back how long a step takes."""
        for piece, part in zip(load, parts, strict=True):
            found = part.seconds / piece.steps
            kind, _ = _kind(piece)
            before = self.seconds.get(kind, found)
            self.seconds[kind] = max(0.5 * (before + found), 1e-9)


def _kind(piece: Piece) -> tuple[str, bool]:
    """Return what takes about as long: a policy, that of every group being another than one for everybody."""
    asks = " for each group" if piece.task.parameters.get("context") else ""
    return f"{piece.task.policy}{asks}", piece.task.factory is not None
