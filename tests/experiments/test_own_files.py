"""CSV files and modules behind an experiment: a saved experiment finds them from anywhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import maskedbandits as mb
from maskedbandits.errors import UserError
from small_experiment import same_numbers

GREEDY = """
from own_files_helper import FIRST

class Turns:
    def __init__(self, generator, arms):
        self.next, self.arms = FIRST, arms

    def choose(self):
        self.next = (self.next + 1) % self.arms
        return self.next

    def observe(self, arm, feedback):
        pass
"""
ROUNDS = "a,b\n" + "1,0\n0,1\n1,1\n" * 40
PROBLEM = {"csv": "data/rounds.csv", "epsilons": [1.0]}
POLICIES = ["uniform", "own_files_policy:Turns"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a project with data, a policy and its helper in three folders, as a notebook in it sees them."""
    home = tmp_path / "project"
    for name, text in {
        "data/rounds.csv": ROUNDS,
        "src/own_files_policy.py": GREEDY,
        "lib/own_files_helper.py": "FIRST = 0\n",
    }.items():
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(home / "src"), str(home / "lib"), *sys.path])
    monkeypatch.chdir(home)
    yield home
    forget()


def forget() -> None:
    """Forget the modules, as another process does not have them."""
    for name in ("own_files_policy", "own_files_helper"):
        sys.modules.pop(name, None)


def leave(monkeypatch: pytest.MonkeyPatch, project: Path, to: Path) -> None:
    """Go on as a new process in another folder."""
    forget()
    monkeypatch.chdir(to)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not entry.startswith(str(project))])


def test_stored_experiment_runs_from_anywhere(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mb.Experiment([PROBLEM], POLICIES, runs=2).run("out", progress=False)
    leave(monkeypatch, project, tmp_path)
    stored = mb.Experiment.load(project / "out" / "experiment.toml")
    steps: list[int] = []
    again = stored.run(project / "out", progress=lambda done, total: steps.append(done))
    assert not steps  # the same keys, so all cells were finished
    fresh = stored.run(progress=False)
    for results in (again, fresh):
        assert all(same_numbers(a.outcome, b.outcome) for a, b in zip(first.cells, results.cells, strict=True))
    forget()
    assert [cell.label for cell in mb.load_results(project / "out").cells] == [cell.label for cell in first.cells]


def test_experiment_remembers_where_it_was_made(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = mb.Experiment([PROBLEM], "uniform", runs=1)
    monkeypatch.chdir(tmp_path)
    assert len(experiment.run(runs=2, progress=False).cells) == 1
    assert 'csv = "data/rounds.csv"' in experiment.source


def test_file_saved_elsewhere_names_the_folder(project: Path, tmp_path: Path) -> None:
    text = '# mine\nruns = 1\nepsilons = [1]\n[[problems]]\ncsv = "rounds.csv"\n[[policies]]\nname = "uniform"\n'
    (project / "data" / "x.toml").write_text(text, encoding="utf-8")
    experiment = mb.Experiment.load(project / "data" / "x.toml")
    experiment.save_toml(project / "data" / "copy.toml")
    assert (project / "data" / "copy.toml").read_text(encoding="utf-8") == text
    experiment.save_toml(tmp_path / "far.toml")
    assert (tmp_path / "far.toml").read_text(encoding="utf-8") == f'folder = "{project / "data"}"\n{text}'
    mb.Experiment.load(tmp_path / "far.toml").save_toml(project / "data" / "back.toml")
    assert "folder" not in (project / "data" / "back.toml").read_text(encoding="utf-8")
    assert mb.Experiment.load(project / "data" / "back.toml").config.runs == 1


def test_experiment_without_own_files_names_no_folder(tmp_path: Path) -> None:
    problem = mb.Problem([0.9, 0.4], [0], 10, mb.RandomizedResponse(0.9, 0.9))
    experiment = mb.Experiment(problem, "uniform")
    experiment.save_toml(tmp_path / "x.toml")
    assert (tmp_path / "x.toml").read_text(encoding="utf-8") == experiment.source


@pytest.mark.parametrize(
    ("moved", "complaint"),
    [
        ("src", "folder: there is no folder .*src: write the folder"),
        ("data", "csv: there is no file .*rounds.csv: write its path"),
        ("src/own_files_policy.py", "put own_files_policy.py beside"),
    ],
)
def test_moved_files_are_one_line(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: str, complaint: str
) -> None:
    mb.Experiment([PROBLEM], POLICIES, runs=1).save_toml("saved.toml")
    leave(monkeypatch, project, tmp_path)
    (project / moved).rename(tmp_path / "moved")
    with pytest.raises(UserError, match=f"saved.toml: .*{complaint}") as caught:
        mb.Experiment.load(project / "saved.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["3", "[]", '""', "[1]", '"nowhere"'])
def test_folder_that_is_none_is_one_line(tmp_path: Path, value: str) -> None:
    (tmp_path / "x.toml").write_text(f"folder = {value}\n", encoding="utf-8")
    with pytest.raises(UserError, match="folder: "):
        mb.Experiment.load(tmp_path / "x.toml")
