"""Results of an experiment on disk: written cell by cell, loaded again exactly.

A results folder holds

    results.json        what was asked: the TOML, the command, and the name of every cell
    cells/<key>.npz     one finished cell: its arrays, and the question they answer

A cell's key is a digest of everything that determines its numbers, and of nothing else. So an interrupted
experiment goes on where it stopped, and a cell whose question has changed is never mistaken for the new one.
Every file appears whole or not at all, and none needs pickle.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from maskedbandits.errors import DAMAGED, UserError

FORMAT = 1
INDEX = "results.json"
ARRAYS = ("times", "regret", "pulls", "suboptimal_pulls")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: JSON has no infinity, so that one is the word "inf"."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value


def canonical(value: Any) -> str:
    """Return the one JSON text of a value, whatever the order of its keys."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """Return a stable name for a value: the same on every machine and in every process."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Label:
    """What a cell is called: nothing here changes its numbers."""

    key: str
    problem: str
    policy: str
    epsilon: float | None  # None where the problem gives its own p00 and p11
    window: str | None = None  # the rule that chose the window, if one did
    published: float | None = None  # the regret that a publication reports

    @property
    def setting(self) -> str:
        """The corruption, as a figure's title says it."""
        if self.epsilon is None:
            return "own p00, p11"
        return "ε = ∞" if math.isinf(self.epsilon) else f"ε = {self.epsilon:g}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The numbers of one cell, and the question that they answer."""

    question: dict[str, Any]
    times: Ints
    regret: Floats
    pulls: Ints
    suboptimal_pulls: Ints
    seconds: float


@dataclass(frozen=True, eq=False)
class Cell:
    """One finished cell: a policy on a problem under one corruption."""

    label: Label
    outcome: Outcome

    @property
    def runs(self) -> int:
        """How many times the cell was played."""
        return int(self.outcome.regret.shape[0])

    @property
    def horizon(self) -> int:
        """How many steps one run has."""
        return int(self.outcome.question["horizon"])

    @property
    def changes(self) -> list[int]:
        """The times at which the means change."""
        return [int(start) for start in self.outcome.question["starts"][1:]]

    @property
    def window(self) -> int | str | None:
        """The window that the policy was given, if it has one; the word inf for one without end."""
        window: int | str | None = self.outcome.question["parameters"].get("window")
        return window

    @cached_property
    def mean(self) -> Floats:
        """Mean regret at each checkpoint."""
        return np.asarray(self.outcome.regret.mean(axis=0), dtype=np.float64)

    @cached_property
    def half_width(self) -> Floats:
        """Half of the 95 % interval of the mean regret (Student's t); NaN with a single run."""
        if self.runs < 2:
            return np.full_like(self.mean, math.nan)
        spread = self.outcome.regret.std(axis=0, ddof=1) / math.sqrt(self.runs)
        return np.asarray(stdtrit(self.runs - 1, 0.975) * spread, dtype=np.float64)

    @property
    def suboptimal_share(self) -> float:
        """The share of steps in which another arm than the best was pulled."""
        return float(self.outcome.suboptimal_pulls.sum() / (self.runs * self.horizon))

    @property
    def steps_per_second(self) -> float:
        """Simulated steps per second of wall time."""
        return self.runs * self.horizon / max(self.outcome.seconds, 1e-9)


@dataclass(frozen=True)
class Plan:
    """What was asked: enough to name every cell and to run it all again."""

    title: str
    version: str
    command: str
    file: str
    source: str
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class Results:
    """A plan and those of its cells that are finished, in the plan's order."""

    plan: Plan
    cells: tuple[Cell, ...]

    @property
    def complete(self) -> bool:
        """Whether every cell of the plan is finished."""
        return len(self.cells) == len(self.plan.labels)


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file so that it appears whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
        Path(temporary).chmod(0o644)  # mkstemp makes files that only their owner can read
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def refuse_other_format(path: Path, found: object) -> None:
    """Refuse a file that another version has written in another way."""
    if found != FORMAT:
        raise UserError(f"{path}: format {found}, this version reads format {FORMAT}")


def save_plan(folder: Path, plan: Plan) -> None:
    """Write what is asked; the folder is made where it does not exist."""
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    facts = {"format": FORMAT, **plain(asdict(plan))}
    text = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(folder / INDEX, lambda stream: stream.write(text.encode()))


def save_outcome(folder: Path, key: str, outcome: Outcome) -> None:
    """Write a finished cell."""
    facts = canonical({"format": FORMAT, "question": outcome.question, "seconds": outcome.seconds})
    arrays = {name: getattr(outcome, name) for name in ARRAYS}
    write_whole(
        folder / "cells" / f"{key}.npz",
        lambda stream: np.savez_compressed(stream, facts=np.array(facts), **arrays),
    )


def load_outcome(folder: Path, key: str) -> Outcome | None:
    """Return a finished cell, or None where there is none; a damaged file is refused."""
    path = folder / "cells" / f"{key}.npz"
    try:
        # opened here, because numpy leaves a damaged file open
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            facts = json.loads(str(stored["facts"]))
            arrays = {name: stored[name] for name in ARRAYS}
        refuse_other_format(path, facts["format"])
        return Outcome(facts["question"], seconds=facts["seconds"], **arrays)
    except FileNotFoundError:
        return None
    except UserError:
        raise
    except DAMAGED as error:
        raise UserError(f"{path}: damaged results file; delete it and run again to replace it") from error


def _load_plan(folder: Path) -> Plan:
    """Read what was asked of a results folder."""
    path = folder / INDEX
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        refuse_other_format(path, facts.pop("format"))
        labels = tuple(_label(entry) for entry in facts.pop("labels"))
        return Plan(labels=labels, **facts)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"{folder}: no results here; expected a folder that `maskedbandits run` has made") from error
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: damaged results file; run the experiment again to replace it") from error


def _label(entry: dict[str, Any]) -> Label:
    """Return a label from its JSON form."""
    epsilon = entry.pop("epsilon")
    return Label(epsilon=None if epsilon is None else float(epsilon), **entry)


def load(folder: str | os.PathLike[str]) -> Results:
    """Load a results folder: its plan, and the cells that are finished."""
    folder = Path(folder)
    plan = _load_plan(folder)
    cells = []
    for label in plan.labels:
        outcome = load_outcome(folder, label.key)
        if outcome is not None:
            cells.append(Cell(label, outcome))
    return Results(plan, tuple(cells))
