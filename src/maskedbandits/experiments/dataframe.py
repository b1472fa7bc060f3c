"""Results as one long table: a row for each run and checkpoint, for whoever goes on with tools of their own.

problem     its name
epsilon     inf is no privacy; nothing where the problem has a mask of its own
policy      its name, such as sw-klucb-cf
label       what the experiment calls it
parameters  as JSON, windows that a rule has chosen among them
run         from 0 on
checkpoint  steps played
regret      cumulative pseudo-regret of the run at the checkpoint

and where there are problems with groups, for the largest number of them,

regret_group_0, regret_group_1, ...  what people of each group have lost; nothing where there is no such group
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util import extras
from maskedbandits.errors import UserError, nearest
from maskedbandits.experiments.canonical_json import canonical
from maskedbandits.experiments.results import Cell

COLUMNS = ("problem", "epsilon", "policy", "label", "parameters", "run", "checkpoint", "regret")
LIBRARIES = ("pandas", "polars")


def facts(cell: Cell) -> tuple[str, float | None, str, str, str]:
    """Return what is the same in all rows of a cell: the first columns."""
    question = cell.outcome.question
    parameters = canonical(question["parameters"])
    return cell.label.problem, cell.label.epsilon, question["policy"], cell.label.policy, parameters


def groups_in(cells: Sequence[Cell]) -> int:
    """Return the largest number of groups."""
    return max((len(cell.shares or ()) for cell in cells), default=0)


def names_of(groups: int) -> list[str]:
    """Return the names of the columns."""
    return [*COLUMNS, *(f"regret_group_{group}" for group in range(groups))]


def regret_of(cell: Cell, group: int) -> NDArray[np.float64]:
    """Return the regret of a group, (runs, C); NaN where there is no such group."""
    found = cell.outcome.group_regret
    return (
        np.full(cell.outcome.regret.shape, np.nan) if found is None or group >= found.shape[2] else found[:, :, group]
    )


def columns(cells: Sequence[Cell], groups: int) -> dict[str, NDArray[Any]]:
    """Return the whole table, column by column, with so many groups; a number that is none is NaN."""
    sizes = [cell.outcome.regret.size for cell in cells]
    same = list(zip(*(facts(cell) for cell in cells), strict=True))
    made: dict[str, NDArray[Any]] = {}
    for name, values in zip(COLUMNS, same, strict=False):
        kind = np.float64 if name == "epsilon" else np.object_
        made[name] = np.repeat(np.array(values, dtype=kind), sizes)
    shapes = [cell.outcome.regret.shape for cell in cells]
    made["run"] = np.concatenate([np.repeat(np.arange(runs), times) for runs, times in shapes])
    made["checkpoint"] = np.concatenate([np.tile(cell.outcome.times, cell.runs) for cell in cells])
    made["regret"] = np.concatenate([cell.outcome.regret.ravel() for cell in cells])
    for group, name in enumerate(names_of(groups)[len(COLUMNS) :]):
        made[name] = np.concatenate([regret_of(cell, group).ravel() for cell in cells])
    return made


def of(cells: Sequence[Cell], library: str | None = None) -> Any:
    """Return the table as a frame of a library, or of the first that is installed."""
    if library is not None and library not in LIBRARIES:
        raise UserError(f"no frames of {library!r}{nearest(library, LIBRARIES)}")
    installed = [name for name in LIBRARIES if not extras.missing([name]) and library in (None, name)]
    if not installed:
        raise UserError(f"a frame needs {library or 'pandas or polars'}: pip install {library or 'pandas'}")
    table = columns(cells, groups_in(cells))
    if installed[0] == "pandas":
        return importlib.import_module("pandas").DataFrame(table)
    polars = importlib.import_module("polars")
    texts = {name: table[name].tolist() for name in COLUMNS if table[name].dtype == np.object_}
    made = polars.DataFrame({**table, **texts})
    may_be_none = ["epsilon", *names_of(groups_in(cells))[len(COLUMNS) :]]
    return made.with_columns(polars.col(name).fill_nan(None) for name in may_be_none)


def csv_rows(cells: Sequence[Cell]) -> Iterator[bytes]:
    """Yield the table as lines of comma-separated values in UTF-8, a cell at a time; numbers are exact."""
    groups = groups_in(cells)
    yield (",".join(names_of(groups)) + "\n").encode()
    for cell in cells:
        start = io.StringIO()
        csv.writer(start, lineterminator="").writerow(facts(cell))
        before = start.getvalue()
        times = cell.outcome.times.tolist()
        ends = endings(cell, groups)
        lines = [
            f"{before},{run},{time},{regret!r}{end}\n"
            for run, regrets in enumerate(cell.outcome.regret.tolist())
            for time, regret, end in zip(times, regrets, ends[run], strict=True)
        ]
        yield "".join(lines).encode()


def endings(cell: Cell, groups: int) -> list[list[str]]:
    """Return how the lines of a cell end, by run and checkpoint: with the regret of each group."""
    found = np.stack([regret_of(cell, group) for group in range(groups)], axis=2) if groups else None
    if found is None:
        return [[""] * cell.outcome.times.size] * cell.runs
    return [["".join("," if each != each else f",{each!r}" for each in row) for row in run] for run in found.tolist()]


def write_csv(cells: Sequence[Cell], stream: IO[bytes]) -> None:
    """Write the table as comma-separated values."""
    for part in csv_rows(cells):
        stream.write(part)


def write_parquet(cells: Sequence[Cell], stream: IO[bytes]) -> None:
    """Write the table as Parquet, a group of rows for each cell."""
    extras.need("Parquet", extras.PARQUET, "parquet")
    arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    whole, text, number = arrow.int64(), arrow.dictionary(arrow.int32(), arrow.string()), arrow.float64()
    groups = groups_in(cells)
    names, kinds = names_of(groups), [text, number, text, text, text, whole, whole, number, *[number] * groups]
    schema = arrow.schema(list(zip(names, kinds, strict=True)))
    with parquet.ParquetWriter(stream, schema) as writer:
        for cell in cells:
            table = columns([cell], groups)
            arrays = [
                arrow.array(table[name], from_pandas=True).cast(kind) for name, kind in zip(names, kinds, strict=True)
            ]
            writer.write_table(arrow.table(arrays, schema=schema))
