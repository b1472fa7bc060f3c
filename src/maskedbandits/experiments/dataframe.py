"""Results as one long table with a row for each run and checkpoint, for other tools.

problem     the name of the problem
epsilon     inf for no privacy; empty if the problem has a mask of its own
policy      the name of the policy, such as sw-klucb-cf
label       its name in the experiment
parameters  as JSON, with the windows that rules have chosen
run         from 0
checkpoint  steps played
regret      cumulative pseudo-regret of the run at the checkpoint

and if a problem has groups, a column for each of them:

regret_group_0, regret_group_1, ...  regret of each group; empty for problems with fewer groups
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util import extras, frames
from maskedbandits.experiments.canonical_json import encode_canonical
from maskedbandits.experiments.results import Cell

COLUMNS = ("problem", "epsilon", "policy", "label", "parameters", "run", "checkpoint", "regret")


def constant_columns(cell: Cell) -> tuple[str, float | None, str, str, str]:
    """Return the first columns, which are the same in all rows of a cell."""
    spec = cell.outcome.spec
    parameters = encode_canonical(spec["parameters"])
    return cell.label.problem, cell.label.epsilon, spec["policy"], cell.label.policy, parameters


def max_groups(cells: Sequence[Cell]) -> int:
    """Return the largest number of groups of any cell."""
    return max((len(cell.shares or ()) for cell in cells), default=0)


def column_names(groups: int) -> list[str]:
    """Return the names of the columns."""
    return [*COLUMNS, *(f"regret_group_{group}" for group in range(groups))]


def group_regret(cell: Cell, group: int) -> NDArray[np.float64]:
    """Return the (runs, C) regret of a group; NaN if the problem has fewer groups."""
    regret = cell.outcome.group_regret
    if regret is None or group >= regret.shape[2]:
        return np.full(cell.outcome.regret.shape, np.nan)
    return regret[:, :, group]


def build_columns(cells: Sequence[Cell], groups: int) -> dict[str, NDArray[Any]]:
    """Return the columns of the table, with columns for ``groups`` groups; missing numbers are NaN."""
    sizes = [cell.outcome.regret.size for cell in cells]
    constant = list(zip(*(constant_columns(cell) for cell in cells), strict=True))
    table: dict[str, NDArray[Any]] = {}
    for name, values in zip(COLUMNS, constant, strict=False):
        kind = np.float64 if name == "epsilon" else np.object_
        table[name] = np.repeat(np.array(values, dtype=kind), sizes)
    shapes = [cell.outcome.regret.shape for cell in cells]
    table["run"] = np.concatenate([np.repeat(np.arange(runs), times) for runs, times in shapes])
    table["checkpoint"] = np.concatenate([np.tile(cell.outcome.times, cell.runs) for cell in cells])
    table["regret"] = np.concatenate([cell.outcome.regret.ravel() for cell in cells])
    for group, name in enumerate(column_names(groups)[len(COLUMNS) :]):
        table[name] = np.concatenate([group_regret(cell, group).ravel() for cell in cells])
    return table


def build_frame(cells: Sequence[Cell], library: str | None = None) -> Any:
    """Return the table as a data frame of a library, by default the first that is installed."""
    nullable = ["epsilon", *column_names(max_groups(cells))[len(COLUMNS) :]]
    return frames.build_frame(build_columns(cells, max_groups(cells)), library, nullable)


def csv_rows(cells: Sequence[Cell]) -> Iterator[bytes]:
    """Yield the table as CSV in UTF-8, a cell at a time; numbers are exact."""
    groups = max_groups(cells)
    yield (",".join(column_names(groups)) + "\n").encode()
    for cell in cells:
        start = io.StringIO()
        csv.writer(start, lineterminator="").writerow(constant_columns(cell))
        before = start.getvalue()
        times = cell.outcome.times.tolist()
        ends = group_columns(cell, groups)
        lines = [
            f"{before},{run},{time},{regret!r}{end}\n"
            for run, regrets in enumerate(cell.outcome.regret.tolist())
            for time, regret, end in zip(times, regrets, ends[run], strict=True)
        ]
        yield "".join(lines).encode()


def group_columns(cell: Cell, groups: int) -> list[list[str]]:
    """Return the last columns of CSV lines by run and checkpoint: the regret of each group."""
    regret = np.stack([group_regret(cell, group) for group in range(groups)], axis=2) if groups else None
    if regret is None:
        return [[""] * cell.outcome.times.size] * cell.runs
    return [["".join("," if each != each else f",{each!r}" for each in row) for row in run] for run in regret.tolist()]


def write_csv(cells: Sequence[Cell], stream: IO[bytes]) -> None:
    """Write the table as CSV."""
    for part in csv_rows(cells):
        stream.write(part)


def write_parquet(cells: Sequence[Cell], stream: IO[bytes]) -> None:
    """Write the table as Parquet, with a row group for each cell."""
    extras.require("Parquet", extras.PARQUET, "parquet")
    arrow, parquet = (importlib.import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    whole, text, number = arrow.int64(), arrow.dictionary(arrow.int32(), arrow.string()), arrow.float64()
    groups = max_groups(cells)
    names, kinds = column_names(groups), [text, number, text, text, text, whole, whole, number, *[number] * groups]
    schema = arrow.schema(list(zip(names, kinds, strict=True)))
    with parquet.ParquetWriter(stream, schema) as writer:
        for cell in cells:
            table = build_columns([cell], groups)
            arrays = [
                arrow.array(table[name], from_pandas=True).cast(kind) for name, kind in zip(names, kinds, strict=True)
            ]
            writer.write_table(arrow.table(arrays, schema=schema))
