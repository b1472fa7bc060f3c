"""Read an experiment from a TOML file: problems × corruptions × policies, checked before anything runs.

Every error is one line that names the file, the key and the expected value. Nothing is compiled for it.
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
from maskedbandits.experiments import own_files
from maskedbandits.experiments.policy_spec import Task, build_tasks, read_labels, read_policies
from maskedbandits.experiments.problem_spec import Condition, read_conditions
from maskedbandits.experiments.toml_table import Key, TomlTable, describe_actual, format_value
from maskedbandits.problems import ContextualProblem

TOP_KEYS = {
    "title": Key("text", "the heading of the report", "the file's name"),
    "runs": Key("whole number", "runs of each cell", "100"),
    "seed": Key("whole number", "the seed that all seeds are derived from", "0"),
    "checkpoints": Key("whole number or list", "how many checkpoints, evenly spaced, or their times", "200"),
    "epsilons": Key("list of numbers", "an epsilon for each condition of a problem; `inf` is no privacy"),
    "problems": Key("array of tables", "`[[problems]]`, at least one"),
    "policies": Key("array of tables", "`[[policies]]`, at least one"),
    "folder": Key(
        "text or list of texts",
        "the folder of CSV files and of your own modules; of several, CSV files are in the first",
        "that of the file",
    ),
    "register": Key("table", "your own compiled policies by name: the module of each", "none"),
    "grid": Key("table", "`[grid.problems]` and `[grid.policies]`: each table takes every value of a list", "no sweep"),
}
MAX_NUMBERS = 1 << 33  # in all results together, which are held in memory: 64 GiB


@dataclass(frozen=True)
class ExperimentConfig:
    """An experiment as its TOML file describes it.

    Parameters
    ----------
    file, source
        The name of the file, and its text.
    title
        The heading of the report.
    runs, seed
        Runs of each cell, and the seed that all seeds are derived from.
    checkpoints
        The number of checkpoints, or their times.
    conditions
        The problems under each of their corruptions.
    tasks
        The cells: each policy in each condition.
    base
        The folder from which paths in it start.
    folders
        The folders of CSV files and of your own modules.

    """

    file: str
    source: str
    title: str
    runs: int
    seed: int
    checkpoints: int | list[int]
    conditions: tuple[Condition, ...]
    tasks: tuple[Task, ...]
    base: Path
    folders: tuple[Path, ...]


def load(path: str | os.PathLike[str], *, runs: int | None = None, seed: int | None = None) -> ExperimentConfig:
    """Read an experiment from a TOML file.

    Parameters
    ----------
    path
        The file.
    runs, seed
        Values in place of the file's.

    Returns
    -------
    ExperimentConfig
        The experiment, checked.

    Raises
    ------
    UserError
        If the file cannot be read, or a value in it cannot be used.

    """
    file = os.fspath(path)
    base, title = Path(path).absolute().parent, make_printable(Path(path).stem)
    return parse(file, read_text(path), title=title, base=base, runs=runs, seed=seed)


def parse(
    file: str, source: str, *, title: str, base: Path, runs: int | None = None, seed: int | None = None
) -> ExperimentConfig:
    """Return the experiment in a TOML text.

    ``file`` names it in errors, ``title`` is its default title, and paths in it start at ``base``.
    """
    top = TomlTable(file, "", parse_toml(file, source))
    top.check_keys(TOP_KEYS)
    top.folders = own_files.read_folders(top, base)
    own_files.register_policies(top)
    policies = read_policies(top)
    labels = read_labels(policies)
    conditions = read_conditions(top, labels)
    experiment = ExperimentConfig(
        file=file,
        source=source,
        title=top.get_text("title", title),
        runs=top.get_int("runs", 100, least=1) if runs is None else check_int("runs", runs, 1, LARGEST),
        seed=top.get_int("seed", 0) if seed is None else check_int("seed", seed, 0, LARGEST),
        checkpoints=read_checkpoints(top, conditions),
        conditions=conditions,
        tasks=build_tasks(policies, labels, conditions),
        base=base,
        folders=top.folders,
    )
    check_memory(top, experiment)
    return experiment


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file, or raise a one-line error."""
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


def parse_toml(file: str, source: str) -> dict[str, Any]:
    """Return the table in a TOML text."""
    try:
        return tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise UserError(f"{file}: brackets are nested too deeply") from error
    except ValueError as error:  # Python reads no whole number of more than some thousand digits
        raise UserError(f"{file}: a number has thousands of digits") from error


def make_printable(name: str) -> str:
    """Return the name of a file as a title, with blanks for characters that a terminal cannot print."""
    return "".join(letter if letter.isprintable() else " " for letter in name).strip() or "experiment"


def read_checkpoints(top: TomlTable, conditions: Sequence[Condition]) -> int | list[int]:
    """Return the number of checkpoints, or their times."""
    value = top.values.get("checkpoints", 200)
    if not isinstance(value, list):
        return top.get_int("checkpoints", 200, least=1)
    try:
        times = [check_int("checkpoints", time, 1, LARGEST) for time in value]
    except WrongValueError:
        times = []
    if not times or any(later <= earlier for earlier, later in pairwise(times)):
        raise top.error("checkpoints", f"expected a whole number, or increasing times from 1, {describe_actual(value)}")
    for condition in conditions:
        if times[-1] > condition.problem.horizon:
            expected = f"times up to the horizon {condition.problem.horizon} of {format_value(condition.name)}"
            raise top.error("checkpoints", f"expected {expected}, got {times[-1]}")
    return times


def check_memory(top: TomlTable, experiment: ExperimentConfig) -> None:
    """Raise an error for results that would not fit into memory."""
    checkpoints = experiment.checkpoints
    total = 0
    for task in experiment.tasks:
        problem = task.condition.problem
        times = min(checkpoints, problem.horizon) if isinstance(checkpoints, int) else len(checkpoints) + 1
        groups = problem.groups if isinstance(problem, ContextualProblem) else 0
        total += experiment.runs * (times * (1 + groups) + 2 * problem.columns) + times * problem.columns
    if total > MAX_NUMBERS:
        raise top.error("runs", f"expected fewer, or fewer checkpoints: the results would take {total >> 27} GiB")
