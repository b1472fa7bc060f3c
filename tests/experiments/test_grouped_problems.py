"""Problems with groups in a file: what is played, what is stored, what is refused."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maskedbandits import ContextualProblem, RandomizedResponse, experiments, make_contextual, make_policy, simulate
from maskedbandits.errors import UserError
from maskedbandits.experiments import backends, dataframe, results
from maskedbandits.experiments.progress_bar import SilentWatcher
from maskedbandits.problems import independent_groups, similar_groups
from small_experiment import run, write

TWO = """
runs = 3
seed = 5
checkpoints = 4
epsilons = [1, 3]

[[problems]]
name = "people"
horizon = 200
starts = [0, 100]
means = [[[0.9, 0.1, 0.2], [0.1, 0.9, 0.2]], [[0.2, 0.1, 0.9], [0.1, 0.9, 0.2]]]
shares = [0.3, 0.7]

[[policies]]
name = "klucb-cf"

[[policies]]
name = "klucb-cf"
label = "for all"
context = false
"""
MEANS = [[[0.9, 0.1, 0.2], [0.1, 0.9, 0.2]], [[0.2, 0.1, 0.9], [0.1, 0.9, 0.2]]]


def test_cells_are_what_simulations_give(tmp_path: Path) -> None:
    made = run(write(tmp_path, TWO), tmp_path / "out")
    assert made.complete
    for cell in made.cells:
        epsilon, question = cell.label.epsilon, cell.outcome.spec
        assert epsilon is not None
        mask = RandomizedResponse.from_epsilon(epsilon)
        problem = ContextualProblem(MEANS, [0, 100], 200, [0.3, 0.7], mask)
        policy: Any = make_policy("klucb-cf", arms=3, corruption=mask)
        if cell.label.policy == "klucb-cf":
            policy = make_contextual("klucb-cf", groups=2, arms=3, epsilon=epsilon, shares=[0.3, 0.7])
            assert question["parameters"] == {"context": True, "answers": policy.answers, "shares": [0.3, 0.7]}
        expected = simulate(problem, policy, runs=3, seed=question["seed"], checkpoints=4)
        assert cell.chooses_by_group == (cell.label.policy == "klucb-cf")
        for name in ("regret", "pulls", "suboptimal_pulls", "pulls_over_time", "group_regret"):
            np.testing.assert_array_equal(getattr(cell.outcome, name), getattr(expected, name))


def test_grouped_cells_are_saved_and_reused(tmp_path: Path) -> None:
    path, out = write(tmp_path, TWO), tmp_path / "out"
    made = run(path, out)
    loaded = results.load(out)
    for one, other in zip(made.cells, loaded.cells, strict=True):
        np.testing.assert_array_equal(one.outcome.group_regret, other.outcome.group_regret)
        np.testing.assert_array_equal(one.outcome.pulls, other.outcome.pulls)
    watcher = SilentWatcher()
    run(path, out, watcher)
    assert watcher.finished == 4


def test_grouped_cells_are_the_same_in_processes(tmp_path: Path) -> None:
    experiment = experiments.load(write(tmp_path, TWO))
    one = experiments.run(experiment, tmp_path / "one", SilentWatcher(), command="")
    other = experiments.run(
        experiment, tmp_path / "two", SilentWatcher(), command="", backend=backends.open_backend("processes", workers=1)
    )
    for left, right in zip(one.cells, other.cells, strict=True):
        np.testing.assert_array_equal(left.outcome.group_regret, right.outcome.group_regret)


def test_grouped_keys_depend_on_everything_that_matters(tmp_path: Path) -> None:
    """Other shares, another kind of answers, or no pooling are other cells; a label is not."""
    keys = set()
    for old, new in [
        ("", ""),
        ("shares = [0.3, 0.7]", ""),
        ('name = "klucb-cf"\n\n', 'name = "klucb-cf"\npool = false\n\n'),
        ('name = "klucb-cf"\n\n', 'name = "klucb-cf"\nanswers = "one of many"\npool = true\n\n'),
        ('name = "klucb-cf"\n\n', 'name = "klucb-cf"\nlabel = "other"\n\n'),
    ]:
        made = run(write(tmp_path, TWO.replace(old, new, 1)), tmp_path / "out", runs=1)
        keys.add(made.cells[0].label.key)
    assert len(keys) == 4


@pytest.mark.parametrize("means", ["[[0.9, 0.1], [0.1, 0.9]]", "[[[0.9, 0.1], [0.1, 0.9]]]"])
def test_means_table_has_a_row_for_each_group(tmp_path: Path, means: str) -> None:
    text = TWO[: TWO.index("[[problems]]")] + f"[[problems]]\ngroups = 2\nhorizon = 50\nmeans = {means}\n"
    [condition, _] = experiments.load(write(tmp_path, text + '[[policies]]\nname = "auto"')).conditions
    assert isinstance(condition.problem, ContextualProblem)
    np.testing.assert_array_equal(condition.problem.means, [[[0.9, 0.1], [0.1, 0.9]]])
    assert condition.problem.shares.tolist() == [0.5, 0.5]


def drawn(generator: str, more: str = "") -> str:
    rest = TWO[TWO.index("[[policies]]") :]
    top = TWO[: TWO.index("[[problems]]")]
    return f'{top}[[problems]]\ngenerator = "{generator}"\ngroups = 3\narms = 4\nhorizon = 90\nseed = 7\n{more}\n{rest}'


def test_grouped_problems_are_generated_from_a_seed(tmp_path: Path) -> None:
    [found, *_] = experiments.load(write(tmp_path, drawn("independent-groups", "segments = 2\ngap = 0.1"))).conditions
    np.testing.assert_array_equal(found.problem.means, independent_groups(3, 4, 90, segments=2, gap=0.1, seed=7).means)
    [found, *_] = experiments.load(write(tmp_path, drawn("similar-groups", "shares = [0.2, 0.3, 0.5]"))).conditions
    expected = similar_groups(3, 4, 90, seed=7, shares=[0.2, 0.3, 0.5])
    np.testing.assert_array_equal(found.problem.means, expected.means)
    assert isinstance(found.problem, ContextualProblem)
    np.testing.assert_array_equal(found.problem.shares, expected.shares)


def test_grid_varies_grouped_problems(tmp_path: Path) -> None:
    grid = "[grid.problems]\napart = [0, 0.3]\n[grid.policies]\npool = [true, false]\n"
    text = drawn("similar-groups").split('[[policies]]\nname = "klucb-cf"\nlabel')[0] + grid
    tasks = experiments.load(write(tmp_path, text)).tasks
    assert {task.condition.name for task in tasks} == {"problems[0], apart=0", "problems[0], apart=0.3"}
    assert {task.label for task in tasks} == {"klucb-cf (pool=true)", "klucb-cf (pool=false)"}


def test_policy_without_context_plays_the_average(tmp_path: Path) -> None:
    """With shares 0.3 and 0.7 arm 1 is the best on average throughout: 0.66 and 0.66."""
    text = TWO.replace('label = "for all"', "").replace('name = "klucb-cf"\n\ncontext', 'name = "oracle"\ncontext')
    task = experiments.load(write(tmp_path, text)).tasks[1]
    assert (task.policy, task.parameters["best"], task.parameters["restarts"]) == ("oracle", [1, 1], [0, 100])
    assert task.parameters["context"] is False


def test_known_restarts_require_bit_answers_and_no_pooling(tmp_path: Path) -> None:
    """Restarts are the problem's, in visitors: so answers are bits, and groups are not pooled; or it is refused."""
    text = TWO.replace('name = "klucb-cf"\n\n', 'name = "oracle-klucb-cf"\n\n')
    for task in experiments.load(write(tmp_path, text)).tasks[::2]:
        assert task.policy == "oracle-klucb-cf"
        used = {key: task.parameters[key] for key in ("answers", "pool", "restarts")}
        assert used == {"answers": "bit", "pool": False, "restarts": [0, 100]}
    still = text.replace("starts = [0, 100]\n", "").replace(f"means = {MEANS}", f"means = {MEANS[0]}")
    assert "pool" not in experiments.load(write(tmp_path, still)).tasks[0].parameters
    refused = text.replace('"oracle-klucb-cf"\n', '"oracle-klucb-cf"\npool = true\n')
    with pytest.raises(UserError, match=r"policies\[0\]: restarts.*every answer") as caught:
        experiments.load(write(tmp_path, refused))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("shares = [0.3, 0.7]", "shares = [0.3, 0.6]", "problems[0].*add up to 1"),
        ("shares = [0.3, 0.7]", "groups = 3", "problems[0].groups: "),
        ("shares = [0.3, 0.7]", "p00 = 0.9", "problems[0].p00: "),
        ("shares = [0.3, 0.7]", "rewards = { beta = 2 }", "problems[0].rewards: "),
        ("shares = [0.3, 0.7]", "share = 1", "problems[0].share: unknown key; did you mean 'shares'"),
        ("starts = [0, 100]", "", "problems[0]: 1 starts, but means have 2 rows"),
        (", [0.1, 0.9, 0.2]]]", ", [0.1, 0.9]]]", "problems[0]: means are not a table of numbers by segment"),
        ("means = [[[0.9", "means = [[[1.9", "problems[0]: means: 1.9 at"),
        (f"means = {MEANS}", "means = [0.1, 0.2]", "problems[0].means: "),
        ("context = false", 'context = "no"', "policies[1].context: "),
        ("context = false", "context = false\npool = true", "policies[1].pool: "),
        ("context = false", 'answers = "bits"', "policies[1]: "),
        ("context = false", "contxt = 1", "policies[1].contxt: unknown parameter; did you mean 'context'"),
        ("context = false", "shares = [1]", "policies[1].*give 2 numbers"),
        ('name = "klucb-cf"\nlabel = "for all"\ncontext = false', 'name = "uniform"', "context = false plays one arm"),
        ('label = "for all"\ncontext = false', "c = -1", "policies[1].c: "),
        ("epsilons = [1, 3]", "epsilons = [1, inf]", "(on people, epsilon inf)"),
        (
            'name = "klucb-cf"\nlabel = "for all"\ncontext = false',
            'name = "sw-klucb-cf"\nwindow = "paper"',
            "policies[1].window: ",
        ),
    ],
)
def test_mistakes_are_one_line_errors(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert TWO.count(old) == 1
    with pytest.raises(UserError) as caught:
        experiments.load(write(tmp_path, TWO.replace(old, new)))
    first, _, last = complaint.partition(".*")
    assert first in str(caught.value)
    assert last in str(caught.value)
    assert "\n" not in str(caught.value)


def test_group_keys_require_groups(tmp_path: Path) -> None:
    text = TWO[: TWO.index("[[problems]]")] + "[[problems]]\nmeans = [0.1, 0.2]\nhorizon = 9\n"
    path = write(tmp_path, text + '[[policies]]\nname = "auto"\npool = true\n')
    with pytest.raises(UserError, match=r"policies\[0\].pool: "):
        experiments.load(path)
    assert experiments.load(write(tmp_path, text + '[[policies]]\nname = "auto"\ncontext = false\n')).tasks


def spoilt(facts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**facts, "question": {**facts["question"], **changes}}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda arrays: {**arrays, "group_regret": arrays["group_regret"][:, :, :1]}, "regret of 2 groups"),
        (lambda arrays: {k: v for k, v in arrays.items() if k != "group_regret"}, "regret of 2 groups"),
        (lambda arrays: {**arrays, "group_regret": arrays["group_regret"] + 1.0}, "not add up"),
        (lambda arrays: {**arrays, "group_regret": -arrays["group_regret"]}, "negative or falling"),
        (lambda arrays: {**arrays, "pulls": arrays["pulls"].sum(axis=1)}, "pulls of shapes"),
        (lambda arrays: with_question(arrays, shares=[0.5, 0.4]), "add up to 1"),
        (lambda arrays: with_question(arrays, shares=[1.0]), "number for each group"),
        (lambda arrays: with_question(arrays, parameters={}), "context"),
        (lambda arrays: with_question(arrays, means=MEANS[0]), "damaged"),
    ],
)
def test_inconsistent_grouped_cell_is_an_error(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], complaint: str
) -> None:
    made = run(write(tmp_path, TWO), tmp_path / "out", runs=2)
    path = tmp_path / "out" / "cells" / f"{made.cells[0].label.key}.npz"
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez(path, **change(arrays))
    with pytest.raises(UserError, match=complaint) as caught:
        results.load(tmp_path / "out")
    assert "damaged results file" in str(caught.value)


def with_question(arrays: dict[str, Any], **changes: Any) -> dict[str, Any]:
    facts = json.loads(str(arrays["facts"]))
    return {**arrays, "facts": np.array(json.dumps(spoilt(facts, **changes)))}


def test_csv_has_regret_of_every_group(tmp_path: Path) -> None:
    text = TWO + '\n[[problems]]\nname = "none"\nmeans = [0.1, 0.2]\nhorizon = 9\n'
    made = run(write(tmp_path, text), tmp_path / "out")
    rows = list(csv.DictReader(b"".join(dataframe.csv_rows(made.cells)).decode().splitlines()))
    assert list(rows[0]) == [*dataframe.COLUMNS, "regret_group_0", "regret_group_1"]
    for row in rows:
        if row["problem"] == "people":
            assert float(row["regret_group_0"]) + float(row["regret_group_1"]) == pytest.approx(float(row["regret"]))
        else:
            assert row["regret_group_0"] == row["regret_group_1"] == ""
    table = made.frame()
    assert len(table) == len(rows)
    assert np.isnan(table["regret_group_1"]).sum() == sum(row["problem"] == "none" for row in rows)
