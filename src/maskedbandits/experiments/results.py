"""Results of an experiment on disk: written cell by cell, loaded again exactly.

A results folder holds

    results.json        what was asked: the TOML, the command, and the name of every cell
    cells/<key>.npz     one finished cell: its arrays, and the question they answer

A cell's key is a digest of everything that determines its numbers, and of nothing else. So an interrupted
experiment goes on where it stopped, and a cell whose question has changed is never mistaken for the new one.
Every file appears whole or not at all, and none needs pickle.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from maskedbandits._util.files import HEADERS, MOST, archive, refuse_more, unpacked_sizes
from maskedbandits._util.files import write_whole as write_whole
from maskedbandits.errors import DAMAGED, UserError, number, shown
from maskedbandits.experiments import validation
from maskedbandits.experiments.canonical_json import canonical, plain
from maskedbandits.experiments.cells import Cell as Cell
from maskedbandits.experiments.cells import Label as Label
from maskedbandits.experiments.cells import Outcome as Outcome
from maskedbandits.experiments.cells import half_width as half_width

FORMAT = 1
INDEX = "results.json"
SMALL = 1 << 18  # bytes of a cell that are not worth packing
ARRAYS, LATER = validation.ARRAYS, validation.LATER


@dataclass(frozen=True)
class Plan:
    """What was asked: enough to name every cell and to run it all again."""

    title: str
    version: str
    command: str
    file: str
    source: str
    labels: tuple[Label, ...]
    provenance: dict[str, str] = field(default_factory=dict)  # versions, machine, commit; none in older folders
    arms: dict[str, list[str]] = field(default_factory=dict)  # their names, by problem, where they have any


@dataclass(frozen=True)
class Results:
    """A plan and those of its cells that are finished, in the plan's order."""

    plan: Plan
    cells: tuple[Cell, ...]

    @property
    def complete(self) -> bool:
        """Whether every cell of the plan is finished."""
        return len(self.cells) == len(self.plan.labels)

    def frame(self, library: str | None = None) -> Any:
        """Return one long table, a row for each run and checkpoint, as a frame of pandas or polars.

        Without a name, of whichever is installed, pandas first. ``experiments.frame`` says what the columns are.
        """
        from maskedbandits.experiments import dataframe

        return dataframe.of(self.cells, library)


def save_plan(folder: Path, plan: Plan) -> None:
    """Write what is asked; the folder is made where it does not exist."""
    (folder / "cells").mkdir(parents=True, exist_ok=True)
    facts = {"format": FORMAT, **plain(asdict(plan))}
    text = json.dumps(facts, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(folder / INDEX, lambda stream: stream.write(text.encode()))


def save_outcome(folder: Path, key: str, outcome: Outcome, question: str | None = None) -> None:
    """Write a finished cell; whoever has its question as a text gives it, too.

    It may be lost in a power cut: then the cell is damaged, and is played again. To wait for the disk takes longer than
    to play a short cell; so does to pack what is small, and regrets hardly get smaller.
    """
    question = canonical(outcome.question) if question is None else question
    times = canonical({"seconds": outcome.seconds, "kernel_seconds": outcome.kernel_seconds})
    facts = f'{{"format":{FORMAT},"question":{question},{times[1:]}'
    arrays = {name: getattr(outcome, name) for name in (*ARRAYS, *LATER) if getattr(outcome, name) is not None}
    stored = {"facts": np.array(facts), **arrays}
    path = folder / "cells" / f"{key}.npz"
    if sum(array.nbytes for array in stored.values()) < SMALL:
        write_whole(path, lambda stream: stream.write(archive(stored)), lasting=False)
    else:
        write_whole(path, lambda stream: np.savez_compressed(stream, **stored), lasting=False)


def load_outcome(folder: Path, key: str) -> Outcome | None:
    """Return a finished cell, or None where there is none; a damaged file is refused."""
    path = folder / "cells" / f"{key}.npz"
    try:
        # opened here, because numpy leaves a damaged file open
        with path.open("rb") as stream:
            return _read_outcome(path, stream)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read_outcome(path: Path, stream: IO[bytes]) -> Outcome:
    """Read a finished cell, and see whether it is one."""
    try:
        sizes = unpacked_sizes(stream)
        with np.load(stream, allow_pickle=False) as stored:
            refuse_more(sizes, ["facts"], MOST)
            facts = json.loads(str(stored["facts"]))
            _refuse_other_format(path, facts["format"])
            wanted = [*ARRAYS, *(name for name in LATER if name in sizes)]
            refuse_more(sizes, wanted, validation.bytes_of(facts["question"]) + HEADERS)
            arrays = {name: stored[name] for name in wanted}
        seconds, spent = facts["seconds"], facts.get("kernel_seconds")
        validation.check_outcome(facts["question"], seconds, arrays)
        spent = None if spent is None else number("kernel_seconds", spent, 0.0)
        return Outcome(facts["question"], seconds=float(seconds), kernel_seconds=spent, **arrays)
    except OtherFormatError:
        raise
    except DAMAGED as error:
        why = validation.reason(error)
        raise UserError(f"{path}: damaged results file{why}; delete it and run again to replace it") from error


def _load_plan(folder: Path) -> Plan:
    """Read what was asked of a results folder."""
    path = folder / INDEX
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"{folder}: no results here; expected a folder that `maskedbandits run` has made") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        facts = json.loads(text.decode("utf-8"))
        _refuse_other_format(path, facts.pop("format"))
        validation.check_plan(facts)
        labels = tuple(_label(entry) for entry in facts.pop("labels"))
        return Plan(labels=labels, **facts)
    except OtherFormatError:
        raise
    except DAMAGED as error:
        why = validation.reason(error)
        raise UserError(f"{path}: damaged results file{why}; run the experiment again to replace it") from error


class OtherFormatError(UserError):
    """A file that another version has written in another way."""


def _refuse_other_format(path: Path, found: object) -> None:
    if found != FORMAT:
        raise OtherFormatError(f"{path}: format {shown(found)}, this version reads format {FORMAT}")


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
            _refuse_other_names(folder / INDEX, plan, cells[-1])
    return Results(plan, tuple(cells))


def _refuse_other_names(path: Path, plan: Plan, cell: Cell) -> None:
    """Refuse names that are not those of the arms of a cell."""
    names, arms = plan.arms.get(cell.label.problem), cell.arms
    if names is not None and len(names) != arms:
        raise UserError(f"{path}: damaged results file: {len(names)} names for {arms} arms; run the experiment again")
