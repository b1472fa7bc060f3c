"""`maskedbandits run` and `report`: what they print, what they keep, and how they end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from children import PROGRAM, child, wait_until
from commands import MORE, SMALL, call, refused, small_file
from helpers.boundaries import draw_figures, write_figures_as
from maskedbandits import cli
from maskedbandits.experiments.stored_runs import StoredRuns
from maskedbandits.report import page, style
from maskedbandits.report.plots.regret_by_epsilon import RegretByEpsilon

pytestmark = pytest.mark.usefixtures("quick_fonts")
ENDLESS = (
    SMALL.replace("runs = 3", "runs = 1000")
    + """
[[problems]]
name = "endless"
horizon = 4_000_000
means = [0.9, 0.1]
"""
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return small_file(Path())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, quick_fonts: None) -> tuple[Path, Result]:
    """A results folder, and what making it printed."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        draw_figures(patch, [RegretByEpsilon])
        return folder / "out", call("run", small_file(folder), "--out", folder / "out")


def test_run_prints_table_and_paths(finished: tuple[Path, Result]) -> None:
    out, result = finished
    assert result.exit_code == 0, result.output
    assert "swap: 400 steps, 3 runs, changes at 200" in result.stdout
    assert "±" in result.stdout
    assert str(out / "index.html") in result.stdout
    made = {path.name for path in out.rglob("*") if path.suffix not in (".npz", "")}
    assert made == {"epsilon.pdf", "epsilon.png", "epsilon.svg", "index.html", "results.json"}
    assert "(3 files: png, pdf and svg)" in result.stdout


@pytest.mark.slow
def test_default_folder_is_named_after_file(file: Path) -> None:
    result = call("run", file, "--runs", 1, "--json", "--no-progress")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["page"] == "results/small/index.html"
    assert document["command"] == "maskedbandits run small.toml --runs 1"
    assert [cell["epsilon"] for cell in document["cells"]] == [1.0, 1.0, "inf", "inf"]
    assert {cell["runs"] for cell in document["cells"]} == {1}
    drawn = {f"{name}.{kind}" for name in ("epsilon", "pulls", "regret", "shares") for kind in ("pdf", "png", "svg")}
    assert drawn <= {path.name for path in Path("results/small").rglob("*")}


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    draw_figures(monkeypatch)


@pytest.mark.usefixtures("no_figures")
def test_report_repeats_output_of_run(finished: tuple[Path, Result]) -> None:
    out, first = finished
    again = call("report", out)
    assert again.exit_code == 0
    assert again.stdout.split("Figures:")[0] == first.stdout.split("Figures:")[0]


@pytest.mark.usefixtures("no_figures")
def test_second_run_reuses_finished_cells(finished: tuple[Path, Result]) -> None:
    out, first = finished
    again = call("run", out.parent / "small.toml", "--out", out)
    assert again.stdout.split("Page:")[0] == first.stdout.split("Page:")[0]
    assert "4 of 4 cells were finished before and are reused" in again.stderr


# Interrupts


def failing_at(monkeypatch: pytest.MonkeyPatch, number: int, error: BaseException) -> list[object]:
    """Let saving fail when a cell is saved for the so-many-th time; return the calls."""
    sound = StoredRuns.save_cell
    calls: list[object] = []

    def sometimes(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) == number:
            raise error
        sound(*arguments)

    monkeypatch.setattr(StoredRuns, "save_cell", sometimes)
    return calls


@pytest.mark.usefixtures("no_figures")
def test_interrupted_run_can_be_resumed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = failing_at(monkeypatch, 3, KeyboardInterrupt())
    file.write_text(SMALL.replace("[1, inf]", "[1]") + MORE, encoding="utf-8")
    result = call("run", file)
    refused(result, "2 of 4 cells are saved in results/small; the same command continues", cli.INTERRUPTED)
    partial = call("report", "results/small")
    assert "2 of 4 cells are not finished; continue with: maskedbandits run small.toml" in partial.stdout
    resumed = call("run", file, "--json")
    assert "2 of 4 cells were finished before" in resumed.stderr
    assert json.loads(resumed.stdout)["complete"]
    assert len(calls) == 5


def a_cell_is_kept() -> bool:
    return any(Path("results/small").glob("cells/*.npz"))


@pytest.mark.slow
def test_ignored_ctrl_c_does_not_end_run(file: Path) -> None:
    file.write_text(ENDLESS, encoding="utf-8")
    with child([*PROGRAM, "run", file, "--no-progress", "--threads", 1], ignoring=[signal.SIGINT]) as process:
        wait_until(a_cell_is_kept, process)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)


# What goes wrong after the work is done


def no_space(*arguments: object, **options: object) -> None:
    raise OSError(28, "No space left on device", "figures/regret.png")


def no_font(*arguments: object, **options: object) -> str:
    raise ValueError("Failed to find font\nDejaVu Sans")


def interrupted(*arguments: object, **options: object) -> None:
    raise KeyboardInterrupt


def a_file_for_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("results/small").mkdir(parents=True)
    Path("results/small/figures").touch()


def without_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "findfont", no_font)
    style.glyphs.cache_clear()


@pytest.mark.parametrize(
    ("spoil", "complaint", "code"),
    [
        (lambda patch: patch.setattr(page, "save_file", no_space), "figures/regret.png: No space left on device; ", 1),
        (a_file_for_a_folder, "results/small/figures: File exists; ", 1),
        (without_fonts, "figures cannot be drawn: Failed to find font DejaVu Sans; ", 1),
        (lambda patch: patch.setattr(page, "save_file", interrupted), "interrupted while drawing; ", 130),
    ],
)
def test_failed_figures_are_one_line_and_keep_cells(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[pytest.MonkeyPatch], object],
    complaint: str,
    code: int,
) -> None:
    write_figures_as(monkeypatch, "png")
    draw_figures(monkeypatch, [RegretByEpsilon])
    with monkeypatch.context() as patch:
        spoil(patch)
        result = call("run", file)
    assert result.exit_code == code, result.output
    kept = "the cells are saved in results/small: `maskedbandits report results/small` draws them again"
    assert result.stderr == f"maskedbandits: {complaint}{kept}\n"
    assert "swap: 400 steps" in result.stdout  # the numbers are there all the same
    assert "Page:" not in result.stdout
    assert len(list(Path("results/small/cells").iterdir())) == 4
    if Path("results/small/figures").is_file():
        Path("results/small/figures").unlink()
    assert call("report", "results/small").exit_code == 0


@pytest.mark.slow
def test_json_is_printed_if_figures_fail(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "save_file", no_space)
    result = call("run", file, "--json")
    assert result.exit_code == cli.FAILED
    document = json.loads(result.stdout)
    assert (document["complete"], document["page"], document["figures"]) == (True, None, [])


@pytest.mark.usefixtures("no_figures")
def test_full_disk_counts_saved_cells(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = OSError(28, "No space left on device", "results/small/cells/x.npz")
    with monkeypatch.context() as patch:
        failing_at(patch, 3, error)
        result = call("run", file)
    complaint = "results/small/cells/x.npz: No space left on device; 2 of 4 cells are saved in results/small"
    refused(result, complaint, cli.FAILED)
    assert "2 of 4 cells were finished before" in call("run", file).stderr


def test_out_of_memory_is_one_line(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_at(monkeypatch, 1, MemoryError("Unable to allocate 7 TiB"))
    refused(call("run", file), "maskedbandits: not enough memory. Unable to allocate 7 TiB\n", cli.FAILED)
