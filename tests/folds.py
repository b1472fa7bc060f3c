"""What policies learn from a log, as a digest: the same, however it was told, with the compiler on and off.

`python tests/folds.py NAME` prints the digests of a log and of its beginning, as JSON.
"""

import json
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maskedbandits import Policy, RandomizedResponse, make_policy
from maskedbandits.corruption import Corruption
from specimens import LONG_MEMORIES, RR
from watchers import DETECTORS

BEFORE = ("", "sw-", "d-", "glr-", "cusum-", "ph-", "m-")
OFFERED = ["auto", *(f"{before}{index}-cf" for before in BEFORE for index in ("klucb", "ucb", "ts"))]
ARMS = 4
WEAK, CLEAR, OTHER_WAY = (
    RandomizedResponse.from_epsilon(0.5),
    RandomizedResponse(0.9, 0.95),
    RandomizedResponse(0.1, 0.3),
)
PEOPLE = [None, RR, WEAK, CLEAR, OTHER_WAY]


class Report(NamedTuple):
    arm: int
    feedback: float
    corruption: Corruption | None


def fresh(name: str, arms: int, seed: int) -> Policy:
    """A policy that is easily alarmed."""
    before = name.partition("-")[0]
    given = LONG_MEMORIES.get(f"{before}-", DETECTORS.get(before, ({}, None))[0])
    window = {"window": max(17, arms)} if before == "sw" else {}
    return make_policy(name, arms=arms, corruption=RR, seed=seed, **{**given, **window})


def drawn_reports(rng: np.random.Generator, arms: int, length: int) -> list[Report]:
    """Bits, mostly, of means that jump; from some moment on perhaps with masks of their own, and perhaps fractions."""
    own = rng.integers(length) if rng.random() < 0.6 else length
    fractions = rng.integers(length) if rng.random() < 0.3 else length
    means = rng.random((length // 50 + 1, arms)).repeat(50, axis=0)
    reports = []
    for time in range(length):
        arm = int(rng.integers(arms))
        feedback = float(rng.random() < means[time, arm])
        if time > fractions and rng.random() < 0.5:
            feedback = float(rng.integers(9)) / 8
        reports.append(Report(arm, feedback, PEOPLE[rng.integers(5)] if time >= own else None))
    return reports


def fold_in_chunks(policy: Policy, reports: Sequence[Report], rng: np.random.Generator) -> None:
    begin = 0
    while begin < len(reports):
        some = reports[begin : begin + int(rng.integers(1, 60))]
        begin += len(some)
        arms, feedbacks, corruptions = zip(*some, strict=True)
        plain = all(each is None for each in corruptions) and rng.random() < 0.5
        policy.observe_many(arms, feedbacks, None if plain else corruptions)


def digests(name: str) -> list[str]:
    """Return the digests of the first reports, and of all, of a log."""
    rng = np.random.default_rng(7)
    policy, reports, found = fresh(name, ARMS, 1), drawn_reports(rng, ARMS, 120), []
    for some in (reports[:60], reports[60:]):
        fold_in_chunks(policy, some, rng)
        found.append(policy.fold_digest())
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests(sys.argv[1])))
