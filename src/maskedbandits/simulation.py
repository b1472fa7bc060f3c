"""Simulation: play a policy on a problem many times over, in threads, and count regret and pulls."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import arrays, extras, outside
from maskedbandits.errors import UserError, WrongValueError, number, shown, whole
from maskedbandits.maths import lots
from maskedbandits.outside import Factory
from maskedbandits.policies import Policy, kind_of, make_policy
from maskedbandits.policies.late import Mail, advance_late, mail
from maskedbandits.policies.logs import advance_log
from maskedbandits.policies.noisy import advance_noisy, feedback
from maskedbandits.policies.play import Tally, World, advance
from maskedbandits.problems import Gaussian, Log, Problem

PAUSE = 1 << 18  # steps between two looks at whether to stop: some hundredths of a second
MEMO = (
    1 << 16
)  # bounds remembered by a long run: they fit the processor's cache, and nearly all that are asked for are there
PATIENCE = 2.0  # seconds without a progress bar

Progress = Callable[[int, int], None]
Delays = int | Sequence[int] | tuple[str, float] | None
LONGEST = 1 << 40  # steps that a report may take


@dataclass(frozen=True, eq=False)
class Simulation:
    """What came out, run by run."""

    times: NDArray[np.int64]  # (C,) steps played at each checkpoint
    regret: NDArray[np.float64]  # (runs, C) cumulative pseudo-regret
    pulls: NDArray[np.int64]  # (runs, K)
    suboptimal_pulls: NDArray[np.int64]  # (runs, K) pulls of an arm while another was better
    pulls_over_time: NDArray[np.int64]  # (C, K) pulls up to each checkpoint, of all runs together
    seconds: float


def simulate(
    problem: Problem,
    policy: Policy | str | Factory,
    runs: int = 100,
    seed: int = 0,
    checkpoints: int | ArrayLike = 100,
    *,
    delay: Delays = None,
    first_run: int = 0,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Simulation:
    """Play a fresh copy of the policy on the problem, ``runs`` times, independently.

    A policy is one of ours, or its name; or a function that makes one of your own, any object with ``choose()`` and
    ``observe(arm, feedback)``, from a generator of random numbers (``outside.py``), played in plain Python.

    The same seed gives the same numbers on any number of threads; with ``first_run``, those of the runs from there on,
    so that the runs of one seed can be shared out. ``checkpoints`` are times at which the regret is
    noted, or how many evenly spaced ones. ``progress`` is called with steps done and steps in all; by default a bar is
    drawn if a person is watching.

    ``delay`` lets reports come late: so many steps after the decision, or a number of steps drawn anew for every
    decision from a list, or ``("geometric", 200)`` for a geometric number of that mean. With 0 a report is there before
    the next decision. Reports that would come after the horizon never do.
    """
    if not isinstance(problem, Problem):
        raise WrongValueError("problem", problem, "a Problem")
    if isinstance(problem, Log) and delay is not None:
        raise UserError("delay: a log is replayed without; leave it out, or replay rounds whose outcomes are all known")
    if problem.is_noisy and delay is not None:
        raise UserError("delay: under noise reports come at once; leave it out, or take a RandomizedResponse")
    if isinstance(policy, str):
        policy = make_policy(policy, arms=problem.arms, corruption=problem.corruption, **_told(policy, problem))
    if not isinstance(policy, Policy) and outside.is_factory(policy):
        return _played_outside(problem, policy, runs, seed, checkpoints, delay, first_run, progress)
    if type(policy) is not Policy:
        raise UserError(
            f"simulate was given {shown(policy)}: give a policy of make_policy, a name, or a function that makes a "
            "policy of your own, a fresh one for every run"
        )
    if policy.arms != problem.arms:
        raise UserError(f"the policy has {policy.arms} arms and the problem {problem.arms}: make one to fit")
    _refuse_what_it_cannot_see(policy, problem)
    runs = whole("runs", runs)
    workers = min(whole("threads", cores() if threads is None else threads), runs)
    times = _checked_times(checkpoints, problem.horizon)
    batch = _Batch(
        problem,
        policy,
        runs,
        whole("seed", seed, 0),
        times,
        workers,
        _checked_delay(delay),
        whole("first_run", first_run, 0),
    )
    batch.get_ready()  # off the clock
    started = time.perf_counter()
    with _shown(progress) as show:
        batch.play(show)
    return Simulation(
        times=batch.times,
        regret=batch.regret,
        pulls=batch.pulls,
        suboptimal_pulls=batch.suboptimal_pulls,
        pulls_over_time=batch.pulls_over_time.sum(axis=0),
        seconds=time.perf_counter() - started,
    )


def _told(name: str, problem: Problem) -> dict[str, Any]:
    """Return what a policy has to know of a problem whose feedback is no bits: how far it strays."""
    known = problem.spread
    return {} if known is None or "sigma" not in kind_of(name).parameters else {"sigma": known.sigma}


def _refuse_what_it_cannot_see(policy: Policy, problem: Problem) -> None:
    """Refuse a policy that expects bits where there are none."""
    if policy.kind.sees_rewards and isinstance(problem.law, Gaussian):
        raise UserError(
            f"{policy.name} is shown rewards in [0, 1], and {problem.law} gives any number: take one that sees reports"
        )
    if problem.is_noisy and policy.kind.learns_from not in ("nothing", "rewards") and policy.sigma is None:
        raise UserError(
            f"the policy expects feedback in [0, 1], and the problem adds noise: make {policy.name} with its corruption"
        )


def _played_outside(
    problem: Problem,
    factory: Factory,
    runs: int,
    seed: int,
    checkpoints: int | ArrayLike,
    delay: Delays,
    first_run: int,
    progress: Progress | bool | None,
) -> Simulation:
    """Play policies of somebody's own, one run after the other."""
    runs, seed, first = whole("runs", runs), whole("seed", seed, 0), whole("first_run", first_run, 0)
    times, late = _checked_times(checkpoints, problem.horizon), _checked_delay(delay)
    _refuse_too_much(runs * (times.size + 2 * problem.arms + 1))
    regret = np.zeros((runs, times.size))
    pulls, suboptimal = (np.zeros((runs, problem.arms), dtype=np.int64) for _ in range(2))
    over_time = np.zeros((times.size, problem.arms), dtype=np.int64)
    play = outside.Play(factory, problem, times)
    total = runs * problem.horizon
    started = time.perf_counter()
    with _shown(progress) as show:
        for run in range(runs):
            played = run * problem.horizon
            seeds = np.random.SeedSequence(seed, spawn_key=(first + run,))
            tell = partial(lambda before, step: show(before + step, total), played)
            play.run(
                seeds,
                late.draw if late else lambda world: 0,
                tell,
                (regret[run], pulls[run], suboptimal[run], over_time),
            )
    return Simulation(times, regret, pulls, suboptimal, over_time, time.perf_counter() - started)


