"""`maskedbandits plan`: the table, the document, the figure, and what can go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from commands import call, gives_no_orders, refused
from helpers.boundaries import hide_packages
from made_up_plan import USUAL
from maskedbandits import cli, planner
from maskedbandits._util import extras
from maskedbandits.report.plots import plan as plan_figure

INPUTS = ("--arms", 2, "--horizon", 600, "--changes", 1, "--gap", 0.5, "--base-rate", 0.3)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that is not simulated again."""
    monkeypatch.setattr(planner, "plan", lambda *given, **others: USUAL)


def test_plan_matches_python(tmp_path: Path) -> None:
    options = ("--epsilon", 1, "--epsilon", 3, "--worlds", 4, "--seed", 5, "--policy", "klucb-cf", "--tolerance", 0.3)
    done = call("plan", *INPUTS, *options, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    found = planner.plan(2, 600, 1, 0.5, 0.3, [1, 3], "klucb-cf", tolerance=0.3, worlds=4, seed=5)
    figures = document.pop("figures")
    assert document == json.loads(json.dumps(planner.text.to_json(found)))
    assert figures == [str(tmp_path / "out" / f"plan.{kind}") for kind in ("png", "pdf")]
    assert Path(figures[0]).read_bytes().startswith(b"\x89PNG")
    assert Path(figures[1]).read_bytes().startswith(b"%PDF")


@pytest.mark.usefixtures("known")
def test_plan_begins_with_advice_and_ends_with_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_figure, "write_figure", lambda made, folder: [folder / "plan.png", folder / "plan.pdf"])
    done = call("plan", *INPUTS, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    *before, last = done.stdout.splitlines()
    assert " ".join(before).startswith(planner.text.describe_advice(USUAL))
    assert last == f"Figure: {tmp_path / 'plan.png'} and {tmp_path / 'plan.pdf'}"


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("columns", [20, 60, 200])
def test_plan_fits_any_terminal(encoding: str, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(plan_figure, "write_figure", lambda *given: [])
    done = call("plan", *INPUTS, "--out", tmp_path, encoding=encoding)
    assert done.exit_code == 0, done.output
    text = done.stdout_bytes.decode(encoding)
    assert gives_no_orders(text)
    assert max(map(len, text.splitlines())) <= columns


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (INPUTS[2:], "Missing option '--arms'"),
        ((*INPUTS, "--arms", 1), "arms = 1: give a whole number of at least 2"),
        ((*INPUTS, "--changes", 600), "changes = 600: give a whole number of at most 599"),
        ((*INPUTS, "--gap", 0.9), "base_rate = 0.3 and gap = 0.9 add up to more than 1"),
        ((*INPUTS, "--gap", "nan"), "gap = nan: give a number in"),
        ((*INPUTS, "--epsilon", 0), "epsilon = 0.0: give a number in [0.01, 16], or inf"),
        ((*INPUTS, "--policy", "aut"), "no policy is called 'aut'; did you mean 'auto'?"),
        ((*INPUTS, "--worlds", "few"), "Invalid value for '--worlds'"),
    ],
)
def test_mistakes_are_usage_errors(
    arguments: tuple[object, ...], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(call("plan", *arguments), complaint)


def test_unwritable_folder_is_an_early_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused(call("plan", *INPUTS, "--out", tmp_path / "file"), "file: cannot be written")


@pytest.mark.usefixtures("known")
def test_plan_works_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hide_packages(monkeypatch, *extras.EXPERIMENTS)
    monkeypatch.chdir(tmp_path)
    done = call("plan", *INPUTS)
    assert done.exit_code == 0
    assert "Take ε = 2" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("No figure: matplotlib and rich missing: pip install")
    assert json.loads(call("plan", *INPUTS, "--json").stdout)["figures"] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("trouble", "complaint"),
    [(OSError(28, "No space left on device", "plan.png"), "plan.png: No space left"), (RuntimeError("font"), "font")],
)
def test_failed_figure_keeps_the_numbers(
    trouble: Exception, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: Any) -> None:
        raise trouble

    monkeypatch.setattr(plan_figure, "write_figure", broken)
    done = call("plan", *INPUTS, "--out", tmp_path)
    assert done.exit_code == cli.FAILED
    assert "Take ε = 2" in done.stdout
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    document = json.loads(call("plan", *INPUTS, "--out", tmp_path, "--json").stdout)
    assert (document["figures"], document["advice"]["epsilon"]) == ([], 2.0)


