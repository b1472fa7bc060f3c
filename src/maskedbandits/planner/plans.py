"""Plans: the cost of each epsilon, how soon changes are followed, and which epsilon to choose.

Every epsilon is simulated in the same worlds, in threads. Epsilons are judged from the largest down, and the first one
that is not surely within the tolerance ends the search. So for any number of epsilons the chance of advising one beyond
the tolerance is that of a single interval, 2.5 %.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from maskedbandits._util.cached_property import lockfree_cached_property
from maskedbandits.planner import statistics
from maskedbandits.planner.inputs import EPSILONS, PlanInputs, build_inputs
from maskedbandits.planner.statistics import Estimate, Settling
from maskedbandits.policies import Policy
from maskedbandits.privacy.exposure import Exposure, compute_exposure
from maskedbandits.problems import Problem
from maskedbandits.simulation.simulator import count_cores, simulate

AUDIENCE_RATIO = 4  # between one audience that is tried and the next

Progress = Callable[[float], None]  # takes the share of the work that is done
Setting = tuple[float, int]  # an epsilon and an audience


@dataclass(frozen=True)
class Level:
    """The findings at one epsilon.

    Parameters
    ----------
    epsilon
        The epsilon.
    loss
        Successes lost against the best choice.
    extra
        How many of these are lost by privacy.
    cost
        The same as a share of the gain of learning without privacy; None if that may be no gain.
    settling
        How soon changes are followed.
    pays_from
        The audience from which on learning pays; None if it does not pay at any audience that was tried.
    looked_to
        The largest audience that was tried.
    exposure
        What one report reveals about a person.

    """

    epsilon: float
    loss: Estimate
    extra: Estimate
    cost: Estimate | None
    settling: Settling
    pays_from: int | None
    looked_to: int
    exposure: Exposure

    @property
    def private(self) -> bool:
        """Whether the epsilon is finite; the baseline without privacy is not private."""
        return math.isfinite(self.epsilon)


@dataclass(frozen=True)
class Plan:
    """The result of ``plan``.

    Parameters
    ----------
    inputs
        The inputs.
    levels
        The findings at each epsilon, in rising order; the last one is no privacy.
    gain
        Successes that learning gains over a blind choice, without privacy.

    """

    inputs: PlanInputs
    levels: tuple[Level, ...]
    gain: Estimate

    @property
    def blind_loss(self) -> float:
        """Successes that a blind choice loses against the best one."""
        return self.inputs.blind_loss * self.inputs.horizon

    @lockfree_cached_property
    def advice(self) -> Advice:
        """Which epsilon to take, and why."""
        costs = {level.epsilon: level.cost for level in self.levels if level.private}
        return advise(costs, self.inputs.tolerance)

    def level(self, epsilon: float) -> Level:
        """Return the findings at one of the epsilons.

        Parameters
        ----------
        epsilon
            One of ``inputs.epsilons``.

        Returns
        -------
        Level
            The findings.

        """
        return next(level for level in self.levels if level.epsilon == epsilon)


@dataclass(frozen=True)
class Advice:
    """The epsilon to take, if there is one, and where the search ended.

    Parameters
    ----------
    epsilon
        The smallest epsilon that is surely within the tolerance, as are all larger ones; None if there is none.
    refused
        The largest epsilon that is not surely within the tolerance.
    in_doubt
        Whether that one may be within the tolerance after all, which more worlds would show.
    gains
        Whether learning gains anything at all without privacy.

    """

    epsilon: float | None
    refused: float | None
    in_doubt: bool
    gains: bool


def advise(costs: Mapping[float, Estimate | None], tolerance: float) -> Advice:
    """Return which epsilon to take, by the share of the gain that each costs.

    Parameters
    ----------
    costs
        The cost of each epsilon; None if learning may gain nothing.
    tolerance
        The largest acceptable cost.

    Returns
    -------
    Advice
        The advice.

    """
    accepted = None
    for epsilon in sorted(costs, reverse=True):
        cost = costs[epsilon]
        if cost is None:
            return Advice(None, None, in_doubt=False, gains=False)
        if cost.high > tolerance:
            return Advice(accepted, epsilon, in_doubt=cost.low <= tolerance, gains=True)
        accepted = epsilon
    return Advice(accepted, None, in_doubt=False, gains=True)


def plan(
    arms: int,
    horizon: int,
    changes: int,
    gap: float,
    base_rate: float,
    epsilons: Sequence[float] = EPSILONS,
    policy: str = "auto",
    *,
    tolerance: float = 0.1,
    worlds: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Simulate a choice before it begins, at several epsilons and without privacy.

    Parameters
    ----------
    arms
        The number of options.
    horizon
        The audience: how many people will be shown an option.
    changes
        How often another arm becomes the best.
    gap
        By how much the best arm is ahead.
    base_rate
        The success rate of all other arms.
    epsilons
        The epsilons to compare; no privacy is always added.
    policy
        The name of the policy.
    tolerance
        The share of the gain of learning that privacy may cost, for the advice.
    worlds
        The number of simulated worlds; by default as many as take some seconds.
    seed
        The seed that worlds are drawn from.
    threads
        The number of threads, by default one for each core; the numbers do not depend on it.
    progress
        A function that is called with the share of the work that is done.

    Returns
    -------
    Plan
        The findings at each epsilon, and the advice.

    Raises
    ------
    UserError
        If an input cannot be used.

    Examples
    --------
    >>> from maskedbandits.planner import plan
    >>> found = plan(arms=2, horizon=1000, changes=0, gap=0.3, base_rate=0.2, epsilons=[4.0], policy="klucb-cf")
    >>> [level.epsilon for level in found.levels]
    [4.0, inf]

    """
    inputs = build_inputs(arms, horizon, changes, gap, base_rate, epsilons, policy, tolerance, worlds, seed)
    return _run_plan(inputs, threads, progress or (lambda share: None))


