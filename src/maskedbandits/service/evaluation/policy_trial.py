"""Off-policy estimates of policies that learn: each is replayed over the log and learns from the arms it agrees with.

At each report the policy chooses an arm before it learns which one was shown. If they agree, the report counts as the
policy's own with probability c / p, where p is the probability of the arm and c the least that any arm can have. So
every choice is accepted with probability c, and the policy observes what it would have observed by deciding itself (Li,
Chu, Langford and Wang 2011, Unbiased offline evaluation of contextual-bandit-based news article recommendation
algorithms, WSDM, for arms shown at random; Dudik, Erhan, Langford and Li 2012, Sample-efficient nonstationary policy
evaluation for contextual bandits, UAI, for others).

Times in its parameters, such as a window, are in reports of the log. A run learns from a share c of them, so they are
converted, as on any log (``policies/log_times.py``).

Its reward is estimated from all reports, not only from those that it learns from: h (m + w (r - m)), with w = 1 / p if
it chose the arm that was shown and else 0, has the expectation h times the reward of its choice (the doubly robust
estimate of the second paper); m is the mean of all earlier reports. Several runs with different random numbers go side
by side over one log. The prediction of the mean of their terms depends on the past alone, so the interval of
intervals.py holds for the reward of these runs. An interval from the differences between runs would be too narrow,
because all of them read the same log.
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
from maskedbandits.service.evaluation.estimators import MeanEstimate, build_bound, build_estimate, compute_earlier_means
from maskedbandits.service.evaluation.log import NO_ARM, Floats, Ints, ReportLog
from maskedbandits.service.state import check_offered, get_mask

DEFAULT_REPEATS = 10
MAX_DRAWS = 4096  # of choices at once


class Learner(Protocol):
    """The methods of a policy that a trial needs."""

    def sample(self, n: int) -> Ints:
        """Return n arms, each drawn as the policy would choose now."""

    def observe(self, arm: int, feedback: float, corruption: Any = None) -> None:
        """Learn from a report."""

    def add_arm(self) -> int:
        """Add an arm."""

    def retire(self, arm: int) -> None:
        """Retire an arm."""


class Candidate(NamedTuple):
    """A policy to try."""

    label: str
    name: str
    parameters: dict[str, Any]


class RunSteps(NamedTuple):
    """The reports at which a run chose the arm that was shown, and the indexes of those it learned from."""

    matched: NDArray[np.bool_]
    learned: Ints


@dataclass(frozen=True)
class PolicyEstimate:
    """The estimate of a policy that learns."""

    name: str
    estimate: MeanEstimate | None  # None if not every arm could be shown
    learned: float = 0.0  # reports that a run learned from, on average
    spread: float = 0.0  # standard deviation over runs


def parse_candidate(text: str) -> Candidate:
    """Parse NAME, or NAME:key=value,key=value."""
    name, _, options = text.partition(":")
    check_offered(name)
    parameters = {}
    for part in filter(None, options.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise WrongValueError("--policy", text, "NAME, or NAME:key=value,key=value")
        try:
            parameters[key.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            parameters[key.strip()] = value
    return Candidate(text, name, parameters)


def check_candidate(log: ReportLog, candidate: Candidate) -> None:
    """Refuse parameters that the policy does not take, or that do not fit the reports a run learns from."""
    arms, mask, pace = len(log.arms), get_mask(log.created_epsilon), compute_pace(log) if can_run(log) else None
    check_policy(candidate.name, arms=arms, corruption=mask, pace=pace, **candidate.parameters)
    if log_times.rows_of(kind_of(candidate.name), candidate.parameters):
        raise UserError(f"{candidate.label}: restarts at fixed times cannot be evaluated on a log; leave them out")


def compute_pace(log: ReportLog) -> float:
    """Return the mean number of reports for each one that a run learns from."""
    return WHOLE / log.min_probability


def _count_first_arms(log: ReportLog) -> int:
    return sum(arm.start == 0 for arm in log.arms)


def can_run(log: ReportLog) -> bool:
    """Tell whether every arm that a policy may choose could be shown for sure."""
    return all(log.is_supported(arm) for arm in log.arms)


def run_candidate(log: ReportLog, candidate: Candidate, seed: int, run: int) -> RunSteps:
    """Run a policy over the log with the random numbers of a seed and a run."""
    words = np.random.SeedSequence([seed, run]).generate_state(2, np.uint64)
    mask = get_mask(log.created_epsilon)
    arms = _count_first_arms(log)
    played = log_times.in_plays(kind_of(candidate.name), candidate.parameters, arms, compute_pace(log))
    policy = make_policy(candidate.name, arms=arms, corruption=mask, seed=int(words[0]), **played)
    uniforms = np.random.default_rng(int(words[1])).random(log.size)
    return run_policy(log, policy, uniforms, is_random=bool(policy.kind.draws_from))


def run_policy(log: ReportLog, policy: Learner, uniforms: Floats, *, is_random: bool) -> RunSteps:
    """Run a policy over the log once; a matching report counts if its uniform number is below c / p.

    The policy's choice changes only when it learns, so many reports are compared at once: with as many draws, or with
    one if the policy is deterministic.
    """
    counts = uniforms < log.min_probability / log.probability
    matched = np.zeros(log.size, dtype=np.bool_)
    batch = max(16, min(MAX_DRAWS, WHOLE // log.min_probability))
    learned = []
    for start, end in _split_by_arms(log, policy):
        index = start
        while index < end:
            stop = min(end, index + batch)
            same = policy.sample(stop - index if is_random else 1) == log.arm[index:stop]
            own = np.flatnonzero(same & counts[index:stop])
            if own.size:
                stop = index + int(own[0]) + 1
                learned.append(stop - 1)
                _observe(log, policy, stop - 1)
            matched[index:stop] = same[: stop - index]
            index = stop
    return RunSteps(matched, np.array(learned, dtype=np.int64))


def _observe(log: ReportLog, policy: Learner, index: int) -> None:
    epsilon = int(log.epsilon[index])
    mask = None if epsilon == log.created_epsilon else get_mask(epsilon)
    policy.observe(int(log.arm[index]), int(log.bit[index]), mask)


def _split_by_arms(log: ReportLog, policy: Learner) -> Iterator[tuple[int, int]]:
    """Yield ranges of reports with the same open arms, if any; in between, add and retire arms of the policy."""
    later = [(arm.start, True, arm.index) for arm in log.arms if arm.start > 0]
    gone = [(arm.end, False, arm.index) for arm in log.arms if arm.end < log.size]
    changes = sorted([*later, *gone], key=lambda change: (change[0], not change[1], change[2]))
    index, open_arms = 0, _count_first_arms(log)
    leaving: list[int] = []
    for at, is_new, arm in [*changes, (log.size, True, NO_ARM)]:
        if open_arms and at > index:
            yield index, at
        index = at
        if arm != NO_ARM and is_new:
            policy.add_arm()
        elif arm != NO_ARM:
            leaving.append(arm)
        open_arms += 1 if is_new else -1
        while leaving and open_arms:  # a policy keeps its last arm until there is another
            policy.retire(leaving.pop())


def estimate_policy(log: ReportLog, name: str, runs: Sequence[RunSteps], start: int, end: int) -> PolicyEstimate:
    """Estimate a policy on a part of the log, from its runs over all of it."""
    if not runs:
        return PolicyEstimate(name, None)
    means = compute_earlier_means(log.rewards, log.worth)[start:end]
    worth = log.worth[start:end] * (log.count_open_arms()[start:end] > 0)
    gains = worth * (log.rewards[start:end] - means) * (WHOLE / log.probability[start:end])
    each = np.array([float(gains[run.matched[start:end]].sum()) for run in runs])
    shares = np.mean([run.matched[start:end] for run in runs], axis=0)
    total, weight = float((worth * means).sum() + each.mean()), float(worth.sum())
    bound = build_bound(log, slice(start, end), WHOLE / log.min_probability)
    estimate = build_estimate(total, float(((shares * gains) ** 2).sum()), weight, bound, int(shares.sum()))
    learned = float(np.mean([np.count_nonzero((run.learned >= start) & (run.learned < end)) for run in runs]))
    spread = float(np.std(each, ddof=1)) / weight if len(runs) > 1 else 0.0
    return PolicyEstimate(name, estimate, learned, spread)
