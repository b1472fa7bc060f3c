"""A file becomes conditions and tasks; a bad one is refused in one line."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from maskedbandits import experiments, theory
from maskedbandits.errors import UserError
from maskedbandits.experiments import config
from small_experiment import GOOD, write

FILES = Path(__file__).parents[2] / "experiments"


def test_file_expands_to_every_combination(tmp_path: Path) -> None:
    experiment = experiments.load(write(tmp_path))
    assert (experiment.title, experiment.runs, experiment.seed, experiment.checkpoints) == ("Small", 4, 5, 10)
    cells = [(task.condition.name, task.condition.epsilon, task.label) for task in experiment.tasks]
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
    assert [mask(1.0) for mask in experiment.tasks[-1].condition.masks] == [0.8, 0.7]


def test_options_override_the_file(tmp_path: Path) -> None:
    experiment = experiments.load(write(tmp_path), runs=9, seed=1)
    assert (experiment.runs, experiment.seed) == (9, 1)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[0.8, 0.3]", "[0.8, 1.2]", "problems[1].means: "),
        ("[0.8, 0.3]", "[0.8, nan]", "problems[1].means: "),
        ("[0.8, 0.3]", '[0.8, "a"]', "problems[1].means: "),
        ("[0.8, 0.3]", "[0.8, true]", "problems[1].means: "),
        ("[0.8, 0.3]", "[]", "problems[1].means: "),
        (
            "[0.8, 0.3]",
            "[[0.8], 0.3]",
            "means: ",
        ),
        ("[0.1, 0.9, 0.2]]", "[0.1, 0.9]]", "problems[0].means: "),
        ("means = [0.8, 0.3]", "", "problems[1].means: "),
        ("starts = [0, 300]", "", "problems[0].starts: "),
        ("starts = [0, 300]", "starts = [0, 600]", "problems[0]: starts: 600 is not before the end, 600"),
        ("starts = [0, 300]", "starts = [1, 300]", "problems[0]: starts"),
        ("starts = [0, 300]", "starts = [0, 3.5]", "problems[0].starts: "),
        ("horizon = 400", "horizon = 0", "problems[1].horizon: "),
        ("horizon = 400", "horizon = 1", "problems[1]: horizon 1"),
        (
            "horizon = 400",
            "",
            "problems[1].horizon: ",
        ),
        ("horizon = 400", "horizn = 400", "problems[1].horizn: unknown key; did you mean 'horizon'?"),
        ('name = "still"', 'name = "swap"', "problems[1].name: "),
        ("p00 = 0.9", "", "problems[1].p00: "),
        (
            "p00 = 0.9",
            "p00 = [0.9, 0.9, 0.9]",
            "problems[1].p00: ",
        ),
        ("p00 = 0.9", "p00 = 0.2", "problems[1].p00, p11:"),
        (
            "p00 = 0.9",
            "p00 = 0.9\nepsilons = [1]",
            "problems[1].epsilons: ",
        ),
        ("[1, inf]", "[0]", "epsilons: "),
        ("[1, inf]", "[1, 1.0]", "epsilons: "),
        ("[1, inf]", "[1e-300]", "epsilons: epsilon = 1e-300"),
        ("epsilons = [1, inf]", "", "problems[0].epsilons: "),
        ("runs = 4", "runs = 0", "runs: "),
        ("runs = 4", "runs = 2.5", "runs: "),
        ("runs = 4", "run = 4", "run: unknown key; did you mean 'runs'?"),
        ("runs = 4", "xyzzy = 4", "xyzzy: "),
        ("seed = 5", "seed = -1", "seed: "),
        ("checkpoints = 10", "checkpoints = 0", "checkpoints: "),
        (
            "checkpoints = 10",
            "checkpoints = [5, 5]",
            "checkpoints: ",
        ),
        (
            "checkpoints = 10",
            "checkpoints = [5, 500]",
            "checkpoints: ",
        ),
        ('title = "Small"', "title = 3", "title: "),
        ('"klucb-cf"', '"klucb-fc"', "policies[1].name: unknown policy 'klucb-fc'; did you mean 'klucb-cf'?"),
        ("c = 0", "cc = 0", "policies[1].cc: unknown parameter; did you mean 'c'?"),
        ("c = 0", "c = -1", "policies[1].c: "),
        (
            'window = "paper"',
            'window = "papper"',
            "policies[0].window: ",
        ),
        ('window = "paper"', "window = 2", "policies[0]: "),
        ('window = "paper"', "", "policies[0]: "),
        ('label = "plain"', 'label = ""', "policies[1].label: "),
        (
            'label = "plain"',
            'label = "sw-klucb-cf (window=paper)"',
            "policies[1].label: ",
        ),
        (
            "p00 = 0.9",
            "p00 = 0.9\npublished = { plan = 3 }",
            "problems[1].published.plan: unknown policy; did you mean 'plain'?",
        ),
        (
            "p00 = 0.9",
            "p00 = 0.9\npublished = { plain = [3, 4] }",
            "expected one regret for each epsilon (1), got 2",
        ),
        ("p00 = 0.9", "p00 = 0.9\npublished = 3", "expected a table such as [problems.published], got 3"),
        ('title = "Small"', "title = ", "not valid TOML: "),
        ('title = "Small"', 'title = "a"\ntitle = "b"', "line 3"),
    ],
)
def test_bad_files_are_one_line_errors(tmp_path: Path, old: str, new: str, complaint: str) -> None:
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
        ("", "problems: "),
        ("problems = 3", "problems: "),
        ("problems = [3]", "problems[0]: "),
    ],
)
def test_files_without_problems_are_errors(tmp_path: Path, text: str, complaint: str) -> None:
    path = write(tmp_path, text + '\n[[policies]]\nname = "klucb-cf"\n')
    with pytest.raises(UserError) as caught:
        experiments.load(path)
    assert complaint in str(caught.value)


def test_unreadable_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        experiments.load(tmp_path / "none.toml")
    with pytest.raises(UserError, match="is a folder"):
        experiments.load(tmp_path)
    (tmp_path / "latin.toml").write_bytes('title = "é"'.encode("latin-1"))
    with pytest.raises(UserError, match=r"byte 9.*UTF-8"):
        experiments.load(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("name", "cells"),
    [("paper", 16), ("collapse", 3), ("gajane2018", 24), ("gajane2018_others", 96), ("published", 28)],
)
def test_shipped_experiments_load(name: str, cells: int) -> None:
    experiment = experiments.load(FILES / f"{name}.toml")
    assert len(experiment.tasks) == cells


LONG = "1" + "0" * 400  # more than a float holds
DIGITS = "1" + "0" * 5000  # more than Python reads
DRAWN = 'generator = "random-segments"\narms = 2\nsegments = 3'
WALK = 'generator = "random-walk"\narms = 2'


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("runs = 4", "runs = 1_000_000_000_000", "runs: "),
        ("runs = 4", f"runs = {LONG}", "runs: "),
        ("runs = 4", f"runs = {DIGITS}", "a number has thousands of digits"),
        ("runs = 4", "runs = 1e300", "runs: "),
        ("runs = 4", "runs = inf", "runs: "),
        ("seed = 5", f"seed = {LONG}", "seed: "),
        ("checkpoints = 10", f"checkpoints = {LONG}", "checkpoints: "),
        ("checkpoints = 10", f"checkpoints = [1, {LONG}]", "checkpoints: "),
        ("horizon = 400", f"horizon = {LONG}", "problems[1].horizon: "),
        ("starts = [0, 300]", f"starts = [0, {LONG}]", "problems[0].starts: "),
        ("[0.8, 0.3]", f"[0.8, {LONG}]", "problems[1].means: "),
        ("p00 = 0.9", f"p00 = {LONG}", "problems[1].p00: "),
        ("[1, inf]", f"[1, {LONG}]", "epsilons: "),
        ("p00 = 0.9", f"p00 = 0.9\npublished = {{ plain = {LONG} }}", "published.plain: "),
        ("means = [0.8, 0.3]", DRAWN.replace("3", LONG), "problems[1].segments: "),
        ("means = [0.8, 0.3]", DRAWN.replace("2", LONG), "problems[1].arms: "),
        ("means = [0.8, 0.3]", DRAWN.replace("2", "9e15"), "problems[1]: 3 segments of 9000000000000000 arms are too"),
        ("means = [0.8, 0.3]", f"{WALK}\nspread = {LONG}", "problems[1].spread: "),
        ("means = [0.8, 0.3]", f"{WALK}\nresolution = {LONG}", "problems[1].resolution: "),
        ("c = 0", f"c = {LONG}", "policies[1].c: "),
        ("c = 0", f"restarts = [0, {LONG}]", "policies[1].restarts: "),
        ('window = "paper"', f"window = {LONG}", "policies[0].window: "),
        ('window = "paper"', "window = 9007199254740992", "policies[0]: window 9007199254740992 does not fit"),
    ],
    ids=range(23),
)
def test_huge_numbers_are_errors(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(UserError) as caught:
        experiments.load(write(tmp_path, GOOD.replace(old, new)))
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 400


def test_too_many_segments_are_an_error(tmp_path: Path) -> None:
    text = GOOD.replace("horizon = 400", "horizon = 9e15").replace("means = [0.8, 0.3]", f"{WALK}\nresolution = 1")
    with pytest.raises(UserError, match=r"problems\[1\]: .* too many"):
        experiments.load(write(tmp_path, text))


def test_results_must_fit_into_memory(tmp_path: Path) -> None:
    of_all_runs = 4 * 10 * 3 + 2 * 10 * 2  # pulls up to every checkpoint
    most = (config.MAX_NUMBERS - of_all_runs) // (4 * (10 + 2 * 3) + 2 * (10 + 2 * 2))
    assert experiments.load(write(tmp_path), runs=most).runs == most
    with pytest.raises(UserError, match="64 GiB"):
        experiments.load(write(tmp_path), runs=most + 1)


def test_whole_numbers_may_have_an_exponent(tmp_path: Path) -> None:
    text = GOOD.replace("runs = 4", "runs = 1e2").replace("horizon = 600", "horizon = 6e2").replace("300]", "3e2]")
    experiment = experiments.load(write(tmp_path, text.replace("checkpoints = 10", "checkpoints = [1e1, 4e2]")))
    assert (experiment.runs, experiment.checkpoints) == (100, [10, 400])
    assert experiment.conditions[0].problem.starts.tolist() == [0, 300]


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('title = "Small"', r'title = "\u001b[2J"', r"title: "),
        ('name = "swap"', r'name = "a\nb"', r"problems\[0\].name: "),
        ('label = "plain"', r'label = "\u009b31m"', r"policies\[1\].label: "),
        ("c = 0", r'restarts = "\u001b[31m"', r"policies\[1\].restarts: "),
        ("runs = 4", r'"\u001b[31m" = 4', r"'\\x1b\[31m': unknown key"),
        ("p00 = 0.9", 'p00 = 0.9\npublished = { "\\u001b" = 3 }', r"published.'\\x1b': unknown policy"),
    ],
    ids=range(6),
)
def test_errors_escape_control_characters(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert GOOD.count(old) == 1
    with pytest.raises(UserError, match=complaint) as caught:
        experiments.load(write(tmp_path, GOOD.replace(old, new)))
    assert str(caught.value).isprintable()


def test_loading_compiles_nothing() -> None:
    script = f"""
import gc, pathlib, sys
import numba
from numba.core.dispatcher import Dispatcher
from maskedbandits import experiments
for path in sorted(pathlib.Path({str(FILES)!r}).glob("*.toml")):
    # not everybody has fetched data, and scaling.toml is long
    if "data = " not in path.read_text(encoding="utf-8") and path.stem != "scaling":
        experiments.load(path)
kernels = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
compiled = [one.py_func.__qualname__ for one in kernels if one.signatures]
sys.exit(f"compiled: {{compiled}}" if compiled or not (kernels or numba.config.DISABLE_JIT) else 0)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_deeply_nested_brackets_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nested too deeply"):
        experiments.load(write(tmp_path, f"title = {'[' * 5000}{']' * 5000}"))
