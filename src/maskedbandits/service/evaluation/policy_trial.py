"""What the log says of a policy that learns: it is run over the log, and learns from what it would have shown as well.

At every report the policy chooses an arm, before it is told which one was shown. If it is the same one, the report
counts as the policy's own with probability c / p, p being how probable the arm was and c the least that any arm could
be. So every choice is met with probability c, whatever it is, and what the policy is told is what it would have been
told had it decided itself (Li, Chu, Langford and Wang 2011, Unbiased offline evaluation of contextual-bandit-based news
article recommendation algorithms, WSDM, for arms shown at random; Dudik, Erhan, Langford and Li 2012, Sample-efficient
nonstationary policy evaluation for contextual bandits, UAI, for others).

Times in its parameters, such as a window, are in reports of the log. A run learns from a share c of them, so they are
converted, as on any log (``policies/log_times.py``).

Its reward is estimated from all reports, not only from those that it was told of: h (m + w (r - m)), with w = 1 / p if
it chose the arm that was shown and else 0, is on average h times what its choice earns (the doubly robust estimate of
the second paper); m is the mean of all earlier reports. Several runs, with lots of their own, go side by side over one
log. The guess for the mean of their terms rests on the past alone, so that the interval of intervals.py holds for what
these runs earn. An interval from how runs differ would be too narrow: all of them have read the same log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from maskedbandits.errors import UserError, WrongValueError
from maskedbandits.policies import check_policy, kind_of, log_times, make_policy
from maskedbandits.service.arm_selection import WHOLE
from maskedbandits.service.evaluation.estimators import Estimate, earlier_means, estimate, sure_method
from maskedbandits.service.evaluation.log import NOBODY, Floats, Ints, Log
from maskedbandits.service.state import mask_of, refuse_unless_offered

REPEATS = 10
MOST_DRAWS = 4096  # choices that are drawn at once


class Learner(Protocol):
    """What is asked of a policy here."""

    def sample(self, n: int) -> Ints:
        """Return n arms, each drawn as it would choose now."""

    def observe(self, arm: int, feedback: float, corruption: Any = None) -> None:
        """Learn from a report."""

    def add_arm(self) -> int:
        """Have another arm."""

    def retire(self, arm: int) -> None:
        """Choose an arm no more."""


class Candidate(NamedTuple):
    """A policy to be tried."""

    label: str
    name: str
    parameters: dict[str, Any]


class Steps(NamedTuple):
    """What one run did: where it chose what was shown, and where it was told."""

    matched: NDArray[np.bool_]
    told: Ints


@dataclass(frozen=True)
class Trial:
    """What the log says of a policy that learns."""

    name: str
    estimate: Estimate | None  # nothing where not every arm could have been shown
    told: float = 0.0  # reports that a run learnt from, on average
    spread: float = 0.0  # standard deviation over runs


def candidate(text: str) -> Candidate:
    """Return the policy that a text names: NAME, or NAME:key=value,key=value."""
    name, _, told = text.partition(":")
    refuse_unless_offered(name)
    parameters = {}
    for part in filter(None, told.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise WrongValueError("--policy", text, "NAME, or NAME:key=value,key=value")
        try:
            parameters[key.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            parameters[key.strip()] = value
    return Candidate(text, name, parameters)


def check(log: Log, found: Candidate) -> None:
    """Refuse parameters that the policy does not take, or that do not fit what a run learns from."""
    arms, mask, pace = len(log.arms), mask_of(log.epsilon), pace_of(log) if can_be_tried(log) else None
    check_policy(found.name, arms=arms, corruption=mask, pace=pace, **found.parameters)
    if log_times.rows_of(kind_of(found.name), found.parameters):
        raise UserError(f"{found.label}: restarts at given reports cannot be tried on a log; leave them out")


def pace_of(log: Log) -> float:
    """Return of how many reports a run learns from one, on average."""
    return WHOLE / log.least


def _first_arms(log: Log) -> int:
    return sum(arm.start == 0 for arm in log.arms)


def can_be_tried(log: Log) -> bool:
    """Tell whether every arm that a policy may choose could have been shown."""
    return all(log.is_sure(arm) for arm in log.arms)


def one_run(log: Log, found: Candidate, seed: int, run: int) -> Steps:
    """Run a policy over the log, with the lots of a seed and the number of the run."""
    words = np.random.SeedSequence([seed, run]).generate_state(2, np.uint64)
    mask = mask_of(log.epsilon)
    arms = _first_arms(log)
    played = log_times.in_plays(kind_of(found.name), found.parameters, arms, pace_of(log))
    policy = make_policy(found.name, arms=arms, corruption=mask, seed=int(words[0]), **played)
    lots = np.random.default_rng(int(words[1])).random(log.size)
    return run_over(log, policy, lots, draws_lots=bool(policy.kind.draws_from))


def run_over(log: Log, policy: Learner, lots: Floats, *, draws_lots: bool) -> Steps:
    """Run a policy over the log once; a report counts as its own if its lot is below c / p.

    How it chooses changes only when it learns, so that many reports are passed at once: with as many draws, or with
    one if it draws no lots.
    """
    counts = lots < log.least / log.probability
    matched = np.zeros(log.size, dtype=np.bool_)
    at_once = max(16, min(MOST_DRAWS, WHOLE // log.least))
    told = []
    for start, end in _stretches(log, policy):
        place = start
        while place < end:
            stop = min(end, place + at_once)
            same = policy.sample(stop - place if draws_lots else 1) == log.arm[place:stop]
            own = np.flatnonzero(same & counts[place:stop])
            if own.size:
                stop = place + int(own[0]) + 1
                told.append(stop - 1)
                _learn(log, policy, stop - 1)
            matched[place:stop] = same[: stop - place]
            place = stop
    return Steps(matched, np.array(told, dtype=np.int64))


def _learn(log: Log, policy: Learner, place: int) -> None:
    epsilon = int(log.epsilons[place])
    mask = None if epsilon == log.epsilon else mask_of(epsilon)
    policy.observe(int(log.arm[place]), int(log.bit[place]), mask)


def _stretches(log: Log, policy: Learner) -> Iterator[tuple[int, int]]:
    """Yield from where to where the same arms are open, if any are; in between, let the policy know."""
    later = [(arm.start, True, arm.place) for arm in log.arms if arm.start > 0]
    gone = [(arm.end, False, arm.place) for arm in log.arms if arm.end < log.size]
    changes = sorted([*later, *gone], key=lambda change: (change[0], not change[1], change[2]))
    place, is_open = 0, _first_arms(log)
    leaving: list[int] = []
    for at, is_new, arm in [*changes, (log.size, True, NOBODY)]:
        if is_open and at > place:
            yield place, at
        place = at
        if arm != NOBODY and is_new:
            policy.add_arm()
        elif arm != NOBODY:
            leaving.append(arm)
        is_open += 1 if is_new else -1
        while leaving and is_open:  # the last one stays until there is another
            policy.retire(leaving.pop())


def judge(log: Log, name: str, runs: Sequence[Steps], start: int, end: int) -> Trial:
    """Return what runs over the whole log say of a stretch of it."""
    if not runs:
        return Trial(name, None)
    means = earlier_means(log.rewards, log.worth)[start:end]
    worth = log.worth[start:end] * (log.open_arms()[start:end] > 0)
    gains = worth * (log.rewards[start:end] - means) * (WHOLE / log.probability[start:end])
    each = np.array([float(gains[run.matched[start:end]].sum()) for run in runs])
    shares = np.mean([run.matched[start:end] for run in runs], axis=0)
    total, whole = float((worth * means).sum() + each.mean()), float(worth.sum())
    sure = sure_method(log, slice(start, end), WHOLE / log.least)
    found = estimate(total, float(((shares * gains) ** 2).sum()), whole, sure, int(shares.sum()))
    told = float(np.mean([np.count_nonzero((run.told >= start) & (run.told < end)) for run in runs]))
    return Trial(name, found, told, float(np.std(each, ddof=1)) / whole if len(runs) > 1 else 0.0)
