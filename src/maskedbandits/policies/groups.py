"""Policies for groups of people, at several grains: their compiled steps.

The policies of all parts of all grains are one state (``stacks.py``); which grain is asked ``grains.py`` tells.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.compiled import compiled, entry, inlined
from maskedbandits.maths import lots
from maskedbandits.policies.grains import Grains, drawn_grain, weigh_bit, weigh_one
from maskedbandits.policies.play import Tally, World, choose, decide, observe, reckoned, start, take_in
from maskedbandits.policies.stacks import nth
from maskedbandits.policies.state import Arms, stop_awaiting
from maskedbandits.record import Floats, Ints

BITS = 64  # of a word


class Groups(NamedTuple):
    """Who comes; what is counted of each group."""

    ends: Floats  # (G,) the sum of the shares up to each group
    table: Ints  # (parts,) the arm for each part, of the present question
    lost: Floats  # (G,) regret so far
    lost_over_time: NDArray[np.float64]  # (C, G) regret up to each checkpoint


@entry
def start_groups(state: Any) -> None:
    """Forget everything, in all groups."""
    for each in range(state.own.size):
        start(nth(state, each))


@entry
def ask_groups(state: Any, grains: Grains, table: Ints) -> int:
    """Draw a grain, and write down the arm for each of its parts; of each a report is awaited."""
    grain = drawn_grain(state, grains)
    first = grains.firsts[grain]
    for part in range(grains.firsts[grain + 1] - first):
        table[part] = decide(nth(state, first + part))
    return grain


@entry
def take_in_bits(state: Any, grains: Grains, grain: int, table: Ints, signs: Ints, answer: int) -> None:
    """Let every part learn from one masked bit, as its sign shows it."""
    for part in range(table.size):
        grains.told[part] = float(answer ^ signs[part])
    weigh_bit(state, grains, grain, table)
    for part in range(table.size):
        take_in(nth(state, grains.firsts[grain] + part), table[part], grains.told[part])


@entry
def take_in_one(state: Any, grains: Grains, grain: int, table: Ints, part: int, feedback: float) -> None:
    """Let one part learn; of the others no report will come."""
    weigh_one(state, grains, grain, part, table[part], feedback)
    first = grains.firsts[grain]
    for other in range(table.size):
        if other != part:
            stop_awaiting(nth(state, first + other), table[other])
    take_in(nth(state, first + part), table[part], feedback)


@inlined
def _visitor(state: Arms, groups: Groups) -> int:
    """Draw the group of the next visitor."""
    lot = lots.uniform(state.lots)
    group = 0
    while group < groups.ends.size - 1 and lot >= groups.ends[group]:
        group += 1
    return group


@inlined
def _answer_by_a_bit(state: Any, grains: Grains, grain: int, table: Ints, means: Floats, group: int) -> int:
    """Ask for a bit, and let all parts learn from it; return the arm that was played.

    To the visitor's own part the bit is the masked reward, to every other a fair coin: its sign is one.
    """
    own = nth(state, 0)
    arms, first, visited = own.own[0].arms, grains.firsts[grain], grains.parts[grain, group]
    many = grains.firsts[grain + 1] - first
    for part in range(many):
        table[part] = choose(nth(state, first + part))
    arm = table[visited]
    chance = 0.5 + grains.slopes[grain] * (means[group * arms + arm] - 0.5)
    feedback = 1.0 if lots.uniform(own.lots) < chance else 0.0
    coins = np.uint64(0)
    for part in range(many):
        if part % BITS == 0:
            coins = lots.word(own.lots)
        coin = float(coins >> np.uint64(part % BITS) & np.uint64(1))
        grains.told[part] = feedback if part == visited else coin
    weigh_bit(state, grains, grain, table)
    for part in range(many):
        observe(nth(state, first + part), table[part], grains.told[part])
    return arm


@inlined
def _answer_by_one_of_many(state: Any, grains: Grains, grain: int, means: Floats, group: int) -> int:
    """Ask for part and reward together, and let the part learn that is named; return the arm that was played."""
    own = nth(state, 0)
    first, slope, visited = grains.firsts[grain], grains.slopes[grain], grains.parts[grain, group]
    arms, many = own.own[0].arms, 2 * (grains.firsts[grain + 1] - first)
    arm = choose(nth(state, first + visited))
    lot = lots.uniform(own.lots)
    if lot < slope:  # what is named is true
        named, other = visited, arm
        feedback = 1.0 if lots.uniform(own.lots) < means[group * arms + arm] else 0.0
    else:
        place = min(int((lot - slope) / (1.0 - slope) * many), many - 1)  # any of all answers
        named = place >> 1
        other = arm if named == visited else choose(nth(state, first + named))
        feedback = float(place & 1)
    weigh_one(state, grains, grain, named, other, feedback)
    observe(nth(state, first + named), other, feedback)
    return arm


@compiled
def advance_groups(
    state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, groups: Groups, grains: Grains
) -> None:
    """Play one run on, up to step ``until``: in a row of the world the arms of one group follow those of the other."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    own = nth(state, 0)
    arms = own.own[0].arms
    while done < until:
        group = _visitor(own, groups)
        means = world.feedback_means[segment]
        grain = drawn_grain(state, grains)
        if grains.one_bit[grain]:
            arm = _answer_by_a_bit(state, grains, grain, groups.table, means, group)
        else:
            arm = _answer_by_one_of_many(state, grains, grain, means, group)
        groups.lost[group] += world.gaps[segment, group * arms + arm]
        tally.recent[group * arms + arm] += 1
        done += 1
        before = following
        segment, following = reckoned(world, checkpoints, tally, done, segment, following)
        if following > before:
            for each in range(groups.lost.size):
                groups.lost_over_time[before, each] = groups.lost[each]
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
