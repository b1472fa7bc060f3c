"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from maskedbandits import cli, experiments
from maskedbandits.experiments import runner

SMALL = """
title = "Small"
runs = 3
checkpoints = 5
epsilons = [1, inf]

[[problems]]
name = "swap"
horizon = 400
starts = [0, 200]
means = [[0.9, 0.1], [0.1, 0.9]]

[[policies]]
name = "sw-klucb-cf"
window = "paper"

[[policies]]
name = "klucb-cf"
"""

MORE = """
[[policies]]
name = "klucb-cf"
c = 0

[[policies]]
name = "klucb-cf"
c = 1
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("small.toml")
    path.write_text(SMALL, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A results folder, and what making it printed."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    out = folder / "out"
    return out, call("run", folder / "small.toml", "--out", out)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def refused(result: Result, complaint: str, code: int = cli.USAGE) -> None:
    assert result.exit_code == code, result.output
    assert complaint in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_help_needs_nothing_heavy() -> None:
    script = (
        "import sys, maskedbandits.cli; "
        "sys.exit(sorted({'numpy', 'numba', 'scipy', 'matplotlib', 'rich'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_version_and_help() -> None:
    assert "version" in call("--version").stdout
    for verb in cli.main.commands.values():
        result = call(verb.name, "--help")
        assert result.exit_code == 0
        for parameter in verb.params:
            if isinstance(parameter, click.Option):
                assert parameter.opts[0] in result.stdout


def test_every_verb_and_option_is_documented() -> None:
    page = (Path(__file__).parent.parent / "docs" / "experiments.md").read_text(encoding="utf-8")
    for verb in cli.main.commands.values():
        assert f"maskedbandits {verb.name}" in page
        for parameter in verb.params:
            if isinstance(parameter, click.Option):
                assert parameter.opts[0] in page, f"{verb.name} {parameter.opts[0]}"


def test_run_prints_a_table_and_says_where_things_are(finished: tuple[Path, Result]) -> None:
    out, result = finished
    assert result.exit_code == 0, result.output
    assert "swap: 400 steps, 3 runs, changes at 200" in result.stdout
    assert "±" in result.stdout
    assert str(out / "index.html") in result.stdout
    made = sorted(path.name for path in out.rglob("*") if path.suffix not in (".npz", ""))
    assert made == ["epsilon.pdf", "epsilon.png", "index.html", "regret.pdf", "regret.png", "results.json"]


def test_run_goes_to_a_folder_named_after_the_file(file: Path) -> None:
    result = call("run", file, "--runs", 1, "--json", "--no-progress")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["page"] == "results/small/index.html"
    assert document["command"] == "maskedbandits run small.toml --runs 1"
    assert [cell["epsilon"] for cell in document["cells"]] == [1.0, 1.0, "inf", "inf"]
    assert {cell["runs"] for cell in document["cells"]} == {1}


def test_report_says_the_same_as_run(finished: tuple[Path, Result]) -> None:
    out, first = finished
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = call("report", out)
    assert again.exit_code == 0
    assert again.stdout == first.stdout
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


def test_a_second_run_keeps_what_is_finished(finished: tuple[Path, Result]) -> None:
    out, first = finished
    again = call("run", out.parent / "small.toml", "--out", out)
    assert again.stdout == first.stdout
    assert "4 of 4 cells were finished before and are kept" in again.stderr


def test_interrupt_says_what_is_kept_and_how_to_go_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = runner.play
    calls = []

    def interrupted(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return played(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "play", interrupted)
    file.write_text(SMALL.replace("[1, inf]", "[1]") + MORE, encoding="utf-8")
    result = call("run", file)
    refused(result, "2 of 4 cells are kept in results/small; the same command goes on", cli.INTERRUPTED)
    partial = call("report", "results/small")
    assert "2 of 4 cells are not finished; go on with: maskedbandits run small.toml" in partial.stdout
    resumed = call("run", file, "--json")
    assert "2 of 4 cells were finished before" in resumed.stderr
    assert json.loads(resumed.stdout)["complete"]
    assert len(calls) == 5


def test_a_real_ctrl_c_ends_in_130(file: Path) -> None:
    file.write_text(SMALL.replace("runs = 3", "runs = 1000").replace("400", "4_000_000"), encoding="utf-8")
    command = [sys.executable, "-m", "maskedbandits.cli", "run", str(file), "--no-progress"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for _ in range(600):
        if Path("results/small/results.json").exists():
            break
        time.sleep(0.1)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == cli.INTERRUPTED, stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    assert "0 of 4 cells are kept in results/small" in stderr


@pytest.mark.parametrize("verb", [["policies"], ["bound", "--horizon", "100", "--changes", "2"]])
def test_a_closed_pipe_is_quiet(verb: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "maskedbandits.cli", *verb]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["run", "none.toml"], "none.toml: no such file"),
        (["run", "."], ".: is a folder; expected a TOML file"),
        (["run"], "Missing argument 'FILE'"),
        (["run", "small.toml", "--runs", "0"], "Invalid value for '--runs'"),
        (["run", "small.toml", "--seed", "x"], "Invalid value for '--seed'"),
        (["run", "small.toml", "--out", "small.toml"], "--out small.toml: cannot be written"),
        (["run", "small.toml", "--out", "small.toml/out"], "--out small.toml/out: cannot be written"),
        (["run", "bad.toml"], "bad.toml: problems[0].means: expected numbers in [0, 1], got 1.9"),
        (["report", "none"], "none: no results here"),
        (["report", "small.toml"], "small.toml: no results here"),
        (["report", "empty"], "empty/results.json: damaged results file"),
        (["runn"], "No such command 'runn'"),
        (["bound"], "give --horizon and --changes"),
        (["bound", "--horizon", "100"], "give --horizon and --changes"),
        (["bound", "--horizon", "10", "--changes", "20"], "got 20"),
        (
            ["bound", "--horizon", "100", "--means", "0.9,x"],
            "expected numbers separated by commas, got '0.9,x'",
        ),
        (["bound", "--horizon", "100", "--means", "0.9,0.4"], "give --epsilon with --means"),
        (["bound", "--horizon", "100", "--means", "0.9,1.4", "--epsilon", "1"], "in [0, 1]"),
        (["bound", "--horizon", "100", "--means", "0.9,0.4", "--epsilon", "0"], "epsilon"),
        (
            ["bound", "--horizon", "100", "--means", "0.9,0.4", "--epsilon", "1", "--window", "1"],
            "at least 2",
        ),
        (
            ["bound", "--horizon", "100", "--changes", "2", "--means", "0.9,0.4", "--epsilon", "1"],
            "--changes 2 but",
        ),
        (["bound", "small.toml", "--horizon", "100"], "not both"),
        (["bound", "none.toml"], "none.toml: no such file"),
    ],
)
def test_mistakes_are_refused(file: Path, arguments: list[str], complaint: str) -> None:
    Path("bad.toml").write_text(SMALL.replace("[[0.9", "[[1.9"), encoding="utf-8")
    Path("empty").mkdir()
    Path("empty/results.json").touch()
    refused(call(*arguments), complaint)


def test_a_failed_run_ends_in_1(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device", "results/small")

    monkeypatch.setattr(experiments, "run", full)
    refused(call("run", file), "results/small: No space left on device", cli.FAILED)


def test_bound_prints_windows_alone() -> None:
    document = json.loads(call("bound", "--horizon", 100_000, "--changes", 4, "--json").stdout)
    assert document["windows"]["paper"] == 368  # floor of sqrt(4 e 10^5 / 8)
    assert "368" in call("bound", "--horizon", 100_000, "--changes", 4).stdout


def test_bound_of_a_problem_and_of_a_file_agree(file: Path) -> None:
    options = [
        "--horizon",
        400,
        "--means",
        "0.9,0.1",
        "--means",
        "0.1,0.9",
        "--epsilon",
        1,
        "--epsilon",
        "inf",
    ]
    asked = json.loads(call("bound", *options, "--json").stdout)
    read = json.loads(call("bound", file, "--json").stdout)
    assert [{**entry, "problem": ""} for entry in asked] == [{**entry, "problem": ""} for entry in read]
    assert asked[1]["epsilon"] == "inf"
    assert set(asked[0]["windows"]) == {"paper", "lambert", "corrected", "variation"}
    assert len(asked[0]["suboptimal_pulls"]["paper"]["corrected"]) == 2
    table = call("bound", *options, "--window", 77).stdout
    assert "given" in table
    assert "asymptotic lower bound" in table


def test_a_window_too_short_for_the_arms_has_no_bounds() -> None:
    options = ["--horizon", 60, "--means", ",".join(["0.9"] + ["0.4"] * 39), "--epsilon", 1]
    assert "too short" in call("bound", *options).stdout
    [document] = json.loads(call("bound", *options, "--json").stdout)
    assert "paper" in document["windows"]
    assert "paper" not in document["suboptimal_pulls"]


def test_policies_are_listed() -> None:
    listed = call("policies").stdout
    document = json.loads(call("policies", "--json").stdout)
    assert [line.split()[0] for line in listed.splitlines()] == [entry["name"] for entry in document]
    windowed = next(entry for entry in document if entry["name"] == "sw-klucb-cf")
    assert windowed["parameters"]["window"] == {"required": True}
    assert windowed["parameters"]["c"] == {"required": False, "default": 3.0}
