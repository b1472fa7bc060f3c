import itertools
import math
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from children import LONGEST, child, finished
from helpers.boundaries import pause_after_steps
from maskedbandits import Problem, RandomizedResponse, make_policy, simulate
from naive import SlidingWindowKLUCB
from naive import simulate as naive_simulate
from trials import generator

RR = RandomizedResponse.from_epsilon(1.0)
PROBLEM = Problem([[0.9, 0.4, 0.5], [0.2, 0.4, 0.8]], [0, 1200], 3000, RR)


@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.integers(1, 3),
    st.one_of(st.integers(4, 50), st.just(math.inf)),
)
def test_run_matches_naive_run(seed: int, arms: int, segments: int, window: float) -> None:
    rng = np.random.default_rng(seed)
    horizon = 80
    means = rng.random((segments, arms)).round(2)
    starts = [0, *sorted(rng.choice(np.arange(1, horizon), segments - 1, replace=False))]
    each = [RandomizedResponse(*rng.choice([[0.8, 0.9], [0.3, 0.2]])) for _ in range(arms)]
    problem = Problem(means, starts, horizon, each)
    policy = make_policy("sw-klucb-cf", arms=arms, corruption=each, window=window)
    result = simulate(problem, policy, runs=2, seed=seed, checkpoints=horizon)
    over_time = np.zeros((horizon, arms), dtype=int)
    for run, spawned in enumerate(np.random.SeedSequence(seed).spawn(2)):
        draws = generator(spawned).random(horizon).tolist()
        slow = SlidingWindowKLUCB(list(each), window, 3.0)
        regret, pulls, suboptimal, chosen = naive_simulate(means.tolist(), starts, horizon, slow, draws)
        assert np.allclose(result.regret[run], regret)
        assert result.pulls[run].tolist() == pulls
        assert result.suboptimal_pulls[run].tolist() == suboptimal
        over_time += [[chosen[: step + 1].count(arm) for arm in range(arms)] for step in range(horizon)]
    assert result.pulls_over_time.tolist() == over_time.tolist()


def test_results_do_not_depend_on_threads() -> None:
    policy = make_policy("sw-klucb-cf", arms=3, corruption=RR, window=100)
    one, three = (simulate(PROBLEM, policy, runs=7, seed=5, threads=n) for n in (1, 3))
    assert np.array_equal(one.regret, three.regret)
    assert np.array_equal(one.pulls, three.pulls)
    assert np.array_equal(one.pulls_over_time, three.pulls_over_time)
    other = simulate(PROBLEM, policy, runs=7, seed=6)
    assert not np.array_equal(one.regret, other.regret)


def test_results_do_not_depend_on_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy("sw-klucb-cf", arms=3, corruption=RR, window=100)
    straight = simulate(PROBLEM, policy, runs=2, seed=5)
    pause_after_steps(monkeypatch, 17)
    paused = simulate(PROBLEM, policy, runs=2, seed=5)
    assert np.array_equal(straight.regret, paused.regret)


def test_first_runs_do_not_depend_on_later_ones() -> None:
    few, many = (simulate(PROBLEM, "klucb-cf", runs=n, seed=1) for n in (2, 6))
    assert np.array_equal(few.regret, many.regret[:2])
    assert len({tuple(row) for row in many.pulls.tolist()}) == 6


def test_every_step_is_counted_once() -> None:
    result = simulate(PROBLEM, "klucb-cf", runs=4, checkpoints=[1, 7, 1200, 1201, 3000])
    assert result.times.tolist() == [1, 7, 1200, 1201, 3000]
    assert np.all(result.pulls.sum(axis=1) == 3000)
    assert np.all(result.suboptimal_pulls <= result.pulls)
    assert np.all(np.diff(result.regret, axis=1) >= 0)
    assert result.regret.shape == (4, 5)
    assert result.pulls_over_time.sum(axis=1).tolist() == [4, 28, 4800, 4804, 12000]
    assert result.pulls_over_time[-1].tolist() == result.pulls.sum(axis=0).tolist()


def test_given_policy_is_unchanged() -> None:
    policy = make_policy("klucb-cf", arms=3, corruption=RR)
    policy.observe(1, 1)
    before = policy.indices()
    fresh = simulate(PROBLEM, make_policy("klucb-cf", arms=3, corruption=RR), runs=1)
    assert np.array_equal(simulate(PROBLEM, policy, runs=1).regret, fresh.regret)
    assert np.array_equal(policy.indices(), before)


