"""Cache keys of cells: everything that determines their numbers, and nothing else.

Every cell has a seed of its own, derived from the experiment's seed and from its problem, corruption and policy, never
from its place in the file. So a cell's numbers stay the same when others are added, removed or reordered, and more runs
repeat the first ones and go on. The seeds differ between cells on purpose: the errors of two intervals are then
independent, and one unlucky draw cannot bend a whole figure.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from maskedbandits._numba import cache
from maskedbandits.experiments import corruption_spec
from maskedbandits.experiments.canonical_json import canonical, digest, plain
from maskedbandits.experiments.config import Experiment
from maskedbandits.experiments.policy_spec import Task
from maskedbandits.experiments.problem_spec import Condition
from maskedbandits.fingerprint import CELLS, package_key
from maskedbandits.policies import kind_of
from maskedbandits.problems import ContextualProblem, Log, Replay

DIGITS = 24  # of a fingerprint
UNKNOWN = uuid.uuid4().hex[:DIGITS]  # the fingerprint of what cannot be compared: no other process has it


@dataclass(frozen=True)
class Question:
    """What a cell asks, in plain values, and each of them as JSON; cells of one condition share what is long."""

    facts: dict[str, Any]
    texts: dict[str, str]

    @property
    def text(self) -> str:
        """The one JSON text of the question: what ``canonical`` makes of its facts."""
        return assembled(self.texts)

    @property
    def key(self) -> str:
        """The name of the cell."""
        return digest(self.text)


def assembled(texts: Mapping[str, str]) -> str:
    """Return the one JSON text of a table from those of its values."""
    return "{" + ",".join(f"{json.dumps(key)}:{texts[key]}" for key in sorted(texts)) + "}"


def questions_of(experiment: Experiment) -> list[Question]:
    """Return what each of the tasks asks; what is the same in all of a condition is reckoned once."""
    found: list[Question] = []
    sources = {task.policy: source_of(task) for task in {each.policy: each for each in experiment.tasks}.values()}
    for _, tasks in groupby(experiment.tasks, key=lambda task: id(task.condition)):
        alike = list(tasks)
        shared = stated(world_of(alike[0].condition))
        found += [question_of(experiment, task, shared, sources[task.policy]) for task in alike]
    return found


def stated(values: Mapping[str, Any]) -> Question:
    """Return values as a part of a question."""
    facts = {key: plain(value) for key, value in values.items()}
    return Question(facts, {key: canonical(value) for key, value in facts.items()})


def question_of(experiment: Experiment, task: Task, shared: Question, source: str) -> Question:
    """Return everything that determines a cell's numbers."""
    own = stated(policy_of(task))
    texts = shared.texts | own.texts
    rest = stated(
        {
            "runs": experiment.runs,
            "seed": cell_seed(experiment.seed, assembled(texts)),
            "checkpoints": up_to_the_end(experiment.checkpoints, task.condition.problem.horizon),
            "code": code(),
            **({"source": source} if source else {}),  # not in the seed: an edit must not change random numbers
        }
    )
    return Question({**shared.facts, **own.facts, **rest.facts}, texts | rest.texts)


def world_of(condition: Condition) -> dict[str, Any]:
    """Return what all cells of a condition ask."""
    problem = condition.problem
    asked: dict[str, Any] = {
        "means": problem.means,
        "starts": problem.starts,
        "horizon": problem.horizon,
        **corruption_spec.asked_of(problem, condition.masks),
    }
    if isinstance(problem, ContextualProblem):
        return asked | {"shares": problem.shares, "epsilon": condition.epsilon}
    return asked | {"record": record_of(problem)} if isinstance(problem, Replay | Log) else asked


def policy_of(task: Task) -> dict[str, Any]:
    """Return what a cell asks of a policy."""
    return {"policy": task.policy, "parameters": task.parameters}


def record_of(problem: Replay | Log) -> list[str]:
    """Return whether rounds or a log are played, and a digest of what was recorded."""
    arrays = [problem.outcomes] if isinstance(problem, Replay) else [problem.chosen, problem.rewards]
    found = hashlib.sha256()
    for array in arrays:
        found.update(f"{array.shape} {array.dtype.str} ".encode() + np.ascontiguousarray(array).tobytes())
    return ["rounds" if isinstance(problem, Replay) else "log", found.hexdigest()[:24]]


def cell_seed(seed: int, asked: str) -> int:
    """Return a cell's own seed from the experiment's and from the text of what the cell asks."""
    words = np.frombuffer(hashlib.sha256(asked.encode()).digest(), dtype="<u4")
    state = np.random.SeedSequence([seed, *map(int, words)]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))  # 63 bits: a signed integer anywhere


def up_to_the_end(checkpoints: int | list[int], horizon: int) -> int | list[int]:
    """Return the checkpoints, the horizon among them: tables tell the regret of the whole play."""
    if isinstance(checkpoints, int) or checkpoints[-1] == horizon:
        return checkpoints
    return [*checkpoints, horizon]


def code() -> str:
    """Return the key of the code that makes the numbers: another code's cells are not taken for ours."""
    if not package_key(CELLS):
        cache.say(
            "the sources of maskedbandits cannot be read, so cells are played again each time; install it unpacked"
        )
    return package_key(CELLS)[:DIGITS] or UNKNOWN


def source_of(task: Task) -> str:
    """Return the fingerprint of a policy of your own; nothing if a policy is this package's."""
    if task.factory is None and not kind_of(task.policy).is_own:
        return ""
    origin = task.factory.origin() if task.factory is not None else kind_of(task.policy).origin
    if origin.doubt:
        cache.say(f"cells of {task.policy} are played again each time: {origin.doubt}")
    return UNKNOWN if origin.doubt else origin.digest[:DIGITS]
