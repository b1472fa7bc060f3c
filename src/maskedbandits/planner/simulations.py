"""Plays the worlds of a question in threads; an interrupt stops them within some tenths of a second."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from maskedbandits.planner import statistics
from maskedbandits.planner.inputs import Question
from maskedbandits.policies import Policy
from maskedbandits.problems import Problem
from maskedbandits.simulation.simulator import cores, simulate

Setting = tuple[float, int]  # an epsilon and an audience
Steps = Callable[[int], None]  # is told how many steps are done


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came out of all worlds at one epsilon and audience."""

    losses: NDArray[np.float64]  # (worlds,) successes lost against the best choice
    settled: tuple[float, ...]  # how long it took after each change of each world, or infinity


class _Stopped(Exception):  # noqa: N818 -- not an error: somebody has pressed Ctrl-C
    """Ends a world that nobody waits for any more."""


def play(question: Question, settings: Sequence[Setting], threads: int | None, show: Steps) -> list[Outcome]:
    """Play every world once at each setting; the numbers do not depend on the threads."""
    stop = threading.Event()
    worlds = [question.worlds_of(audience) for _, audience in settings]
    done = np.zeros((len(settings), max(worlds, default=0)), dtype=np.int64)
    policies = [question.made_policy(*setting) for setting in settings]

    def play_one(place: int, world: int) -> tuple[float, list[float]]:
        def note(steps: int, total: int) -> None:
            if stop.is_set():
                raise _Stopped
            done[place, world] = steps

        if stop.is_set():
            raise _Stopped
        return _played(question, policies[place], settings[place], world, note)

    with ThreadPoolExecutor(threads or cores()) as pool:
        rows = [[pool.submit(play_one, place, world) for world in range(many)] for place, many in enumerate(worlds)]
        try:
            _await([future for row in rows for future in row], lambda: show(int(done.sum())))
        finally:
            stop.set()
    return [_together([future.result() for future in row]) for row in rows]


def _await(futures: Sequence[Future[tuple[float, list[float]]]], look: Callable[[], None]) -> None:
    """Wait for all worlds, and look how far they are from time to time."""
    pending = set(futures)
    while pending:
        finished, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
        for future in finished:
            future.result()
        look()


def _together(worlds: Sequence[tuple[float, list[float]]]) -> Outcome:
    losses = np.array([loss for loss, _ in worlds])
    return Outcome(losses, tuple(time for _, times in worlds for time in times))


def _played(
    question: Question, policy: Policy, setting: Setting, world: int, note: Callable[[int, int], None]
) -> tuple[float, list[float]]:
    """Play one world once; return what was lost, and how long it took after each change."""
    epsilon, horizon = setting
    problem = question.world(world, epsilon, horizon)
    marks = _marks(problem)
    times = np.setdiff1d(np.concatenate([*marks, [horizon]]), [0])
    seed = question.seeds(world)[1]
    result = simulate(problem, policy, runs=1, seed=seed, checkpoints=times, threads=1, progress=note)
    times, regret = np.insert(times, 0, 0), np.insert(result.regret[0], 0, 0.0)
    stretch = statistics.stretch_of(horizon, problem.segments)
    settled = [statistics.settled_after(regret[np.searchsorted(times, each)], question.gap, stretch) for each in marks]
    return float(result.regret[0, -1]), settled


def _marks(problem: Problem) -> list[NDArray[np.int64]]:
    """Return where traffic is looked at: in every segment that a change begins, or in the only one there is."""
    ends = np.append(problem.starts, problem.horizon).tolist()
    segments = list(pairwise(ends))
    stretch = statistics.stretch_of(problem.horizon, problem.segments)
    return [statistics.marks_of(start, end, stretch) for start, end in segments[1:] or segments]