@pytest.mark.parametrize("means", [[[0.0, 1.0]], [[1.0, 1.0]], [[0.0, 0.0]], [[0.5]]])
@pytest.mark.parametrize("epsilon", [0.1, math.inf])
def test_extreme_means_can_be_played(means: list[list[float]], epsilon: float) -> None:
    problem = Problem(means, [0], 2000, RandomizedResponse.from_epsilon(epsilon))
    policy = make_policy("sw-klucb-cf", arms=len(means[0]), corruption=problem.corruption, window=50)
    for which in (policy, "klucb-cf"):
        result = simulate(problem, which, runs=3)
        assert np.all(np.isfinite(result.regret))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"runs": 0}, "runs"),
        ({"runs": 1.5}, "runs"),
        ({"threads": -1}, "threads"),
        ({"checkpoints": 0}, "checkpoints"),
        ({"checkpoints": [0, 5]}, "checkpoints"),
        ({"checkpoints": [5, 5]}, "checkpoints"),
        ({"checkpoints": [1, 3001]}, "checkpoints"),
        ({"checkpoints": [None]}, "checkpoints"),
        ({"checkpoints": [["a"], [1, 2]]}, "checkpoints"),
        ({"problem": [[0.1, 0.2]]}, "problem = .*Problem"),
        ({"policy": "sw-klucb-cf"}, "window"),
        ({"policy": make_policy("klucb", arms=2)}, "2 arms"),
    ],
)
def test_misfits_are_refused_in_one_line(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        simulate(**{"problem": PROBLEM, "policy": "klucb-cf", "runs": 1, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("threads", [1, 2])
def test_progress_reaches_the_end(threads: int) -> None:
    seen: list[tuple[int, int]] = []
    simulate(PROBLEM, "klucb-cf", runs=3, threads=threads, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (9000, 9000)


def test_one_thread_is_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maskedbandits.simulation.runs.PROGRESS_INTERVAL_S", 0.0)
    asking = threading.get_ident()
    seen: list[tuple[int, bool]] = []
    report = lambda done, total: seen.append((done, threading.get_ident() == asking))  # noqa: E731
    simulate(PROBLEM, "klucb-cf", runs=3, threads=1, progress=report)
    assert seen[0] == (3000, True)  # reported before the end, too


def test_kernel_seconds_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr("maskedbandits.simulation.runs.time.thread_time", lambda: next(clock))
    for threads in (1, 2):
        assert simulate(PROBLEM, "klucb-cf", runs=4, threads=threads).kernel_seconds >= 4.0


def test_interrupt_stops_simulation() -> None:
    script = (
        "import maskedbandits as mb\n"
        "rr = mb.RandomizedResponse.from_epsilon(1.0)\n"
        "problem = mb.Problem([[0.9, 0.8]], [0], 10**12, rr)\n"
        "policy = mb.make_policy('uniform', arms=2)\n"
        "mb.simulate(problem, policy, runs=2, progress=lambda a, b: print(a, flush=True))\n"
    )
    with child([sys.executable, "-c", script]) as run:
        assert run.stdout is not None
        assert run.stdout.readline()  # it is playing
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=LONGEST)
    assert "KeyboardInterrupt" in errors


@pytest.mark.slow  # test_digests.py plays every policy without the compiler in any case
def test_kernels_pass_their_tests_uncompiled() -> None:
    """Interpreted code raises an error where compiled code reads out of bounds; so run some tests uncompiled."""
    tests = Path(__file__).parents[1]
    environment = {"NUMBA_DISABLE_JIT": "1", "HYPOTHESIS_PROFILE": "few"}
    wanted = {f"test_{name}.py" for name in ("kl", "corruption", "indices", "report_masks")}
    files = sorted(str(file) for file in tests.rglob("test_*.py") if file.name in wanted)
    assert len(files) == len(wanted)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    done = finished(command, environment=environment, folder=tests.parent)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_simulation_is_the_same_uncompiled() -> None:
    script = (
        "import maskedbandits as mb, sys\n"
        "rr = [mb.RandomizedResponse(0.8, 0.9), mb.RandomizedResponse(0.2, 0.3)]\n"
        "problem = mb.Problem([[0.6, 0.5], [0.4, 0.5]], [0, 300], 600, rr)\n"
        "policy = mb.make_policy('sw-klucb-cf', arms=2, corruption=rr, window=80)\n"
        "result = mb.simulate(problem, policy, runs=2, seed=3)\n"
        "print(result.regret.tolist(), result.pulls.tolist())\n"
    )
    runs = [finished([sys.executable, "-c", script], environment={"NUMBA_DISABLE_JIT": off}) for off in ("0", "1")]
    assert [run.returncode for run in runs] == [0, 0]
    assert runs[0].stdout == runs[1].stdout
    assert len(runs[0].stdout) > 100