def _run_plan(inputs: PlanInputs, threads: int | None, progress: Progress) -> Plan:
    """Simulate the given audience, then smaller ones where it pays and larger ones where it does not."""
    search = _Search(inputs, threads, progress)
    search.play([(epsilon, inputs.horizon) for epsilon in inputs.epsilons])
    paying = search.list_paying(inputs.epsilons, inputs.horizon)
    unpaid = [epsilon for epsilon in inputs.epsilons if epsilon not in paying]
    audience = inputs.horizon // AUDIENCE_RATIO
    while paying and audience >= inputs.smallest_audience:
        search.play([(epsilon, audience) for epsilon in paying])
        paying = search.list_paying(paying, audience)
        audience //= AUDIENCE_RATIO
    audience = AUDIENCE_RATIO * inputs.horizon
    while unpaid and not inputs.takes_too_long(audience):
        search.play([(epsilon, audience) for epsilon in unpaid])
        newly_paying = search.list_paying(unpaid, audience)
        unpaid = [epsilon for epsilon in unpaid if epsilon not in newly_paying]
        audience *= AUDIENCE_RATIO
    search.play(
        [(epsilon, math.isqrt(math.prod(ends))) for epsilon in inputs.epsilons if (ends := search.bracket(epsilon))]
    )
    progress(1.0)
    return _build_plan(inputs, search)


def _build_plan(inputs: PlanInputs, search: _Search) -> Plan:
    outcomes = {epsilon: by_audience[inputs.horizon] for epsilon, by_audience in search.outcomes.items()}
    baseline = outcomes[math.inf].losses
    gains = inputs.blind_loss * inputs.horizon - baseline
    stretch = statistics.choose_stretch(inputs.horizon, inputs.changes + 1)
    levels = [
        Level(
            epsilon,
            loss=statistics.estimate(outcome.losses),
            extra=statistics.estimate(outcome.losses - baseline),
            cost=statistics.estimate_ratio(outcome.losses - baseline, gains),
            settling=statistics.summarize_settling(outcome.settled, stretch),
            pays_from=statistics.find_break_even(search.relative_losses(epsilon)),
            looked_to=max(search.outcomes[epsilon]),
            exposure=compute_exposure(epsilon),
        )
        for epsilon, outcome in outcomes.items()
    ]
    return Plan(inputs, tuple(levels), statistics.estimate(gains))


class _Search:
    """A search for the smallest audience that pays, at every epsilon, with all simulated outcomes."""

    def __init__(self, inputs: PlanInputs, threads: int | None, progress: Progress) -> None:
        self.inputs, self.threads, self.progress = inputs, threads, progress
        self.outcomes: dict[float, dict[int, WorldOutcomes]] = {epsilon: {} for epsilon in inputs.epsilons}
        self.steps, self.reported = 0, 0.0
        # The smaller audiences add about half as many steps.
        self.expected = 1.5 * len(inputs.epsilons) * inputs.worlds * inputs.horizon

    def play(self, settings: Sequence[Setting]) -> None:
        """Simulate each of these epsilons and audiences."""
        new_steps = sum(self.inputs.count_worlds(audience) * audience for _, audience in settings)
        expected = max(self.expected, self.steps + new_steps)
        outcomes = play_worlds(
            self.inputs, settings, self.threads, lambda done: self._report((self.steps + done) / expected)
        )
        for (epsilon, audience), outcome in zip(settings, outcomes, strict=True):
            self.outcomes[epsilon][audience] = outcome
        self.steps += new_steps

    def _report(self, share: float) -> None:
        """Report progress that never falls; the number of audiences is not known, so it may pause."""
        self.reported = max(self.reported, min(share, 0.99))
        self.progress(self.reported)

    def list_paying(self, epsilons: Sequence[float], audience: int) -> list[float]:
        """Return the epsilons at which an audience pays."""
        return [epsilon for epsilon in epsilons if statistics.pays(self.relative_losses(epsilon)[audience])]

    def relative_losses(self, epsilon: float) -> dict[int, float]:
        """Return the upper end of the loss at each audience, as a share of the loss of a blind choice."""
        blind = self.inputs.blind_loss
        return {
            audience: statistics.bound_relative_loss(outcome.losses, blind * audience)
            for audience, outcome in self.outcomes[epsilon].items()
        }

    def bracket(self, epsilon: float) -> tuple[int, int] | None:
        """Return two audiences between which it begins to pay, if there is room for one more."""
        ends = statistics.find_bracket(self.relative_losses(epsilon))
        return ends if ends is not None and ends[1] > ends[0] + 1 else None


