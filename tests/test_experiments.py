"""Experiments: a file becomes cells, cells become results, and nothing finished is lost."""

from __future__ import annotations

import dataclasses
import inspect
import math
from pathlib import Path

import numpy as np
import pytest

from maskedbandits import experiments, results, theory
from maskedbandits.environments import GENERATORS
from maskedbandits.errors import UserError
from maskedbandits.experiments import config, runner
from maskedbandits.experiments.progress import Lines, Silent
from maskedbandits.policies import REGISTRY, make_policy
from maskedbandits.simulation import simulate

GOOD = """
title = "Small"
runs = 4
seed = 5
checkpoints = 10
epsilons = [1, inf]

[[problems]]
name = "swap"
horizon = 600
starts = [0, 300]
means = [[0.9, 0.1, 0.2], [0.1, 0.9, 0.2]]

[[problems]]
name = "still"
horizon = 400
means = [0.8, 0.3]
p00 = 0.9
p11 = [0.8, 0.7]

[[policies]]
name = "sw-klucb-cf"
window = "paper"

[[policies]]
name = "klucb-cf"
label = "plain"
c = 0
"""

VARYING = "starts = [0, 100]\nmeans = [[0.8, 0.3], [0.3, 0.3]]"
DRAWN = 'generator = "random-segments"\narms = 2\nsegments = 3\ngap = 0.2'


def write(folder: Path, text: str = GOOD) -> Path:
    path = folder / "x.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run(path: Path, out: Path, watcher: runner.Watcher | None = None, **options: object) -> results.Results:
    fresh, threads = bool(options.pop("fresh", False)), options.pop("threads", None)
    experiment = experiments.load(path, **options)  # type: ignore[arg-type]
    return experiments.run(
        experiment,
        out,
        watcher or Silent(),
        command="run it",
        fresh=fresh,
        threads=threads,  # type: ignore[arg-type]
    )


def same_numbers(one: results.Outcome, other: results.Outcome) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in results.ARRAYS)


def test_file_becomes_every_combination(tmp_path: Path) -> None:
    experiment = experiments.load(write(tmp_path))
    assert (experiment.title, experiment.runs, experiment.seed, experiment.checkpoints) == ("Small", 4, 5, 10)
    cells = [(task.world.name, task.world.epsilon, task.label) for task in experiment.tasks]
    assert cells == [
        ("swap", 1.0, "sw-klucb-cf (window=paper)"),
        ("swap", 1.0, "plain"),
        ("swap", math.inf, "sw-klucb-cf (window=paper)"),
        ("swap", math.inf, "plain"),
        ("still", None, "sw-klucb-cf (window=paper)"),
        ("still", None, "plain"),
    ]
    assert experiment.tasks[0].parameters == {"window": theory.paper_window(600, 2)}
    assert experiment.tasks[0].window_rule == "paper"
    assert [matrix.p11 for matrix in experiment.tasks[-1].world.matrices] == [0.8, 0.7]


@pytest.mark.parametrize("rule", ["paper", "lambert", "corrected", "variation"])
def test_window_rules_are_the_theorys(tmp_path: Path, rule: str) -> None:
    task = experiments.load(write(tmp_path, GOOD.replace('"paper"', f'"{rule}"'))).tasks[0]
    problem = task.world.problem
    expected = {
        "paper": theory.paper_window(600, 2),
        "lambert": theory.lambert_window(600, 2),
        "corrected": theory.corrected_window(problem),
        "variation": theory.variation_window(600, 3, 0.8, problem.corruption[0](1) - problem.corruption[0](0)),
    }
    assert task.parameters["window"] == expected[rule]


def test_corrected_window_follows_the_policys_exploration(tmp_path: Path) -> None:
    text = GOOD.replace('window = "paper"', 'window = "corrected"\nc = 0')
    task = experiments.load(write(tmp_path, text)).tasks[0]
    assert task.parameters["window"] == theory.corrected_window(task.world.problem, 0)


def test_variation_window_follows_each_arms_slope(tmp_path: Path) -> None:
    text = GOOD.replace('"paper"', '"variation"').replace("means = [0.8, 0.3]", VARYING)
    task = experiments.load(write(tmp_path, text)).tasks[-2]
    assert task.world.name == "still"
    assert task.parameters["window"] == theory.variation_window(400, 2, 0.5, [0.7, 0.6])


