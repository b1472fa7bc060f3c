"""Experiments from Python: the numbers of the command line, whatever form problems and policies have."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import maskedbandits as mb
from commands import call
from maskedbandits.errors import UserError
from maskedbandits.experiments import document
from maskedbandits.problems import Beta, ContextualProblem, sinusoid
from small_experiment import GOOD, same_numbers, write

RR = mb.RandomizedResponse(0.9, 0.8)
STILL = mb.Problem([0.8, 0.3], [0], 400, [mb.RandomizedResponse(0.9, 0.8), mb.RandomizedResponse(0.9, 0.7)])
SWAP = mb.Problem([[0.9, 0.1, 0.2], [0.1, 0.9, 0.2]], [0, 300], 600, RR)
POLICIES = {"recent": ("sw-klucb-cf", {"window": "paper"}), "plain": ("klucb-cf", {"c": 0})}


def assert_same(one: mb.Results, other: mb.Results) -> None:
    assert [cell.label for cell in one.cells] == [cell.label for cell in other.cells]
    for left, right in zip(one.cells, other.cells, strict=True):
        assert same_numbers(left.outcome, right.outcome)


def test_loaded_experiment_gives_the_numbers_of_the_command(tmp_path: Path) -> None:
    path = write(tmp_path)
    call("run", path, "--out", tmp_path / "cli", "--no-progress")
    from_command = mb.load_results(tmp_path / "cli")
    assert_same(mb.Experiment.load(path).run(progress=False), from_command)


def test_python_and_file_share_the_cache(tmp_path: Path) -> None:
    experiment = mb.Experiment({"still": STILL}, POLICIES, runs=3, seed=5, checkpoints=10)
    first = experiment.run(tmp_path / "out", progress=False)
    stored = tmp_path / "out" / "experiment.toml"
    assert first.manifest.command == f"maskedbandits run {stored} --out {tmp_path / 'out'}"
    steps: list[int] = []
    again = mb.Experiment.load(stored).run(tmp_path / "out", progress=lambda done, total: steps.append(done))
    assert_same(first, again)
    assert not steps  # all cells were finished
    more = mb.Experiment.load(stored).run(tmp_path / "out", runs=5, progress=lambda done, total: steps.append(total))
    assert set(steps) == {2 * 2 * 400}  # two more runs of two cells
    assert_same(more, experiment.run(runs=5))


def test_objects_and_file_give_the_same_cells(tmp_path: Path) -> None:
    from_file = mb.Experiment.load(write(tmp_path)).run()
    swap = mb.Experiment({"swap": SWAP}, POLICIES, epsilons=[1, np.inf], runs=4, seed=5, checkpoints=10).run()
    still = mb.Experiment({"still": STILL}, POLICIES, runs=4, seed=5, checkpoints=10).run()
    outcomes = {(cell.label.problem, cell.label.epsilon, number % 2): cell for number, cell in enumerate(swap.cells)}
    outcomes |= {(cell.label.problem, cell.label.epsilon, number % 2): cell for number, cell in enumerate(still.cells)}
    for number, cell in enumerate(from_file.cells):
        mine = outcomes[cell.label.problem, cell.label.epsilon, number % 2]
        assert same_numbers(cell.outcome, mine.outcome)
    assert len(outcomes) == len(from_file.cells) == 6


NOISY = mb.Problem([0.8, 0.3], [0], 200, mb.LaplaceNoise(2.0), rewards=Beta(3))
GROUPS = ContextualProblem([[0.9, 0.1], [0.1, 0.9]], [0], 300, [0.3, 0.7])


@pytest.mark.parametrize(
    "problem", [STILL, SWAP, NOISY, sinusoid(3, 500, corruption=RR, seed=7)], ids=["still", "swap", "noisy", "drift"]
)
def test_problem_survives_its_text(problem: mb.Problem) -> None:
    experiment = mb.Experiment(problem, "uniform", runs=1)
    [condition] = experiment.config.conditions
    rebuilt = condition.problem
    assert isinstance(rebuilt, mb.Problem)
    assert np.array_equal(rebuilt.means, problem.means)
    assert np.array_equal(rebuilt.starts, problem.starts)
    assert (rebuilt.horizon, rebuilt.corruption, rebuilt.law) == (problem.horizon, problem.corruption, problem.law)


def test_groups_survive_their_text() -> None:
    [condition] = mb.Experiment(GROUPS, "auto", epsilons=2.0, runs=1).config.conditions
    rebuilt = condition.problem
    assert isinstance(rebuilt, ContextualProblem)
    assert np.array_equal(rebuilt.means, GROUPS.means)
    assert np.array_equal(rebuilt.shares, GROUPS.shares)


def test_text_is_read_as_it_was_written() -> None:
    values: dict[str, Any] = {
        "text": 'a "quoted" \\ line\n\x7f ε',
        "numbers": [1, -2, 0.1, 1e-300, float("inf")],
        "nested": {"a b": [True, False], "c": {}},
    }
    assert tomllib.loads("\n".join(document.format_entries(values))) == values


def test_tables_of_a_file_are_taken_as_they_are() -> None:
    drawn = {"name": "drawn", "generator": "sinusoid", "arms": 2, "horizon": 300}
    experiment = mb.Experiment([drawn, STILL], {"name": "auto", "label": "mine"}, epsilons=1, runs=2)
    assert [task.label for task in experiment.config.tasks] == ["mine", "mine"]
    assert repr(experiment) == "<Experiment 'experiment': 2 problems x 1 epsilon x 1 policy, 2 cells of 2 runs>"
    assert [each.name for each in experiment.config.conditions] == ["drawn", "problem 2"]


def test_saved_file_is_the_experiment(tmp_path: Path) -> None:
    experiment = mb.Experiment(STILL, ["auto", "uniform"], runs=2, title="Mine")
    experiment.save_toml(tmp_path / "mine.toml")
    loaded = mb.Experiment.load(tmp_path / "mine.toml", runs=3)
    assert (loaded.title, loaded.source, loaded.config.runs) == (
        "Mine",
        experiment.source.replace("runs = 2", "runs = 3"),
        3,
    )
    out = tmp_path / "out"
    results = loaded.run(out, seed=9)
    assert results.manifest.command == f"maskedbandits run {tmp_path / 'mine.toml'} --out {out} --runs 3 --seed 9"
    assert_same(results, experiment.run(runs=3, seed=9))


def test_run_without_folder_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mb.Experiment(STILL, "uniform", runs=2).run()
    assert not list(tmp_path.iterdir())


def test_processes_give_the_same_numbers() -> None:
    experiment = mb.Experiment(STILL, ["auto", "uniform"], runs=2)
    assert_same(experiment.run(backend="processes", workers=1), experiment.run(workers=1))


def small_results() -> mb.Results:
    return mb.Experiment({"still": STILL}, {"a": "oracle", "b": "uniform"}, runs=3, title="Small").run()


def test_results_are_shown_as_a_short_table() -> None:
    results = small_results()
    lines = repr(results).splitlines()
    assert lines[0] == "Small: 2 cells of 3 runs"
    assert lines[1].split()[:3] == ["problem", "mask", "policy"]
    assert lines[2].split()[:4] == ["still", "own", "mask", "a"]
    assert len(lines) == 4
    assert results._repr_html_().count("<tr>") == 3


def test_long_table_is_cut() -> None:
    many = {f"p{number}": STILL for number in range(42)}
    lines = repr(mb.Experiment(many, "uniform", runs=1).run()).splitlines()
    assert len(lines) == 43
    assert "and 2 more" in lines[-1]


def test_summary_is_that_of_the_simulation() -> None:
    results = small_results()
    cell = results.cells[1]
    summary = results.summary(0.9)["still", None, "b"]  # type: ignore[index]
    again = mb.simulate(STILL, "uniform", runs=3, seed=cell.outcome.spec["seed"], checkpoints=200)
    assert summary.mean == again.summary(0.9).mean
    assert summary.interval == again.summary(0.9).interval


def test_selected_cells_have_the_given_names() -> None:
    results = mb.Experiment({"x": STILL, "y": SWAP}, ["oracle", "uniform"], epsilons=[1, 2], runs=1).run()
    assert len(results.select(problem="x").cells) == 4
    assert [cell.label.name for cell in results.select("y", 2, "uniform").cells] == [("y", 2.0, "uniform")]
    assert results.select("y").complete
    with pytest.raises(UserError, match="uniform"):
        results.select(policy="unifrom")
    with pytest.raises(UserError, match="epsilon 3"):
        results.select(epsilon=3)


@pytest.mark.parametrize("given", [{"band": "sd"}, {"band": STILL}, {"level": 2}])
def test_wrong_plot_of_results_is_one_line(given: dict[str, Any]) -> None:
    mpl.use("agg")
    results = mb.Experiment(STILL, "uniform", runs=2).run()
    open_figures = plt.get_fignums()
    with pytest.raises(UserError, match=f"{next(iter(given))} = "):
        results.plot(**given)
    assert plt.get_fignums() == open_figures


def test_plot_has_a_panel_for_each_mask() -> None:
    mpl.use("agg")
    results = mb.Experiment({"x": STILL}, ["oracle", "uniform"], epsilons=[1, 2, 4], runs=2).run()
    figure = results.plot(band="std", log=True)
    assert [axes.get_title() for axes in figure.axes] == ["x, ε = 1", "x, ε = 2", "x, ε = 4"]
    assert [len(axes.lines) for axes in figure.axes] == [2, 2, 2]
    many = mb.Experiment({f"p{number}": STILL for number in range(31)}, "uniform", runs=1).run()
    with pytest.raises(UserError, match="select"):
        many.plot()


EXPERIMENT: Any = mb.Experiment  # whose arguments may have any type


def curve(mean: float) -> float:
    return mean * mean


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: EXPERIMENT(3, "auto"), "problems is 3"),
        (lambda: EXPERIMENT([], "auto"), "problems is empty"),
        (lambda: EXPERIMENT(STILL, []), "policies is empty"),
        (lambda: EXPERIMENT(STILL, 7), "policies is 7"),
        (lambda: EXPERIMENT(STILL, [curve]), "module:function"),
        (lambda: EXPERIMENT(STILL, "autoo"), "auto"),
        (lambda: EXPERIMENT(STILL, ("auto", {"windw": 3})), "windw"),
        (lambda: EXPERIMENT(STILL, "auto", runs=0), "runs"),
        (lambda: EXPERIMENT(STILL, "auto", runs=1.5), "runs"),
        (lambda: EXPERIMENT(STILL, "auto", epsilons=-1), "epsilons"),
        (lambda: EXPERIMENT(GROUPS, "auto"), "epsilons"),
        (lambda: EXPERIMENT(NOISY, "auto", epsilons=1), "randomised response"),
        (lambda: EXPERIMENT(mb.Problem([0.8, 0.3], [0], 9, mb.Monotone(curve)), "auto"), "Monotone"),
        (lambda: EXPERIMENT(mb.Problem([0.8, 0.3], [0], 9, RR, liars=0.1), "auto"), "liars"),
        (lambda: EXPERIMENT(mb.Problem.replay([[1, 0], [0, 1]]), "auto"), "recorded"),
        (lambda: EXPERIMENT({"means": [0.1, 0.2], "horizon": STILL.law}, "auto", epsilons=1), "no form"),
        (lambda: EXPERIMENT(STILL, "auto", title="two\nlines"), "title"),
        (lambda: EXPERIMENT(STILL, "auto").run(backend="cloud"), "threads"),
        (lambda: EXPERIMENT(STILL, "auto").run(workers=0), "workers"),
        (lambda: EXPERIMENT(STILL, "auto").run(runs=0), "runs"),
        (lambda: mb.Experiment.load("no such file.toml"), "no such file"),
        (lambda: mb.load_results("no such folder"), "no results"),
    ],
)
def test_mistake_is_one_line(build: Callable[[], object], word: str) -> None:
    with pytest.raises(UserError, match=word) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_text_of_the_small_experiment_is_kept(tmp_path: Path) -> None:
    assert mb.Experiment.load(write(tmp_path)).source == GOOD


def test_saved_file_has_runs_and_seed_given_to_load(tmp_path: Path) -> None:
    mb.Experiment(SWAP, "uniform", runs=2).save_toml(tmp_path / "a.toml")
    loaded = mb.Experiment.load(tmp_path / "a.toml", runs=3, seed=5)
    loaded.save_toml(tmp_path / "b.toml")
    again = mb.Experiment.load(tmp_path / "b.toml")
    assert (again.config.runs, again.config.seed) == (3, 5)
    assert again.run().frame().equals(loaded.run().frame())


def test_file_of_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "experiment.toml").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match="another experiment"):
        mb.Experiment(SWAP, "uniform", runs=2).run(tmp_path)
    assert (tmp_path / "experiment.toml").read_text(encoding="utf-8") == "mine"


def test_unwritable_places_are_one_line_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    experiment = mb.Experiment(SWAP, "uniform", runs=2)
    with pytest.raises(UserError, match="cannot hold results"):
        experiment.run(tmp_path / "file")
    with pytest.raises(UserError, match="cannot be written"):
        experiment.save_toml(tmp_path / "none" / "a.toml")
