"""What problems of an experiment are seen through: noise in place of bits, and rewards that are none."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.boundaries import write_figures_as
from maskedbandits import GaussianNoise, LaplaceNoise, RandomizedResponse, experiments, make_policy, report, simulate
from maskedbandits.errors import UserError
from maskedbandits.experiments import ExperimentConfig, corruption_spec, results
from maskedbandits.experiments.cache_key import build_specs
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.problems import Beta, Gaussian
from maskedbandits.problems.rewards import Bernoulli

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
        ("noise = { laplace = 1 }\np00 = 0.9\np11 = 0.9", "either noise or p00"),
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
