"""Slow, obvious twins of what a group sees of masked answers, and of what follows; imports nothing of ours."""

import itertools
import math
from collections.abc import Sequence

from naive import theory


def seen_by(group: int, many: bool, epsilon: float, shares: Sequence[float], mean: float) -> tuple[float, float]:
    """How often an answer is one to this group, and how often it then is a 1: all visitors, rewards, signs, answers.

    The means of other groups do not matter, and are 0.3 here.
    """
    groups, named, ones = len(shares), 0.0, 0.0
    for visitor, reward in itertools.product(range(groups), (0, 1)):
        own = mean if visitor == group else 0.3
        chance = shares[visitor] * (own if reward else 1 - own)
        if many:
            whole = math.exp(epsilon) + 2 * groups - 1
            for answer in (2 * group, 2 * group + 1):
                likely = chance * (math.exp(epsilon) if answer == 2 * visitor + reward else 1.0) / whole
                named, ones = named + likely, ones + likely * (answer % 2)
            continue
        for sign, other, answer in itertools.product((0, 1), repeat=3):  # the signs of this group, and of another
            true = answer == reward ^ (sign if visitor == group else other)
            likely = chance / 4 * (math.exp(epsilon) if true else 1.0) / (1 + math.exp(epsilon))
            named, ones = named + likely, ones + likely * (answer ^ sign)
    return named, ones / named


def regret_bound(
    means: Sequence[Sequence[Sequence[float]]],
    lengths: Sequence[int],
    shares: Sequence[float],
    epsilon: float,
    many: bool,
    window: int,
) -> list[float]:
    """The bound of each group with two arms: gap times pulls, in its own steps, of which each stands for several."""
    found = []
    for group, share in enumerate(shares):
        lost = 0.0
        for segment, length in enumerate(lengths):
            worse, best = sorted(means[segment][group])
            named, x = seen_by(group, many, epsilon, shares, worse)
            _, y = seen_by(group, many, epsilon, shares, best)
            pulls = theory.corrected_pulls(x, y, length, segment == 0, window, 3.0) if best > worse else 0.0
            lost += (best - worse) * min(pulls, length)
        dearest = max(max(row[group]) - min(row[group]) for row in means)
        found.append(min(share / named * lost, share * sum(lengths) * dearest))
    return found


def times_as_many(epsilon: float, groups: int, kind: str, arms: int = 1) -> float:
    """How many visitors tell a group of average size as much as one whose group and reward are seen.

    Of the triple, one of 2 G K answers, those count that the table allows: any other arm than the group's is false.
    """
    shares = [1 / groups] * groups
    if kind == "triple":
        whole = math.exp(epsilon) + 2 * groups * arms - 1
        truth, other = math.exp(epsilon) / whole, 1 / whole
        named = shares[0] * (truth + other) + (1 - shares[0]) * 2 * other
        slope = shares[0] * (truth - other) / named
    else:
        named, one = seen_by(0, kind == "one of many", epsilon, shares, 1.0)
        slope = 2 * one - 1
    return shares[0] / (named * slope**2)
