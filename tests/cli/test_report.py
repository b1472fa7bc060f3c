"""`maskedbandits report --csv`, `--latex` and `--parquet`: one table, whole, and nothing else."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from commands import call, refused
from helpers.boundaries import draw_figures, hide_packages, write_figures_as
from made_up import named, of_cells, results
from maskedbandits import cli
from maskedbandits._util import extras
from maskedbandits.experiments.results import Results, save_manifest, save_outcome
from maskedbandits.report import summary
from maskedbandits.report.plots.regret_by_epsilon import RegretByEpsilon

NAMES = ["plain", "a ε é 滑"]


def saved(folder: Path, made: Results, cells: int) -> Path:
    save_manifest(folder, made.manifest)
    for cell in made.cells[:cells]:
        save_outcome(folder, cell.label.key, cell.outcome)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("report"), of_cells(named(NAMES, epsilons=(1.0, 2.0)).cells), 4)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_csv_is_the_same_in_every_encoding(folder: Path, encoding: str) -> None:
    result = call("report", folder, "--csv", encoding=encoding)
    assert (result.exit_code, result.stderr) == (0, "")
    rows = list(csv.DictReader(io.StringIO(result.stdout_bytes.decode("utf-8"))))
    assert len(rows) == 4 * 8 * 10
    assert [row["label"] for row in rows[:: 8 * 10]] == NAMES * 2
    assert not (folder / "index.html").exists()


@pytest.mark.parametrize("form", ["--csv", "--latex"])
def test_file_equals_standard_output(folder: Path, tmp_path: Path, form: str) -> None:
    result = call("report", folder, form, "--out", tmp_path / "table")
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / "table").read_bytes() == call("report", folder, form).stdout_bytes


def test_parquet_is_written(folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install pyarrow")
    assert call("report", folder, "--parquet", "--out", tmp_path / "table").exit_code == 0
    assert parquet.read_table(tmp_path / "table").num_rows == 4 * 8 * 10


def test_unfinished_cells_are_named_on_stderr(tmp_path: Path) -> None:
    result = call("report", saved(tmp_path, of_cells(named(NAMES).cells), 1), "--csv")
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1 + 8 * 10
    assert result.stderr.startswith("maskedbandits: 1 of 2 cells are not finished; continue with: ")


def test_mistakes_are_one_line_errors(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(call("report", folder, "--out", tmp_path / "x"), "--out requires --csv, --parquet or --latex")
    refused(call("report", folder, "--csv", "--json"), "--json and --csv exclude each other")
    refused(call("report", folder, "--latex", "--csv"), "--csv and --latex exclude each other: give one of them")
    refused(call("report", folder, "--csv", "--problem", "p"), "--problem and --csv exclude each other")
    refused(call("report", folder, "--problem", "p"), "--problem p: no such problem")
    refused(call("report", folder, "--csv", "--out", tmp_path / "no" / "x"), "No such file or directory", cli.FAILED)
    hide_packages(monkeypatch, *extras.PARQUET)
    refused(call("report", folder, "--parquet"), "--parquet needs pyarrow, ")
    assert list(tmp_path.iterdir()) == []


def test_many_cells_are_drawn_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MAX_CELLS", 7)
    write_figures_as(monkeypatch, "svg")
    draw_figures(monkeypatch, [RegretByEpsilon])
    saved(tmp_path, results(epsilons=(1.0, 2.0), problems=("one", "two")), 8)
    unasked = call("report", tmp_path)
    assert unasked.exit_code == 0, unasked.output
    assert unasked.stdout.startswith("2 policies on 2 problems, at ε = 1 and 2, 8 runs of each. Lowest regret in 4")
    assert unasked.stdout.splitlines()[-1].startswith("Figures: none for so many cells; `maskedbandits report ")
    assert list((tmp_path / "figures").iterdir()) == []
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Without the figures of 2 of 2 problems" in page
    assert page.count("<tbody>") == 5  # two of each problem, and one of the seeds
    done = call("report", tmp_path, "--problem", "two")
    assert "two: 1,000 steps" in done.stdout
    assert "one: 1,000 steps" not in done.stdout
    assert {path.name.split("-")[0] for path in (tmp_path / "figures").iterdir()} == {"two"}
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "Without the figures of 1 of 2 problems" in page
    assert page.count("<tbody>") == 5


def test_problem_option_shows_one_problem(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_figures(monkeypatch)
    assert call("report", folder, "--problem", "one").stdout == call("report", folder).stdout