def cores() -> int:
    """Return on how many cores this process may run."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked_times(checkpoints: int | ArrayLike, horizon: int) -> NDArray[np.int64]:
    if not hasattr(checkpoints, "__len__") or isinstance(checkpoints, str):
        count = min(whole("checkpoints", checkpoints), horizon)
        return np.arange(1, count + 1, dtype=np.int64) * horizon // count
    times = arrays.whole_numbers("checkpoints", checkpoints)
    if times.ndim != 1 or times.size < 1 or np.any(np.diff(times) <= 0):
        raise UserError("checkpoints: give a number of them, or whole numbers of steps, increasing")
    if times[0] < 1 or times[-1] > horizon:
        raise UserError(f"checkpoints {times[0]} to {times[-1]}: give times from 1 to the horizon {horizon}")
    return times


@dataclass(frozen=True, eq=False)
class _Delay:
    """How late reports come: as one of these numbers of steps, or geometrically with a mean."""

    steps: NDArray[np.int64]
    mean: float = 0.0

    def draw(self, generator: np.random.Generator) -> int:
        """Draw how late a report comes."""
        if self.steps.size:
            return int(generator.choice(self.steps))
        return int(generator.geometric(1.0 / (1.0 + self.mean))) - 1

    def mail(self, horizon: int) -> Mail:
        """Return an empty mail for such reports."""
        return mail(self.steps, self.mean, horizon)


def _checked_delay(delay: Delays) -> _Delay | None:
    if delay is None:
        return None
    if isinstance(delay, str) or (isinstance(delay, tuple) and delay and isinstance(delay[0], str)):
        if len(delay) != 2 or delay[0] != "geometric":
            raise UserError(f"delay = {delay!r}: give a number of steps, a list of them, or ('geometric', mean)")
        return _Delay(np.zeros(0, dtype=np.int64), number("the mean delay", delay[1], 0.0, 1e9, above=True))
    steps = [delay] if not isinstance(delay, Sequence | np.ndarray) else list(delay)
    if not steps:
        raise UserError("delay is an empty list: give numbers of steps")
    return _Delay(np.array([whole("delay", each, 0, LONGEST) for each in steps], dtype=np.int64))


def _refuse_too_much(numbers: int) -> None:
    """Refuse results that no machine could hold, rather than let the machine choke on them."""
    if numbers > 1 << 33:
        raise UserError(f"the results would take {numbers >> 27} GiB: ask for fewer runs or checkpoints")


class _Batch:
    """The runs of one simulation: their world, their results, and how far they are."""

    def __init__(
        self,
        problem: Problem,
        policy: Policy,
        runs: int,
        seed: int,
        times: NDArray[np.int64],
        workers: int,
        delay: "_Delay | None" = None,
        first_run: int = 0,
    ) -> None:
        self.delay = delay
        self.first_run = first_run
        self.world = World(*problem.rows(masked=not policy.kind.sees_rewards))
        self.chosen = problem.chosen.copy() if isinstance(problem, Log) else None
        # what learns from nothing, or from rewards, sees no noise
        self.feedback = (
            feedback(problem.law, problem.corruption) if problem.is_noisy and policy.sigma is not None else None
        )
        self.policy = policy
        self.horizon = problem.horizon
        self.times = times
        self.seed = seed
        self.runs = runs
        self.workers = workers
        _refuse_too_much(runs * (times.size + 2 * problem.arms + 1) + workers * times.size * problem.arms)
        self.regret = np.zeros((runs, times.size))
        self.pulls = np.zeros((runs, problem.arms), dtype=np.int64)
        self.suboptimal_pulls = np.zeros((runs, problem.arms), dtype=np.int64)
        self.pulls_over_time = np.zeros((workers, times.size, problem.arms), dtype=np.int64)  # threads do not meet
        self.done = np.zeros(runs, dtype=np.int64)
        self.stop = threading.Event()

    def play(self, show: Progress) -> None:
        """Play all runs in threads; an interrupt stops them within some hundredths of a second."""
        total = self.runs * self.horizon
        with ThreadPoolExecutor(self.workers) as pool:
            pending: set[Future[None]] = {pool.submit(self._play_every, worker) for worker in range(self.workers)}
            try:
                while pending:
                    finished, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
                    for future in finished:
                        future.result()
                    show(int(self.done.sum()), total)
            finally:
                self.stop.set()

    def _play_every(self, worker: int) -> None:
        # The memo only pays once it is warm: a short run gets a small one, which is quickly cleared.
        memo = 1 << int(np.clip(self.horizon // 8, 1 << 6, MEMO)).bit_length() - 1
        state = self.policy.for_simulation(self.horizon, memo)
        for run in range(worker, self.runs, self.workers):
            self.play_one(run, worker, state)

    def get_ready(self) -> None:
        """Compile, or load what is compiled."""
        kernel: Any = advance if self.delay is None else advance_late
        if self.chosen is not None or self.feedback is not None:
            kernel = advance_noisy if self.chosen is None else advance_log
        arguments: list[Any] = [self.world, self.times, self.tally(0, 0), 0, *self.more()]
        self.start, self.advance = self.policy.entries.simulator(kernel, *arguments)

    def more(self) -> tuple[Any, ...]:
        """Return what a run is played with beside its world."""
        if self.chosen is not None:
            return (self.chosen,)
        if self.feedback is not None:
            return (self.feedback,)
        return () if self.delay is None else (self.delay.mail(self.horizon),)

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

    def play_one(self, run: int, worker: int, state: Any) -> None:
        """Play one run."""
        tally = self.tally(run, worker)
        state.lots[:] = lots.seeded(np.random.SeedSequence(self.seed, spawn_key=(self.first_run + run,)))
        self.start(state)
        more = self.more()
        for pause in range(0, self.horizon + 1, PAUSE):
            if self.stop.is_set():
                return
            until = min(pause + PAUSE, self.horizon)
            self.advance(state, self.world, self.times, tally, until, *more)
            self.done[run] = until


@contextlib.contextmanager
def _shown(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield what to call with steps done and steps in all."""
    if callable(progress):
        yield progress
        return
    if progress is True:
        extras.need("progress=True", ["rich"])
    watched = progress is True or (progress is None and sys.stderr.isatty() and not extras.missing(["rich"]))
    if not watched:
        yield lambda done, total: None
        return
    with _Bar() as bar:
        yield bar.show


class _Bar:
    """A progress bar on standard error, drawn once it has lasted long enough to be worth one."""

    def __enter__(self) -> "_Bar":
        self._started = time.perf_counter()
        self._draw: Progress | None = None
        self._open = contextlib.ExitStack()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def show(self, done: int, total: int) -> None:
        """Say how far it is."""
        if self._draw is None and time.perf_counter() - self._started > PATIENCE:
            self._draw = self._begin(total)
        if self._draw is not None:
            self._draw(done, total)

    def _begin(self, total: int) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("simulating"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %  {task.fields[speed]:.1f} million steps/s  time left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._open.enter_context(bar)
        task = bar.add_task("", total=total, speed=0.0)

        def draw(done: int, total: int) -> None:
            speed = done / 1e6 / (time.perf_counter() - self._started)
            bar.update(task, completed=done, total=total, speed=speed)

        return draw