def test_a_bad_parameter_of_a_window_rule_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace('window = "paper"', 'window = "variation"\nc = -1'))
    with pytest.raises(UserError, match=r"policies\[0\]: c must be finite"):
        experiments.load(path)


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_problem_may_be_drawn_from_a_seed(tmp_path: Path, generator: str) -> None:
    segments = {"segments": 3} if "segments" in inspect.signature(GENERATORS[generator]).parameters else {}
    lines = [f'generator = "{generator}"', "arms = 2", "seed = 7", *(f"{key} = {n}" for key, n in segments.items())]
    drawn = GOOD.replace("means = [0.8, 0.3]", "\n".join(lines))
    task = experiments.load(write(tmp_path, drawn)).tasks[-1]
    expected = GENERATORS[generator](2, 400, corruption=task.world.matrices, seed=7, **segments)
    np.testing.assert_array_equal(task.world.problem.means, expected.means)
    np.testing.assert_array_equal(task.world.problem.starts, expected.starts)
    np.testing.assert_array_equal(task.world.problem.feedback_means, expected.feedback_means)


def test_a_drawn_problem_runs_and_does_not_depend_on_the_files_seed(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("means = [0.8, 0.3]", DRAWN))
    assert run(path, tmp_path / "out").complete
    one, other = (experiments.load(path, seed=seed).tasks[-1].world.problem for seed in (1, 2))
    np.testing.assert_array_equal(one.means, other.means)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"random-segments"', '"random-segment"', "generator: unknown generator 'random-segment'; did you mean rand"),
        ('"random-segments"', "3", "generator: expected a text, got 3"),
        ("arms = 2", "", "arms: expected a whole number of at least 1, but it is missing"),
        ("arms = 2", "arms = 2.5", "arms: expected a whole number of at least 1, got 2.5"),
        ("arms = 2", "arms = 1", " arms = 1: give a whole number of at least 2"),
        ("segments = 3", "", "segments: expected a whole number of at least 1, but it is missing"),
        ("segments = 3", "segmnets = 3", "segmnets: unknown parameter; did you mean segments?"),
        ("segments = 3", "segments = 401", " segments = 401: a horizon of 400 has room for 400"),
        ("gap = 0.2", "gap = 2", " gap = 2: give a number in [0, 0.9]"),
        ("gap = 0.2", 'gap = "wide"', " gap = 'wide': give a number in [0, 0.9]"),
        ("gap = 0.2", "gap = [0.1, 0.2]", " gap = [0.1, 0.2]: give a number in [0, 0.9]"),
        ("gap = 0.2", "amplitude = 0.2", "amplitude: unknown parameter; known: generator, name"),
        ("gap = 0.2", "corruption = 0.2", "corruption: unknown parameter"),
        ("gap = 0.2", "seed = -1", " seed = -1: give a whole number of at least 0"),
        ("gap = 0.2", "means = [0.1, 0.2]", "means: expected either a generator or means, got both"),
        ("gap = 0.2", "starts = [0]", "starts: expected either a generator or means, got both"),
    ],
)
def test_bad_generators_are_refused_in_one_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert DRAWN.count(old) == 1
    path = write(tmp_path, GOOD.replace("means = [0.8, 0.3]", DRAWN.replace(old, new)))
    with pytest.raises(UserError) as caught:
        experiments.load(path)
    assert str(caught.value).startswith(f"{path}: problems[1]{':' if complaint.startswith(' ') else '.'}{complaint}")
    assert "\n" not in str(caught.value)


