"""What problems of an experiment are seen through: noise in place of bits, and rewards that are none."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.boundaries import write_figures_as
from maskedbandits import (
    Experiment,
    GaussianNoise,
    LaplaceNoise,
    Population,
    Problem,
    RandomizedResponse,
    experiments,
    load_results,
    make_policy,
    report,
    simulate,
)
from maskedbandits.errors import UserError
from maskedbandits.experiments import ExperimentConfig, corruption_spec, results, validation
from maskedbandits.experiments.cache_key import build_specs
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.problems import Beta, Gaussian
from maskedbandits.problems.rewards import Bernoulli
from maskedbandits.report.plots.pulls_and_bounds import has_bounds

PROBLEM = "horizon = 300\nmeans = [[0.2, 0.7], [0.8, 0.1]]\nstarts = [0, 150]\n"
POLICIES = '[[policies]]\nname = "uniform"\n[[policies]]\nname = "sw-klucb-cf"\nwindow = 50\n'
GAUSSIAN = "noise = { gaussian = 0 }\nrewards = { gaussian = 0.1 }"


def loaded(
    folder: Path, mask: str, top: str = "epsilons = [1, inf]\n", problem: str = PROBLEM, policies: str = POLICIES
) -> ExperimentConfig:
    path = folder / "x.toml"
    path.write_text(f"runs = 4\nseed = 3\n{top}[[problems]]\n{problem}{mask}\n{policies}", encoding="utf-8")
    return experiments.load(path)


@pytest.mark.parametrize(
    ("mask", "top", "expected"),
    [
        ("", "epsilons = [1]\n", {1.0: RandomizedResponse.from_epsilon(1)}),
        ('noise = "laplace"', "epsilons = [0.5, inf]\n", {0.5: LaplaceNoise(2.0), math.inf: GaussianNoise(0.0)}),
        (
            'noise = "gaussian"\ndelta = 1e-5',
            "epsilons = [1, inf]\n",
            {1.0: GaussianNoise.from_epsilon(1, 1e-5), math.inf: GaussianNoise(0.0)},
        ),
        ("noise = { laplace = 3 }", "epsilons = [1, 2]\n", {None: LaplaceNoise(3.0)}),
        ("noise = { gaussian = 0 }", "", {None: GaussianNoise(0.0)}),
        ("p00 = 0.9\np11 = 0.8", "", {None: RandomizedResponse(0.9, 0.8)}),
    ],
)
def test_masks_follow_the_file(tmp_path: Path, mask: str, top: str, expected: dict[float, object]) -> None:
    conditions = loaded(tmp_path, mask, top).conditions
    assert {condition.epsilon: condition.problem.corruption for condition in conditions} == {
        epsilon: (one, one) for epsilon, one in expected.items()
    }


@pytest.mark.parametrize(
    ("rewards", "law"),
    [
        ("", Bernoulli()),
        ('rewards = "bernoulli"', Bernoulli()),
        ("rewards = { beta = 3 }", Beta(3.0)),
        ("rewards = { gaussian = 0.1 }", Gaussian(0.1)),
    ],
)
def test_reward_laws_follow_the_file(tmp_path: Path, rewards: str, law: object) -> None:
    [condition] = loaded(tmp_path, f"noise = {{ gaussian = 1.5 }}\n{rewards}").conditions
    assert condition.averaged_problem.law == law
    drawn = 'generator = "one-ahead"\narms = 2\nsegments = 2\nhorizon = 300\n'
    [condition] = loaded(tmp_path, f"noise = {{ gaussian = 1.5 }}\n{rewards}", problem=drawn).conditions
    assert condition.averaged_problem.law == law


@pytest.mark.parametrize(
    ("name", "options", "sigma"),
    [
        ("uniform", {}, {}),
        pytest.param("sw-klucb-cf", {"window": 50}, {"sigma": 0.1}, marks=pytest.mark.slow),  # it compiles for long
    ],
)
def test_cells_are_what_a_simulation_gives(
    tmp_path: Path, name: str, options: dict[str, Any], sigma: dict[str, Any]
) -> None:
    policies = f'[[policies]]\nname = "{name}"\n' + "".join(f"{key} = {value}\n" for key, value in options.items())
    experiment = loaded(tmp_path, GAUSSIAN, policies=policies)
    made = experiments.run(experiment, tmp_path / "out", SilentWatcher(), command="")
    [cell] = made.cells
    problem = experiment.conditions[0].problem
    policy = make_policy(name, arms=2, corruption=problem.corruption, **options, **sigma)
    again = simulate(problem, policy, runs=4, seed=cell.outcome.spec["seed"], checkpoints=200, progress=False)
    assert np.array_equal(cell.outcome.regret, again.regret)
    assert cell.outcome.spec["parameters"] == {**options, **sigma}
    for one, other in zip(made.cells, results.load(tmp_path / "out").cells, strict=True):
        assert one.outcome.spec == other.outcome.spec
        assert np.array_equal(one.outcome.regret, other.outcome.regret)


def test_index_policies_use_sigma_of_the_rewards(tmp_path: Path) -> None:
    windowed = build_specs(loaded(tmp_path, GAUSSIAN))[1].facts
    assert windowed["parameters"] == {"window": 50, "sigma": 0.1}  # not that of rewards in [0, 1]


def test_every_mask_and_law_has_its_own_key(tmp_path: Path) -> None:
    by_epsilon = ["", 'noise = "laplace"', 'noise = "gaussian"\ndelta = 1e-5', 'noise = "gaussian"\ndelta = 1e-4']
    by_epsilon += [f'noise = "laplace"\nrewards = {{ beta = {size} }}' for size in (2, 3)]
    sized = [f"noise = {{ {kind} = {size} }}" for kind in corruption_spec.NOISES for size in (1.25, 1.5)]
    files = [(mask, "epsilons = [1]\n") for mask in by_epsilon] + [(mask, "") for mask in sized]
    assert len({build_specs(loaded(tmp_path, *file))[1].key for file in files}) == len(files)
    assert "noise" not in build_specs(loaded(tmp_path, ""))[0].facts


def test_reward_law_is_not_in_keys_without_noise(tmp_path: Path) -> None:
    """In law they are the same (rewards.py), so they are one cell."""
    plain, beta = (build_specs(loaded(tmp_path, rewards))[1].key for rewards in ("", "rewards = { beta = 3 }"))
    assert plain == beta


@pytest.mark.slow
def test_page_names_the_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_figures_as(monkeypatch)
    for mask, words in (
        ('noise = "laplace"\nrewards = { beta = 3 }', "changes at 150, Laplace noise, Beta(3) rewards)"),
        ("noise = { gaussian = 0 }\nrewards = { gaussian = 0.1 }", "no noise, Gaussian(0.1) rewards), with a mask of"),
    ):
        experiment = loaded(tmp_path, mask, "epsilons = [1]\n")
        made = experiments.run(experiment, tmp_path / "out", SilentWatcher(), command="")
        page = report.write_report(made, tmp_path / "out").page.read_text(encoding="utf-8")
        assert words in page
        assert "Pulls against the bounds" not in page  # which are about bits


@pytest.mark.parametrize(
    ("mask", "complaint"),
    [
        ('noise = "laplac"', "noise 'laplac'.*mean 'laplace'"),
        ("noise = 3", r"problems\[0\].noise: "),
        ("noise = {}", r"problems\[0\].noise: "),
        ("noise = { laplace = 1, gaussian = 2 }", r"problems\[0\].noise: "),
        ("noise = { laplac = 1 }", "noise.laplac: .*mean 'laplace'"),
        ("noise = { laplace = 0 }", "laplace: scale = 0"),
        ("noise = { laplace = [1, 2] }", "laplace: scale = .1"),
        ("noise = { laplace = nan }", r"problems\[0\].noise.laplace: scale = nan"),
        ('noise = "gaussian"', r"problems\[0\].delta: "),
        ('noise = "gaussian"\ndelta = 0', r"problems\[0\].delta: "),
        ('noise = "laplace"\ndelta = 0.1', r"delta: .*noise = \"gaussian\""),
        ("delta = 0.1", r"problems\[0\].delta: "),
        ('noise = "laplace"\np00 = 0.9\np11 = 0.9', "got both noise .*p00"),
        ("noise = { laplace = 1 }\np00 = 0.9\np11 = 0.9", "got both noise and p00"),
        ("noise = { laplace = 1 }\nepsilons = [1]", "both epsilons and noise"),
        ('noise = "laplace"\nepsilons = [1e-9]', r"problems\[0\].epsilons: scale = 999999999"),
        ("rewards = 3", r"problems\[0\].rewards: "),
        ("rewards = { beta = 0 }", r"problems\[0\].rewards.beta: concentration = 0: give"),
        ("rewards = { gaussian = 0.1 }", r"problems\[0\]: rewards = .*: continuous rewards cannot be masked"),
        ('noise = "laplace"\nrewards = { gaussian = 0.1 }', "such rewards have no epsilon"),
        ('csv = "x.csv"\nnoise = "laplace"', r"problems\[0\].(horizon|means|noise): unknown key"),
    ],
)
def test_bad_masks_are_one_line_errors(tmp_path: Path, mask: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        loaded(tmp_path, mask)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / 'x.toml'}: ")


def test_example_of_noise_page_loads(tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / "noise.md"
    [text] = re.findall(r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "noisy.toml").write_text(text, encoding="utf-8")
    conditions = experiments.load(tmp_path / "noisy.toml").conditions
    assert [condition.problem.is_noisy for condition in conditions] == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [('name = "auto"', "auto"), ('name = "sw-klucb-cf"\nwindow = "corrected"', "bounds require feedback in")],
)
def test_policies_for_bits_reject_noise(tmp_path: Path, policy: str, complaint: str) -> None:
    path = tmp_path / "x.toml"
    path.write_text(
        f'epsilons = [1]\n[[problems]]\n{PROBLEM}noise = "laplace"\n[[policies]]\n{policy}\n', encoding="utf-8"
    )
    with pytest.raises(UserError, match=rf"policies\[0\].*{complaint}.*epsilon 1") as caught:
        experiments.load(path)
    assert "\n" not in str(caught.value)


# People who choose their own mask

PEOPLE = Population.from_epsilons([0.5, 4.0], [0.8, 0.2])
IN_FILES = [
    "population = { epsilons = [0.5, 4], shares = [0.8, 0.2] }",
    f"population = {{ p00 = {[one.p00 for one in PEOPLE.responses]}, "
    f"p11 = {[one.p11 for one in PEOPLE.responses]}, shares = [0.8, 0.2] }}",
]


@pytest.mark.parametrize("line", IN_FILES, ids=["epsilons", "matrices"])
def test_population_follows_the_file(tmp_path: Path, line: str) -> None:
    """In place of epsilons at the top, and with the key of one that Python gives."""
    config = loaded(tmp_path, line)
    [condition] = config.conditions
    assert (condition.epsilon, condition.problem.corruption) == (None, (PEOPLE, PEOPLE))
    experiment = Experiment(condition.problem, ["uniform", ("sw-klucb-cf", {"window": 50})], runs=4, seed=3)
    assert [spec.key for spec in build_specs(config)] == [spec.key for spec in build_specs(experiment.config)]


def test_population_has_a_key_of_its_own(tmp_path: Path) -> None:
    average = f"p00 = {PEOPLE.average.p00}\np11 = {PEOPLE.average.p11}"
    others = IN_FILES[0].replace("4]", "3.99]"), IN_FILES[0].replace("0.8, 0.2", "0.2, 0.8"), average
    keys = {spec.key for line in (*IN_FILES, *others) for spec in build_specs(loaded(tmp_path, line))}
    assert len(keys) == 2 * 4


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.51, 1), st.floats(0.51, 1), st.floats(0.01, 1)), min_size=1, max_size=5),
)
def test_population_survives_its_text(choices: list[tuple[float, float, float]]) -> None:
    shares = np.array([share for _, _, share in choices])
    people = Population([RandomizedResponse(p00, p11) for p00, p11, _ in choices], shares / shares.sum())
    problem = Problem([0.2, 0.7], [0], 100, people)
    [condition] = Experiment(problem, "uniform", runs=1).config.conditions
    assert isinstance(condition.problem, Problem)
    assert condition.problem.population == people


def test_cells_with_a_population_have_the_numbers_of_simulate(tmp_path: Path) -> None:
    experiment = Experiment.load(write_population(tmp_path))
    experiment.save_toml(tmp_path / "again.toml")
    found = experiment.run(tmp_path / "out", progress=False)
    problem = experiment.config.conditions[0].problem
    for cell, name in zip(found.cells, ("uniform", "klucb-cf"), strict=True):
        parameters = cell.outcome.spec["parameters"]
        alone = simulate(problem, name, runs=4, seed=cell.outcome.spec["seed"], checkpoints=200, **parameters)
        assert np.array_equal(cell.outcome.regret, alone.regret)
    again = Experiment.load(tmp_path / "again.toml").run(tmp_path / "out", progress=False)
    assert [cell.label.key for cell in again.cells] == [cell.label.key for cell in load_results(tmp_path / "out").cells]
    assert "people choose one of 2 masks" in report.summary.describe_run(again)


def write_population(folder: Path) -> Path:
    policies = "".join(f'[[policies]]\nname = "{name}"\n' for name in ("uniform", "klucb-cf"))
    loaded(folder, IN_FILES[0], policies=policies)
    return folder / "x.toml"


def test_bounds_for_one_mask_are_not_drawn_for_a_population() -> None:
    policy = ("sw-klucb-cf", {"window": 50})
    masks = PEOPLE.average, PEOPLE
    problems = [Problem([[0.2, 0.7], [0.8, 0.1]], [0, 150], 300, mask) for mask in masks]
    shown = [has_bounds(Experiment(problem, policy, runs=2).run(progress=False).cells[0]) for problem in problems]
    assert shown == [True, False]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("population = 3", "problems.0..population: expected a table"),
        ("population = {}", "population: expected either epsilons"),
        ("population = { epsilons = [1], p00 = [0.9] }", "population: expected either epsilons"),
        ("population = { p00 = [0.9] }", "population.p11: .*missing"),
        ("population = { p00 = [0.9, 0.8], p11 = [0.9] }", r"population.p11: .*\(2\), got 1"),
        ("population = { epsilons = [0, 1] }", "population.epsilons: .*above 0"),
        ("population = { epsilons = [1, 2], shares = [0.5] }", "population: shares = "),
        ("population = { epsilons = [1, 2], shares = [0.5, 0.6] }", "population: shares = "),
        ("population = { epsilons = [1, 2], shares = [1, 0] }", "population.shares: .*above 0"),
        ("population = { p00 = [0.5], p11 = [0.5] }", "population: .*p00"),
        ("population = { epsilon = [1] }", "population.epsilon: unknown key.*'epsilons'"),
        ("population = { epsilons = [1] }\nepsilons = [1]", "epsilons: .*got both"),
        ("population = { epsilons = [1] }\np00 = 0.9", "population: .*got both.*p00"),
        ('population = { epsilons = [1] }\nnoise = "laplace"', "noise: .*got both.*population"),
        ("population = { epsilons = [1] }\nnoise = { laplace = 2 }", "population: .*got both.*noise"),
        ("population = { epsilons = [1] }\nrewards = { gaussian = 0.1 }", "rewards"),
    ],
)
def test_mistake_about_a_population_is_one_line(tmp_path: Path, line: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        loaded(tmp_path, line)
    assert "\n" not in str(caught.value)


def test_groups_and_logs_have_no_population(tmp_path: Path) -> None:
    line = "population = { epsilons = [1] }"
    with pytest.raises(UserError, match="with groups takes none"):
        loaded(tmp_path, line, problem="horizon = 300\ngroups = 2\nmeans = [[0.2, 0.7], [0.8, 0.1]]\n")
    (tmp_path / "log.csv").write_text("arm,reward\n" + "a,1\nb,0\n" * 9, encoding="utf-8")
    with pytest.raises(UserError, match="population: a log"):
        loaded(tmp_path, line, problem='csv = "log.csv"\narm = "arm"\nreward = "reward"\n')
    (tmp_path / "rounds.csv").write_text("a,b\n" + "1,0\n0,1\n" * 9, encoding="utf-8")
    [condition] = loaded(
        tmp_path, line, problem='csv = "rounds.csv"\n', policies='[[policies]]\nname = "uniform"\n'
    ).conditions
    assert condition.masks[0] == Population.from_epsilons([1])


@pytest.mark.parametrize("people", [[], {"p00": [0.9]}, {"p00": [0.9], "p11": [2.0], "shares": [1.0]}])
def test_damaged_population_is_found(people: Any) -> None:
    cell = Experiment(Problem([0.2, 0.7], [0], 30, PEOPLE), "uniform", runs=2).run(progress=False).cells[0].outcome
    arrays = {name: getattr(cell, name) for name in results.ARRAYS}
    validation.check_outcome(cell.spec, 1.0, arrays)
    with pytest.raises(UserError):
        validation.check_outcome({**cell.spec, "population": people}, 1.0, arrays)
