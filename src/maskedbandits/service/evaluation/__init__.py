"""Judging other choices off-line, by the log of a service: arms, arms at random, and policies that learn.

What is estimated is said in `estimators.py`, for policies that learn in `policy_trial.py`; what intervals rest on, in
`intervals.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from maskedbandits.errors import check_int
from maskedbandits.service.evaluation import policy_trial
from maskedbandits.service.evaluation.estimators import UNIFORM, Estimate, Judged, judge_arms, mean_of
from maskedbandits.service.evaluation.log import Ints, Log
from maskedbandits.service.evaluation.log_reading import log_of
from maskedbandits.service.evaluation.policy_trial import Steps, Trial
from maskedbandits.service.tokens import FLAG_FLOOR, FLAG_HOLDOUT

__all__ = ["Baseline", "Estimate", "Evaluation", "Judged", "Log", "Part", "Trial", "evaluate", "log_of"]

MOST_PERIODS = 1000
MOST_REPEATS = 10_000


class Baseline(NamedTuple):
    """How it went: the mean of some of the reports."""

    name: str
    reports: int
    estimate: Estimate


@dataclass(frozen=True)
class Part:
    """What a stretch of the log says."""

    log: Log
    baselines: tuple[Baseline, ...]
    arms: tuple[Judged, ...]
    uniform: Judged
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Evaluation:
    """What a log says: all of it, and one stretch after the other."""

    whole: Part
    periods: tuple[Part, ...]
    repeats: int
    seed: int


def evaluate(
    log: Log,
    policies: Sequence[str] = (),
    *,
    periods: int = 1,
    repeats: int = policy_trial.REPEATS,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> Evaluation:
    """Judge all arms and some policies by a log, and by each of so many stretches of it."""
    parts, runs = (
        check_int("periods", periods, 1, min(MOST_PERIODS, log.size)),
        check_int("repeats", repeats, 1, MOST_REPEATS),
    )
    candidates = [policy_trial.candidate(text) for text in dict.fromkeys(policies) if text != UNIFORM]
    for found in candidates:
        policy_trial.check(log, found)
    steps: dict[str, list[Steps]] = {found.label: [] for found in candidates}
    if policy_trial.can_be_tried(log):
        for run, found in product(range(runs), candidates):
            steps[found.label].append(policy_trial.one_run(log, found, check_int("seed", seed, 0), run))
            progress((run + 1) / (runs + 1))
    ends = [log.size * part // parts for part in range(parts + 1)]
    stretches = [_part(log, steps, *ends) for ends in pairwise(ends)] if parts > 1 else []
    return Evaluation(_part(log, steps, 0, log.size), tuple(stretches), runs, seed)


def _part(log: Log, steps: Mapping[str, Sequence[Steps]], start: int, end: int) -> Part:
    """Return what the reports from start up to end say."""
    part = log.part(start, end)
    *arms, uniform = judge_arms(part)
    tried = [policy_trial.judge(log, name, runs, start, end) for name, runs in steps.items()]
    return Part(part, tuple(_baselines(part)), tuple(arms), uniform, tuple(tried))


def _baselines(log: Log) -> list[Baseline]:
    """Return how it went: with all decisions, with the policy's own, and with the default arm for those held out."""
    beside = log.flags & (FLAG_FLOOR | FLAG_HOLDOUT)
    chosen: dict[str, Ints] = {"as it was": np.arange(log.size)}
    if beside.any():
        chosen["the policy's own choices"] = np.flatnonzero(beside == 0)
        chosen["holdout, the default arm"] = np.flatnonzero(log.flags & FLAG_HOLDOUT)
    return [Baseline(name, at.size, mean_of(log, at)) for name, at in chosen.items() if at.size]
