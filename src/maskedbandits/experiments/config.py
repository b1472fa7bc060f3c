"""A TOML file becomes an experiment: problems × corruptions × policies, checked before anything runs.

Every complaint is one line that names the file, the key and what was expected there. Nothing is compiled for it.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from maskedbandits.errors import LARGEST, UserError, WrongValueError, check_int
from maskedbandits.experiments.policy_spec import Task, labels_of, policies_of, tasks_of
from maskedbandits.experiments.problem_spec import Condition, conditions_of
from maskedbandits.experiments.toml_table import Section, got, show
from maskedbandits.problems import ContextualProblem

TOP_KEYS = ("title", "runs", "seed", "checkpoints", "epsilons", "problems", "policies", "grid")
MOST_NUMBERS = 1 << 33  # in all results together, which are held in memory: 64 GiB


@dataclass(frozen=True)
class Experiment:
    """Everything that a TOML file asks for."""

    file: str
    source: str
    title: str
    runs: int
    seed: int
    checkpoints: int | list[int]
    conditions: tuple[Condition, ...]
    tasks: tuple[Task, ...]


def load(path: str | os.PathLike[str], *, runs: int | None = None, seed: int | None = None) -> Experiment:
    """Read an experiment; `runs` and `seed` take the place of the file's own."""
    source = read(path)
    file = os.fspath(path)
    top = Section(file, "", parsed(file, source))
    top.refuse_unknown(TOP_KEYS)
    policies = policies_of(top)
    labels = labels_of(policies)
    conditions = conditions_of(top, labels)
    experiment = Experiment(
        file=file,
        source=source,
        title=top.text("title", printable(Path(path).stem)),
        runs=top.integer("runs", 100, least=1) if runs is None else check_int("runs", runs, 1, LARGEST),
        seed=top.integer("seed", 0) if seed is None else check_int("seed", seed, 0, LARGEST),
        checkpoints=checkpoints_of(top, conditions),
        conditions=conditions,
        tasks=tasks_of(policies, labels, conditions),
    )
    refuse_too_much(top, experiment)
    return experiment


def read(path: str | os.PathLike[str]) -> str:
    """Return a file's text, or say in one line why there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UserError(f"{os.fspath(path)}: no such file") from error
    except IsADirectoryError as error:
        raise UserError(f"{os.fspath(path)}: is a folder; expected a TOML file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{os.fspath(path)}: not valid TOML: byte {error.start} is not UTF-8 text") from error
    except OSError as error:
        raise UserError(f"{os.fspath(path)}: cannot be read: {error.strerror}") from error


def parsed(file: str, source: str) -> dict[str, Any]:
    """Return what a text of TOML says."""
    try:
        return tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise UserError(f"{file}: brackets are nested too deeply") from error
    except ValueError as error:  # Python reads no whole number of more than some thousand digits
        raise UserError(f"{file}: a number has thousands of digits") from error


def printable(name: str) -> str:
    """Return a file's name as a title: whatever a terminal would not print becomes a blank."""
    return "".join(letter if letter.isprintable() else " " for letter in name).strip() or "experiment"


def checkpoints_of(top: Section, conditions: Sequence[Condition]) -> int | list[int]:
    """Return how many checkpoints, or which."""
    value = top.values.get("checkpoints", 200)
    if not isinstance(value, list):
        return top.integer("checkpoints", 200, least=1)
    try:
        times = [check_int("checkpoints", time, 1, LARGEST) for time in value]
    except WrongValueError:
        times = []
    if not times or any(later <= earlier for earlier, later in pairwise(times)):
        raise top.mistake("checkpoints", f"expected a whole number, or increasing times from 1, {got(value)}")
    for condition in conditions:
        if times[-1] > condition.problem.horizon:
            expected = f"times up to the horizon {condition.problem.horizon} of {show(condition.name)}"
            raise top.mistake("checkpoints", f"expected {expected}, got {times[-1]}")
    return times


def refuse_too_much(top: Section, experiment: Experiment) -> None:
    """Refuse results that no machine could hold, rather than let the machine choke on them."""
    asked = experiment.checkpoints
    total = 0
    for task in experiment.tasks:
        problem = task.condition.problem
        times = min(asked, problem.horizon) if isinstance(asked, int) else len(asked) + 1
        groups = problem.groups if isinstance(problem, ContextualProblem) else 0
        total += experiment.runs * (times * (1 + groups) + 2 * problem.columns) + times * problem.columns
    if total > MOST_NUMBERS:
        raise top.mistake("runs", f"expected fewer, or fewer checkpoints: the results would take {total >> 27} GiB")
