"""Off-line evaluation that is obvious: every formula as it is written, report by report; nothing of ours is imported.

Numbers may be floats, or fractions, with which everything but square roots is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Number = Any
PARTS = 4000


@dataclass
class Event:
    """A report (arm, debiased reward, worth, probability), or a change: see `open_at`."""

    kind: str
    hour: int
    arm: int = -1
    reward: Number = 0
    worth: Number = 1
    probability: Number = 1
    subset: bool = False
    arms: int = 0  # of "create"
    floor: bool = False  # of "create" and "config"
    holdout: bool = False
    default: int = 0
    wait: int = 0  # hours until reports are due


@dataclass
class Term:
    """A report that counts, the arms that were open, and those which every decision could surely have shown."""

    event: Event
    open: list[int]
    sure: list[int]


def terms(events: list[Event]) -> list[Term]:
    """Look back, at every report, over all changes before it."""
    found = []
    for place, event in enumerate(events):
        if event.kind == "report" and not event.subset:
            found.append(Term(event, *_arms_at(events[:place], event.hour)))
    return found


def _arms_at(before: list[Event], now: int) -> tuple[list[int], list[int]]:
    passed = [(event, _latest_hour(before[place:], now)) for place, event in enumerate(before)]
    arms = list(range(before[0].arms))
    known, wait = before[0].arms, before[0].wait
    settings = [(before[0], True)]  # all that may have been in force at the decision
    for event, latest in passed:
        if event.kind == "config":
            wait = event.wait
            settled = latest > event.hour + wait
            settings = [(event, True)] if settled else [*settings, (event, True)]
        elif event.kind == "arm":
            if latest > event.hour + wait:
                arms.append(known)
            known += 1
        elif event.kind == "retire" and event.arm in arms:
            arms.remove(event.arm)
    sure = [arm for arm in arms if all(s.floor or (s.holdout and s.default == arm) for s, _ in settings)]
    return arms, sure


def _latest_hour(events: list[Event], now: int) -> int:
    """The latest hour in which a report that counts has come since."""
    return max([now, *(event.hour for event in events if event.kind == "report" and not event.subset)])


def shares(term: Term, arm: int | None) -> dict[int, Number]:
    """What a choice shows: one arm, or any of the open ones; nothing while it is not open."""
    if arm is None:
        return {each: 1 / _like(term, len(term.open)) for each in term.open}
    return {arm: _like(term, 1)} if arm in term.open else {}


def _like(term: Term, value: int) -> Number:
    return type(term.event.probability)(value)


def mean_before(found: list[Term], end: int, arm: int) -> Number:
    """The mean of an arm's earlier reports while it was open, in [0, 1]."""
    total, weight = _like(found[0], 1) / 2, _like(found[0], 1)
    for term in found[:end]:
        if term.event.arm == arm and arm in term.open:
            total += term.event.worth * term.event.reward
            weight += term.event.worth
    return min(max(total / weight, 0), 1)


def judge(found: list[Term], arm: int | None) -> dict[str, Number]:
    """IPS, self-normalised and doubly robust, with the squares that their intervals rest on."""
    ips = weight = robust = whole = squares = robust_squares = 0
    for place, term in enumerate(found):
        choice = shares(term, arm)
        if not choice:
            continue
        event = term.event
        w = choice.get(event.arm, 0) / event.probability
        foreseen = sum(share * mean_before(found, place, each) for each, share in choice.items())
        left = w * (event.reward - mean_before(found, place, event.arm)) if w else 0
        whole += event.worth
        ips += event.worth * w * event.reward
        weight += event.worth * w
        robust += event.worth * (foreseen + left)
        squares += (event.worth * w * event.reward) ** 2
        robust_squares += (event.worth * left) ** 2
    return {
        "ips": ips / whole,
        "normalised": ips / weight if weight else None,
        "robust": robust / whole,
        "squares": squares,
        "robust_squares": robust_squares,
        "whole": whole,
        "weight": weight,
        "sure": all(set(shares(term, arm)) <= set(term.sure) for term in found),
    }


def process(deviation: float, squares: float, most: float, x: float) -> float:
    """What is on average at most 1, for any x below 1 / most."""
    psi = (-math.log(1 - most * x) - most * x) / most**2
    return math.exp(x * deviation - psi * squares)


def evidence(deviation: float, squares: float, most: float, rho: float) -> float:
    """The same, averaged over x by the midpoint rule."""
    above = below = 0.0
    for part in range(PARTS):
        x = (part + 0.5) / PARTS / most
        density = math.exp(x * rho / most) * (1 - most * x) ** (rho / most**2)
        above += density * process(deviation, squares, most, x)
        below += density
    return above / below


def radius(squares: float, most: float, rho: float, delta: float) -> float:
    """The deviation at which the evidence reaches 2 / delta, by bisection."""
    low, high = 0.0, 1.0
    while evidence(high, squares, most, rho) < 2 / delta:
        high *= 2
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if evidence(middle, squares, most, rho) < 2 / delta else (low, middle)
    return high


def run_over(found: list[Term], policy: Any, rng: list[float], least: float) -> tuple[list[bool], list[int]]:
    """Choose, compare, and learn with the given chance, one report after the other."""
    matched, learned = [], []
    for place, (term, draw) in enumerate(zip(found, rng, strict=True)):
        same = policy.choose(term.open) == term.event.arm
        matched.append(same)
        if same and draw < least / term.event.probability:
            policy.learn(term.event.arm, term.event.reward)
            learned.append(place)
    return matched, learned


def tried(found: list[Term], runs: list[list[bool]]) -> tuple[Number, Number]:
    """The mean reward of runs, and the squares of what was not foreseen."""
    total = squares = whole = 0
    for place, term in enumerate(found):
        event = term.event
        rewards, weight = _like(term, 1) / 2, _like(term, 1)
        for earlier in found[:place]:
            rewards += earlier.event.worth * earlier.event.reward
            weight += earlier.event.worth
        mean = min(max(rewards / weight, 0), 1)
        share = sum(run[place] for run in runs) / _like(term, len(runs))
        left = event.worth * share * (event.reward - mean) / event.probability
        total += event.worth * mean + left
        squares += left**2
        whole += event.worth
    return total / whole, squares
