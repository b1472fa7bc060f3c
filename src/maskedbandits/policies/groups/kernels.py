"""Policies for groups of people, at several grains: their compiled steps.

The policies of all parts of all grains are one state (``_numba/state.py``); which grain is asked ``levels.py`` tells.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, entry, inlined
from maskedbandits._numba.state import Floats, Ints, select_state
from maskedbandits.math import rng
from maskedbandits.policies.groups.levels import Grains, drawn_grain, hand_down, listening_grain, weigh_bit, weigh_one
from maskedbandits.policies.index.report_masks import ARMS_OWN, as_seen
from maskedbandits.policies.kernels import (
    Tally,
    World,
    choose,
    choose_open,
    next_arm,
    observe,
    observe_masked,
    reckoned,
    start,
)
from maskedbandits.policies.pending import await_reports, stop_awaiting
from maskedbandits.policies.state import Arms

BITS = 64  # of a word


class Groups(NamedTuple):
    """Who comes; what is counted of each group."""

    ends: Floats  # (G,) the sum of the shares up to each group
    table: Ints  # (parts,) the arm for each part, of the present question
    lost: Floats  # (G,) regret so far
    lost_over_time: NDArray[np.float64]  # (C, G) regret up to each checkpoint


class Answers(NamedTuple):
    """Masked answers to questions, one after the other; tables and signs are by part, and go on with zeros."""

    grains: Ints  # (n,) at which each was asked
    tables: NDArray[np.int64]  # (n, G)
    signs: NDArray[np.int64]  # (n, G)
    values: Ints  # (n,)
    masks: Ints  # (n,) which of the masks below each has, or ARMS_OWN
    lines: NDArray[np.float64]  # (masks x policies, 3) what each policy sees through a mask, as in ``axes/reports.py``
    slopes: NDArray[np.float64]  # (masks, M) of an answer at each grain


_INTS, _TABLE = np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64)
NO_ANSWERS = Answers(_INTS, _TABLE, _TABLE, _INTS, _INTS, np.zeros((0, 3)), np.zeros((0, 1)))  # shown to the compiler


@entry
def start_groups(state: Any) -> None:
    """Forget everything, in all groups."""
    for each in range(state.scalars.size):
        start(select_state(state, each))


@entry
def ask_groups(state: Any, grains: Grains, table: Ints, limited: int, decides: int) -> int:
    """Draw who decides and who listens; write down the arm for each part of the latter, and return which that is.

    If it is a decision, of each part a report is awaited. Limited: which arms are open may be another matter from call
    to call.
    """
    grain = drawn_grain(state, grains)
    listening = listening_grain(state, grains, grain)
    for part in range(grains.firsts[grain + 1] - grains.firsts[grain]):
        policy = select_state(state, grains.firsts[grain] + part)
        grains.decided[part] = choose_open(policy) if limited else next_arm(policy)
    hand_down(grains, grain, listening, table)
    if decides:
        first = grains.firsts[listening]
        for part in range(grains.firsts[listening + 1] - first):
            await_reports(select_state(state, first + part), table[part], 1)
    return listening


@inlined
def _learn(policy: Any, arm: int, feedback: float, answers: Answers, line: int, masked: int, honest: float) -> None:
    """Let a part learn from what an answer says to it, by its own mask or by a line of the answers'."""
    stop_awaiting(policy, arm)
    if masked:
        value, low, span, shown = as_seen(policy, arm, feedback, line, answers.lines, honest)
        observe_masked(policy, arm, value, low, span, shown, line == ARMS_OWN)
    else:
        observe(policy, arm, feedback)


@entry
def take_in_answers(state: Any, grains: Grains, answers: Answers, masked: int, honest: float) -> None:
    """Let parts learn from masked answers, in their order: all from a bit, as their signs show it, or the one named.

    Masked: some answer has, or had, another mask than the policies know (``axes/reports.py``).
    """
    every = state.scalars.size
    for place in range(answers.values.size):
        grain, value, mask = answers.grains[place], answers.values[place], answers.masks[place]
        table = answers.tables[place]
        first = grains.firsts[grain]
        many = grains.firsts[grain + 1] - first
        slope = grains.slopes[grain] if mask == ARMS_OWN else answers.slopes[mask, grain]
        if grains.one_bit[grain]:
            begin, end = 0, many
            for part in range(many):
                grains.told[part] = float(value ^ answers.signs[place, part])
            weigh_bit(state, grains, grain, table, slope)
        else:
            begin, end = value >> 1, (value >> 1) + 1
            grains.told[begin] = float(value & 1)
            if grain == grains.weights.size - 1:
                _count_named(grains, begin, many, slope)
            arm, line = table[begin], mask * every + first + begin
            rate = select_state(state, first + begin).rates[arm]
            if mask != ARMS_OWN:
                rate = 1.0 / (honest * (answers.lines[line, 2] - answers.lines[line, 1]))
            weigh_one(state, grains, grain, begin, arm, grains.told[begin], rate)
        for part in range(many):
            policy = select_state(state, first + part)
            if begin <= part < end:
                line = ARMS_OWN if mask == ARMS_OWN else mask * every + first + part
                _learn(policy, table[part], grains.told[part], answers, line, masked, honest)
            else:  # of the others no report will come
                stop_awaiting(policy, table[part])


