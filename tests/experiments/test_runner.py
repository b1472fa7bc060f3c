"""Runs of experiments: seeds, reuse of finished cells, keys of code, provenance."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import maskedbandits
from helpers.boundaries import shorten_loads
from helpers.private import hear_messages
from maskedbandits import experiments
from maskedbandits.errors import UserError
from maskedbandits.experiments import cache_key, results, work_units
from maskedbandits.experiments.cache_key import code_key
from maskedbandits.experiments.canonical_json import encode_canonical
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.experiments.runner import commit_of, version_of
from maskedbandits.fingerprint import CELLS, hash_package
from maskedbandits.policies import make_policy
from maskedbandits.simulation import simulator
from maskedbandits.simulation.simulator import simulate
from small_experiment import GOOD, run, same_numbers, write


def test_cell_equals_one_call_of_simulate(tmp_path: Path) -> None:
    cell = run(write(tmp_path), tmp_path / "out").cells[0]
    task = experiments.load(tmp_path / "x.toml").tasks[0]
    problem, spec = task.condition.problem, cell.outcome.spec
    policy = make_policy(spec["policy"], arms=problem.arms, corruption=problem.corruption, **spec["parameters"])
    by_hand = simulate(problem, policy, runs=4, seed=spec["seed"], checkpoints=10, progress=False)
    np.testing.assert_array_equal(by_hand.regret, cell.outcome.regret)
    np.testing.assert_array_equal(by_hand.pulls, cell.outcome.pulls)


def test_run_results_load_exactly(tmp_path: Path) -> None:
    made = run(write(tmp_path), tmp_path / "out")
    loaded = results.load(tmp_path / "out")
    assert loaded.manifest == made.manifest
    assert [cell.label for cell in loaded.cells] == [cell.label for cell in made.cells]
    for one, other in zip(made.cells, loaded.cells, strict=True):
        assert same_numbers(one.outcome, other.outcome)
        assert one.outcome.seconds == other.outcome.seconds


def test_numbers_are_independent_of_threads_and_other_cells(tmp_path: Path) -> None:
    first, second = GOOD.index("[[policies]]"), GOOD.rindex("[[policies]]")
    swapped = GOOD[:first] + GOOD[second:] + GOOD[first:second]
    alone = GOOD[:second]
    everything = run(write(tmp_path), tmp_path / "a", threads=2)
    by_key = {cell.label.key: cell.outcome for cell in everything.cells}
    for name, text in (("b", swapped), ("c", alone)):
        other = run(write(tmp_path, text), tmp_path / name, threads=1)
        assert {cell.label.key for cell in other.cells} <= set(by_key)
        assert all(same_numbers(cell.outcome, by_key[cell.label.key]) for cell in other.cells)


def test_cells_have_different_seeds(tmp_path: Path) -> None:
    made = run(write(tmp_path), tmp_path / "a")
    other = run(write(tmp_path), tmp_path / "b", seed=6)
    seeds = [cell.outcome.spec["seed"] for cell in (*made.cells, *other.cells)]
    assert len(set(seeds)) == len(seeds)


def test_more_runs_continue_the_first_ones(tmp_path: Path) -> None:
    few, many = run(write(tmp_path), tmp_path / "a", runs=2), run(write(tmp_path), tmp_path / "b", runs=5)
    for one, other in zip(few.cells, many.cells, strict=True):
        np.testing.assert_array_equal(one.outcome.regret, other.outcome.regret[:2])


class Listener(SilentWatcher):
    """Somebody who takes note of what ends, and presses Ctrl-C when so many cells have."""

    def __init__(self, at: int = 99) -> None:
        super().__init__()
        self.at = at
        self.ended: list[int] = []
        self.played: set[int] = set()

    def begin(self, number: int, label: results.Label) -> None:
        self.played.add(number)

    def end(self, number: int, cell: results.Cell) -> None:
        super().end(number, cell)
        self.ended.append(number)
        if len(self.ended) == self.at:
            raise KeyboardInterrupt


def test_after_an_interrupt_finished_cells_are_kept(tmp_path: Path) -> None:
    path, out = write(tmp_path), tmp_path / "out"
    first, second = Listener(at=3), Listener()
    with pytest.raises(KeyboardInterrupt):
        run(path, out, first)
    partial = results.load(out)
    assert len(partial.cells) == 3
    assert not partial.complete
    made = run(path, out, second)
    assert sorted(first.ended + second.ended) == [0, 1, 2, 3, 4, 5]
    assert (second.reused, second.finished) == (3, 6)
    whole = run(path, tmp_path / "whole")
    assert all(same_numbers(a.outcome, b.outcome) for a, b in zip(made.cells, whole.cells, strict=True))


def test_equal_cells_are_played_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = GOOD + '\n[[policies]]\nname = "klucb-cf"\nlabel = "again"\nc = 0\n'
    watcher = Listener()
    shorten_loads(monkeypatch)  # a run at a time
    made = run(write(tmp_path, twice), tmp_path / "out", watcher)
    assert (len(watcher.played), watcher.finished, len(made.cells)) == (6, 9, 9)
    for one, other in zip(made.cells[1::3], made.cells[2::3], strict=True):
        assert (one.label.policy, other.label.policy) == ("plain", "again")
        assert one.outcome is other.outcome
    again = Listener()
    assert run(tmp_path / "x.toml", tmp_path / "out", again).complete
    assert (again.reused, again.ended) == (9, [])


def test_spec_text_is_canonical_json(tmp_path: Path) -> None:
    for spec in cache_key.build_specs(experiments.load(write(tmp_path))):
        assert spec.text == encode_canonical(spec.facts)
        cell_facts = {key: spec.facts[key] for key in spec.facts if key not in ("runs", "seed", "checkpoints", "code")}
        assert spec.facts["seed"] == cache_key.derive_seed(5, encode_canonical(cell_facts))


@pytest.mark.parametrize(
    ("old", "new", "played"),
    [
        ('title = "Small"', 'title = "Other"', []),
        ('label = "plain"', 'label = "renamed"', []),
        ("runs = 4", "runs = 5", [0, 1, 2, 3, 4, 5]),
        ("seed = 5", "seed = 6", [0, 1, 2, 3, 4, 5]),
        ("c = 0", "c = 1", [1, 3, 5]),
        ("[0.8, 0.3]", "[0.8, 0.2]", [4, 5]),
        ("[1, inf]", "[1, 2]", [2, 3]),
    ],
)
def test_only_changed_cells_run_again(tmp_path: Path, old: str, new: str, played: list[int]) -> None:
    run(write(tmp_path), tmp_path / "out")
    watcher = Listener()
    run(write(tmp_path, GOOD.replace(old, new)), tmp_path / "out", watcher)
    assert sorted(watcher.ended) == played


def test_cells_of_other_code_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(write(tmp_path), tmp_path / "out")
    monkeypatch.setattr(cache_key, "code_key", lambda: "another")
    watcher = Listener()
    run(write(tmp_path), tmp_path / "out", watcher)
    assert len(watcher.ended) == 6


def test_fresh_runs_all_and_damaged_cells_are_replaced(tmp_path: Path) -> None:
    path, out = write(tmp_path), tmp_path / "out"
    run(path, out)
    watcher = Listener()
    run(path, out, watcher, fresh=True)
    assert len(watcher.ended) == 6
    min((out / "cells").iterdir()).write_bytes(b"rubbish")
    watcher = Listener()
    assert run(path, out, watcher).complete
    assert len(watcher.ended) == 1
    assert len(results.load(out).cells) == 6


def test_horizon_is_always_a_checkpoint(tmp_path: Path) -> None:
    short = GOOD.replace("checkpoints = 10", "checkpoints = [5, 50]")
    for cell in run(write(tmp_path, short), tmp_path / "out").cells:
        assert cell.outcome.times.tolist() == [5, 50, cell.horizon]


def test_infinite_window_is_shown(tmp_path: Path) -> None:
    from maskedbandits.report import tables

    made = run(write(tmp_path, GOOD.replace('window = "paper"', "window = inf")), tmp_path / "out")
    assert tables.format_window(made.cells[0]) == "∞"


def test_oracle_gets_its_parameters_from_the_problem(tmp_path: Path) -> None:
    text = GOOD.replace('name = "klucb-cf"\nlabel = "plain"\nc = 0', 'name = "oracle"')
    cells = [cell for cell in run(write(tmp_path, text), tmp_path / "out").cells if cell.label.policy == "oracle"]
    assert [float(cell.mean[-1]) for cell in cells] == [0.0, 0.0, 0.0]


def test_cell_with_other_specification_runs_again(tmp_path: Path) -> None:
    made = run(write(tmp_path), tmp_path / "out")
    one, other = made.cells[0], made.cells[1]
    results.save_outcome(tmp_path / "out", one.label.key, other.outcome)
    watcher = Listener()
    again = run(write(tmp_path), tmp_path / "out", watcher)
    assert watcher.ended == [0]
    assert same_numbers(again.cells[0].outcome, one.outcome)


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (MemoryError(), "not enough memory.*runs"),
        (ValueError("the results would take 99 GiB"), "swap.*take 99 GiB"),
    ],
)
def test_simulation_errors_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, complaint: str
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(simulator, "prepare_runs", fail)
    task = experiments.load(write(tmp_path)).tasks[1]
    with pytest.raises(UserError, match=complaint):
        work_units.play_load([work_units.WorkUnit(0, task, seed=1, checkpoints=1, first=0, runs=1)])


class TestCode:
    """Cells of other code are not taken for ours: what counts as code."""

    @pytest.fixture
    def package(self, tmp_path: Path) -> Path:
        ignore = shutil.ignore_patterns("__pycache__")
        return shutil.copytree(Path(maskedbandits.__file__).parent, tmp_path / "maskedbandits", ignore=ignore)

    @pytest.mark.slow
    def test_any_source_change_changes_key_except_display(self, package: Path) -> None:
        before = hash_package(CELLS, package)
        assert before == hash_package(CELLS)
        unseen = []
        for path in sorted(package.rglob("*.py")):
            content = path.read_bytes()
            path.write_bytes(content.replace(b"0", b"1", 1) + b"\n")
            if hash_package(CELLS, package) == before:
                unseen.append(path.relative_to(package).as_posix())
            path.write_bytes(content)
        assert {name.split("/")[0].removesuffix(".py") for name in unseen} == {
            "__main__",
            "cli",
            "demo",
            "experiments",
            "report",
            "service",
            "testing",
        }
        assert [name for name in unseen if name.startswith("experiments")] == [
            "experiments/dataframe.py",
            "experiments/progress_bar.py",
        ]

    def test_added_moved_and_removed_files_change_key(self, package: Path) -> None:
        codes = [hash_package(CELLS, package)]
        (package / "new").mkdir()
        (package / "new" / "table.json").write_text("{}")
        codes.append(hash_package(CELLS, package))
        (package / "new" / "table.json").rename(package / "new" / "other.json")
        codes.append(hash_package(CELLS, package))
        (package / "corruption.py").unlink()
        codes.append(hash_package(CELLS, package))
        assert len(set(codes)) == 4

    def test_bytecode_does_not_change_key(self, package: Path) -> None:
        before = hash_package(CELLS, package)
        (package / "problems" / "__pycache__").mkdir()
        (package / "problems" / "__pycache__" / "problem.cpython-311.pyc").write_bytes(b"rubbish")
        assert hash_package(CELLS, package) == before

    def test_key_does_not_depend_on_folder(self, package: Path) -> None:
        elsewhere = package.parent / "report" / "cli"
        elsewhere.mkdir(parents=True)
        assert hash_package(CELLS, shutil.copytree(package, elsewhere / "maskedbandits")) == hash_package(
            CELLS, package
        )


def test_cell_is_not_stored_if_its_files_change_during_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers may be those of either version."""
    helper = tmp_path / "edited_helper.py"
    helper.write_text("ARM = 1\n", encoding="utf-8")
    (tmp_path / "edited_policy.py").write_text(
        "from pathlib import Path\n"
        "class Policy:\n"
        "    def __init__(self, generator, arms): pass\n"
        "    def choose(self):\n"
        "        import edited_helper\n"
        "        return edited_helper.ARM\n"
        "    def observe(self, arm, feedback):\n"
        "        Path(__file__).with_name('edited_helper.py').write_text('ARM = 0\\n')\n",
        encoding="utf-8",
    )
    problem = "[[problems]]\nname = 'two'\nhorizon = 50\nmeans = [0.2, 0.8]\n"
    text = f"runs = 1\nepsilons = [inf]\n{problem}[[policies]]\nname = 'edited_policy:Policy'\n"
    monkeypatch.syspath_prepend(str(tmp_path))
    messages = hear_messages(monkeypatch)
    made = run(write(tmp_path, text), tmp_path / "out", threads=1)
    assert made.cells[0].mean[-1] == 0.0
    assert any("files were edited during the run, so the cell is not stored" in each for each in messages)
    assert not results.load(tmp_path / "out").complete