# Simulations


@dataclass(frozen=True, eq=False)
class WorldOutcomes:
    """The outcomes of all worlds at one epsilon and audience."""

    losses: NDArray[np.float64]  # (worlds,) successes lost against the best choice
    settled: tuple[float, ...]  # people after each change of each world until it was followed, or infinity


class _Stopped(Exception):  # noqa: N818 -- not an error
    """Ends the simulation of a world after an interrupt."""


def play_worlds(
    inputs: PlanInputs, settings: Sequence[Setting], threads: int | None, report: Callable[[int], None]
) -> list[WorldOutcomes]:
    """Simulate every world once at each setting; an interrupt stops the threads within some tenths of a second.

    ``report`` is called with the number of steps done. The numbers do not depend on the threads.
    """
    stop = threading.Event()
    worlds = [inputs.count_worlds(audience) for _, audience in settings]
    done = np.zeros((len(settings), max(worlds, default=0)), dtype=np.int64)
    policies = [inputs.build_policy(*setting) for setting in settings]

    def play_one(index: int, world: int) -> tuple[float, list[float]]:
        def note(steps: int, total: int) -> None:
            if stop.is_set():
                raise _Stopped
            done[index, world] = steps

        if stop.is_set():
            raise _Stopped
        return _play_world(inputs, policies[index], settings[index], world, note)

    with ThreadPoolExecutor(threads or count_cores()) as pool:
        rows = [[pool.submit(play_one, index, world) for world in range(count)] for index, count in enumerate(worlds)]
        try:
            _await([future for row in rows for future in row], lambda: report(int(done.sum())))
        finally:
            stop.set()
    return [_join_worlds([future.result() for future in row]) for row in rows]


def _await(futures: Sequence[Future[tuple[float, list[float]]]], report: Callable[[], None]) -> None:
    """Wait for all worlds, and report progress from time to time."""
    pending = set(futures)
    while pending:
        finished, pending = wait(pending, timeout=0.1, return_when=FIRST_EXCEPTION)
        for future in finished:
            future.result()
        report()


def _join_worlds(worlds: Sequence[tuple[float, list[float]]]) -> WorldOutcomes:
    losses = np.array([loss for loss, _ in worlds])
    return WorldOutcomes(losses, tuple(time for _, times in worlds for time in times))


def _play_world(
    inputs: PlanInputs, policy: Policy, setting: Setting, world: int, note: Callable[[int, int], None]
) -> tuple[float, list[float]]:
    """Simulate one world once; return its loss, and how long it took to follow each change."""
    epsilon, horizon = setting
    problem = inputs.build_world(world, epsilon, horizon)
    marks = _list_marks(problem)
    times = np.setdiff1d(np.concatenate([*marks, [horizon]]), [0])
    seed = inputs.derive_seeds(world)[1]
    result = simulate(problem, policy, runs=1, seed=seed, checkpoints=times, threads=1, progress=note)
    times, regret = np.insert(times, 0, 0), np.insert(result.regret[0], 0, 0.0)
    stretch = statistics.choose_stretch(horizon, problem.segments)
    settled = [statistics.find_settling(regret[np.searchsorted(times, each)], inputs.gap, stretch) for each in marks]
    return float(result.regret[0, -1]), settled


def _list_marks(problem: Problem) -> list[NDArray[np.int64]]:
    """Return the ends of the stretches of traffic in every segment after a change, or in the only segment."""
    ends = np.append(problem.starts, problem.horizon).tolist()
    segments = list(pairwise(ends))
    stretch = statistics.choose_stretch(problem.horizon, problem.segments)
    return [statistics.split_segment(start, end, stretch) for start, end in segments[1:] or segments]
