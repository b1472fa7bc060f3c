"""Simulation: play a policy on a problem many times, in threads, and count regret and pulls."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maskedbandits import _validation
from maskedbandits._util.progress import Progress, show_progress
from maskedbandits.contextual import Contextual
from maskedbandits.errors import UserError, WrongValueError, abbreviate, check_flag, check_int, suggest_nearest
from maskedbandits.features import Featured
from maskedbandits.policies import Policy, kind_of
from maskedbandits.problems import ContextualProblem, FeaturedProblem, Gaussian, Log, Problem
from maskedbandits.simulation import defaults, delays, external
from maskedbandits.simulation.external import Factory
from maskedbandits.simulation.results import Simulation
from maskedbandits.simulation.runs import Batch, FeaturedBatch, Order, check_result_size

__all__ = ["Simulation", "count_cores", "get_ready", "prepare_runs", "simulate"]


def simulate(
    problem: Problem | ContextualProblem | FeaturedProblem,
    policy: Policy | Contextual | Featured | str | Factory,
    runs: int = 100,
    seed: int = 0,
    checkpoints: int | ArrayLike = 100,
    *,
    delay: delays.Delays = None,
    lost: float = 0.0,
    expire_after: int | None = None,
    first_run: int = 0,
    threads: int | None = None,
    paired: bool = False,
    trace: bool = False,
    progress: Progress | bool | None = None,
    **parameters: Any,
) -> Simulation:
    """Play a fresh copy of a policy on a problem, in independent runs.

    On a problem with groups, a policy without groups plays one arm for all visitors. On a log (``Problem.replay_log``)
    every time is a row: checkpoints, and the policy's restarts, window and horizon. A policy plays about one row in K;
    docs/data.md describes the effect on its parameters.

    Parameters
    ----------
    problem : Problem, ContextualProblem or FeaturedProblem
        The problem to play.
    policy : Policy, Contextual, Featured, str or callable
        A policy of this package, or its name. Or a function that builds your own from a generator of random numbers:
        any object with ``choose()`` and ``observe(arm, feedback)``, played in plain Python. For a name, facts that the
        policy requires and the problem knows are filled in: the horizon, the changes, the best arms.
    runs : int, default 100
        Number of runs.
    seed : int, default 0
        Seed of all runs. The same seed gives the same numbers on any number of threads.
    checkpoints : int or array_like, default 100
        Steps at which regret is recorded, or the number of evenly spaced ones.
    delay : int, sequence of int or ("geometric", mean), optional
        Steps from a decision to its report: one number, a list to draw from, or a geometric distribution. With 0 a
        report arrives before the next decision. Reports due after the horizon never arrive.
    lost : float, default 0.0
        Probability that a report never arrives.
    expire_after : int, optional
        Decisions after which the policy gives up on a pending report; 0 makes it ignore pending reports. By default the
        policy decides.
    first_run : int, default 0
        Number of the first run. Use it to divide the runs of one seed between processes.
    threads : int, optional
        Number of threads. By default one for each core.
    paired : bool, default False
        Whether the n-th pull of an arm has the same random numbers for all policies with the same seed: for its reward,
        its mask, and its delay. Differences between policies then vary less. On a log, each row has the same ones.
    trace : bool, default False
        Whether to record ``run_pulls`` and ``switches``. It does not change the other numbers.
    progress : callable or bool, optional
        Called with the steps done and the total. True draws a bar, False does not. By default a bar is drawn in a
        terminal.
    **parameters
        Parameters of a policy that is given by name, such as ``c=0``. A ``window`` may also name a rule that chooses it
        for the problem: ``"paper"``, ``"lambert"``, ``"corrected"`` or ``"variation"``.

    Returns
    -------
    Simulation
        Regret and pulls of all runs.

    Raises
    ------
    UserError
        If a value is out of range, the policy does not fit the problem, or your own policy fails.

    Examples
    --------
    >>> from maskedbandits import Problem, RandomizedResponse, simulate
    >>> problem = Problem([[0.9, 0.4], [0.4, 0.9]], [0, 500], 1000, RandomizedResponse(0.9, 0.9))
    >>> class FirstArm:
    ...     def choose(self):
    ...         return 0
    ...
    ...     def observe(self, arm, feedback):
    ...         pass
    >>> result = simulate(problem, lambda generator: FirstArm(), runs=2, checkpoints=[500, 1000])
    >>> result.pulls.tolist()
    [[1000, 0], [1000, 0]]
    >>> result.regret.round(6).tolist()
    [[0.0, 250.0], [0.0, 250.0]]

    """
    ready = prepare_runs(
        problem,
        policy,
        runs,
        seed,
        checkpoints,
        delay=delay,
        lost=lost,
        expire_after=expire_after,
        first_run=first_run,
        threads=threads,
        paired=paired,
        trace=trace,
        parameters=parameters,
    )
    return ready(progress)


def prepare_runs(
    problem: Problem | ContextualProblem | FeaturedProblem,
    policy: Policy | Contextual | Featured | str | Factory,
    runs: int,
    seed: int,
    checkpoints: int | ArrayLike,
    *,
    delay: delays.Delays = None,
    lost: float = 0.0,
    expire_after: int | None = None,
    first_run: int = 0,
    threads: int | None = None,
    paired: bool = False,
    trace: bool = False,
    label: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> Callable[[Progress | bool | None], Simulation]:
    """Check and compile a simulation; return a function that plays it once and takes ``progress``.

    ``label`` names the policy in results. Many short simulations are faster if several are prepared before they are
    played, because playing evicts the code that prepares from the processor's cache.
    """
    late = delays.check_delay(delay, lost, expire_after)
    paired, trace = check_flag("paired", paired), check_flag("trace", trace)
    label, parameters = label or get_label(policy), parameters or {}
    _check_parameters(policy, parameters)
    _check_world(problem, late, paired=paired, trace=trace)
    if isinstance(problem, ContextualProblem):
        policy = _check_contextual(policy, problem, late, parameters)
    elif isinstance(problem, FeaturedProblem):
        _check_features_fit(policy, problem, late)
    elif isinstance(problem, Problem):
        policy = _check_policy(policy, problem, late, parameters, paired=paired)
    else:
        raise WrongValueError("problem", problem, "a Problem, a ContextualProblem or a FeaturedProblem")
    order = Order(
        problem,
        check_int("runs", runs),
        check_int("seed", seed, 0),
        _check_times(checkpoints, problem.horizon),
        late,
        check_int("first_run", first_run, 0),
        label,
        paired,
        trace,
    )
    if isinstance(problem, FeaturedProblem) and isinstance(policy, Featured):
        batch: Batch | FeaturedBatch = FeaturedBatch(order, problem, policy, _count_workers(threads, order.runs))
    elif isinstance(policy, (Policy, Contextual)):
        batch = Batch(order, policy, _count_workers(threads, order.runs))
    else:
        assert isinstance(problem, Problem)  # noqa: S101 -- other problems refuse such policies
        assert not isinstance(policy, (str, Featured))  # noqa: S101 -- as above
        return partial(_play_external, order, problem, policy)
    batch.get_ready()
    return batch.play


def get_label(policy: object) -> str:
    """Return the name of a policy for results."""
    if isinstance(policy, str | Policy | Contextual | Featured):
        return policy if isinstance(policy, str) else policy.name
    return external.get_name(policy) if callable(policy) else abbreviate(policy)


def _check_parameters(policy: object, parameters: Mapping[str, Any]) -> None:
    """Refuse arguments that neither `simulate` nor a policy that is given by name takes."""
    known = kind_of(policy).parameters if isinstance(policy, str) else {}
    arguments = list(inspect.signature(simulate).parameters)[:-1] if parameters else []
    for key in parameters:
        if key in arguments and key not in known:
            raise UserError(f"{key} is an argument of simulate, and no parameter of a policy: give it there")
        if key not in known:
            owner = f"neither simulate nor {policy} has a parameter" if known else "simulate has no parameter"
            near = suggest_nearest(key, [*arguments, *known])
            hint = near if near.startswith("; did") else suggest_nearest(key, known) if known else ""
            raise UserError(f"{owner} {key!r}{hint}")


def _check_world(problem: object, late: delays.Delay | None, *, paired: bool, trace: bool) -> None:
    """Refuse what a world cannot do."""
    if not isinstance(problem, Problem):
        for name, given in (("paired", paired), ("trace", trace)):
            if given:
                raise UserError(f"{name} is for a Problem, and this one has groups or features: leave it out")
    elif problem.population is not None and (late is not None or isinstance(problem, Log)):
        what = "a log" if late is None else late.words
        raise UserError(f"{what}: a population is played with prompt reports of a Problem; leave it out")


def _check_policy(
    policy: Policy | Contextual | Featured | str | Factory,
    problem: Problem,
    late: delays.Delay | None,
    parameters: Mapping[str, Any],
    *,
    paired: bool,
) -> Policy | Contextual | Featured | str | Factory:
    """Return a policy for a problem, built if it is a name; refuse misfits."""
    if isinstance(problem, Log) and late is not None:
        raise UserError(
            f"{late.words}: a log is replayed without; leave it out, or replay rounds whose outcomes are all known"
        )
    if problem.is_noisy and late is not None:
        raise UserError(f"{late.words}: under noise reports come at once; leave it out, or take a RandomizedResponse")
    if isinstance(policy, str):
        policy = defaults.build_policy(policy, problem, parameters)
    if isinstance(policy, Policy) or not external.is_factory(policy):
        _check_fits(policy, problem)
    elif paired and problem.is_noisy:
        raise UserError("paired: a policy in plain Python cannot be paired under noise; leave it out")
    elif late is not None and late.expire_after is not None:
        raise UserError("expire_after: a policy of your own decides by itself when to give up; leave it out")
    return policy


def _check_contextual(
    policy: object, problem: ContextualProblem, late: delays.Delay | None, parameters: Mapping[str, Any]
) -> Policy | Contextual:
    """Return a policy for a problem with groups, built if it is a name; refuse misfits."""
    if late is not None:
        raise UserError(f"{late.words}: answers of groups come at once; leave it out")
    if isinstance(policy, Contextual):
        if (policy.groups, policy.arms) != (problem.groups, problem.arms):
            raise UserError(
                f"the policy has {policy.groups} groups and {policy.arms} arms, the problem {problem.groups} and "
                f"{problem.arms}: make one to fit"
            )
        return policy
    if not isinstance(policy, Policy | str):
        raise UserError(
            f"a problem with groups was given {abbreviate(policy)}: give a policy of make_contextual, or of "
            "make_policy to play one arm for everybody"
        )
    average = problem.average_groups()  # raises without a corruption
    if isinstance(policy, str):
        return defaults.build_policy(policy, average, parameters)
    _check_fits(policy, average)
    return policy


def _check_features_fit(policy: object, problem: FeaturedProblem, late: delays.Delay | None) -> None:
    """Refuse a policy or a delay that does not fit a problem with features."""
    if not isinstance(policy, Featured):
        raise UserError(f"a problem with features was given {abbreviate(policy)}: give a policy of make_featured")
    if (policy.arms, policy.features) != (problem.arms, problem.features):
        raise UserError(
            f"the policy has {policy.arms} arms and {policy.features} features, the problem {problem.arms} and "
            f"{problem.features}: make one to fit"
        )
    if late is not None:
        raise UserError(f"{late.words}: reports of a problem with features come at once; leave it out")


def _count_workers(threads: int | None, runs: int) -> int:
    """Return the number of threads for this number of runs."""
    return min(check_int("threads", count_cores() if threads is None else threads), runs)


def get_ready(problem: Problem | ContextualProblem, policy: Policy | Contextual, *, only_new: bool = False) -> None:
    """Compile or load the simulator of a policy on a problem; with ``only_new``, only if it was never compiled."""
    batch = Batch(Order(problem, 1, 0, np.array([problem.horizon])), policy, 1)
    if not (only_new and policy.entries.has_simulator(batch.kernel)):
        batch.compile()


def _check_fits(policy: object, problem: Problem) -> None:
    """Refuse anything but a policy of this package that fits the problem."""
    if type(policy) is not Policy:
        raise UserError(
            f"simulate was given {abbreviate(policy)}: give a policy of make_policy, a name, or a function that makes "
            "a policy of your own, a fresh one for every run"
        )
    if policy.arms != problem.arms:
        raise UserError(f"the policy has {policy.arms} arms and the problem {problem.arms}: make one to fit")
    _check_feedback_fits(policy, problem)


def _check_feedback_fits(policy: Policy, problem: Problem) -> None:
    """Refuse a policy for bits where feedback is not bits."""
    if policy.kind.sees_rewards and isinstance(problem.law, Gaussian):
        raise UserError(
            f"{policy.name} is shown rewards in [0, 1], and {problem.law} gives any number: take one that sees reports"
        )
    if problem.is_noisy and policy.kind.learns_from not in ("nothing", "rewards") and policy.sigma is None:
        raise UserError(
            f"the policy expects feedback in [0, 1], and the problem adds noise: make {policy.name} with its corruption"
        )


def _play_external(order: Order, problem: Problem, factory: Factory, progress: Progress | bool | None) -> Simulation:
    """Play policies from outside the package, one run after the other."""
    times, runs, late = order.times, order.runs, order.delay
    tables = max(1, order.tables)
    check_result_size(runs * (times.size + 2 * problem.arms + 2) + tables * times.size * problem.arms)
    regret = np.zeros((runs, times.size))
    pulls, suboptimal = (np.zeros((runs, problem.arms), dtype=np.int64) for _ in range(2))
    over_time = np.zeros((tables, times.size, problem.arms), dtype=np.int64)
    switches = np.zeros(runs, dtype=np.int64)
    play = external.ExternalRuns(factory, problem, times)
    started, cpu = time.perf_counter(), time.thread_time()
    with show_progress(progress) as show:
        for run in range(runs):
            report = partial(lambda before, step: show(before + step, order.steps), run * problem.horizon)
            results = regret[run], pulls[run], suboptimal[run], over_time[run if order.traced else 0]
            draw = (late.draw_paired if order.paired else late.draw) if late else lambda world: 0
            world = [np.random.Generator(np.random.SFC64(seed)) for seed in order.spawn_world(run)]
            switches[run] = play.run(order.spawn_seed(run), draw, report, results, world if order.paired else ())
    seconds, spent = time.perf_counter() - started, time.thread_time() - cpu
    traces = (over_time, switches) if order.traced else (None, None)
    total = over_time.sum(axis=0)
    return Simulation(times, regret, pulls, suboptimal, total, seconds, spent, None, order.policy, *traces)


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_times(checkpoints: int | ArrayLike, horizon: int) -> NDArray[np.int64]:
    """Check and return the checkpoints as steps."""
    if not hasattr(checkpoints, "__len__") or isinstance(checkpoints, str):
        count = min(check_int("checkpoints", checkpoints), horizon)
        return np.arange(1, count + 1, dtype=np.int64) * horizon // count
    times = _validation.check_ints("checkpoints", checkpoints)
    if times.ndim != 1 or times.size < 1 or np.any(np.diff(times) <= 0):
        raise UserError("checkpoints: give a number of them, or whole numbers of steps, increasing")
    if times[0] < 1 or times[-1] > horizon:
        raise UserError(f"checkpoints {times[0]} to {times[-1]}: give times from 1 to the horizon {horizon}")
    return times
