"""Mistakes and types that a notebook meets: one line, the same numbers, or a short text, for any public name."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import maskedbandits as mb
from maskedbandits.errors import UserError
from maskedbandits.experiments.cache_key import build_specs
from maskedbandits.experiments.config import ExperimentConfig
from maskedbandits.experiments.work_units import LoadSplitter, WorkUnit
from maskedbandits.problems import Log

RR = mb.RandomizedResponse.from_epsilon(1.0)
PROBLEM = mb.Problem([0.2, 0.7], [0], 200, RR)
PEOPLE = mb.Population.from_epsilons([0.5, 4.0], [0.8, 0.2])


def play(**options: Any) -> mb.Simulation:
    return mb.simulate(PROBLEM, "uniform", runs=2, **options)


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: play(paired="no"), "paired = 'no': give True"),
    (lambda: play(trace=1), "trace = 1: give True"),
    (lambda: play(progress="yes"), "progress = 'yes'"),
    (lambda: mb.compare(PROBLEM, ["uniform"], paired=None), "paired = None"),  # type: ignore[arg-type]
    (lambda: mb.make_policy("uniform", arms=10**12), "arms = 1000000000000: .*at most"),
    (lambda: mb.make_policy("klucb-cf", arms=2.5, corruption=RR), "arms = 2.5"),  # type: ignore[arg-type]
    (lambda: mb.Population.from_epsilons(1), "epsilons = 1: give a list"),  # type: ignore[arg-type]
    (lambda: mb.Population.from_epsilons("12"), "epsilons = '12'"),  # type: ignore[arg-type]
    (lambda: mb.theory.corrected_window(3), "problem = 3: give a Problem"),  # type: ignore[arg-type]
    (lambda: mb.theory.lower_bound("x"), "problem = 'x'"),  # type: ignore[arg-type]
    (lambda: mb.theory.published_bound(None, 5), "problem = None"),  # type: ignore[arg-type]
    (lambda: mb.Experiment(PROBLEM, "uniform").save_toml("/"), "/: cannot be written: is a folder: give"),
    (
        lambda: mb.environment(PROBLEM).reset(seed="a"),  # type: ignore[arg-type]
        "seed = 'a'",
    ),
]


@pytest.mark.parametrize(("attempt", "complaint"), MISTAKES, ids=[complaint[:20] for _, complaint in MISTAKES])
def test_mistake_in_a_notebook_is_one_line(attempt: Callable[[], object], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        attempt()
    assert "\n" not in str(caught.value)


def test_whole_floats_and_numpy_numbers_count_as_arms() -> None:
    for arms in (2.0, np.int8(2), np.float64(2)):
        assert mb.make_policy("klucb-cf", arms=arms, corruption=RR).arms == 2  # type: ignore[arg-type]
        assert mb.make_contextual("klucb-cf", groups=2, arms=arms, epsilon=1).arms == 2  # type: ignore[arg-type]


def test_flags_of_numpy_are_flags() -> None:
    traced = play(trace=np.bool_(True), paired=np.bool_(False))
    assert traced.switches is not None
    assert np.array_equal(traced.regret, play().regret)


def test_columns_of_a_frame_are_lists() -> None:
    table = pd.DataFrame({"epsilon": [1.0, 2.0], "share": [0.3, 0.7]})
    experiment = mb.Experiment(PROBLEM, "uniform", epsilons=table["epsilon"], runs=2)
    assert [condition.epsilon for condition in experiment.config.conditions] == [1.0, 2.0]
    assert mb.Population.from_epsilons(table["epsilon"], table["share"]).shares == (0.3, 0.7)


def test_environment_takes_seeds_of_numpy() -> None:
    env = mb.environment(PROBLEM)
    env.reset(seed=3)
    first = [env.step(0)[1] for _ in range(30)]
    env.reset(seed=np.int64(3))  # type: ignore[arg-type]
    assert [env.step(0)[1] for _ in range(30)] == first


@pytest.mark.parametrize(
    "problem",
    [
        PROBLEM,
        mb.Problem.replay([[1, 0], [0, 1]]),
        mb.Problem.replay_log([0, 1], [1, 0]),
        mb.ContextualProblem([[0.9, 0.1], [0.1, 0.9]], [0], 100, [0.5, 0.5]),
        mb.FeaturedProblem(np.zeros((1, 2, 3)), [0], 50, RR),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_copies_of_a_problem_are_read_only_too(problem: Any) -> None:
    """A changed mean would leave what follows from it as it was."""
    name = "chosen" if isinstance(problem, Log) else "weights" if isinstance(problem, mb.FeaturedProblem) else "means"
    for other in (problem, copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):  # noqa: S301 -- ours
        assert np.array_equal(getattr(other, name), getattr(problem, name))
        assert not getattr(other, name).flags.writeable


def test_short_texts_say_what_an_object_is() -> None:
    assert repr(PEOPLE) == "<Population: 0.8 of people at epsilon 0.5, 0.2 of people at epsilon 4>"
    assert repr(mb.Population.from_epsilons(range(1, 7))).endswith(", 2 more>")
    assert repr(mb.environment(PROBLEM)).startswith("<BanditEnvironment: <Problem: 2 arms")
    assert repr(mb.Experiment(PROBLEM, "uniform", runs=1).run(progress=False)).startswith(
        "experiment: 1 cell of 1 run\n"
    )
    assert pickle.loads(pickle.dumps(PEOPLE)) == PEOPLE  # noqa: S301 -- ours


def test_short_cells_have_no_load_with_a_long_run(tmp_path: Path) -> None:
    """An interrupt of the long run would lose them."""
    problems = {"short": PROBLEM, "long": mb.Problem([0.2, 0.7], [0], 10**8, RR), "next": PROBLEM}
    config: ExperimentConfig = mb.Experiment(problems, "uniform", runs=3).config
    units = [
        WorkUnit(number, task, spec.facts["seed"], 10, 0, 3)
        for number, (task, spec) in enumerate(zip(config.tasks, build_specs(config), strict=True))
    ]
    splitter, loads = LoadSplitter(units), []
    while load := splitter.next_load():
        loads.append([(unit.cell, unit.runs) for unit in load])
    assert loads == [[(0, 3)], [(1, 1)], [(1, 1)], [(1, 1)], [(2, 3)]]
