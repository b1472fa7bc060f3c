"""Off-policy evaluation by the log of a service: single arms, arms at random, and policies that learn.

`estimators.py` defines the estimators of fixed choices, `policy_trial.py` that of policies, `intervals.py` the
confidence intervals, `log.py` the log, and `export.py` its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from maskedbandits.errors import check_int
from maskedbandits.service.evaluation import policy_trial
from maskedbandits.service.evaluation.estimators import (
    UNIFORM,
    ChoiceEstimate,
    MeanEstimate,
    estimate_arms,
    estimate_mean,
)
from maskedbandits.service.evaluation.log import Ints, ReportLog, read_log
from maskedbandits.service.evaluation.policy_trial import PolicyEstimate, RunSteps
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_HOLDOUT

__all__ = [
    "Baseline",
    "ChoiceEstimate",
    "Evaluation",
    "MeanEstimate",
    "Part",
    "PolicyEstimate",
    "ReportLog",
    "evaluate",
    "read_log",
]

MAX_PERIODS = 1000
MAX_REPEATS = 10_000


class Baseline(NamedTuple):
    """The mean reward of logged decisions."""

    name: str
    reports: int
    estimate: MeanEstimate


@dataclass(frozen=True)
class Part:
    """The estimates from a part of the log."""

    log: ReportLog
    baselines: tuple[Baseline, ...]
    arms: tuple[ChoiceEstimate, ...]
    uniform: ChoiceEstimate
    policies: tuple[PolicyEstimate, ...]


@dataclass(frozen=True)
class Evaluation:
    """The estimates from a log: from all of it, and from each period."""

    whole: Part
    periods: tuple[Part, ...]
    repeats: int
    seed: int


def evaluate(
    log: ReportLog,
    policies: Sequence[str] = (),
    *,
    periods: int = 1,
    repeats: int = policy_trial.DEFAULT_REPEATS,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Evaluation:
    """Estimate all arms and some policies from a log, and from each of several periods.

    Parameters
    ----------
    log
        The reports, from ``read_log``.
    policies
        Policies that learn, as NAME or NAME:key=value,key=value.
    periods
        The number of parts, of the same size, to estimate from as well.
    repeats
        The number of runs of each policy.
    seed
        The seed of those runs.
    progress
        A function that gets the share of the work done.

    Returns
    -------
    Evaluation
        The estimates with their confidence intervals.

    Raises
    ------
    UserError
        If a number is out of its range, or a policy cannot be tried on this log.

    """
    parts, runs = (
        check_int("periods", periods, 1, min(MAX_PERIODS, log.size)),
        check_int("repeats", repeats, 1, MAX_REPEATS),
    )
    candidates = [policy_trial.parse_candidate(text) for text in dict.fromkeys(policies) if text != UNIFORM]
    for candidate in candidates:
        policy_trial.check_candidate(log, candidate)
    steps: dict[str, list[RunSteps]] = {candidate.label: [] for candidate in candidates}
    if policy_trial.can_run(log):
        for run, candidate in product(range(runs), candidates):
            found = policy_trial.run_candidate(log, candidate, check_int("seed", seed, 0), run)
            steps[candidate.label].append(found)
            progress((run + 1) / (runs + 1))
    ends = [log.size * part // parts for part in range(parts + 1)]
    in_periods = [_evaluate_part(log, steps, *ends) for ends in pairwise(ends)] if parts > 1 else []
    return Evaluation(_evaluate_part(log, steps, 0, log.size), tuple(in_periods), runs, seed)


def _evaluate_part(log: ReportLog, steps: Mapping[str, Sequence[RunSteps]], start: int, end: int) -> Part:
    part = log.cut(start, end)
    *arms, uniform = estimate_arms(part)
    policies = [policy_trial.estimate_policy(log, name, runs, start, end) for name, runs in steps.items()]
    return Part(part, tuple(_estimate_baselines(part)), tuple(arms), uniform, tuple(policies))


def _estimate_baselines(log: ReportLog) -> list[Baseline]:
    """Return the mean rewards of all decisions, of the policy's own, and of those held out."""
    beside = log.flags & (FLAG_FLOOR | FLAG_HOLDOUT)
    chosen: dict[str, Ints] = {"as it was": np.arange(log.size)}
    if beside.any():
        chosen["the policy's own choices"] = np.flatnonzero(beside == 0)
        chosen["holdout, the default arm"] = np.flatnonzero(log.flags & FLAG_HOLDOUT)
    return [Baseline(name, at.size, estimate_mean(log, at)) for name, at in chosen.items() if at.size]
