"""A test whether arms lose different shares of their reports, which biases estimates.

Lost reports are harmless while every arm loses the same share. If visitors of one arm leave sooner, or its page sends
no reports, those who remain are not like the others, and estimates compare different people.

Decisions are settled once they have expired: each was then reported or not. They are settled by the step of their
expiry (``pending.py``). Within a step, the test knows how many decisions each arm had, and how many were reported in
all. If every decision is reported with the same probability, the reports of an arm follow a hypergeometric law, however
many are lost in this step or another. So neither a bad hour nor a policy that changes its mind looks like a difference.

The evidence is a likelihood ratio against that law: a mean over arms, and over odds of a report that are higher or
lower by some factors. Its expectation is 1 without a difference, after every step. By Ville's inequality it ever
reaches 1 / FALSE_ALARMS with a probability of at most FALSE_ALARMS, however often somebody looks. The only assumption
is that which arm a decision gets does not depend on whether earlier decisions of its own step were reported.

Each process counts from its start, so a restart discards earlier evidence. Experiments with groups have no counts by
arm.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FALSE_ALARMS = 0.01  # the probability of ever warning without a difference, in the life of a process
MIN_DIFFERENCE = 0.02  # in shares of decisions: less biases estimates little
MAX_ARMS = 1000  # later arms would need more evidence than they ever get
EFFECTS = np.array([effect * sign for effect in (0.1, 0.2, 0.5, 1.0) for sign in (1, -1)])  # logarithms of odds ratios

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Settled(NamedTuple):
    """The decisions of one step that have expired, and the reports of them, both by arm."""

    arms: Ints
    issued: Ints
    reported: Ints


class MissingReports:
    """Counts settled decisions, and weighs the evidence that arms lose different shares; it is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._issued: dict[int, int] = {}  # by arm
        self._reported: dict[int, int] = {}
        self._expected: dict[int, float] = {}  # reports, if no arm differed
        self._evidence: dict[int, Floats] = {}  # logarithms of likelihood ratios, by effect

    def add(self, steps: Sequence[Settled]) -> None:
        """Count settled decisions."""
        with self._lock:
            for step in steps:
                self._add(step)

    def _add(self, step: Settled) -> None:
        reported = np.minimum(step.reported, step.issued)  # a process that was killed did not count its last second
        total, received = int(step.issued.sum()), int(reported.sum())
        for arm, own, reports in zip(step.arms.tolist(), step.issued.tolist(), reported.tolist(), strict=True):
            if own <= 0 or arm >= MAX_ARMS:
                continue
            self._issued[arm] = self._issued.get(arm, 0) + own
            self._reported[arm] = self._reported.get(arm, 0) + reports
            self._expected[arm] = self._expected.get(arm, 0.0) + own * received / total
            evidence = self._evidence.setdefault(arm, np.zeros(EFFECTS.size))
            evidence += compute_log_ratios(reports, own, received, total)

    def view(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the share of missing reports by arm, the evidence of a difference, and a warning if there is one."""
        with self._lock:
            issued = [self._issued.get(arm, 0) for arm in range(len(names))]
            shares = [1 - self._reported[arm] / n if n else None for arm, n in enumerate(issued)]
            evidence = math.exp(min(self._sum_evidence(), 700.0))
            differences = {
                arm: (self._expected[arm] - self._reported[arm]) / n
                for arm, n in self._issued.items()
                if arm < len(names)
            }
        warning = None
        large = {arm: each for arm, each in differences.items() if abs(each) >= MIN_DIFFERENCE}
        if large and evidence >= 1 / FALSE_ALARMS:
            warning = _format_warning(names, large)
        return {"shares": shares, "evidence": evidence, "p_value": min(1.0, 1 / evidence), "warning": warning}

    def _sum_evidence(self) -> float:
        """Return the logarithm of the evidence of all arms; their weights do not change when arms are added."""
        logs = [-math.inf]
        left = 1.0  # of all weights, for arms without decisions, whose ratios are 1
        for arm, evidence in self._evidence.items():
            weight = 1 / ((arm + 1) * (arm + 2))
            left -= weight
            logs += (evidence + math.log(weight / EFFECTS.size)).tolist()
        logs.append(math.log(left) if left > 0 else -math.inf)
        return _log_sum(np.array(logs))


def compute_log_ratios(reports: int, issued: int, received: int, total: int) -> Floats:
    """Return by effect how much likelier it makes the reports of an arm than no difference does, in logarithms.

    Of ``total`` decisions, ``issued`` are of the arm. Of ``received`` reports, ``reports`` are.
    """
    least, most = max(0, issued + received - total), min(issued, received)
    if least == most:  # there is no other possibility
        return np.zeros(EFFECTS.size)
    k = np.arange(least, most, dtype=np.float64)
    steps = np.log((issued - k) * (received - k)) - np.log((k + 1) * (total - issued - received + k + 1))
    law = np.concatenate([[0.0], np.cumsum(steps)])  # logarithms of the hypergeometric law, but for a constant
    counts = np.arange(law.size, dtype=np.float64)
    tilted = np.array([_log_sum(law + effect * counts) for effect in EFFECTS.tolist()])
    return np.asarray(EFFECTS * (reports - least) - (tilted - _log_sum(law)))


def _log_sum(logs: Floats) -> float:
    """Return the logarithm of a sum of exponentials, much faster than `logaddexp.reduce`."""
    largest = logs.max()
    return float(largest + np.log(np.exp(logs - largest).sum()))


def _format_warning(names: Sequence[str], differences: dict[int, float]) -> str:
    """Return the warning without numbers, because a dashboard announces a text again whenever it changes."""
    arm = max(differences, key=lambda each: abs(differences[each]))
    often = "more" if differences[arm] > 0 else "less"
    return (
        f"Estimates may be biased: reports of arm {names[arm]!r} are missing {often} often than those of other arms. "
        "Check whether its visitors leave earlier, or its page sends no reports."
    )
