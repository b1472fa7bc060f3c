"""Experiments on what was recorded: kept data by name, and files beside the experiment's own."""

from pathlib import Path

import numpy as np
import pytest

from helpers.boundaries import write_figures_as
from maskedbandits import data, experiments, report
from maskedbandits.data import cache
from maskedbandits.experiments import results
from maskedbandits.experiments.cache_key import build_specs
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.problems import Log, Replay
from maskedbandits.simulation.defaults import WINDOW_RULES

ROUNDS = "day,tea,cake\n" + "".join(f"2020-01-{day:02},{day % 2},{int(day > 5)}\n" for day in range(1, 21))
LOG = "day,what,liked\n" + "".join(
    f"2020-01-{day:02},{'tea' if day % 3 else 'cake'},{day % 2}\n" for day in range(1, 21)
)
POLICIES = """
[[policies]]
name = "uniform"
[[policies]]
name = "oracle"
[[policies]]
name = "oracle"
label = "fixed"
best = "fixed"
"""
INDEX = '[[policies]]\nname = "klucb-cf"\n'  # compiling it for logs takes long


def loaded(folder: Path, problem: str, policies: str = POLICIES) -> experiments.ExperimentConfig:
    (folder / "rounds.csv").write_text(ROUNDS, encoding="utf-8")
    (folder / "log.csv").write_text(LOG, encoding="utf-8")
    (folder / "one.csv").write_text("tea,cake\n1,0\n", encoding="utf-8")
    (folder / "x.toml").write_text(
        f"runs = 3\nepsilons = [1, inf]\n[[problems]]\n{problem}\n{policies}", encoding="utf-8"
    )
    return experiments.load(folder / "x.toml")


def test_recorded_rounds_are_played(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, 'csv = "rounds.csv"\ntime = "day"')
    problem = experiment.conditions[1].problem
    assert isinstance(problem, Replay)
    assert problem.outcomes.shape == (20, 2)
    made = experiments.run(experiment, tmp_path / "out", SilentWatcher(), command="")
    regret = {(cell.label.policy, cell.label.epsilon): cell.mean[-1] for cell in made.cells}
    assert regret["oracle", 1.0] == 0.0
    best = problem.regret_of(problem.best_fixed, [20])[0]
    assert regret["fixed", 1.0] == regret["fixed", np.inf] == best
    again = results.load(tmp_path / "out")
    assert again.complete
    (tmp_path / "rounds.csv").write_text(ROUNDS.replace("2020-01-20,0", "2020-01-20,1"), encoding="utf-8")
    before = [spec.key for spec in build_specs(experiment)]
    after = [spec.key for spec in build_specs(experiments.load(tmp_path / "x.toml"))]
    assert not set(before) & set(after)


def test_page_uses_names_of_recorded_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = loaded(tmp_path, 'name = "shop"\ncsv = "rounds.csv"\ntime = "day"')
    made = experiments.run(experiment, tmp_path / "out", SilentWatcher(), command="")
    again = results.load(tmp_path / "out")
    assert made.manifest.arms == again.manifest.arms == {"shop": ["tea", "cake"]}
    write_figures_as(monkeypatch)
    page = report.write_report(again, tmp_path / "out").page.read_text(encoding="utf-8")
    assert "</svg>tea</span>" in page
    assert "arm 0" not in page


@pytest.mark.parametrize("policies", [POLICIES, pytest.param(INDEX, marks=pytest.mark.slow)], ids=["plain", "index"])
def test_log_is_played_and_loaded_again(tmp_path: Path, policies: str) -> None:
    experiment = loaded(tmp_path, 'csv = "log.csv"\ntime = "day"\narm = "what"\nreward = "liked"', policies)
    assert isinstance(experiment.conditions[0].problem, Log)
    made = experiments.run(experiment, tmp_path / "out", SilentWatcher(), command="")
    again = results.load(tmp_path / "out")
    for one, other in zip(made.cells, again.cells, strict=True):
        assert np.array_equal(one.outcome.regret, other.outcome.regret)
        assert 0 < other.outcome.pulls.sum(axis=1).max() <= 20


