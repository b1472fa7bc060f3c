"""Policies of a file: windows by rule, and parameters that the problem knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from maskedbandits import experiments, theory
from maskedbandits.errors import UserError
from maskedbandits.experiments import policy_spec, work_units
from maskedbandits.policies import KINDS, names
from small_experiment import GOOD, write

VARYING = "starts = [0, 100]\nmeans = [[0.8, 0.3], [0.3, 0.3]]"


@pytest.mark.parametrize("rule", ["paper", "lambert", "corrected", "variation"])
def test_window_rules_match_theory(tmp_path: Path, rule: str) -> None:
    task = experiments.load(write(tmp_path, GOOD.replace('"paper"', f'"{rule}"'))).tasks[0]
    problem = task.condition.averaged_problem
    expected = {
        "paper": theory.paper_window(600, 2),
        "lambert": theory.lambert_window(600, 2),
        "corrected": theory.corrected_window(problem),
        "variation": theory.variation_window(600, 3, 0.8, problem.corruption[0](1) - problem.corruption[0](0)),
    }
    assert task.parameters["window"] == expected[rule]


def test_corrected_window_uses_exploration_constant(tmp_path: Path) -> None:
    text = GOOD.replace('window = "paper"', 'window = "corrected"\nc = 0')
    task = experiments.load(write(tmp_path, text)).tasks[0]
    assert task.parameters["window"] == theory.corrected_window(task.condition.averaged_problem, 0)


def test_variation_window_uses_slope_of_each_arm(tmp_path: Path) -> None:
    text = GOOD.replace('"paper"', '"variation"').replace("means = [0.8, 0.3]", VARYING)
    task = experiments.load(write(tmp_path, text)).tasks[-2]
    assert task.condition.name == "still"
    assert task.parameters["window"] == theory.variation_window(400, 2, 0.5, [0.7, 0.6])


def test_bad_parameter_of_window_rule_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace('window = "paper"', 'window = "variation"\nc = -1'))
    with pytest.raises(UserError, match=r"policies\[0\]\.c: .*swap, epsilon 1"):
        experiments.load(path)


def test_every_parameter_reaches_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(policy_spec, "check_policy", lambda name, **given: seen.append(given))
    experiments.load(write(tmp_path, GOOD.replace("c = 0", "restarts = [1, 2]")))
    assert [1, 2] in [given.get("restarts") for given in seen]


PLAIN = 'name = "klucb-cf"\nlabel = "plain"\nc = 0'
PRIVATE = GOOD[: GOOD.rindex("[[problems]]")]  # without the problem whose epsilon nobody knows


def parameters_of(tmp_path: Path, policy: str, lines: str = "") -> dict[str, Any]:
    """Return the parameters of a policy with only these lines in a file."""
    text = f'{PRIVATE}\n[[policies]]\nname = "{policy}"\n{lines}'
    return experiments.load(write(tmp_path, text)).tasks[0].parameters


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("exp3s", {"horizon": 600, "changes": 2}),
        ("rexp3", {"horizon": 600, "variation": 0.8}),
        ("adswitch", {"horizon": 600}),
        ("klucb-plus-cf", {"horizon": 600}),
        ("oracle-klucb-cf", {"restarts": [0, 300]}),
        ("oracle-klucb-plus-cf", {"restarts": [0, 300], "horizon": 600}),
        ("oracle", {"restarts": [0, 300], "best": [0, 1]}),
        ("ldp-ucb-l", {"epsilon": 1.0}),
        ("dp-ucb", {"epsilon": 1.0}),
        ("glr-klucb-cf", {}),
        ("klucb-cf", {}),
        ("auto", {}),
    ],
)
def test_required_parameters_are_filled_from_problem(tmp_path: Path, policy: str, expected: dict[str, Any]) -> None:
    assert parameters_of(tmp_path, policy) == expected


def test_expected_changes_of_auto_reach_the_policy(tmp_path: Path) -> None:
    assert parameters_of(tmp_path, "auto", "expected_changes = 3") == {"expected_changes": 3}


def test_every_policy_needs_only_window_or_discount(tmp_path: Path) -> None:
    own = {"window": 'window = "corrected"', "gamma": "gamma = 0.99"}
    sections = []
    for name in names():
        lines = [own[key] for key, one in KINDS[name].parameters.items() if key in own and one.required]
        sections.append("\n".join(["[[policies]]", f'name = "{name}"', *lines]))
    loaded = experiments.load(write(tmp_path, PRIVATE + "\n\n".join(sections)))
    assert len(loaded.tasks) == 2 * len(names())


@pytest.mark.parametrize(
    ("policy", "lines", "expected"),
    [
        ("exp3s", "horizon = 50\nchanges = 7", {"horizon": 50, "changes": 7}),
        ("rexp3", "variation = 0.5", {"horizon": 600, "variation": 0.5}),
        ("oracle-klucb-cf", "restarts = [0, 10]", {"restarts": [0, 10]}),
        ("oracle-klucb-cf", 'restarts = "doubling"', {"restarts": "doubling"}),
        ("klucb-plus-cf", 'restarts = "doubling"', {"restarts": "doubling"}),
        ("oracle", "restarts = [0]\nbest = [2]", {"restarts": [0], "best": [2]}),
        ("dp-ucb", "epsilon = 0.25", {"epsilon": 0.25}),
    ],
)
def test_file_overrides_filled_parameters(tmp_path: Path, policy: str, lines: str, expected: dict[str, Any]) -> None:
    assert parameters_of(tmp_path, policy, lines) == expected


def test_exp3s_gets_changes_of_the_best_arm(tmp_path: Path) -> None:
    drawn = 'generator = "best-stays-best"\narms = 2\nsegments = 5'
    text = GOOD.replace("means = [0.8, 0.3]", drawn).replace(
        'name = "klucb-cf"\nlabel = "plain"\nc = 0', 'name = "exp3s"'
    )
    assert experiments.load(write(tmp_path, text)).tasks[-1].parameters == {"horizon": 400, "changes": 1}


def test_filled_parameters_are_not_in_label(tmp_path: Path) -> None:
    text = GOOD.replace(PLAIN, 'name = "oracle"')
    assert experiments.load(write(tmp_path, text)).tasks[1].label == "oracle"


@pytest.mark.parametrize(
    ("policy", "lines", "complaint"),
    [
        ("oracle", "restarts = [0]", r"policies\[1\]: oracle requires the parameter 'best'"),
        ("ldp-ucb-l", "", r"policies\[1\]: ldp-ucb-l requires the parameter 'epsilon'.*\(on still\)"),
        ("sw-ucb-cf", "", r"requires the parameter 'window': .*; theory\.corrected_window\(problem\)"),
    ],
)
def test_unknown_required_parameters_are_errors(tmp_path: Path, policy: str, lines: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        experiments.load(write(tmp_path, GOOD.replace(PLAIN, f'name = "{policy}"\n{lines}')))


def test_hint_for_missing_window_works(tmp_path: Path) -> None:
    window = parameters_of(tmp_path, "sw-ucb-cf", 'window = "corrected"')["window"]
    assert window > theory.paper_window(600, 2)


def test_policy_cache_separates_klucb_from_klucb_cf(tmp_path: Path) -> None:
    text = GOOD.replace(PLAIN, 'name = "klucb-cf"\n[[policies]]\nname = "klucb"')
    policies = [work_units.get_policy(task).name for task in experiments.load(write(tmp_path, text)).tasks]
    assert policies == ["sw-klucb-cf", "klucb-cf", "klucb"] * 3
