"""What policies learn from a log, as a digest: the same for any batches, with the compiler on and off.

`python tests/log_digests.py NAME ...` prints the digests of a log and of its beginnings for each policy, as JSON.
"""

import json
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from detector_settings import DETECTORS
from maskedbandits import Policy, RandomizedResponse, make_policy
from maskedbandits.corruption import Corruption
from specimens import LONG_MEMORIES, RR

BEFORE = ("", "sw-", "d-", "glr-", "cusum-", "ph-", "m-")
OFFERED = ["auto", *(f"{before}{index}-cf" for before in BEFORE for index in ("klucb", "ucb", "ts"))]
ARMS, MORE = 4, 3  # at first, and that may come
WEAK, CLEAR, OTHER_WAY = (
    RandomizedResponse.from_epsilon(0.5),
    RandomizedResponse(0.9, 0.95),
    RandomizedResponse(0.1, 0.3),
)
MASKS = [RR, CLEAR, OTHER_WAY]
PEOPLE = [None, RR, WEAK, CLEAR, OTHER_WAY]


class Report(NamedTuple):
    arm: int
    feedback: float
    corruption: Corruption | None


class Added(NamedTuple):
    corruption: Corruption


class Retired(NamedTuple):
    arm: int


Event = Report | Added | Retired


def fresh(name: str, arms: int, seed: int) -> Policy:
    """A policy that is easily alarmed."""
    before = name.partition("-")[0]
    given = LONG_MEMORIES.get(f"{before}-", DETECTORS.get(before, ({}, None))[0])
    window = {"window": max(17, arms + MORE)} if before == "sw" else {}
    return make_policy(name, arms=arms, corruption=RR, seed=seed, **{**given, **window})


def drawn_log(rng: np.random.Generator, arms: int, length: int) -> list[Event]:
    """Bits, mostly, of means that jump; from some moment on perhaps with masks of their own, and perhaps fractions.

    Now and then an arm comes, or goes.
    """
    own = rng.integers(length) if rng.random() < 0.6 else length
    fractions = rng.integers(length) if rng.random() < 0.3 else length
    changing = rng.random() < 0.7
    means = rng.random((length // 50 + 1, arms + MORE)).repeat(50, axis=0)
    left, most = list(range(arms)), arms + MORE
    log: list[Event] = []
    for time in range(length):
        if changing and arms < most and rng.random() < 0.03:
            log.append(Added(MASKS[int(rng.integers(3))]))
            left.append(arms)
            arms += 1
        if changing and len(left) > 1 and rng.random() < 0.02:
            log.append(Retired(left.pop(int(rng.integers(len(left))))))
        arm = int(rng.integers(arms))
        feedback = float(rng.random() < means[time, arm])
        if time > fractions and rng.random() < 0.5:
            feedback = float(rng.integers(9)) / 8
        log.append(Report(arm, feedback, PEOPLE[int(rng.integers(5))] if time >= own else None))
    return log


def tell(policy: Policy, event: Event) -> None:
    """Tell a policy one thing."""
    match event:
        case Report():
            policy.observe(*event)
        case Added():
            policy.add_arm(event.corruption)
        case Retired():
            policy.retire(event.arm)


def tell_in_chunks(policy: Policy, log: Sequence[Event], rng: np.random.Generator) -> None:
    """Tell a policy many things, reports many at once."""
    begin = 0
    while begin < len(log):
        some = list(takewhile(lambda each: isinstance(each, Report), log[begin : begin + int(rng.integers(1, 60))]))
        begin += max(len(some), 1)
        if not some:
            tell(policy, log[begin - 1])
            continue
        arms, feedbacks, corruptions = zip(*some, strict=True)
        plain = all(each is None for each in corruptions) and rng.random() < 0.5
        policy.observe_many(arms, feedbacks, None if plain else corruptions)


def digests(name: str) -> list[str]:
    """Return the digests of the beginnings of a log, and of all of it."""
    rng = np.random.default_rng(7)
    policy, log, found = fresh(name, ARMS, 1), drawn_log(rng, ARMS, 120), []
    for some in (log[:40], log[40:80], log[80:]):
        tell_in_chunks(policy, some, rng)
        found.append(policy.fold_digest())
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: digests(name) for name in sys.argv[1:]}))
