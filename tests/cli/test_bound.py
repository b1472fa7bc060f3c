"""`maskedbandits bound`: the same numbers from options and from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import call, refused, small_file


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return small_file(Path())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "--horizon and --changes"),
        (["--horizon", "100"], "--horizon and --changes"),
        (["--horizon", "10", "--changes", "20"], "changes = 20"),
        (["--horizon", "100", "--means", "0.9,x"], "expected numbers separated by commas, got '0.9,x'"),
        (["--horizon", "100", "--means", "0.9,0.4"], "give --epsilon with --means"),
        (["--horizon", "100", "--means", "0.9,1.4", "--epsilon", "1"], "in [0, 1]"),
        (["--horizon", "100", "--means", "0.9,0.4", "--epsilon", "0"], "epsilon"),
        (["--horizon", "100", "--means", "0.9,0.4", "--epsilon", "1", "--window", "1"], "at least 2"),
        (["--horizon", "100", "--changes", "2", "--means", "0.9,0.4", "--epsilon", "1"], "--changes 2 but"),
        (["small.toml", "--horizon", "100"], "not both"),
        (["none.toml"], "none.toml: no such file"),
    ],
)
def test_mistakes_are_usage_errors(file: Path, arguments: list[str], complaint: str) -> None:
    refused(call("bound", *arguments), complaint)


def test_groups_have_no_bounds(file: Path) -> None:
    text = 'epsilons = [1]\n[[problems]]\nname = "people"\nhorizon = 9\ngroups = 1\nmeans = [[0.1, 0.2]]\n'
    file.write_text(f'{text}[[policies]]\nname = "auto"\n', encoding="utf-8")
    refused(call("bound", "small.toml"), "small.toml: people has groups, and bounds are for problems without")


def test_a_log_has_no_bounds(file: Path) -> None:
    (file.parent / "log.csv").write_text("arm,reward\n" + "a,1\nb,0\n" * 9, encoding="utf-8")
    text = 'epsilons = [1]\n[[problems]]\nname = "visits"\ncsv = "log.csv"\narm = "arm"\nreward = "reward"\n'
    file.write_text(f'{text}[[policies]]\nname = "auto"\n', encoding="utf-8")
    refused(call("bound", "small.toml"), "small.toml: visits is a log")


def test_windows_alone() -> None:
    document = json.loads(call("bound", "--horizon", 100_000, "--changes", 4, "--json").stdout)
    assert document["windows"]["paper"] == 368  # floor of sqrt(4 e 10^5 / 8)
    assert "368" in call("bound", "--horizon", 100_000, "--changes", 4).stdout


def test_a_problem_and_a_file_agree(file: Path) -> None:
    means = ("--means", "0.9,0.1", "--means", "0.1,0.9")
    options = ["--horizon", 400, *means, "--epsilon", 1, "--epsilon", "inf"]
    entries = json.loads(call("bound", *options, "--json").stdout)
    read = json.loads(call("bound", file, "--json").stdout)
    assert [{**entry, "problem": ""} for entry in entries] == [{**entry, "problem": ""} for entry in read]
    assert entries[1]["epsilon"] == "inf"
    assert set(entries[0]["windows"]) == {"paper", "lambert", "corrected", "variation"}
    assert len(entries[0]["suboptimal_pulls"]["paper"]["corrected"]) == 2
    table = call("bound", *options, "--window", 77).stdout
    assert "given" in table
    assert "asymptotic lower bound" in table


def test_a_window_too_short_for_the_arms_has_no_bounds() -> None:
    options = ["--horizon", 60, "--means", ",".join(["0.9"] + ["0.4"] * 39), "--epsilon", 1]
    assert "too short" in call("bound", *options).stdout
    [document] = json.loads(call("bound", *options, "--json").stdout)
    assert "paper" in document["windows"]
    assert "paper" not in document["suboptimal_pulls"]