def test_options_take_the_place_of_the_files_own(tmp_path: Path) -> None:
    experiment = experiments.load(write(tmp_path), runs=9, seed=1)
    assert (experiment.runs, experiment.seed) == (9, 1)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[0.8, 0.3]", "[0.8, 1.2]", "problems[1].means: expected numbers in [0, 1], got 1.2"),
        ("[0.8, 0.3]", "[0.8, nan]", "problems[1].means: expected numbers in [0, 1], got nan"),
        ("[0.8, 0.3]", '[0.8, "a"]', "problems[1].means: expected numbers in [0, 1], got 'a'"),
        ("[0.8, 0.3]", "[0.8, true]", "problems[1].means: expected numbers in [0, 1], got true"),
        ("[0.8, 0.3]", "[]", "problems[1].means: expected numbers in [0, 1], got an empty list"),
        (
            "[0.8, 0.3]",
            "[[0.8], 0.3]",
            "means: expected a row of numbers for each segment, got 0.3",
        ),
        ("[0.1, 0.9, 0.2]]", "[0.1, 0.9]]", "problems[0].means: expected as many numbers in each row"),
        ("means = [0.8, 0.3]", "", "problems[1].means: expected numbers in [0, 1], but it is missing"),
        ("starts = [0, 300]", "", "problems[0].starts: expected one for each row of means (2), got 1"),
        ("starts = [0, 300]", "starts = [0, 600]", "problems[0]: start 600"),
        ("starts = [0, 300]", "starts = [1, 300]", "problems[0]: starts"),
        ("starts = [0, 300]", "starts = [0, 3.5]", "problems[0].starts: expected a list of whole numbers"),
        ("horizon = 400", "horizon = 0", "problems[1].horizon: expected a whole number of at least 1, got 0"),
        ("horizon = 400", "horizon = 1", "problems[1]: horizon 1"),
        (
            "horizon = 400",
            "",
            "problems[1].horizon: expected a whole number of at least 1, but it is missing",
        ),
        ("horizon = 400", "horizn = 400", "problems[1].horizn: unknown key; did you mean horizon?"),
        ('name = "still"', 'name = "swap"', "problems[1].name: expected a name of its own, 'swap' is taken"),
        ("p00 = 0.9", "", "problems[1].p00: expected probabilities in [0, 1], but it is missing"),
        (
            "p00 = 0.9",
            "p00 = [0.9, 0.9, 0.9]",
            "problems[1].p00: expected one number, or one for each of 2 arms, got 3",
        ),
        ("p00 = 0.9", "p00 = 0.2", "problems[1].p00, p11:"),
        (
            "p00 = 0.9",
            "p00 = 0.9\nepsilons = [1]",
            "problems[1].epsilons: expected either epsilons or p00 and p11",
        ),
        ("[1, inf]", "[0]", "epsilons: expected numbers above 0, or inf, got 0"),
        ("[1, inf]", "[1, 1.0]", "epsilons: expected different numbers"),
        ("[1, inf]", "[1e-300]", "epsilons: epsilon = 1e-300"),
        ("epsilons = [1, inf]", "", "problems[0].epsilons: expected here or at the top"),
        ("runs = 4", "runs = 0", "runs: expected a whole number of at least 1, got 0"),
        ("runs = 4", "runs = 2.5", "runs: expected a whole number of at least 1, got 2.5"),
        ("runs = 4", "run = 4", "run: unknown key; did you mean runs?"),
        ("runs = 4", "xyzzy = 4", "xyzzy: unknown key; known: title, runs"),
        ("seed = 5", "seed = -1", "seed: expected a whole number of at least 0, got -1"),
        ("checkpoints = 10", "checkpoints = 0", "checkpoints: expected a whole number of at least 1, got 0"),
        (
            "checkpoints = 10",
            "checkpoints = [5, 5]",
            "checkpoints: expected a whole number, or increasing times",
        ),
        (
            "checkpoints = 10",
            "checkpoints = [5, 500]",
            "checkpoints: expected times up to the horizon 400 of 'still', got 500",
        ),
        ('title = "Small"', "title = 3", "title: expected a text, got 3"),
        ('"klucb-cf"', '"klucb-fc"', "policies[1].name: unknown policy 'klucb-fc'; did you mean klucb-cf?"),
        ("c = 0", "cc = 0", "policies[1].cc: unknown parameter; did you mean c?"),
        ("c = 0", "c = -1", "policies[1]: "),
        (
            'window = "paper"',
            'window = "papper"',
            "policies[0].window: expected a whole number, paper, lambert, corrected",
        ),
        ('window = "paper"', "window = 2", "policies[0]: "),
        ('window = "paper"', "", "policies[0]: "),
        ('label = "plain"', 'label = ""', "policies[1].label: expected a text, got ''"),
        (
            'label = "plain"',
            'label = "sw-klucb-cf (window=paper)"',
            "policies[1].label: expected a label of its own",
        ),
        (
            "p00 = 0.9",
            "p00 = 0.9\npublished = { plan = 3 }",
            "problems[1].published.plan: unknown policy; did you mean plain?",
        ),
        (
            "p00 = 0.9",
            "p00 = 0.9\npublished = { plain = [3, 4] }",
            "expected one regret for each epsilon (1), got 2",
        ),
        ("p00 = 0.9", "p00 = 0.9\npublished = 3", "problems[1].published: expected a table"),
        ('title = "Small"', "title = ", "not valid TOML: "),
        ('title = "Small"', 'title = "a"\ntitle = "b"', "line 3"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert GOOD.count(old) == 1
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(UserError) as caught:
        experiments.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "problems: expected at least one [[problems]] table, but it is missing"),
        ("problems = 3", "problems: expected at least one [[problems]] table, got 3"),
        ("problems = [3]", "problems[0]: expected a table such as [[problems]], got 3"),
    ],
)
def test_files_without_problems_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = write(tmp_path, text + '\n[[policies]]\nname = "klucb-cf"\n')
    with pytest.raises(UserError) as caught:
        experiments.load(path)
    assert complaint in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        experiments.load(tmp_path / "none.toml")
    with pytest.raises(UserError, match="is a folder"):
        experiments.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes('title = "é"'.encode("latin-1"))
    with pytest.raises(UserError, match="byte 9 is not UTF-8"):
        experiments.load(tmp_path / "latin.toml")


