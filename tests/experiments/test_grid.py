"""Sweeps: the cells of a grid are those of all its tables written out."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits.experiments.cache_key import build_specs
from maskedbandits.experiments.config import ExperimentConfig, load
from trials import examples

PROBLEM = '[[problems]]\ngenerator = "random-segments"\narms = 2\nsegments = 2\n'
POLICIES = '[[policies]]\nname = "auto"\n[[policies]]\nname = "sw-klucb-cf"\nlabel = "SW"\n'


def loaded(folder: Path, text: str) -> ExperimentConfig:
    (folder / "a.toml").write_text("epsilons = [1, 2]\n" + text, encoding="utf-8")
    return load(folder / "a.toml")


@examples(15)
@given(
    st.lists(st.integers(100, 999), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(10, 99), min_size=1, max_size=3, unique=True),
)
def test_grid_equals_tables_written_out(
    tmp_path_factory: pytest.TempPathFactory, horizons: list[int], seeds: list[int], windows: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("grid")
    grid = f"[grid.problems]\nhorizon = {horizons}\nseed = {seeds}\n[grid.policies]\nwindow = {windows}\n"
    swept = loaded(folder, grid + PROBLEM + POLICIES)
    written = "".join(
        f"{PROBLEM}name = 'p{horizon}-{seed}'\nhorizon = {horizon}\nseed = {seed}\n"
        for horizon, seed in product(horizons, seeds)
    )
    written += '[[policies]]\nname = "auto"\n'
    written += "".join(f'[[policies]]\nname = "sw-klucb-cf"\nwindow = {window}\n' for window in windows)
    plain = loaded(folder, written)
    assert [one.key for one in build_specs(swept)] == [one.key for one in build_specs(plain)]
    assert len({(task.label, str(task.condition)) for task in swept.tasks}) == len(swept.tasks)


def test_names_include_grid_values(tmp_path: Path) -> None:
    swept = loaded(
        tmp_path, "[grid.problems]\nhorizon = [50, 60]\n[grid.policies]\nwindow = [9, 'paper']\n" + PROBLEM + POLICIES
    )
    assert [task.label for task in swept.tasks][:3] == ["auto", "SW, window=9", "SW, window='paper'"]
    assert [str(condition) for condition in swept.conditions][::2] == [
        "problems[0], horizon=50, epsilon 1",
        "problems[0], horizon=60, epsilon 1",
    ]


def test_table_value_overrides_grid(tmp_path: Path) -> None:
    text = (
        "[grid.problems]\nhorizon = [50, 60]\n"
        + PROBLEM
        + "horizon = 70\n"
        + PROBLEM
        + POLICIES.replace("label", "window = 5\nlabel")
    )
    assert [condition.problem.horizon for condition in loaded(tmp_path, text).conditions][::2] == [70, 50, 60]


@pytest.mark.parametrize(
    ("grid", "complaint"),
    [
        ("[grid]\nproblem = 1", "grid.problem: .*mean 'problems'"),
        ("[grid.policies]\nwindow = 5", "grid.policies.window: "),
        ("[grid.policies]\nwindow = []", "grid.policies.window: "),
        ("[grid.policies]\nwindow = [5, 5]", "twice"),
        ("[grid.policies]\nwindow = [5, -1]", r"policies\[1\].window: "),
        (
            "[grid.policies]\nwindows = [5]",
            "policies.windows: .*mean 'window'",
        ),
        ("[grid.problems]\nhorizon = [5]", "grid.problems.horizon: "),
        ("[grid.problems]\nseed = ['a']", r"problems\[0\].seed"),
        ("[grid]\nproblems = 3", r"grid.problems: "),
        ("grid = 3", r"grid: "),
        (
            f"[grid.problems]\nseed = {list(range(317))}\nsegments = {list(range(317))}",
            "at most 100,000",
        ),
    ],
)
def test_bad_grids_are_errors(tmp_path: Path, grid: str, complaint: str) -> None:
    problem = PROBLEM.replace("segments = 2\n", "") if "segments" in grid else PROBLEM
    with pytest.raises(ValueError, match=complaint) as caught:
        loaded(tmp_path, f"{grid}\n{problem}horizon = 300\n{POLICIES}")
    assert "\n" not in str(caught.value)