@inlined
def _count_named(grains: Grains, part: int, many: int, slope: float) -> None:
    """Count whom one of many answers names: p - q is the slope, and with 2 G answers q is what is left for each."""
    grains.named[part] += 1
    grains.expected[0] += (1.0 - slope) / many
    grains.expected[1] += slope


@inlined
def _visitor(state: Arms, groups: Groups) -> int:
    """Draw the group of the next visitor."""
    lot = rng.uniform(state.rng)
    group = 0
    while group < groups.ends.size - 1 and lot >= groups.ends[group]:
        group += 1
    return group


@inlined
def _answer_by_a_bit(
    state: Any, grains: Grains, grain: int, listening: int, table: Ints, means: Floats, group: int
) -> int:
    """Ask for a bit, and let all parts learn from it; return the arm that was played.

    To the visitor's own part the bit is the masked reward, to every other a fair coin: its sign is one.
    """
    policy = select_state(state, 0)
    for part in range(grains.firsts[grain + 1] - grains.firsts[grain]):
        grains.decided[part] = choose(select_state(state, grains.firsts[grain] + part))
    hand_down(grains, grain, listening, table)
    arms, first, visited = policy.scalars[0].arms, grains.firsts[listening], grains.parts[listening, group]
    many = grains.firsts[listening + 1] - first
    arm = table[visited]
    chance = 0.5 + grains.slopes[listening] * (means[group * arms + arm] - 0.5)
    feedback = 1.0 if rng.uniform(policy.rng) < chance else 0.0
    coins = np.uint64(0)
    for part in range(many):
        if part % BITS == 0:
            coins = rng.word(policy.rng)
        coin = float(coins >> np.uint64(part % BITS) & np.uint64(1))
        grains.told[part] = feedback if part == visited else coin
    weigh_bit(state, grains, listening, table, grains.slopes[listening])
    for part in range(many):
        observe(select_state(state, first + part), table[part], grains.told[part])
    return arm


@inlined
def _answer_by_one_of_many(state: Any, grains: Grains, grain: int, listening: int, means: Floats, group: int) -> int:
    """Ask for part and reward together, and let the part learn that is named; return the arm that was played."""
    policy = select_state(state, 0)
    first, slope, visited = grains.firsts[listening], grains.slopes[listening], grains.parts[listening, group]
    arms, many = policy.scalars[0].arms, 2 * (grains.firsts[listening + 1] - first)
    decides = grains.parts[grain, group]
    arm = choose(select_state(state, grains.firsts[grain] + decides))
    lot = rng.uniform(policy.rng)
    if lot < slope:  # what is named is true
        named, other = visited, arm
        feedback = 1.0 if rng.uniform(policy.rng) < means[group * arms + arm] else 0.0
    else:
        place = min(int((lot - slope) / (1.0 - slope) * many), many - 1)  # any of all answers
        named = place >> 1
        above = grains.parts[grain, grains.someone[first + named]]
        other = arm if above == decides else choose(select_state(state, grains.firsts[grain] + above))
        feedback = float(place & 1)
    learner = select_state(state, first + named)
    weigh_one(state, grains, listening, named, other, feedback, learner.rates[other])
    observe(learner, other, feedback)
    return arm


@compiled
def advance_groups(
    state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, groups: Groups, grains: Grains
) -> None:
    """Play one run on, up to step ``until``: in a row of the world the arms of one group follow those of the other."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    policy = select_state(state, 0)
    arms = policy.scalars[0].arms
    while done < until:
        group = _visitor(policy, groups)
        means = world.feedback_means[segment]
        grain = drawn_grain(state, grains)
        listening = listening_grain(state, grains, grain)
        if grains.one_bit[listening]:
            arm = _answer_by_a_bit(state, grains, grain, listening, groups.table, means, group)
        else:
            arm = _answer_by_one_of_many(state, grains, grain, listening, means, group)
        groups.lost[group] += world.gaps[segment, group * arms + arm]
        tally.recent[group * arms + arm] += 1
        done += 1
        before = following
        segment, following = reckoned(world, checkpoints, tally, done, segment, following)
        if following > before:
            for each in range(groups.lost.size):
                groups.lost_over_time[before, each] = groups.lost[each]
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
