"""Replays of recorded data, compared with plain loops."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskedbandits import Problem, RandomizedResponse, make_policy, simulate
from maskedbandits.errors import UserError
from naive import Twin
from specimens import CERTAIN, RR
from trials import examples

pytestmark = pytest.mark.xdist_group("logs")  # one process compiles the replay of logs

Bits = list[list[int]]


@st.composite
def records(draw: st.DrawFn) -> tuple[Bits, list[int]]:
    """Rounds of bits, and the first rounds of periods."""
    rounds = draw(st.integers(3, 40))
    table = draw(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=rounds, max_size=rounds))
    starts = draw(st.sets(st.integers(1, rounds - 1), max_size=3))
    return table, [0, *sorted(starts)]


def best_by_period(table: Bits, starts: list[int]) -> list[int]:
    """Return the best arm of the period of each round, the first of several."""
    best = []
    for begin, end in zip(starts, [*starts[1:], len(table)], strict=True):
        sums = [sum(row[arm] for row in table[begin:end]) for arm in range(3)]
        best += [sums.index(max(sums))] * (end - begin)
    return best


@examples(40)
@given(records())
def test_rounds_match_hand_count(record: tuple[Bits, list[int]]) -> None:
    """Without a mask a report is the outcome, so nothing is random."""
    table, starts = record
    problem = Problem.replay(table, CERTAIN, periods=starts)
    policy = make_policy("klucb-cf", arms=3, corruption=CERTAIN)
    result = simulate(problem, policy, runs=1, checkpoints=len(table), progress=False)
    twin, best, total = Twin([CERTAIN] * 3), best_by_period(table, starts), 0
    pulls, suboptimal = [0, 0, 0], [0, 0, 0]
    for step, row in enumerate(table):
        arm = twin.choose()
        twin.observe(arm, float(row[arm]))
        total += row[best[step]] - row[arm]
        pulls[arm] += 1
        period = range(
            max(start for start in starts if start <= step), min([*starts, len(table)], key=lambda x: (x <= step, x))
        )
        suboptimal[arm] += sum(table[each][best[step]] - table[each][arm] for each in period) > 0
        assert result.regret[0, step] == total
    assert result.pulls[0].tolist() == pulls
    assert result.suboptimal_pulls[0].tolist() == suboptimal


@pytest.mark.plain
@examples(40)
@given(records(), st.data())
def test_log_is_played_where_choices_agree(record: tuple[Bits, list[int]], data: st.DataObject) -> None:
    table, starts = record
    rewards = [row[0] for row in table]
    chosen = data.draw(st.lists(st.integers(0, 2), min_size=len(table), max_size=len(table)))
    problem = Problem.replay_log(chosen, rewards, CERTAIN, arms=3, periods=starts)
    policy = make_policy("klucb-cf", arms=3, corruption=CERTAIN)
    result = simulate(problem, policy, runs=1, checkpoints=len(table), progress=False)
    twin, total, pulls = Twin([CERTAIN] * 3), 0.0, [0, 0, 0]
    for begin, end in zip(starts, [*starts[1:], len(table)], strict=True):
        means = []
        for arm in range(3):
            brought = [rewards[step] for step in range(begin, end) if chosen[step] == arm]
            means.append(sum(brought) / len(brought) if brought else 0.0)
        for step in range(begin, end):
            if twin.choose() == chosen[step]:
                twin.observe(chosen[step], float(rewards[step]))
                total += max(means) - rewards[step]
                pulls[chosen[step]] += 1
            assert result.regret[0, step] == pytest.approx(total)
    assert result.pulls[0].tolist() == pulls


@examples(30)
@given(records(), st.integers(0, 2))
def test_baseline_regret_is_cumulative(record: tuple[Bits, list[int]], arm: int) -> None:
    table, starts = record
    problem, best = Problem.replay(table, RR, periods=starts), best_by_period(table, starts)
    times = list(range(len(table) + 1))
    always = [sum(table[step][best[step]] - table[step][arm] for step in range(time)) for time in times]
    by_chance = [sum(table[step][best[step]] - sum(table[step]) / 3 for step in range(time)) for time in times]
    assert problem.regret_of(arm, times).tolist() == pytest.approx(always)
    assert problem.regret_of(None, times).tolist() == pytest.approx(by_chance)
    sums = [sum(row[each] for row in table) for each in range(3)]
    assert sums[problem.best_fixed] == max(sums)
    assert problem.means.shape == (len(starts), 3)


def test_reports_are_masked() -> None:
    """40,000 rounds of ones and zeros: five standard errors are 0.0125."""
    outcomes = np.tile([[1.0, 0.0]], (40_000, 1))
    problem = Problem.replay(outcomes, RR)
    seen: list[list[float]] = [[], []]

    class Turns:
        def __init__(self, generator: np.random.Generator) -> None:
            self.turn = 0

        def choose(self) -> int:
            self.turn = 1 - self.turn
            return self.turn

        def observe(self, arm: int, feedback: float) -> None:
            seen[arm].append(feedback)

    result = simulate(problem, Turns, runs=1, checkpoints=1)
    assert result.regret[0, 0] == 20_000
    assert np.mean(seen[0]) == pytest.approx(RR(1.0), abs=0.0125)
    assert np.mean(seen[1]) == pytest.approx(RR(0.0), abs=0.0125)
    assert problem.rows(masked=True).seen[0].tolist() == pytest.approx([RR(1.0), RR(0.0)])
    log = Problem.replay_log([0, 1], [1, 0], [RR, RandomizedResponse(0.9, 0.8)])
    assert log.rows(masked=True).seen.tolist() == [[pytest.approx(RR(1.0))], [pytest.approx(0.1)]]


def test_equal_periods_by_number() -> None:
    problem = Problem.replay(np.zeros((10, 2)), periods=3)
    assert problem.starts.tolist() == [0, 3, 6]
    assert problem.corruption[0](0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("outcomes", "more", "complaint"),
    [
        ([1, 0, 1], {}, "outcomes have shape"),
        ([[1, 2]] * 3, {}, "arm 1.*2.0.*round 0"),
        ([[1, float("nan")]] * 3, {}, "arm 1 has nan"),
        ([[1], [1, 0]], {}, "table of numbers"),
        ([[1, 0]] * 3, {"periods": 4}, "periods"),
        ([[1, 0]] * 3, {"periods": [1, 2]}, "increasing numbers that begin with 0"),
        ([[1, 0]] * 3, {"periods": [0, 3]}, "3 is not before the end, 3"),
        ([[1, 0]], {}, "shorter than the number of arms"),
        (np.ma.masked_equal([[1, 0], [0.5, 1]], 0.5), {}, "arm 0 has nan in round 1"),
    ],
)
def test_invalid_rounds_are_refused(outcomes: Any, more: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Problem.replay(outcomes, **more)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("chosen", "rewards", "more", "complaint"),
    [
        ([0, 1, 2], [1, 0], {}, "two lists of one length"),
        ([0, 1], [[1], [0]], {}, "give a list, one per round"),
        ([0, -1], [1, 0], {}, "round 1 has arm -1: give arms from 0 to 0"),
        ([0, 2], [1, 0], {"arms": 2}, "round 1 has arm 2: give arms from 0 to 1"),
        ([0, 0.5], [1, 0], {}, "whole numbers"),
        ([0, 1], [1, 1.5], {}, "1.5 in round 1"),
        ([], [], {}, r"shape \(0,\): give"),
        ([3, 1], [1, float("nan")], {}, "nan in round 1"),
        ([0, 1 << 62], [1, 0], {}, "shorter.*number of arms"),
        ([0, 1], [1, 0], {"arms": 10**12}, "shorter.*number of arms"),
    ],
)
def test_invalid_log_is_refused(chosen: Any, rewards: Any, more: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Problem.replay_log(chosen, rewards, **more)


def test_log_with_delay_is_refused() -> None:
    with pytest.raises(ValueError, match="without"):
        simulate(Problem.replay_log([0, 1], [1, 0]), "klucb-cf", delay=5)
