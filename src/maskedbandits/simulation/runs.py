"""The runs of a compiled policy: their world, their results and their progress.

Runs are independent and the compiled loop releases the interpreter's lock, so threads play them in parallel. With one
thread they are played in the calling thread.
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
from maskedbandits.policies.index.report_masks import add_mask_sums
from maskedbandits.policies.kernels import NONE_YET, Tally, World, advance
from maskedbandits.problems import ContextualProblem, FeaturedProblem, Log, Problem
from maskedbandits.simulation.delays import Delay
from maskedbandits.simulation.kernels import (
    NO_SEGMENTS,
    NO_WORDS,
    Chance,
    Recorded,
    advance_late,
    advance_log,
    advance_noisy,
    describe_feedback,
    share_words,
)
from maskedbandits.simulation.results import Simulation
from maskedbandits.simulation.world_kernels import advance_apart, advance_population, describe_people

STEPS_PER_CALL = 1 << 18  # between two checks for a stop; some hundredths of a second
# Cached bounds of a long run: they fit the processor's cache, and nearly all lookups hit.
MAX_MEMO_ENTRIES = 1 << 16
MAX_SEEDED_RUNS = 64  # seeded before the first is played; in a row this takes a third of the time
WORLD = (1 << 32) - 1  # the part of a run's seed for the world of paired policies; groups have the first numbers
PROGRESS_INTERVAL_S = 0.1  # between two reports of progress


@dataclass(frozen=True, eq=False)
class Order:
    """A checked request for runs."""

    problem: Problem | ContextualProblem | FeaturedProblem
    runs: int
    seed: int
    times: NDArray[np.int64]
    delay: Delay | None = None
    first_run: int = 0
    policy: str = ""  # its name in results
    paired: bool = False  # whether arms have random numbers of their own
    traced: bool = False  # whether to record the pulls over time and the switches of each run

    @property
    def steps(self) -> int:
        """Total number of steps."""
        return self.runs * self.problem.horizon

    @property
    def tables(self) -> int:
        """Number of tables of pulls over time that results of many runs take, beyond one for each thread."""
        return self.runs if self.traced else 0

    def spawn_world(self, run: int) -> list[np.random.SeedSequence]:
        """Return the seed of each arm in a run of paired policies; a log has one for its rows."""
        sequences = 1 if isinstance(self.problem, Log) else self.problem.arms
        return [self.spawn_seed(run, WORLD, sequence) for sequence in range(sequences)]

    def spawn_seed(self, run: int, *within: int) -> np.random.SeedSequence:
        """Return the seed of a run, or of a part of it."""
        return np.random.SeedSequence(self.seed, spawn_key=(self.first_run + run, *within))


def check_result_size(numbers: int) -> None:
    """Refuse results that do not fit into memory."""
    if numbers > 1 << 33:
        raise UserError(f"the results would take {numbers >> 27} GiB: ask for fewer runs or checkpoints")


class Runs(ABC):
    """The runs of one simulation: their results and their progress."""

    def __init__(self, order: Order, workers: int) -> None:
        problem, runs, arms, checkpoints = order.problem, order.runs, order.problem.columns, order.times.size
        self.order, self.workers = order, workers
        self.times, self.horizon = order.times, problem.horizon
        groups = problem.groups if isinstance(problem, ContextualProblem) else 0
        tables = max(workers, order.tables)
        check_result_size(runs * (checkpoints * (groups + 1) + 2 * arms + 3) + tables * checkpoints * arms)
        self.group_regret = np.zeros((runs, checkpoints, groups))
        self.regret = np.zeros((runs, checkpoints))
        self.pulls = np.zeros((runs, arms), dtype=np.int64)
        self.suboptimal_pulls = np.zeros((runs, arms), dtype=np.int64)
        self.pulls_over_time = np.zeros((tables, checkpoints, arms), dtype=np.int64)  # for each thread, or each run
        self.switches = np.full((runs, 2), NONE_YET)  # and the last arm
        self.done = np.zeros(runs, dtype=np.int64)
        self.kernel_seconds = [0.0] * workers
        self.stop = threading.Event()

    def play(self, progress: Progress | bool | None) -> Simulation:
        """Play all runs and return the results."""
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
        traces = (self.pulls_over_time[: self.order.runs], self.switches[:, 0]) if self.order.traced else (None, None)
        if isinstance(self.order.problem, ContextualProblem):
            shape, lost = (self.order.problem.groups, self.order.problem.arms), self.group_regret
            pulls, suboptimal, over_time = (
                each.reshape(*each.shape[:-1], *shape) for each in (pulls, suboptimal, over_time)
            )
        return Simulation(
            self.times, self.regret, pulls, suboptimal, over_time, seconds, spent, lost, self.order.policy, *traces
        )

    def _play_here(self, show: Progress) -> None:
        """Play all runs in this thread: starting another takes as long as a short run."""
        reported = time.perf_counter()

        def look() -> None:
            nonlocal reported
            if time.perf_counter() - reported > PROGRESS_INTERVAL_S:
                show(int(self.done.sum()), self.order.steps)
                reported = time.perf_counter()

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
        """Play the runs of one worker."""
        for run in range(worker, self.order.runs, self.workers):
            self._play_one(run, worker, look)

    def make_tally(self, run: int, worker: int) -> Tally:
        """Return the counters of a run for this worker."""
        arms = self.pulls.shape[1]
        return Tally(
            position=np.zeros(3, dtype=np.int64),
            regret=self.regret[run],
            total=np.zeros(1),
            pulls=self.pulls[run],
            suboptimal_pulls=self.suboptimal_pulls[run],
            recent=np.zeros(arms, dtype=np.int64),
            pulls_over_time=self.pulls_over_time[run if self.order.traced else worker],
            switches=self.switches[run],
        )

    @abstractmethod
    def _play_one(self, run: int, worker: int, look: Callable[[], None]) -> None:
        """Play one run."""

    def _advance(self, run: int, worker: int, look: Callable[[], None], advance: Callable[[int], None]) -> None:
        """Play a run, and check now and then whether to stop."""
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
        assert not isinstance(problem, FeaturedProblem)  # noqa: S101 -- FeaturedBatch plays those
        self.log: Recorded | None = None
        if isinstance(problem, Log) and isinstance(policy, Policy):
            policy, segments = policy.for_log(problem.rows_per_play)
            self.log = Recorded(problem.chosen.copy(), segments, NO_WORDS, np.array([int(order.paired)]))
        self.segments = NO_SEGMENTS
        if order.delay is not None and order.delay.lost > 0.0 and isinstance(policy, Policy):
            policy, self.segments = policy.for_log(1.0)  # plans count decisions, not reports
        self.policy = policy
        # Questions to groups mask their answers themselves.
        self.sees_rewards = policy.kind.sees_rewards or isinstance(policy, Contextual)
        self.people = problem.population if isinstance(problem, Problem) else None
        self.world = World(*problem.rows(masked=not (self.sees_rewards or self.people)))
        # Policies without a sigma see rewards or nothing, so no noise.
        self.is_noisy = isinstance(problem, Problem) and problem.is_noisy and policy.sigma is not None

    @property
    def kernel(self) -> Any:
        """The compiled loop for this kind of world."""
        if isinstance(self.order.problem, ContextualProblem):
            return advance_groups
        if self.log is not None:
            return advance_log
        if self.people is not None:
            return advance_population
        if self.is_noisy:
            return advance_noisy
        if self.order.delay is not None:
            return advance_late
        return advance_apart if self.order.paired or self.order.traced else advance

    def compile(self) -> None:
        """Compile the simulator, or load it."""
        arguments = (self.world, self.times, self.make_tally(0, 0), 0, *self.list_arguments())
        self.policy.entries.refuse_if_changed()
        key = (self.policy.entries, self.kernel, _describe_types(arguments))
        if key not in _READY:
            _READY[key] = self.policy.entries.compile_simulator(self.kernel, *arguments)
        self.start, self.advance = _READY[key]

    def get_ready(self) -> None:
        """Build everything that playing needs."""
        self.compile()
        # The memo only pays once it is warm, so a short run gets a small one, which is quickly cleared.
        memo = 1 << int(min(max(self.horizon // 8, 1 << 6), MAX_MEMO_ENTRIES)).bit_length() - 1
        self.states = [self._make_state(memo) for _ in range(self.workers)]
        self.words = [
            rng.seed_words(self.order.spawn_seed(run)) for run in range(min(self.order.runs, MAX_SEEDED_RUNS))
        ]

    def _make_state(self, memo: int) -> Any:
        """Return the initial state of a policy."""
        late = self.order.delay
        if isinstance(self.policy, Policy) and late is not None:
            return self.policy.for_simulation(self.horizon, memo, late.expire_after)
        state = self.policy.for_simulation(self.horizon, memo)
        return add_mask_sums(state) if self.sees_masks and self.policy.kind.on_axes else state

    @property
    def sees_masks(self) -> bool:
        """Whether the policy takes the mask of each report, and people have their own."""
        kind = self.policy.kind
        return self.people is not None and kind.takes_masks and kind.sees_corruption and not self.sees_rewards

    def build_chance(self, run: int, words: rng.Words) -> Chance:
        """Return the random numbers of the world: a sequence for each arm, or these words."""
        if not self.order.paired:
            return share_words(words, self.order.problem.arms)
        rows = [rng.seed_words(seed) for seed in self.order.spawn_world(run)]
        return Chance(np.array(rows), np.arange(len(rows)))

    def list_arguments(self, run: int = 0, words: rng.Words = NO_WORDS) -> tuple[Any, ...]:
        """Return the arguments of the loop after its world, for a policy with these random numbers."""
        problem, policy = self.order.problem, self.policy
        if isinstance(problem, ContextualProblem):
            ungrouped = one_for_all(problem.shares, problem.arms)
            levels = policy.fresh_levels() if isinstance(policy, Contextual) else ungrouped
            table, lost = np.zeros(levels.feedbacks.size, dtype=np.int64), np.zeros(problem.groups)
            return Groups(np.cumsum(problem.shares), table, lost, self.group_regret[run]), levels
        if self.log is not None:
            return (self.log._replace(words=self.build_chance(run, words).words[0]),)
        assert isinstance(problem, Problem)  # noqa: S101 -- FeaturedBatch plays the others
        chance = self.build_chance(run, words)
        if self.people is not None:
            assert isinstance(policy, Policy)  # noqa: S101 -- a population is no problem with groups
            honest, is_masked = 1.0 - policy.contamination, not self.sees_rewards
            return (
                describe_people(self.people, chance, honest=honest, sees_masks=self.sees_masks, is_masked=is_masked),
            )
        if self.is_noisy:
            return (describe_feedback(problem.law, problem.corruption, words, chance if self.order.paired else None),)
        if self.order.delay is not None:
            return (self.order.delay.make_mail(self.horizon, self.segments, chance),)
        return (chance,) if self.order.paired or self.order.traced else ()

    def _play_one(self, run: int, worker: int, look: Callable[[], None]) -> None:
        """Play one run."""
        state, tally = self.states[worker], self.make_tally(run, worker)
        more = self.list_arguments(run, state.rng)
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
        """Compile the simulator, or load it; no step is played."""
        features.advance(self.policy.for_simulation(), self._make_world(), self.times, self.make_tally(0, 0), 0)

    def _make_world(self) -> features.FeaturedWorld:
        problem, mask = self.problem, self.problem.corruption
        starts, drawn = np.append(problem.starts, problem.horizon), np.zeros(problem.features)
        return features.FeaturedWorld(starts, problem.weights.copy(), mask.p00, mask.p11, drawn)

    def _play_one(self, run: int, worker: int, look: Callable[[], None]) -> None:
        """Play one run."""
        state, world, tally = self.policy.for_simulation(), self._make_world(), self.make_tally(run, worker)
        state.rng[:] = rng.seed_words(self.order.spawn_seed(run))
        self._advance(run, worker, look, lambda until: features.advance(state, world, self.times, tally, until))


_READY: dict[Any, tuple[Callable[[Any], None], Callable[..., None]]] = {}  # by policy, loop and types of arguments


def _describe_types(value: Any) -> Any:
    """Return the types that machine code depends on; this is faster than asking the compiler."""
    if isinstance(value, np.ndarray):
        return value.dtype.char, value.ndim, value.flags.num
    return (type(value), *map(_describe_types, value)) if isinstance(value, tuple) else type(value)