def git(folder: Path, *words: str) -> str:
    given = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org", *words]
    return subprocess.run(given, check=True, capture_output=True, text=True).stdout.strip()


def test_results_store_provenance(tmp_path: Path) -> None:
    run(write(tmp_path), tmp_path / "out", runs=1)
    provenance = results.load(tmp_path / "out").manifest.provenance
    assert provenance["numpy"] == np.__version__
    assert provenance["code"] == code_key()
    assert "cores" in provenance["system"]
    assert "commit" not in provenance


def test_commit_is_that_of_the_folder(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-q", "-m", "a")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(tmp_path) == head
    (tmp_path / "a").write_text("2")
    assert commit_of(tmp_path) == f"{head}-dirty"


def test_missing_provenance_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert commit_of(tmp_path) == ""
    assert version_of("no-such-package-at-all") == ""
    monkeypatch.setenv("PATH", "")
    assert commit_of(tmp_path) == ""


def test_damaged_provenance_is_an_error(tmp_path: Path) -> None:
    run(write(tmp_path), tmp_path / "out", runs=1)
    index = tmp_path / "out" / "results.json"
    index.write_text(
        index.read_text(encoding="utf-8").replace('"python": "', '"python": 3, "other": "'), encoding="utf-8"
    )
    with pytest.raises(ValueError, match="provenance"):
        results.load(tmp_path / "out")
