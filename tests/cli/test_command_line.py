"""The command line as a whole: help, mistakes, and output that anything can take."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import click
import pytest

from children import PROGRAM, finished
from commands import LETTERS, ODD, ORDERS, SMALL, call, gives_no_orders, refused, small_file
from helpers.boundaries import draw_figures
from maskedbandits import cli
from maskedbandits.experiments import progress_bar
from maskedbandits.experiments.results import Label

VERBS = sorted(cli.main.commands)
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
ENCODINGS = [
    C_LOCALE,
    pytest.param({"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.slow),
    pytest.param({"PYTHONIOENCODING": "latin-1"}, marks=pytest.mark.slow),
]
SELDOM = [pytest.param(encoding, marks=pytest.mark.slow) for encoding in ("latin-1", "cp1252", "utf-8")]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return small_file(Path())


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory, quick_fonts: None) -> Path:
    """The results of an experiment whose names are in odd letters."""
    folder = tmp_path_factory.mktemp("odd")
    with pytest.MonkeyPatch.context() as patch:
        draw_figures(patch)  # figures do not depend on encodings
        done = call("run", small_file(folder, ODD), "--out", folder / "out", "--runs", 2)
    assert done.exit_code == 0, done.output
    return folder / "out"


# Help


def test_help_needs_nothing_heavy() -> None:
    script = (
        "import sys, maskedbandits.cli as cli\n"
        "for verb in ([], *([name] for name in cli.main.commands)):\n"
        "    cli.main([*verb, '--help'], standalone_mode=False)\n"
        "sys.exit(sorted({'numpy', 'numba', 'scipy', 'matplotlib', 'rich'} & set(sys.modules)) or 0)"
    )
    done = finished([PROGRAM[0], "-c", script])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage: ") == 1 + len(VERBS)


def test_version() -> None:
    assert "version" in call("--version").stdout


@pytest.mark.parametrize("verb", [[], ["data"]])
def test_missing_verb_prints_help(verb: list[str]) -> None:
    result = call(*verb)
    assert result.exit_code == cli.USAGE
    assert ("\nExperiments:\n" if verb == [] else "\nCommands:\n") in result.stderr
    assert "\\n" not in result.stderr


def test_help_groups_verbs_with_whole_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = call("--help").stdout.splitlines()
    places = [lines.index(f"{topic}:") for topic in ("Options", "Experiments", "Privacy", "Service", "Data")]
    assert places == sorted(places)
    listed = [line.split(maxsplit=1) for line in lines[places[1] :] if line.startswith("  ")]
    assert sorted(verb for verb, _ in listed) == VERBS
    assert all(summary.endswith(".") and "..." not in summary for _, summary in listed)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("verb", VERBS)
def test_ranges_in_help_are_in_words(verb: str) -> None:
    shown = call(verb, "--help").stdout
    assert "<=" not in shown
    assert "RANGE" not in shown
    assert str(2**53) not in shown


@pytest.mark.parametrize(
    "arguments",
    [["run", "--runs", "0", "x"], ["runn"], ["run"], ["run", "--seed", "1.5", "x"], ["policies", "x"], ["run", "none"]],
)
def test_errors_are_one_line_with_one_prefix(arguments: list[str]) -> None:
    complaint = call(*arguments).stderr
    assert complaint.startswith("maskedbandits: ")
    assert complaint.count("\n") == 1
    assert "Error" not in complaint


@pytest.mark.parametrize("verb", VERBS)
def test_help_names_every_option(verb: str) -> None:
    result = call(verb, "--help")
    assert result.exit_code == 0
    for parameter in cli.main.commands[verb].params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in result.stdout


@pytest.mark.parametrize("columns", [20, 100])
@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_examples_on_single_lines(verb: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = call(verb, "--help").stdout.splitlines()
    examples = [line.strip() for line in lines[lines.index("Examples:") :] if line.strip()][1:]
    assert examples
    for example in examples:
        program, named, *arguments = shlex.split(example)
        assert (program, named) == ("maskedbandits", verb)
        cli.main.commands[verb].make_context(verb, arguments)  # it can be read, or this raises


# Mistakes


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
    ],
)
def test_mistakes_are_usage_errors(file: Path, arguments: list[str], complaint: str) -> None:
    Path("bad.toml").write_text(SMALL.replace("[[0.9", "[[1.9"), encoding="utf-8")
    Path("empty").mkdir()
    Path("empty/results.json").touch()
    refused(call(*arguments), complaint)


def test_errors_have_no_control_characters() -> None:
    given = os.fsdecode(ORDERS.encode())  # as a command line comes in, whatever the locale
    for arguments in (
        ["run", given],
        ["report", given],
        ["policies", given],
        ["run", "x", given],
        [f"--{given}"],
        [given],
    ):
        complaint = call(*arguments).stderr
        assert complaint
        assert gives_no_orders(complaint), arguments


# Output


def test_closed_pipe_is_quiet() -> None:
    read, write = os.pipe()
    os.close(read)
    done = finished([*PROGRAM, "policies"], stdout=write)
    os.close(write)
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is played by /dev/full")
@pytest.mark.parametrize(
    "verb", [["policies"], pytest.param(["bound", "--horizon", "100", "--changes", "2"], marks=pytest.mark.slow)]
)
def test_full_disk_is_a_one_line_error(verb: list[str]) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = finished([*PROGRAM, *verb], stdout=full)
    assert (done.returncode, done.stderr) == (cli.FAILED, "maskedbandits: No space left on device\n")


@pytest.mark.parametrize("environment", ENCODINGS, ids=lambda environment: "-".join(environment.values()))
@pytest.mark.slow
def test_run_works_without_unicode_output(tmp_path: Path, environment: dict[str, str]) -> None:
    file = small_file(tmp_path, ODD.replace("[1, inf]", "[inf]"))
    command = [*PROGRAM, "run", file, "--out", tmp_path / "out", "--no-progress"]
    done = finished(command, environment=environment)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("maskedbandits: compiling ") for line in done.stderr.splitlines())
    lines = done.stdout.splitlines()
    assert any(line.split()[:2] == ["eps", "policy"] for line in lines)
    assert any(" --------" in line for line in lines)
    assert gives_no_orders(done.stdout)


@pytest.mark.parametrize("encoding", ["ascii", *SELDOM])
def test_verbs_work_in_any_encoding(odd: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_figures(monkeypatch)
    file = odd.parent / "small.toml"
    commands: list[list[object]] = [
        ["report", odd],
        ["report", odd, "--json"],
        ["run", file, "--out", odd, "--runs", 2],
        ["bound", file],
        ["bound", file, "--json"],
        ["policies"],
        ["policies", "d-klucb-plus-cf"],
        ["policies", "--json"],
        ["audit", "--exact"],
    ]
    commands += [[verb, "--help"] for verb in VERBS]
    for arguments in commands:
        result = call(*arguments, encoding=encoding)
        assert result.exit_code == 0, (arguments, result.output)
        assert result.stdout
        for written in (result.stdout_bytes, result.stderr_bytes):
            assert gives_no_orders(written.decode(encoding)), arguments


def test_missing_letters_are_spelled_out() -> None:
    assert "Menard" in call("policies", "klucb-plus-cf", encoding="ascii").stdout
    assert "Ménard" in call("policies", "klucb-plus-cf", encoding="latin-1").stdout


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_table_is_aligned_in_any_encoding(odd: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_figures(monkeypatch)
    lines = call("report", odd, encoding=encoding).stdout.splitlines()
    heading = next(line for line in lines if "regret, 95 %" in line)
    end = heading.index("regret, 95 %") + len("regret, 95 %")
    rows = [line for line in lines if line.rstrip().endswith(" M")]
    assert len(rows) == 6
    for row in rows:
        cells = row.replace("滑", "__")  # it is two columns wide
        assert cells[end - 1].isdigit()
        assert cells[end] == " "


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_json_has_names_unchanged(odd: Path, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_figures(monkeypatch)
    result = call("report", odd, "--json", encoding=encoding)
    assert gives_no_orders(result.stdout)
    assert json.loads(result.stdout)["cells"][2]["label"] == LETTERS


def test_progress_has_no_control_characters() -> None:
    assert gives_no_orders(progress_bar.format_label(Label("", ORDERS, ORDERS, 1.0)))


def test_undecodable_file_name_works(tmp_path: Path) -> None:
    name, folder = os.fsdecode("é".encode() + b"\xff.toml"), os.fsdecode("ü".encode())
    small_file(tmp_path, SMALL.replace("[1, inf]", "[1]")).rename(tmp_path / name)
    script = "from maskedbandits import cli; from maskedbandits.report import plots; plots.PLOTS = (); cli.main()"
    command = [PROGRAM[0], "-c", script, "run", name, "--runs", "1", "--out", folder, "--no-progress"]
    done = finished(command, environment=C_LOCALE, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    manifest = (tmp_path / folder / "results.json").read_text(encoding="utf-8")
    assert "maskedbandits run 'é\ufffd.toml' --out 'ü' --runs 1" in manifest
