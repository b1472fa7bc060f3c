"""Results as one long table: every run and checkpoint once, in every form the same numbers."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from helpers.boundaries import hide_packages
from made_up import named, results
from maskedbandits._util import extras, frames
from maskedbandits.errors import UserError
from maskedbandits.experiments import dataframe

NAMES = ["plain", 'with "quotes", and commas', "ε 滑"]
CELLS = (*named(NAMES, "one, or two", (0.5, math.inf)).cells, *results(epsilons=(None,)).cells)


def by_hand() -> list[tuple[Any, ...]]:
    """The table, row by row."""
    rows = []
    for cell in CELLS:
        question, label = cell.outcome.spec, cell.label
        for run in range(8):
            for place, time in enumerate(range(100, 1001, 100)):
                regret = float(cell.outcome.regret[run, place])
                rows.append(
                    (
                        label.problem,
                        label.epsilon,
                        question["policy"],
                        label.policy,
                        question["parameters"],
                        run,
                        time,
                        regret,
                    )
                )
    return rows


def test_csv_has_every_row_exactly() -> None:
    stream = io.BytesIO()
    dataframe.write_csv(CELLS, stream)
    heads, *rows = csv.reader(io.StringIO(stream.getvalue().decode("utf-8"), newline=""))
    assert tuple(heads) == dataframe.COLUMNS
    found = [
        (
            problem,
            float(epsilon) if epsilon else None,
            policy,
            label,
            json.loads(parameters),
            int(run),
            int(time),
            float(regret),
        )
        for problem, epsilon, policy, label, parameters, run, time, regret in rows
    ]
    assert found == by_hand()


def rows_of(columns: dict[str, list[Any]]) -> list[tuple[Any, ...]]:
    assert tuple(columns) == dataframe.COLUMNS
    parameters = [json.loads(text) for text in columns["parameters"]]
    epsilons = [None if value is None or math.isnan(value) else value for value in columns["epsilon"]]
    return list(zip(*{**columns, "parameters": parameters, "epsilon": epsilons}.values(), strict=True))


def test_pandas_frame_has_every_row() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    made = dataframe.build_frame(CELLS, "pandas")
    assert rows_of({name: made[name].tolist() for name in made.columns}) == by_hand()
    assert [str(made[name].dtype) for name in ("epsilon", "run", "checkpoint", "regret")] == [
        "float64",
        "int64",
        "int64",
        "float64",
    ]


def test_polars_frame_has_every_row() -> None:
    pytest.importorskip("polars", reason="polars is not installed: pip install polars")
    made = dataframe.build_frame(CELLS, "polars")
    assert rows_of(made.to_dict(as_series=False)) == by_hand()


def test_parquet_has_every_row(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install pyarrow")
    with (tmp_path / "x.parquet").open("wb") as stream:
        dataframe.write_parquet(CELLS, stream)
    assert rows_of(parquet.read_table(tmp_path / "x.parquet").to_pydict()) == by_hand()


def test_installed_frame_library_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[str] = []

    class Library:
        @staticmethod
        def import_module(name: str) -> Any:
            imported.append(name)
            raise ImportError(name)

    monkeypatch.setattr(frames, "importlib", Library)
    for absent in ((), ("pandas",)):
        monkeypatch.setattr(extras, "find_spec", lambda module, absent=absent: None if module in absent else 1)
        with pytest.raises(ImportError):
            dataframe.build_frame(CELLS)
    assert imported == ["pandas", "polars"]


def test_missing_frame_library_is_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    made = results()
    with pytest.raises(UserError, match="mean 'pandas'"):
        made.frame("panda")
    hide_packages(monkeypatch, "pandas", "polars", "pyarrow")
    with pytest.raises(UserError, match="pip install pandas"):
        made.frame()
    with pytest.raises(UserError, match="pip install polars"):
        made.frame("polars")
    with pytest.raises(UserError, match=r"pyarrow.*pip install"):
        dataframe.write_parquet(made.cells, io.BytesIO())
