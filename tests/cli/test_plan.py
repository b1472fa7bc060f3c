"""`maskedbandits plan`: the table, the document, the figure, and what can go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import call, gives_no_orders, refused
from made_up_plan import USUAL
from maskedbandits import cli, extras, planner
from maskedbandits.report import plan as picture

TOLD = ("--arms", 2, "--horizon", 600, "--changes", 1, "--gap", 0.5, "--base-rate", 0.3)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is not simulated anew."""
    monkeypatch.setattr(planner, "plan", lambda *told, **others: USUAL)


def test_a_plan_from_the_command_line_is_that_of_python(tmp_path: Path) -> None:
    options = ("--epsilon", 1, "--epsilon", 3, "--worlds", 4, "--seed", 5, "--policy", "klucb-cf", "--tolerance", 0.3)
    done = call("plan", *TOLD, *options, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    found = planner.plan(2, 600, 1, 0.5, 0.3, [1, 3], "klucb-cf", tolerance=0.3, worlds=4, seed=5)
    figures = document.pop("figures")
    assert document == json.loads(json.dumps(planner.words.as_json(found)))
    assert figures == [str(tmp_path / "out" / f"plan.{kind}") for kind in ("png", "pdf")]
    assert Path(figures[0]).read_bytes().startswith(b"\x89PNG")
    assert Path(figures[1]).read_bytes().startswith(b"%PDF")


@pytest.mark.usefixtures("known")
def test_the_table_ends_with_the_advice_and_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(picture, "write", lambda made, folder: [folder / "plan.png", folder / "plan.pdf"])
    done = call("plan", *TOLD, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    *before, last = done.stdout.splitlines()
    assert planner.words.advice(USUAL) in " ".join(before)
    assert last == f"Figure: {tmp_path / 'plan.png'} and {tmp_path / 'plan.pdf'}"


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("columns", [20, 60, 200])
def test_any_terminal_will_do(encoding: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(picture, "write", lambda *told: [])
    done = call("plan", *TOLD, "--out", tmp_path, encoding=encoding)
    assert done.exit_code == 0, done.output
    text = done.stdout_bytes.decode(encoding)
    assert gives_no_orders(text)
    assert max(map(len, text.splitlines())) <= columns


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (TOLD[2:], "Missing option '--arms'"),
        ((*TOLD, "--arms", 1), "arms = 1: give a whole number of at least 2"),
        ((*TOLD, "--changes", 600), "changes = 600: give a whole number of at most 599"),
        ((*TOLD, "--gap", 0.9), "base_rate = 0.3 and gap = 0.9 add up to more than 1"),
        ((*TOLD, "--gap", "nan"), "gap = nan: give a number in"),
        ((*TOLD, "--epsilon", 0), "epsilon = 0.0: give a number in [0.01, 16], or inf"),
        ((*TOLD, "--policy", "aut"), "no policy is called 'aut'; did you mean 'auto'?"),
        ((*TOLD, "--worlds", "few"), "Invalid value for '--worlds'"),
    ],
)
def test_mistakes_are_refused(
    arguments: tuple[object, ...], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(call("plan", *arguments), complaint)


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(call("plan", *TOLD, "--out", tmp_path / "file"), "file: cannot be written")


@pytest.mark.usefixtures("known")
def test_without_matplotlib_there_is_the_table_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda module: None)
    monkeypatch.chdir(tmp_path)
    done = call("plan", *TOLD)
    assert done.exit_code == 0
    assert "Take ε = 2" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("No figure: matplotlib and rich missing: pip install")
    assert json.loads(call("plan", *TOLD, "--json").stdout)["figures"] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("trouble", "complaint"),
    [(OSError(28, "No space left on device", "plan.png"), "plan.png: No space left"), (RuntimeError("font"), "font")],
)
def test_what_cannot_be_drawn_costs_no_number(
    trouble: Exception, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*told: Any) -> None:
        raise trouble

    monkeypatch.setattr(picture, "write", broken)
    done = call("plan", *TOLD, "--out", tmp_path)
    assert done.exit_code == cli.FAILED
    assert "Take ε = 2" in done.stdout
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    document = json.loads(call("plan", *TOLD, "--out", tmp_path, "--json").stdout)
    assert (document["figures"], document["advice"]["epsilon"]) == ([], 2.0)


def test_an_interrupt_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*told: Any, **others: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planner, "plan", interrupted)
    done = call("plan", *TOLD, "--out", tmp_path)
    assert (done.exit_code, done.stdout, done.stderr) == (cli.INTERRUPTED, "", "maskedbandits: interrupted\n")
