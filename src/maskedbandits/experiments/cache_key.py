"""Cache keys of cells: digests of everything that determines the numbers of a cell, and nothing else.

Every cell has its own seed, derived from the experiment's seed, its problem, corruption and policy, but not from its
position in the file. So the numbers of a cell stay the same when other cells are added, removed or reordered, and
more runs continue the first ones. The name of a cell leaves out the number of runs, and its key adds it. The seeds
differ between cells on purpose: the errors of two intervals are then independent, and one unlucky draw cannot bend a
whole figure.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from maskedbandits._numba import cache
from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.errors import LARGEST
from maskedbandits.experiments import corruption_spec
from maskedbandits.experiments.canonical_json import encode_canonical, hash_text, to_plain
from maskedbandits.experiments.config import ExperimentConfig
from maskedbandits.experiments.policy_spec import Task
from maskedbandits.experiments.problem_spec import Condition
from maskedbandits.fingerprint import CELLS, package_key
from maskedbandits.policies import kind_of
from maskedbandits.problems import ContextualProblem, Log, Replay

FINGERPRINT_DIGITS = 24
FLOATS = ("epsilon", "sigma", "variation")  # parameters that a problem fills in as floats
COUNTS = ("runs", "first")  # facts that say which runs of a cell there are
UNKNOWN = uuid.uuid4().hex[:FINGERPRINT_DIGITS]  # for code that cannot be compared: differs in every process


@dataclass(frozen=True)
class CellSpec:
    """The specification of a cell: facts in plain values, and the JSON of each.

    The texts exist because cells of one condition share long values, which are encoded once.
    """

    facts: dict[str, Any]
    texts: dict[str, str]

    @property
    def text(self) -> str:
        """The canonical JSON of the facts."""
        return join_texts(self.texts)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return int(self.facts["runs"])

    @lockfree_cached_property
    def name(self) -> str:
        """The name that cells with other numbers of runs share."""
        return hash_text(join_texts({key: text for key, text in self.texts.items() if key not in COUNTS}))

    @property
    def key(self) -> str:
        """The cache key of the cell, which is the name of its file."""
        return f"{self.name}-{self.runs}"


def join_texts(texts: Mapping[str, str]) -> str:
    """Return the canonical JSON of a table from that of its values."""
    return "{" + ",".join(f"{json.dumps(key)}:{texts[key]}" for key in sorted(texts)) + "}"


def hash_name(facts: Mapping[str, Any]) -> str:
    """Return the name of a cell by its facts (``CellSpec.name``)."""
    return hash_text(encode_canonical({key: value for key, value in facts.items() if key not in COUNTS}))


def build_specs(experiment: ExperimentConfig) -> list[CellSpec]:
    """Return the specification of each task; facts of a condition are encoded once."""
    specs: list[CellSpec] = []
    sources = {task.policy: source_of(task) for task in {each.policy: each for each in experiment.tasks}.values()}
    for _, group in groupby(experiment.tasks, key=lambda task: id(task.condition)):
        tasks = list(group)
        shared = encode_facts(condition_facts(tasks[0].condition))
        specs += [build_spec(experiment, task, shared, sources[task.policy]) for task in tasks]
    return specs


def encode_facts(values: Mapping[str, Any]) -> CellSpec:
    """Return some facts as a part of a specification."""
    facts = {key: to_plain(value) for key, value in values.items()}
    return CellSpec(facts, {key: encode_canonical(value) for key, value in facts.items()})


def build_spec(experiment: ExperimentConfig, task: Task, shared: CellSpec, source: str) -> CellSpec:
    """Return the specification of a task; ``shared`` has the facts of its condition."""
    # A policy in plain Python may treat 1 and 1.0 differently.
    parameters = unify_numbers(task.parameters) if task.factory is None else task.parameters
    own = encode_facts({"policy": task.policy, "parameters": parameters})
    texts = shared.texts | own.texts
    rest = encode_facts(
        {
            "runs": experiment.runs,
            "seed": derive_seed(experiment.seed, join_texts(texts)),
            "checkpoints": add_horizon(experiment.checkpoints, task.condition.problem.horizon),
            "code": code_key(),
            **({"source": source} if source else {}),  # not in the seed: an edit must not change random numbers
        }
    )
    return CellSpec({**shared.facts, **own.facts, **rest.facts}, texts | rest.texts)


def unify_numbers(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters in which equal numbers have one form: 1.0 is written 1, unless it may be filled in."""
    return {key: convert_numbers(value, float if key in FLOATS else to_shortest) for key, value in parameters.items()}


def convert_numbers(value: Any, convert: Callable[[float], float]) -> Any:
    """Return a plain value in which all numbers are converted."""
    plain = to_plain(value)
    if isinstance(plain, list):
        return [convert_numbers(each, convert) for each in plain]
    return convert(plain) if isinstance(plain, int | float) and not isinstance(plain, bool) else plain


def to_shortest(number: float) -> float:
    """Return a float without decimals as a whole number, as long as floats are exact."""
    return int(number) if abs(number) <= LARGEST and number == int(number) else number


def condition_facts(condition: Condition) -> dict[str, Any]:
    """Return the facts that all cells of a condition share."""
    problem = condition.problem
    facts: dict[str, Any] = {
        "means": problem.means,
        "starts": problem.starts,
        "horizon": problem.horizon,
        **corruption_spec.list_facts(problem, condition.masks),
    }
    if isinstance(problem, ContextualProblem):
        return facts | {"shares": problem.shares, "epsilon": condition.epsilon}
    return facts | {"record": hash_record(problem)} if isinstance(problem, Replay | Log) else facts


def hash_record(problem: Replay | Log) -> list[str]:
    """Return the kind of a record, rounds or log, and a digest of its data."""
    arrays = [problem.outcomes] if isinstance(problem, Replay) else [problem.chosen, problem.rewards]
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype.str} ".encode() + np.ascontiguousarray(array).tobytes())
    return ["rounds" if isinstance(problem, Replay) else "log", digest.hexdigest()[:24]]


def derive_seed(seed: int, text: str) -> int:
    """Return the seed of a cell from the experiment's seed and the text of the cell's facts."""
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    state = np.random.SeedSequence([seed, *map(int, words)]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))  # 63 bits: a signed integer anywhere


def add_horizon(checkpoints: int | list[int], horizon: int) -> int | list[int]:
    """Return the checkpoints with the horizon, since tables show the final regret."""
    if isinstance(checkpoints, int) or checkpoints[-1] == horizon:
        return checkpoints
    return [*checkpoints, horizon]


def code_key() -> str:
    """Return the fingerprint of the package: cells of other code are played again."""
    if not package_key(CELLS):
        cache.say(
            "the sources of maskedbandits cannot be read, so cells are played again each time; install it unpacked"
        )
    return package_key(CELLS)[:FINGERPRINT_DIGITS] or UNKNOWN


def source_of(task: Task) -> str:
    """Return the fingerprint of a user's own policy; an empty text for policies of this package."""
    if task.outside is None and not kind_of(task.policy).is_own:
        return ""
    origin = task.outside.origin() if task.outside is not None else kind_of(task.policy).origin
    if origin.doubt:
        cache.say(f"cells of {task.policy} are played again each time: {origin.doubt}")
    return UNKNOWN if origin.doubt else origin.digest[:FINGERPRINT_DIGITS]
