"""Simulation: play a policy on a problem many times over, in threads, and count regret and pulls."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import extras
from maskedbandits.errors import UserError, number, whole
from maskedbandits.maths import lots
from maskedbandits.policies import Policy, make_policy
from maskedbandits.policies.late import Mail, advance_late, mail
from maskedbandits.policies.play import Tally, World, advance
from maskedbandits.problems import Problem

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
    seconds: float


def simulate(
    problem: Problem,
    policy: Policy | str,
    runs: int = 100,
    seed: int = 0,
    checkpoints: int | ArrayLike = 100,
    *,
    delay: Delays = None,
    threads: int | None = None,
    progress: Progress | bool | None = None,
) -> Simulation:
    """Play a fresh copy of the policy on the problem, ``runs`` times, independently.

    The same seed gives the same numbers on any number of threads. ``checkpoints`` are times at which the regret is
    noted, or how many evenly spaced ones. ``progress`` is called with steps done and steps in all; by default a bar is
    drawn if a person is watching.

    ``delay`` lets reports come late: so many steps after the decision, or a number of steps drawn anew for every
    decision from a list, or ``("geometric", 200)`` for a geometric number of that mean. With 0 a report is there before
    the next decision. Reports that would come after the horizon never do.
    """
    if isinstance(policy, str):
        policy = make_policy(policy, arms=problem.arms, corruption=problem.corruption)
    if type(policy) is not Policy:
        raise UserError("simulate plays compiled policies: it would not call what a class of your own overrides")
    if policy.arms != problem.arms:
        raise UserError(f"the policy has {policy.arms} arms and the problem {problem.arms}: make one to fit")
    runs = whole("runs", runs)
    workers = min(whole("threads", cores() if threads is None else threads), runs)
    times = _checked_times(checkpoints, problem.horizon)
    batch = _Batch(problem, policy, runs, whole("seed", seed, 0), times, _checked_delay(delay))
    batch.get_ready()  # off the clock
    started = time.perf_counter()
    with _shown(progress) as show:
        batch.play(workers, show)
    return Simulation(batch.times, batch.regret, batch.pulls, batch.suboptimal_pulls, time.perf_counter() - started)


def cores() -> int:
    """Return how many cores this process may use."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _checked_times(checkpoints: int | ArrayLike, horizon: int) -> NDArray[np.int64]:
    given = np.asarray(checkpoints)
    if given.ndim == 0:
        count = min(whole("checkpoints", checkpoints), horizon)
        return np.arange(1, count + 1, dtype=np.int64) * horizon // count
    with np.errstate(invalid="ignore"):  # NaN becomes some number, and then is not the same
        times = given.astype(np.int64)
    if times.ndim != 1 or times.size < 1 or np.any(times != given) or np.any(np.diff(times) <= 0):
        raise UserError("checkpoints: give a number of them, or whole numbers of steps, increasing")
    if times[0] < 1 or times[-1] > horizon:
        raise UserError(f"checkpoints {times[0]} to {times[-1]}: give times from 1 to the horizon {horizon}")
    return times


@dataclass(frozen=True, eq=False)
class _Delay:
    """How late reports come: as one of these numbers of steps, or geometrically with a mean."""

    steps: NDArray[np.int64]
    mean: float = 0.0

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
        delay: "_Delay | None" = None,
    ) -> None:
        self.delay = delay
        shown = problem.means if policy.kind.sees_rewards else problem.feedback_means
        self.world = World(np.append(problem.starts, problem.horizon), shown.copy(), problem.gaps.copy())
        self.policy = policy
        self.horizon = problem.horizon
        self.times = times
        self.seed = seed
        self.runs = runs
        _refuse_too_much(runs * (times.size + 2 * problem.arms + 1))
        self.regret = np.zeros((runs, times.size))
        self.pulls = np.zeros((runs, problem.arms), dtype=np.int64)
        self.suboptimal_pulls = np.zeros((runs, problem.arms), dtype=np.int64)
        self.done = np.zeros(runs, dtype=np.int64)
        self.stop = threading.Event()

    def play(self, workers: int, show: Progress) -> None:
        """Play all runs in threads; an interrupt stops them within some hundredths of a second."""
        total = self.runs * self.horizon
        with ThreadPoolExecutor(workers) as pool:
            pending: set[Future[None]] = {pool.submit(self._play_every, first, workers) for first in range(workers)}
            try:
                while pending:
                    finished, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
                    for future in finished:
                        future.result()
                    show(int(self.done.sum()), total)
            finally:
                self.stop.set()

    def _play_every(self, first: int, stride: int) -> None:
        # The memo only pays once it is warm: a short run gets a small one, which is quickly cleared.
        memo = 1 << int(np.clip(self.horizon // 8, 1 << 6, MEMO)).bit_length() - 1
        state = self.policy.for_simulation(self.horizon, memo)
        for run in range(first, self.runs, stride):
            self.play_one(run, state)

    def get_ready(self) -> None:
        """Compile, or load what is compiled."""
        arguments: list[Any] = [self.world, self.times, self.tally(0), 0]
        if self.delay is not None:
            arguments.append(self.delay.mail(self.horizon))
        kernel = advance if self.delay is None else advance_late
        self.start, self.advance = self.policy.entries.simulator(kernel, *arguments)

    def tally(self, run: int) -> Tally:
        """Return what is counted of a run."""
        arms = self.pulls.shape[1]
        return Tally(
            position=np.zeros(3, dtype=np.int64),
            regret=self.regret[run],
            total=np.zeros(1),
            pulls=self.pulls[run],
            suboptimal_pulls=self.suboptimal_pulls[run],
            recent=np.zeros(arms, dtype=np.int64),
        )

    def play_one(self, run: int, state: Any) -> None:
        """Play one run."""
        tally = self.tally(run)
        state.lots[:] = lots.seeded(np.random.SeedSequence(self.seed, spawn_key=(run,)))
        self.start(state)
        late = () if self.delay is None else (self.delay.mail(self.horizon),)
        for pause in range(0, self.horizon + 1, PAUSE):
            if self.stop.is_set():
                return
            until = min(pause + PAUSE, self.horizon)
            self.advance(state, self.world, self.times, tally, until, *late)
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