def swapped(folder: Path, policies: str) -> experiments.ExperimentConfig:
    """Load a log of 360 rows: one of three arms is best, and after the middle another."""
    rng = np.random.default_rng(4)
    arms, chances = rng.integers(0, 3, 360), rng.random(360)
    means = [[0.1, 0.9, 0.1], [0.9, 0.1, 0.1]]
    rows = [f"{row},{'abc'[arm]},{int(chances[row] < means[row // 180][arm])}" for row, arm in enumerate(arms)]
    (folder / "swap.csv").write_text("time,arm,reward\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return loaded(folder, 'csv = "swap.csv"\ntime = "time"\narm = "arm"\nreward = "reward"', policies)


def test_times_of_a_log_are_rows(tmp_path: Path) -> None:
    experiment = swapped(tmp_path, POLICIES)
    problem = experiment.conditions[1].problem
    assert isinstance(problem, Log)
    assert problem.starts.tolist() == list(range(0, 360, 36))  # without dates, tenths
    made = experiments.run(experiment, tmp_path / "out", SilentWatcher(), command="")
    found = {(cell.label.policy, cell.label.epsilon): cell for cell in made.cells}
    oracle = found["oracle", np.inf]
    assert oracle.outcome.spec["parameters"] == {
        "restarts": problem.starts.tolist(),
        "best": problem.best_arms.tolist(),
    }
    np.testing.assert_allclose(oracle.mean[-1], 0.0, atol=1e-9)
    assert oracle.suboptimal_share == 0.0
    uniform = found["uniform", np.inf]
    assert uniform.suboptimal_share == pytest.approx(2 / 3, abs=0.15)  # of what is played, not of the rows
    assert (uniform.unit, uniform.horizon) == ("rows", 360)


@pytest.mark.parametrize("rule", ["paper", "lambert", "corrected", "variation"])
def test_window_rule_on_log_counts_played_rows(tmp_path: Path, rule: str) -> None:
    experiment = swapped(tmp_path, f'[[policies]]\nname = "sw-klucb-cf"\nwindow = "{rule}"\n')
    task = experiment.tasks[0]
    expected = WINDOW_RULES[rule](task.condition.averaged_problem.as_played(), 3.0)
    assert task.condition.averaged_problem.as_played().horizon == 120
    assert task.parameters["window"] == 3 * expected


def test_too_short_window_on_log_is_an_error(tmp_path: Path) -> None:
    complaint = r"policies\[0\]: window 2 .* window = 7"
    with pytest.raises(ValueError, match=complaint):
        swapped(tmp_path, '[[policies]]\nname = "sw-klucb-cf"\nwindow = 7\n')


def test_cached_data_sets_are_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "data"))
    with pytest.raises(ValueError, match="data get retail"):
        loaded(tmp_path, 'data = "retail"')
    (tmp_path / "data").mkdir()
    table = data.Rounds(("a", "b"), np.eye(2)[[0, 1, 1, 0]], np.array([0, 2]), "a month", ("May", "June"))
    cache.save("retail", table, {}, tmp_path / "data")
    problem = loaded(tmp_path, 'data = "retail"').conditions[0].problem
    assert isinstance(problem, Replay)
    assert problem.starts.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("problem", "complaint"),
    [
        ('data = "retial"', "retail"),
        ('data = "retail"\ncsv = "rounds.csv"', "data or a csv"),
        ('data = "retail"\ntime = "day"', r"problems\[0\].time: "),
        ('csv = "nowhere.csv"', "nowhere.csv"),
        ('csv = "one.csv"', "horizon 1 is shorter"),
        ('csv = "rounds.csv"\ntime = "date"', "date"),
        ('csv = "rounds.csv"\nhorizon = 7', r"problems\[0\].horizon: "),
    ],
)
def test_unreadable_data_are_one_line_errors(tmp_path: Path, problem: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        loaded(tmp_path, problem)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count("x.toml") == 1
