"""Work units: some runs of a cell, which a worker plays and the runner joins again.

The numbers of a run depend only on the seed of its cell and on its number among the runs. So cells can be split
anywhere, and any number of workers returns the same numbers. A worker gets a load: as many units as take it about a
second, and fewer towards the end, so that all workers finish together. The duration of a step is estimated from the
loads that have come back.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from maskedbandits._util.progress import Progress
from maskedbandits.contextual import Contextual, make_contextual
from maskedbandits.errors import UserError
from maskedbandits.experiments.policy_spec import Task
from maskedbandits.fingerprint import CELLS, first_hash
from maskedbandits.policies import KINDS, Policy, kind_of, make_policy
from maskedbandits.problems import ContextualProblem
from maskedbandits.simulation import simulator
from maskedbandits.simulation.simulator import Simulation

MAX_CACHED_POLICIES, MAX_CACHED_BYTES = 64, 1 << 20  # larger policies are not cached
MAX_PREPARED_STEPS = 1 << 22  # of units that are prepared together: their windows are in memory at once
MAX_LOAD_S = 1.0  # seconds of work in a load
MIN_LOAD_S = 0.05  # at the end, when little is left
UNIT_OVERHEAD_S = 1e-3  # seconds that a unit takes beside its steps
# Seconds of a step of a policy that has not been played yet. A high guess makes the first loads short.
STEP_GUESS_S, EXTERNAL_STEP_GUESS_S = 3e-6, 1e-4

_external_lock = threading.Lock()  # policies from outside may share state, so they are played one at a time
_policies: dict[Any, Policy | Contextual] = {}  # a cache; simulations do not change a policy
_checked_code: set[tuple[str, str]] = set()  # policies and their code that this process has, too

Play = Callable[[Progress | bool], Simulation]


@dataclass(frozen=True)
class WorkUnit:
    """Some runs of a cell."""

    cell: int  # its index in the manifest
    task: Task
    seed: int
    checkpoints: int | list[int]
    first: int
    runs: int
    code: str = ""  # of ``hash_code`` in the process that planned it; empty for no check

    @property
    def horizon(self) -> int:
        """The number of steps of a run."""
        return self.task.condition.problem.horizon

    @property
    def steps(self) -> int:
        """The number of steps of all runs."""
        return self.runs * self.horizon


def get_policy(task: Task) -> Policy | Contextual:
    """Return the policy of a task; many cells share one."""
    problem = task.condition.problem
    if task.own is not None and task.policy not in KINDS:  # in another process than the one that read the file
        task.own.resolve()
    shape = (problem.groups, task.condition.epsilon) if isinstance(problem, ContextualProblem) else None
    key = (task.policy, kind_of(task.policy).layout, repr(task.parameters), problem.corruption, shape)
    if key in _policies:
        return _policies[key]
    policy = build_policy(task)
    if policy.nbytes < MAX_CACHED_BYTES:
        if len(_policies) == MAX_CACHED_POLICIES:
            _policies.clear()
        _policies[key] = policy
    return policy


def build_policy(task: Task) -> Policy | Contextual:
    """Return a new policy for a task."""
    problem, epsilon = task.condition.problem, task.condition.epsilon
    parameters = {key: value for key, value in task.parameters.items() if key != "context"}
    if isinstance(problem, ContextualProblem) and task.parameters["context"]:
        assert epsilon is not None  # noqa: S101 -- such problems have no mask of their own
        return make_contextual(task.policy, groups=problem.groups, arms=problem.arms, epsilon=epsilon, **parameters)
    return make_policy(task.policy, arms=problem.arms, corruption=problem.corruption, **parameters)


def compile_load(load: Sequence[WorkUnit], known: set[Any], *, only_new: bool = False) -> None:
    """Compile or load the kernels of a load unless they are in ``known``: see ``simulator.get_ready``."""
    for task in (unit.task for unit in load):
        kind = (task.policy, type(task.condition.problem))
        if task.factory is None and kind not in known:
            known.add(kind)
            simulator.get_ready(task.condition.problem, get_policy(task), only_new=only_new)


def prepare_unit(unit: WorkUnit) -> Play:
    """Return the runs of a unit ready to be played in this thread."""
    task = unit.task
    with translate_errors(task):
        return simulator.prepare_runs(
            task.condition.problem,
            task.factory or get_policy(task),
            unit.runs,
            unit.seed,
            unit.checkpoints,
            first_run=unit.first,
            threads=1,
        )


def hash_code(task: Task) -> str:
    """Return a digest of the code behind a task: this package, and the files of a policy from outside."""
    return f"{first_hash(CELLS)} {task.outside.origin().sources if task.outside is not None else ''}"


def play_remote_load(load: Sequence[WorkUnit]) -> list[Simulation]:
    """Play a load in another process than the one that planned it, if both have the same code."""
    for unit in load:
        if unit.code and (unit.task.policy, unit.code) not in _checked_code:
            if hash_code(unit.task) != unit.code:
                raise UserError(
                    f"{unit.task.label}: a worker has other code than the process that started it: have the same on "
                    "all machines, edit nothing during a run, and start it again"
                )
            _checked_code.add((unit.task.policy, unit.code))
    return play_load(load)


def play_load(load: Sequence[WorkUnit], progress: Progress | bool = False) -> list[Simulation]:
    """Play all units of a load; ``progress`` starts from 0 for each unit."""
    simulations: list[Simulation] = []
    while len(simulations) < len(load):
        steps, ready = 0, list[tuple[Task, Play]]()
        for unit in load[len(simulations) :]:
            ready.append((unit.task, prepare_unit(unit)))
            steps += unit.steps
            if steps > MAX_PREPARED_STEPS:
                break
        for task, play in ready:
            with translate_errors(task), nullcontext() if task.factory is None else _external_lock:
                simulations.append(play(progress))
    return simulations


@contextmanager
def translate_errors(task: Task) -> Iterator[None]:
    """Turn errors of a simulation into one line that names the task."""
    try:
        yield
    except MemoryError as error:
        remedy = "ask for fewer runs or checkpoints, or for a shorter window"
        raise UserError(f"{task.label} on {task.condition}: there is not enough memory; {remedy}") from error
    except ValueError as error:
        raise UserError(f"{task.label} on {task.condition}: {error}") from error


class LoadSplitter:
    """Splits cells into loads, one after the other."""

    def __init__(self, cells: Iterable[WorkUnit], workers: int = 1) -> None:
        self.rest = deque(cells)
        self.workers = workers
        self.seconds: dict[str, float] = {}  # of a step, by kind
        self.steps: Counter[tuple[str, bool]] = Counter()  # left, by kind and whether it is from outside
        for cell in self.rest:
            self.steps[_kind_of(cell)] += cell.steps

    def next_load(self) -> list[WorkUnit]:
        """Return the next load; an empty one at the end."""
        load: list[WorkUnit] = []
        room = self._load_seconds()
        while self.rest and room > 0.0:
            cell = self.rest.popleft()
            run_seconds = self._step_seconds(*_kind_of(cell)) * cell.horizon
            if load and run_seconds > room:  # short cells are not lost with a long one that is interrupted
                self.rest.appendleft(cell)
                break
            runs = min(cell.runs, max(1, int(room / run_seconds)))
            load.append(replace(cell, runs=runs))
            self.steps[_kind_of(cell)] -= load[-1].steps
            room -= runs * run_seconds + UNIT_OVERHEAD_S
            if runs < cell.runs:
                self.rest.appendleft(replace(cell, first=cell.first + runs, runs=cell.runs - runs))
        return load

    def _step_seconds(self, kind: str, is_external: bool) -> float:
        return self.seconds.get(kind, EXTERNAL_STEP_GUESS_S if is_external else STEP_GUESS_S)

    def _load_seconds(self) -> float:
        """Return the seconds that the next load may take."""
        left = sum(steps * self._step_seconds(*kind) for kind, steps in self.steps.items())
        left += UNIT_OVERHEAD_S * len(self.rest)
        return min(MAX_LOAD_S, max(MIN_LOAD_S, left / (2 * self.workers)))

    def update(self, load: Sequence[WorkUnit], parts: Sequence[Simulation]) -> None:
        """Update the duration of a step from a load that has come back."""
        for unit, part in zip(load, parts, strict=True):
            measured = part.seconds / unit.steps
            kind, _ = _kind_of(unit)
            before = self.seconds.get(kind, measured)
            self.seconds[kind] = max(0.5 * (before + measured), 1e-9)


def _kind_of(unit: WorkUnit) -> tuple[str, bool]:
    """Return the kind of a unit, whose steps take about as long, and whether its policy is from outside.

    A policy that chooses by group is another kind than the same policy with one arm for all people.
    """
    suffix = " by group" if unit.task.parameters.get("context") else ""
    return f"{unit.task.policy}{suffix}", unit.task.factory is not None
