"""Times on a log are rows: positions take effect at their row, durations shrink to the expected plays."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from helpers.boundaries import pause_after_steps
from maskedbandits import Problem, make_policy, simulate, theory
from maskedbandits._numba.jit import interpret
from maskedbandits.errors import UserError
from maskedbandits.policies import kernels
from maskedbandits.policies.runtime import Entries
from maskedbandits.problems import Log
from maskedbandits.simulation import runs
from naive import Twin
from naive import replay as naive
from specimens import CERTAIN, RR

pytestmark = pytest.mark.xdist_group("logs")  # one process compiles the replay of logs

ROWS, CHANGE, ARMS = 20_000, 10_000, 3
A, B = 0, 1


@pytest.fixture
def _interpreted_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interpret the loop, because compiling takes longer than short plays."""
    if not request.config.getoption("--compiled"):
        start = interpret(kernels.start_live)
        monkeypatch.setattr(Entries, "compile_simulator", lambda entries, advance, *_: (start, interpret(advance)))
        monkeypatch.setattr(runs, "_READY", {})


def log_of(means: list[list[float]], rows: int, seed: int) -> Log:
    """Random choices in a world whose segments are equally long."""
    rng = np.random.default_rng(seed)
    table, starts = np.array(means), [place * rows // len(means) for place in range(len(means))]
    chosen = rng.integers(0, table.shape[1], rows)
    segment = np.searchsorted(starts, np.arange(rows), side="right") - 1
    rewards = (rng.random(rows) < table[segment, chosen]).astype(float)
    return Problem.replay_log(chosen, rewards, CERTAIN, arms=table.shape[1], periods=starts)


@pytest.fixture(scope="module")
def swap() -> Log:
    """Return a log in which B is the best arm first, then A."""
    return log_of([[0.3, 0.7, 0.2], [0.7, 0.3, 0.2]], ROWS, seed=7)


def played(problem: Problem, name: str, checkpoints: Any, **parameters: Any) -> Any:
    policy = make_policy(name, arms=problem.arms, corruption=problem.corruption, **parameters)
    return simulate(problem, policy, runs=1, seed=3, checkpoints=checkpoints, progress=False)


def test_oracle_follows_rows(swap: Log) -> None:
    found = played(swap, "oracle", [CHANGE, ROWS], restarts=swap.starts, best=swap.best_arms)
    assert swap.best_arms.tolist() == [B, A]
    # it plays all rows of the best arm, so its regret is 0
    np.testing.assert_allclose(found.regret[0], 0.0, atol=1e-8)
    before, after = (swap.chosen[:CHANGE] == B).sum(), (swap.chosen[CHANGE:] == A).sum()
    assert found.pulls_over_time.tolist() == [[0, before, 0], [after, before, 0]]


def test_oracle_restarts_at_row(swap: Log) -> None:
    restarted = played(swap, "oracle-klucb-cf", [CHANGE, ROWS], restarts=[0, CHANGE])
    plain = played(swap, "klucb-cf", [CHANGE, ROWS])
    assert restarted.regret[0, 0] == plain.regret[0, 0]
    assert restarted.regret[0, 1] < 0.8 * plain.regret[0, 1]


TWINS: dict[str, tuple[str, dict[str, Any], Callable[[], naive.Replayed], list[int]]] = {
    "oracle": ("oracle", {"restarts": [0, 40, 90], "best": [2, 0, 1]}, lambda: naive.Oracle([2, 0, 1]), [40, 90]),
    "planned": ("klucb-cf", {"restarts": [31, 60, 61, 119]}, lambda: twin(), [31, 60, 61, 119]),
    "oracle-klucb-cf": ("oracle-klucb-cf", {"restarts": [0, 60]}, lambda: twin(), [60]),
    "beyond the end": ("oracle-klucb-cf", {"restarts": [0, 60, 5000]}, lambda: twin(), [60]),
    "window": ("sw-klucb-cf", {"window": 31}, lambda: twin(window=10), []),
    "endless window": ("sw-klucb-cf", {"window": float("inf")}, lambda: twin(), []),
    "window and restart": ("sw-klucb-cf", {"window": 30, "restarts": [70]}, lambda: twin(window=10), [70]),
    "discount": ("d-ucb-cf", {"gamma": 0.98, "c": 3.0, "xi": 2.0}, lambda: twin("ucb", gamma=0.98**3), []),
    "horizon": ("klucb-plus-cf", {"horizon": 120}, lambda: twin("klucb-plus", horizon=40), []),
}


def twin(index: str = "klucb", **parameters: Any) -> Twin:
    return Twin([CERTAIN] * ARMS, index, **parameters)


@pytest.mark.plain
@pytest.mark.usefixtures("_interpreted_loop")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("case", TWINS)
def test_log_run_matches_naive_run(case: str, seed: int) -> None:
    name, parameters, slow, restarts = TWINS[case]
    log = log_of([[0.1, 0.5, 0.9], [0.9, 0.2, 0.4]], 120, seed)
    found = played(log, name, 120, **parameters)
    regret, rows = naive.replay(log.chosen.tolist(), log.rewards.tolist(), log.starts.tolist(), slow(), restarts)
    np.testing.assert_allclose(found.regret[0], regret, rtol=0, atol=1e-9)
    assert found.pulls[0].tolist() == [sum(arm == each for _, arm in rows) for each in range(ARMS)]
    assert found.pulls_over_time.sum(axis=1).tolist() == [sum(row < time for row, _ in rows) for time in range(1, 121)]


@pytest.mark.plain
@pytest.mark.usefixtures("_interpreted_loop")
def test_pause_does_not_miss_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    log, parameters = log_of([[0.1, 0.5, 0.9]], 120, 1), {"restarts": [0, 40, 50], "best": [2, 0, 1]}
    whole = played(log, "oracle", 12, **parameters)
    for pause in (1, 7, 40):
        pause_after_steps(monkeypatch, pause)
        assert played(log, "oracle", 12, **parameters).regret.tolist() == whole.regret.tolist()


@pytest.mark.plain
@pytest.mark.usefixtures("_interpreted_loop")
def test_copy_for_log_has_same_masks() -> None:
    """A copy for a log has the same corruptions."""
    log = Problem.replay_log([0, 1, 2] * 20, [1, 0, 1] * 20, [RR, CERTAIN, RR], arms=3)
    policy = make_policy("sw-klucb-cf", arms=3, corruption=log.corruption, window=30, contamination=0.1, seed=1)
    made, rows = policy.for_log(3)
    same = make_policy("sw-klucb-cf", arms=3, corruption=log.corruption, window=10, contamination=0.1, seed=1)
    assert made.parameters == same.parameters
    assert rows.tolist() == []
    assert all(np.array_equal(one, other) for one, other in zip(made.snapshot(), same.snapshot(), strict=True))


def test_window_counts_plays() -> None:
    """The window for a third of the steps, times three."""
    means = [[0.3, 0.7, 0.2], [0.7, 0.3, 0.2]]
    log = log_of(means, 30_000, seed=2)
    steps = Problem(log.means, [0, 5000], 10_000, CERTAIN)
    assert log.as_played().lengths.tolist() == [5000, 5000]
    assert theory.corrected_window(log) == 3 * theory.corrected_window(steps)
    assert (steps.as_played(), steps.rows_per_play, steps.expected_plays) == (steps, 1, 10_000)
    assert (log.rows_per_play, log.expected_plays) == (3, 10_000)


def test_periods_without_play_are_left_out() -> None:
    log = Problem.replay_log([0, 1, 2] * 10, [1, 0, 0] * 10, CERTAIN, arms=3, periods=[0, 1, 12, 29])
    found = log.as_played()
    assert (found.horizon, found.starts.tolist()) == (10, [0, 4])
    np.testing.assert_array_equal(found.means, log.means[1:3])


@pytest.mark.parametrize(
    "bound",
    [
        lambda log: theory.published_bound(log, 50),
        lambda log: theory.corrected_bound(log, 50),
        lambda log: theory.corrected_regret_bound(log, 50),
        theory.lower_bound,
        lambda log: theory.glr_delays(log, delta=0.1),
        lambda log: theory.glr_regret_bound(log, delta=0.1),
    ],
)
def test_log_has_no_bounds(bound: Callable[[Problem], Any]) -> None:
    log = log_of([[0.3, 0.7, 0.2], [0.7, 0.3, 0.2]], 900, seed=2)
    with pytest.raises(UserError, match="as_played"):
        bound(log)


def test_log_too_short_for_window_is_refused() -> None:
    log = Problem.replay_log([0, 1, 2, 0], [1, 0, 1, 1], CERTAIN, arms=3)
    with pytest.raises(UserError, match="at least 9 rows"):
        theory.corrected_window(log)


def test_misfits_of_log_are_refused(swap: Log) -> None:
    with pytest.raises(UserError, match=r"window = 6.*2") as caught:
        played(swap, "sw-klucb-cf", 1, window=6)
    assert "\n" not in str(caught.value)