def test_every_parameter_reaches_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = REGISTRY["klucb-cf"]
    changed = dataclasses.replace(recipe, parameters={**recipe.parameters, "restarts": ...})  # it has no such parameter
    monkeypatch.setitem(REGISTRY, "klucb-cf", changed)
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(config, "make_policy", lambda name, **given: seen.append(given))
    experiments.load(write(tmp_path, GOOD.replace("c = 0", "restarts = [1, 2]")))
    assert [1, 2] in [given.get("restarts") for given in seen]


def test_a_cell_is_one_call_of_simulate(tmp_path: Path) -> None:
    cell = run(write(tmp_path), tmp_path / "out").cells[0]
    task = experiments.load(tmp_path / "x.toml").tasks[0]
    problem, question = task.world.problem, cell.outcome.question
    policy = make_policy(question["policy"], arms=problem.arms, corruption=problem.corruption, **question["parameters"])
    by_hand = simulate(problem, policy, runs=4, seed=question["seed"], checkpoints=10, progress=False)
    np.testing.assert_array_equal(by_hand.regret, cell.outcome.regret)
    np.testing.assert_array_equal(by_hand.pulls, cell.outcome.pulls)


def test_results_load_again_exactly(tmp_path: Path) -> None:
    made = run(write(tmp_path), tmp_path / "out")
    loaded = results.load(tmp_path / "out")
    assert loaded.plan == made.plan
    assert [cell.label for cell in loaded.cells] == [cell.label for cell in made.cells]
    for one, other in zip(made.cells, loaded.cells, strict=True):
        assert same_numbers(one.outcome, other.outcome)
        assert one.outcome.seconds == other.outcome.seconds


def test_numbers_do_not_depend_on_threads_order_or_other_cells(tmp_path: Path) -> None:
    first, second = GOOD.index("[[policies]]"), GOOD.rindex("[[policies]]")
    swapped = GOOD[:first] + GOOD[second:] + GOOD[first:second]
    alone = GOOD[:second]
    everything = run(write(tmp_path), tmp_path / "a", threads=2)
    by_key = {cell.label.key: cell.outcome for cell in everything.cells}
    for name, text in (("b", swapped), ("c", alone)):
        other = run(write(tmp_path, text), tmp_path / name, threads=1)
        assert {cell.label.key for cell in other.cells} <= set(by_key)
        assert all(same_numbers(cell.outcome, by_key[cell.label.key]) for cell in other.cells)


def test_cells_have_seeds_of_their_own(tmp_path: Path) -> None:
    made = run(write(tmp_path), tmp_path / "a")
    other = run(write(tmp_path), tmp_path / "b", seed=6)
    seeds = [cell.outcome.question["seed"] for cell in (*made.cells, *other.cells)]
    assert len(set(seeds)) == len(seeds)


