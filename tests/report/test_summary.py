"""Summaries: they name the best policy, describe changes, and claim no more than the runs show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest

from made_up import HORIZON, TWO_SEGMENTS, changing, of_cells, results, sinusoid
from maskedbandits.corruption import IDENTITY
from maskedbandits.experiments.results import Cell, CellOutcome, Label, Results
from maskedbandits.problems import GENERATORS, Problem
from maskedbandits.report import summary

SPEC = {
    "means": [[0.9, 0.1]],
    "starts": [0],
    "horizon": HORIZON,
    "p00": [0.8, 0.8],
    "p11": [0.8, 0.8],
    "policy": "klucb-cf",
    "parameters": {},
    "seed": 0,
}


def cell(policy: str, regrets: Sequence[float], epsilon: float | None = 1.0, problem: str = "one") -> Cell:
    """A cell whose runs ended with these regrets."""
    pulls = np.full((len(regrets), 2), HORIZON // 2)
    outcome = CellOutcome(SPEC, np.array([HORIZON]), np.array(regrets)[:, None], pulls, pulls, 1.0)
    return Cell(Label(f"{problem}{policy}{epsilon}", problem, policy, epsilon), outcome)


def said(*cells: Cell) -> str:
    return summary.summarize(of_cells(cells))


GOOD, BAD = [9.0, 10.0, 11.0], [18.0, 20.0, 22.0]  # 10 ± 2.5 and 20 ± 5.0


def test_summary_names_best_policy_interval_and_lead() -> None:
    assert said(cell("b", BAD), cell("a", GOOD)) == (
        "“a” has the lowest regret: 10.0 ± 2.5 (mean, 95 % interval). That is 50 % less than the next policy. "
        "No interval overlaps that of the best."
    )


@pytest.mark.parametrize(("other", "is_distinct"), [([16.0, 18.0, 17.5], True), ([12.0, 18.0, 15.0], False)])
def test_overlapping_intervals_are_named(other: list[float], is_distinct: bool) -> None:
    sentence = said(cell("a", GOOD), cell("b", other), cell("c", [100.0, 101.0, 102.0]))
    assert ("No interval overlaps" in sentence) == is_distinct
    assert ("do not separate it from “b”" in sentence) == (not is_distinct)
    assert "“c”" not in sentence


def test_rivals_match_intervals_by_hand() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        group = [cell(str(place), (10 + 3 * place + rng.normal(0, 3, 4)).tolist()) for place in range(4)]
        ends = {}
        for one in group:
            runs = [float(value) for value in one.outcome.regret[:, 0]]
            mean = sum(runs) / 4
            half = 3.182446 * math.sqrt(sum((run - mean) ** 2 for run in runs) / 3) / 2  # Student's t, 3 degrees
            ends[one.label.policy] = (mean, mean - half, mean + half)
        first = min(ends, key=lambda policy: ends[policy][0])
        expected = {policy for policy in ends if policy != first and ends[policy][1] <= ends[first][2]}
        assert {one.label.policy for one in summary.find_rivals(group)} == expected


def test_summary_covers_several_epsilons() -> None:
    cells = [
        *(cell("a", GOOD, 0.5), cell("b", BAD, 0.5)),
        *(cell("a", GOOD, 1.0), cell("b", [10.0, 11.0, 12.0], 1.0)),
        *(cell("a", BAD, math.inf), cell("b", GOOD, math.inf)),
    ]
    assert said(*cells) == (
        "“a” has the lowest regret: 10.0 ± 2.5 at ε = 0.5 and 10.0 ± 2.5 at ε = 1; “b”: 10.0 ± 2.5 at ε = ∞ "
        "(mean, 95 % interval). That is 9 to 50 % less than the next policy. "
        "Overlapping intervals do not separate it from “b” at ε = 1: try more runs."
    )


def test_summary_of_one_run_has_no_interval() -> None:
    assert said(cell("a", [10.0]), cell("b", [20.0])) == (
        "“a” has the lowest regret: 10.0. That is 50 % less than the next policy. One run gives no interval."
    )


def test_summary_of_a_single_policy() -> None:
    assert said(cell("a", GOOD)) == "“a” regret: 10.0 ± 2.5 (mean, 95 % interval)."


def test_lead_is_zero_without_regret() -> None:
    assert "0 % less than the next" in said(cell("a", [0.0, 0.0]), cell("b", [0.0, 0.0]))


def test_summary_of_several_problems_counts_wins() -> None:
    cells = [cell(policy, runs, problem=problem) for problem in "xyz" for policy, runs in (("a", GOOD), ("b", BAD))]
    cells[-2:] = [cell("a", [9.0, 10.0, 11.0], problem="z"), cell("b", [8.0, 10.0, 11.0], problem="z")]
    assert said(*cells) == (
        "Lowest regret in 3 comparisons: “a” in 2 and “b” in 1. In 2 of them the intervals do not overlap."
    )


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (
            results(),
            "2 policies on one problem (2 arms, 1,000 steps, changes at 400), at ε = 0.5, 1 and ∞, 8 runs of each.",
        ),
        (results(problems=("x", "y"), epsilons=(2.0,)), "2 policies on 2 problems, at ε = 2, 8 runs of each."),
        (
            of_cells([cell("a", [1.0], None)]),
            "One policy on one problem (2 arms, 1,000 steps, no change), with a mask of its own, one run of each.",
        ),
    ],
)
def test_description_of_run(made: Results, sentence: str) -> None:
    assert summary.describe_run(made) == sentence


def test_table_and_summary_agree_on_the_best() -> None:
    for _, groups in summary.group_by_problem(results().cells):
        for group in groups:
            assert summary.is_best(summary.rank(group)[0], group)


def test_oracles_are_not_ranked() -> None:
    oracle = cell("told", [0.0, 0.0, 0.0])
    oracle = dataclasses.replace(oracle, outcome=dataclasses.replace(oracle.outcome, spec={**SPEC, "policy": "oracle"}))
    group = [oracle, cell("a", GOOD), cell("b", BAD)]
    assert said(*group) == said(*group[1:])
    assert summary.lowest_regret(group) == 10.0
    assert [summary.is_best(each, group) for each in group] == [False, True, False]
    assert summary.exclude_oracles([oracle]) == [oracle]


def cell_of(problem: Problem) -> Cell:
    return changing(problem.means, problem.starts.tolist()).cells[0]


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ([[0.9, 0.1]], "no change"),
        (TWO_SEGMENTS, "changes at 500"),
        ([[0.9, 0.1], [0.1, 0.9]] * 6, "changes at 83, 166, 250, 333, 416, 500, 583, 666, 750, 833, 916"),
        ([[0.9, 0.1], [0.1, 0.9]] * 7, "13 changes (variation 10.4)"),
        (sinusoid(), "drifts (variation 3.17)"),  # twice up and down by 0.8, but for the last step
    ],
)
def test_descriptions_of_changes(means: object, words: str) -> None:
    [cell] = changing(np.asarray(means)).cells
    assert summary.describe_changes(cell) == words


def test_variation_matches_problem() -> None:
    problem = GENERATORS["random-walk"](4, HORIZON, corruption=IDENTITY)
    assert cell_of(problem).variation == problem.variation


def test_sampled_means_match_segments() -> None:
    [cell] = changing([[0.9, 0.1], [0.2, 0.3], [0.4, 0.8]], [0, 10, 700]).cells
    times, means = summary.sample_means(cell)
    assert times.tolist() == [0, 10, 700, HORIZON]
    assert means.tolist() == [[0.9, 0.1], [0.2, 0.3], [0.4, 0.8], [0.4, 0.8]]


def test_sampled_means_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MAX_POINTS", 7)
    [cell] = changing(sinusoid(100)).cells
    times, means = summary.sample_means(cell)
    assert times.size <= 8
    held = np.array([sinusoid(100)[min(time // 10, 99)] for time in times])
    assert means == pytest.approx(held)
