"""The runs of a compiled policy: their world, what is counted of them, and how far they are.

Runs are independent and the compiled loop holds no lock, so threads play them side by side; where one thread is asked
for it is the one that asks.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.state import select_state
from maskedbandits._util.progress import Progress, show_progress
from maskedbandits.contextual import Contextual, one_for_all
from maskedbandits.errors import UserError
from maskedbandits.features import Featured
from maskedbandits.features import kernels as features
from maskedbandits.math import rng
from maskedbandits.policies import Policy
from maskedbandits.policies.groups import Groups, advance_groups
from maskedbandits.policies.kernels import Tally, World, advance
from maskedbandits.problems import ContextualProblem, FeaturedProblem, Log, Problem
from maskedbandits.simulation.delays import Delay
from maskedbandits.simulation.kernels import (
    NO_SEGMENTS,
    Recorded,
    advance_late,
    advance_log,
    advance_noisy,
    describe_feedback,
)

STEPS_PER_CALL = 1 << 18  # steps between two looks at whether to stop: some hundredths of a second
# Bounds remembered by a long run: they fit the processor's cache, and nearly all that are asked for are there.
MAX_MEMO_ENTRIES = 1 << 16
MAX_SEEDED_RUNS = 64  # runs that are seeded before the first is played: in a row that takes a third of the time
PROGRESS_INTERVAL_S = 0.1  # seconds between two words about how far it is


@dataclass(frozen=True, eq=False)
class Simulation:
    """What came out, run by run."""

    times: NDArray[np.int64]  # (C,) steps played at each checkpoint; of a log, rows read
    regret: NDArray[np.float64]  # (runs, C) cumulative pseudo-regret
    pulls: NDArray[np.int64]  # (runs, K)
    suboptimal_pulls: NDArray[np.int64]  # (runs, K) pulls of an arm while another was better
    pulls_over_time: NDArray[np.int64]  # (C, K) pulls up to each checkpoint, of all runs together
    seconds: float
    kernel_seconds: float = 0.0  # of CPU that the steps themselves took, of all threads together
    group_regret: NDArray[np.float64] | None = None  # (runs, C, G) of a problem with groups; then pulls are (.., G, K)


@dataclass(frozen=True, eq=False)
class Order:
    """What is to be played, checked."""

    problem: Problem | ContextualProblem | FeaturedProblem
    runs: int
    seed: int
    times: NDArray[np.int64]
    delay: Delay | None = None
    first_run: int = 0

    @property
    def steps(self) -> int:
        """Steps in all."""
        return self.runs * self.problem.horizon

    def spawn_seed(self, run: int, *within: int) -> np.random.SeedSequence:
        """Return the seed of a run, or of something within it."""
        return np.random.SeedSequence(self.seed, spawn_key=(self.first_run + run, *within))


def check_result_size(numbers: int) -> None:
    """Refuse results that no machine could hold, rather than let the machine choke on them."""
    if numbers > 1 << 33:
        raise UserError(f"the results would take {numbers >> 27} GiB: ask for fewer runs or checkpoints")


class Runs(ABC):
    """The runs of one simulation: their results, and how far they are."""

    def __init__(self, order: Order, workers: int) -> None:
        problem, runs, arms, checkpoints = order.problem, order.runs, order.problem.columns, order.times.size
        self.order, self.workers = order, workers
        self.times, self.horizon = order.times, problem.horizon
        groups = problem.groups if isinstance(problem, ContextualProblem) else 0
        check_result_size(runs * (checkpoints * (groups + 1) + 2 * arms + 1) + workers * checkpoints * arms)
        self.group_regret = np.zeros((runs, checkpoints, groups))
        self.regret = np.zeros((runs, checkpoints))
        self.pulls = np.zeros((runs, arms), dtype=np.int64)
        self.suboptimal_pulls = np.zeros((runs, arms), dtype=np.int64)
        self.pulls_over_time = np.zeros((workers, checkpoints, arms), dtype=np.int64)  # threads do not meet
        self.done = np.zeros(runs, dtype=np.int64)
        self.kernel_seconds = [0.0] * workers
        self.stop = threading.Event()

    def play(self, progress: Progress | bool | None) -> Simulation:
        """Play all runs and return what came out."""
        started = time.perf_counter()
        with show_progress(progress) as show:
            if self.workers == 1:
                self._play_here(show)
            else:
                self._play_in_threads(show)
        seconds = time.perf_counter() - started
        over_time = self.pulls_over_time.sum(axis=0)
        spent = sum(self.kernel_seconds)
        pulls, suboptimal, lost = self.pulls, self.suboptimal_pulls, None
        if isinstance(self.order.problem, ContextualProblem):
            shape, lost = (self.order.problem.groups, self.order.problem.arms), self.group_regret
            pulls, suboptimal, over_time = (
                each.reshape(*each.shape[:-1], *shape) for each in (pulls, suboptimal, over_time)
            )
        return Simulation(self.times, self.regret, pulls, suboptimal, over_time, seconds, spent, lost)

    def _play_here(self, show: Progress) -> None:
        """Play all runs in this thread: another takes as long to start as a short run."""
        told = time.perf_counter()

        def look() -> None:
            nonlocal told
            if time.perf_counter() - told > PROGRESS_INTERVAL_S:
                show(int(self.done.sum()), self.order.steps)
                told = time.perf_counter()

        self._play_every(0, look)
        show(self.order.steps, self.order.steps)

    def _play_in_threads(self, show: Progress) -> None:
        """Play all runs in threads; an interrupt stops them within some hundredths of a second."""
        with ThreadPoolExecutor(self.workers) as pool:
            pending: set[Future[None]] = {
                pool.submit(self._play_every, worker, lambda: None) for worker in range(self.workers)
            }
            try:
                while pending:
                    finished, pending = wait(pending, timeout=PROGRESS_INTERVAL_S, return_when=FIRST_EXCEPTION)
                    for future in finished:
                        future.result()
                    show(int(self.done.sum()), self.order.steps)
            finally:
                self.stop.set()

    def _play_every(self, worker: int, look: Callable[[], None]) -> None:
        for run in range(worker, self.order.runs, self.workers):
            self._play_one(run, worker, look)

    def tally(self, run: int, worker: int) -> Tally:
        """Return what is counted of a run that this worker plays."""
        arms = self.pulls.shape[1]
        return Tally(
            position=np.zeros(3, dtype=np.int64),
            regret=self.regret[run],
            total=np.zeros(1),
            pulls=self.pulls[run],
            suboptimal_pulls=self.suboptimal_pulls[run],
            recent=np.zeros(arms, dtype=np.int64),
            pulls_over_time=self.pulls_over_time[worker],
        )

    @abstractmethod
    def _play_one(self, run: int, worker: int, look: Callable[[], None]) -> None:
        """Play one run."""

    def _advance(self, run: int, worker: int, look: Callable[[], None], advance: Callable[[int], None]) -> None:
        """Play a run on, with a pause now and then to see whether to stop."""
        for pause in range(0, self.horizon + 1, STEPS_PER_CALL):
            if self.stop.is_set():
                return
            until = min(pause + STEPS_PER_CALL, self.horizon)
            before = time.thread_time()
            advance(until)
            self.kernel_seconds[worker] += time.thread_time() - before
            self.done[run] = until
            look()


class Batch(Runs):
    """The runs of a policy, and their world."""

    def __init__(self, order: Order, policy: Policy | Contextual, workers: int) -> None:
        super().__init__(order, workers)
        problem = order.problem
        assert not isinstance(problem, FeaturedProblem)  # noqa: S101 -- whose runs are FeaturedBatch
        self.log: Recorded | None = None
        if isinstance(problem, Log) and isinstance(policy, Policy):
            policy, segments = policy.for_log(problem.rows_per_play)
            self.log = Recorded(problem.chosen.copy(), segments)
        self.segments = NO_SEGMENTS
        if order.delay is not None and order.delay.lost > 0.0 and isinstance(policy, Policy):
            policy, self.segments = policy.for_log(1.0)  # its plan goes by decisions, not by the reports that arrive
        self.policy = policy
        # questions mask by themselves
        self.world = World(*problem.rows(masked=not (policy.kind.sees_rewards or isinstance(policy, Contextual))))
        # what learns from nothing, or from rewards, sees no noise
        self.feedback = None
        if isinstance(problem, Problem) and problem.is_noisy and policy.sigma is not None:
            self.feedback = describe_feedback(problem.law, problem.corruption)

    @property
    def kernel(self) -> Any:
        """The loop that plays such a world."""
        if isinstance(self.order.problem, ContextualProblem):
            return advance_groups
        if self.log is not None:
            return advance_log
        if self.feedback is not None:
            return advance_noisy
        return advance if self.order.delay is None else advance_late

    def compile(self) -> None:
        """Compile, or load what is compiled."""
        arguments = (self.world, self.times, self.tally(0, 0), 0, *self.more())
        self.policy.entries.refuse_if_changed()
        key = (self.policy.entries, self.kernel, _describe_types(arguments))
        if key not in _READY:
            _READY[key] = self.policy.entries.compile_simulator(self.kernel, *arguments)
        self.start, self.advance = _READY[key]

    def get_ready(self) -> None:
        """Make everything that playing needs."""
        self.compile()
        # The memo only pays once it is warm: a short run gets a small one, which is quickly cleared.
        memo = 1 << int(min(max(self.horizon // 8, 1 << 6), MAX_MEMO_ENTRIES)).bit_length() - 1
        self.states = [self._fresh(memo) for _ in range(self.workers)]
        self.words = [
            rng.seed_words(self.order.spawn_seed(run)) for run in range(min(self.order.runs, MAX_SEEDED_RUNS))
        ]

    def _fresh(self, memo: int) -> Any:
        """Return the state of a fresh policy."""
        late = self.order.delay
        if isinstance(self.policy, Policy) and late is not None:
            return self.policy.for_simulation(self.horizon, memo, late.expire_after)
        return self.policy.for_simulation(self.horizon, memo)

    def more(self, run: int = 0) -> tuple[Any, ...]:
        """Return what a run is played with beside its world."""
        problem, policy = self.order.problem, self.policy
        if isinstance(problem, ContextualProblem):
            everybody = one_for_all(problem.shares, problem.arms)
            grains = policy.fresh_grains() if isinstance(policy, Contextual) else everybody
            table, lost = np.zeros(grains.feedbacks.size, dtype=np.int64), np.zeros(problem.groups)
            return Groups(np.cumsum(problem.shares), table, lost, self.group_regret[run]), grains
        if self.log is not None:
            return (self.log,)
        if self.feedback is not None:
            return (self.feedback,)
        return () if self.order.delay is None else (self.order.delay.make_mail(self.horizon, self.segments),)

    def _play_one(self, run: int, worker: int, look: Callable[[], None]) -> None:
        """Play one run."""
        state, tally, more = self.states[worker], self.tally(run, worker), self.more(run)
        state.rng[:] = self.words[run] if run < len(self.words) else rng.seed_words(self.order.spawn_seed(run))
        for group in range(1, state.scalars.size):
            select_state(state, group).rng[:] = rng.seed_words(self.order.spawn_seed(run, group))
        self.start(state)
        advance, world, times = self.advance, self.world, self.times
        self._advance(run, worker, look, lambda until: advance(state, world, times, tally, until, *more))


class FeaturedBatch(Runs):
    """The runs of a policy over features."""

    def __init__(self, order: Order, problem: FeaturedProblem, policy: Featured, workers: int) -> None:
        super().__init__(order, workers)
        self.problem, self.policy = problem, policy

    def get_ready(self) -> None:
        """Compile, or load what is compiled: no step is played."""
        features.advance(self.policy.for_simulation(), self._world(), self.times, self.tally(0, 0), 0)

    def _world(self) -> features.FeaturedWorld:
        problem, mask = self.problem, self.problem.corruption
        starts, drawn = np.append(problem.starts, problem.horizon), np.zeros(problem.features)
        return features.FeaturedWorld(starts, problem.weights.copy(), mask.p00, mask.p11, drawn)

    def _play_one(self, run: int, worker: int, look: Callable[[], None]) -> None:
        """Play one run."""
        state, world, tally = self.policy.for_simulation(), self._world(), self.tally(run, worker)
        state.rng[:] = rng.seed_words(self.order.spawn_seed(run))
        self._advance(run, worker, look, lambda until: features.advance(state, world, self.times, tally, until))


_READY: dict[Any, tuple[Callable[[Any], None], Callable[..., None]]] = {}  # by policy, loop and what it is given


def _describe_types(value: Any) -> Any:
    """Return what machine code depends on: kinds of arrays, not their contents; the compiler takes longer to tell."""
    if isinstance(value, np.ndarray):
        return value.dtype.char, value.ndim, value.flags.num
    return (type(value), *map(_describe_types, value)) if isinstance(value, tuple) else type(value)