def test_interrupt_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*given: Any, **others: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planner, "plan", interrupted)
    done = call("plan", *INPUTS, "--out", tmp_path)
    assert (done.exit_code, done.stdout, done.stderr) == (cli.INTERRUPTED, "", "maskedbandits: interrupted\n")


# Questions


def answers(text: str, *options: object) -> Result:
    return CliRunner().invoke(cli.main, ["plan", "--interactive", *map(str, options)], input=text)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Pretend that there is a terminal, and return the inputs of the planner."""
    given: list[dict[str, Any]] = []

    def noted(**others: Any) -> planner.Plan:
        given.append(others)
        return USUAL

    monkeypatch.setattr("maskedbandits.cli.plan.has_terminal", lambda: True)
    monkeypatch.setattr(planner, "plan", noted)
    monkeypatch.setattr(plan_figure, "write_figure", lambda *given: [])
    return given


def five(given: dict[str, Any]) -> list[float]:
    return [given[name] for name in ("arms", "horizon", "changes", "gap", "base_rate")]


def test_missing_inputs_are_asked_for(planned: list[dict[str, Any]], tmp_path: Path) -> None:
    done = answers("\n" * 5, "--json", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["figures"] == []
    assert five(planned[0]) == [5, 200_000, 4, 0.1, 0.3]
    for question in ("choose from [5]: ", "see an option [200000]: ", "0 for never [4]: ", " 0.1 [0.1]: ", "[0.3]: "):
        assert question in done.stderr
    command = "maskedbandits plan --arms 5 --horizon 200000 --changes 4 --gap 0.1 --base-rate 0.3"
    assert f"To repeat this without questions: {command}\n" in done.stderr
    answers("7\n0.2\n", "--arms", 3, "--horizon", 900, "--changes", 0, "--out", tmp_path)
    assert planned[1:] == []  # 7 is no gap, and nobody answered again
    answers("0.2\n0.25\n", "--arms", 3, "--horizon", 900, "--changes", 0, "--out", tmp_path)
    assert five(planned[1]) == [3, 900, 0, 0.2, 0.25]


def test_invalid_answers_are_asked_again(planned: list[dict[str, Any]], tmp_path: Path) -> None:
    done = answers("many\n1\n6\n5\n9\n9\n8\n0\n2\n0.9\n0.2\n0.1\n", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert five(planned[0]) == [6, 9, 8, 0.9, 0.1]
    assert done.stderr.count("Error: ") == 7


def test_proposals_are_within_limits(planned: list[dict[str, Any]], tmp_path: Path) -> None:
    answers("300000\n\n\n0.95\n\n", "--out", tmp_path)
    assert five(planned[0]) == [300_000, 300_000, 4, 0.95, 0.05]


def test_end_of_input_is_an_interrupt(planned: list[dict[str, Any]]) -> None:
    done = answers("5\n")
    assert done.exit_code == cli.INTERRUPTED
    assert done.stderr.endswith("maskedbandits: interrupted\n")
    assert planned == []


def test_interactive_requires_a_terminal() -> None:
    done = answers("5\n", "--arms", 3)
    refused(done, "--interactive requires a terminal: give --horizon, --changes, --gap, --base-rate")
    assert done.stderr.count("\n") == 1
    refused(call("plan", "--arms", 3), "Missing option '--horizon'; --interactive asks")