def test_more_runs_repeat_the_first_ones(tmp_path: Path) -> None:
    few, many = run(write(tmp_path), tmp_path / "a", runs=2), run(write(tmp_path), tmp_path / "b", runs=5)
    for one, other in zip(few.cells, many.cells, strict=True):
        np.testing.assert_array_equal(one.outcome.regret, other.outcome.regret[:2])


class Interrupter(Silent):
    """A person who presses Ctrl-C while the given cell runs."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at
        self.begun: list[int] = []

    def begin(self, number: int, label: results.Label) -> None:
        self.begun.append(number)
        if number == self.at:
            raise KeyboardInterrupt


def test_after_an_interrupt_finished_cells_are_kept(tmp_path: Path) -> None:
    path, out = write(tmp_path), tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run(path, out, Interrupter(at=3))
    partial = results.load(out)
    assert len(partial.cells) == 3
    assert not partial.complete
    resumed = Interrupter(at=99)
    made = run(path, out, resumed)
    assert resumed.begun == [3, 4, 5]
    assert (resumed.kept, resumed.finished) == (3, 6)
    whole = run(path, tmp_path / "whole")
    assert all(same_numbers(a.outcome, b.outcome) for a, b in zip(made.cells, whole.cells, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "begun"),
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
def test_only_cells_whose_question_changed_run_again(tmp_path: Path, old: str, new: str, begun: list[int]) -> None:
    run(write(tmp_path), tmp_path / "out")
    watcher = Interrupter(at=99)
    run(write(tmp_path, GOOD.replace(old, new)), tmp_path / "out", watcher)
    assert watcher.begun == begun


def test_cells_of_other_code_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(write(tmp_path), tmp_path / "out")
    monkeypatch.setattr(runner, "code", lambda: "another")
    watcher = Interrupter(at=99)
    run(write(tmp_path), tmp_path / "out", watcher)
    assert len(watcher.begun) == 6


def test_fresh_runs_everything_and_a_damaged_cell_is_replaced(tmp_path: Path) -> None:
    path, out = write(tmp_path), tmp_path / "out"
    run(path, out)
    watcher = Interrupter(at=99)
    run(path, out, watcher, fresh=True)
    assert len(watcher.begun) == 6
    min((out / "cells").iterdir()).write_bytes(b"rubbish")
    watcher = Interrupter(at=99)
    assert run(path, out, watcher).complete
    assert len(watcher.begun) == 1
    assert len(results.load(out).cells) == 6


def test_the_log_has_a_line_for_each_cell_once_it_lasts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick, slow = Lines(), Lines()
    quick.started += 60  # as if it had begun a minute later, or earlier
    run(write(tmp_path), tmp_path / "a", quick)
    slow.started -= 60
    run(write(tmp_path), tmp_path / "b", slow)
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if "regret" in line]
    assert len(lines) == 6
    assert lines[0].startswith("1/6 swap · ε = 1 · sw-klucb-cf (window=paper): regret ")


@pytest.mark.parametrize(
    ("name", "cells"), [("paper", 16), ("collapse", 3), ("gajane2018", 24), ("gajane2018_others", 96)]
)
def test_the_files_in_experiments_are_good(name: str, cells: int) -> None:
    experiment = experiments.load(Path(__file__).parent.parent / "experiments" / f"{name}.toml")
    assert len(experiment.tasks) == cells


def test_a_table_tells_the_regret_of_the_whole_play(tmp_path: Path) -> None:
    short = GOOD.replace("checkpoints = 10", "checkpoints = [5, 50]")
    for cell in run(write(tmp_path, short), tmp_path / "out").cells:
        assert cell.outcome.times.tolist() == [5, 50, cell.horizon]


def test_an_endless_window_is_shown(tmp_path: Path) -> None:
    from maskedbandits.report import tables

    made = run(write(tmp_path, GOOD.replace('window = "paper"', "window = inf")), tmp_path / "out")
    assert tables.window(made.cells[0]) == "∞"


@pytest.mark.parametrize("name", ["runs", "seed"])
def test_numbers_beyond_all_measure_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"{name}: expected a whole number"):
        experiments.load(write(tmp_path, GOOD.replace(f"{name} =", f"{name} = 1{'0' * 40} #")))


def test_brackets_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nested too deeply"):
        experiments.load(write(tmp_path, f"title = {'[' * 5000}{']' * 5000}"))
