"""Policies for groups of people: how coarsely a question tells groups apart, and the compiled steps.

A *level* joins groups into parts. The coarsest makes one part of all groups, the finest leaves each group alone, and
the parts of each level lie within those of the one before. Every part of every level has its own policy; all of them
share one state (``_numba/state.py``). One level *decides* a question: all groups of a part get the arm that the part's
policy chooses. One level *listens*, the same or a finer one: all groups of a part get the same sign, or are named as
one. To the part this is a question to one group with the sum of their shares, and only the policies of this level learn
from it. A coarse part learns sooner, since its slope is that of its whole share.

The deciding level is drawn by weights, and the weights follow from predictions (Dawid 1984, Present position and
potential developments: the prequential approach, Journal of the Royal Statistical Society A 147). Every answer has a
probability under every level, given what its policies know about the means. For a bit that favours (t_k = 1) or
contradicts (t_k = -1) a one of group k, whose arm is A_k,

    P = 1/2 + s sum over the groups k of p_k t_k (mean of A_k in the part of k - 1/2),

and the weight of a level is multiplied by the probability that it gave to the answer. The mean of a part is shrunk
towards that of the part around it, and the mean of the coarsest towards 1/2. So a finer level loses little while it
knows nothing, and gains as soon as its parts are seen to differ. For predictions, a part also uses what all finer parts
within it have seen, which is about the same means if they are alike. Its policy learns from answers to itself alone.

A coarser level that is refuted is out for good. Otherwise every change of the world would bring it back, because the
knowledge of a finer level stays wrong for longer. Finer levels are never out, and are asked now and then.

There are two sets of *habits*. In a pool of named groups, the finest level is presumed right unless it predicts worse,
and the deciding level listens. In a tree of grids the right level is unknown, and a fine one learns slowly: a grid of n
cells needs n times as many visitors as one cell alone. So the coarsest level is presumed right. The more it has seen,
the more often finer ones listen while it decides, which costs no visitor a worse arm. A finer level that predicts
better decides only when it is *ripe*, when its parts have seen enough to choose well, and when they are seen to have
other best arms than the parts around. Otherwise a finer level would decide wherever rewards differ from place to place,
and each of its parts would have to learn on its own that the same arm is best. The larger epsilon is, the finer the
level that such differences reach. Until then it decides a few questions on trial.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, dispatch, entry, inlined
from maskedbandits._numba.state import Floats, Ints, select_state
from maskedbandits.math import rng
from maskedbandits.policies.index.report_masks import ARMS_OWN, as_seen
from maskedbandits.policies.kernels import (
    Tally,
    World,
    choose,
    choose_open,
    next_arm,
    observe,
    observe_masked,
    settle_regret,
    start,
)
from maskedbandits.policies.pending import await_reports, take_pending
from maskedbandits.policies.state import Arms

WORD_BITS = 64
# Chosen on the problems of ``bench/context.py``, with epsilon from 1 to 4:
BEHIND = -2.0  # initial log weight of a coarse level, where the finest has 0; in a tree, per halving
FIRST = 3.0  # unmasked observations of each arm that the coarsest level collects first
PRIOR = 3.0  # unmasked observations that its uniform prior is worth: 1/4 over the variance of a mean
NEAR = 8.0  # the same for all other levels, whose prior is the mean of the part around
OUT = -7.0  # log weight, relative to a finer level, below which a level is out
BACK = -6.0  # least log weight relative to a coarser level, so that a finer one can come back
MIN_WORTH = 1e-9  # unmasked observations; less is rounding
MIN_PROBABILITY = 1e-6  # of an answer under any level
MAX_LISTENING = 0.9  # share of questions to which finer levels listen


class Habits(NamedTuple):
    """How levels share the questions."""

    curious: float  # how often a level finer than the best one decides
    enough: float  # unmasked observations of a part at which finer levels listen at half of MAX_LISTENING
    ripe: float  # unmasked observations of each arm in each part that a finer level needs to decide
    trial: float  # how often a level decides that predicts better and is not yet expected to choose better
    proof: float  # gain by other best arms, in standard deviations, that a finer level needs to decide


POOL = Habits(0.03, np.inf, 0.0, 0.0, -np.inf)
TREE = Habits(0.01, 50.0, 4.0, 0.02, 3.0)  # chosen on the problems "for choosing" of ``bench/partitions.py``


class Levels(NamedTuple):
    """All levels, the coarsest first."""

    firsts: Ints  # (M + 1,) the number of the first policy of each level
    parts: NDArray[np.int64]  # (M, G) the part of each group at each level
    shares: Floats  # (G,)
    slopes: Floats  # (M,) of an answer: s for a bit, p - q for one of many
    one_bit: Ints  # (M,) 1 if an answer is a bit, 0 if it is one of many
    weights: Floats  # (M,) their logarithms, that of the best 0
    feedbacks: Floats  # (parts,) the present answer, as feedback to each part
    habits: Habits
    parents: Ints  # (policies,) the policy of the part around, or -1 for the coarsest
    members: Ints  # (policies,) a group of each part
    part_shares: Floats  # (policies,) the share of each part
    worths: Floats  # (policies * K,) evidence of a part about an arm, in unmasked observations
    means: Floats  # (policies * K,) estimated mean of an arm in a part, less 1/2
    informed: Floats  # (policies * K,) the same, if parts may differ in all arms alike
    chances: Floats  # (M,) probability of each level to decide, up to a factor
    decided: Ints  # (parts,) the arm for each part of the deciding level
    named: Ints  # (G,) number of one-of-many answers that named each group
    expected: Floats  # (2,) expected number for a group without visitors, and how much more with all visitors


_INT_ARRAY, _FLOATS = np.zeros(1, dtype=np.int64), np.zeros(1)
NO_LEVELS = Levels(
    firsts=_INT_ARRAY,
    parts=_INT_ARRAY[None, :],
    shares=_FLOATS,
    slopes=_FLOATS,
    one_bit=_INT_ARRAY,
    weights=_FLOATS,
    feedbacks=_FLOATS,
    habits=POOL,
    parents=_INT_ARRAY,
    members=_INT_ARRAY,
    part_shares=_FLOATS,
    worths=_FLOATS,
    means=_FLOATS,
    informed=_FLOATS,
    chances=_FLOATS,
    decided=_INT_ARRAY,
    named=_INT_ARRAY,
    expected=_FLOATS,
)  # for the compiler, which needs the types


@inlined
def _is_settled(levels: Levels) -> bool:
    """Return whether all levels but the finest are out."""
    left = 0
    for level in range(levels.weights.size - 1):
        left += int(levels.weights[level] > -np.inf)
    return left == 0


@dispatch("code")
def evidence_of(state: Arms, arm: int) -> tuple[float, float]:
    """Return the evidence about an arm in unmasked observations, and their sum less half of their number."""
    count, rate = state.counts[arm], state.rates[arm]
    return count / (rate * rate), (state.sums[arm] - state.lows[arm] * count - 0.5 * count / rate) / rate


@inlined
def _mean_evidence(state: Any, levels: Levels, level: int) -> float:
    """Return the mean evidence of the parts of a level, in unmasked observations."""
    total = 0.0
    for each in range(levels.firsts[level], levels.firsts[level + 1]):
        policy = select_state(state, each)
        for arm in range(policy.scalars[0].arms):
            total += evidence_of(policy, arm)[0]
    return total / (levels.firsts[level + 1] - levels.firsts[level])


@inlined
def _is_ripe(state: Any, levels: Levels, level: int) -> bool:
    """Return whether the parts of a finer level have seen enough to decide."""
    ripe = levels.habits.ripe * state.scalars[0].arms
    return ripe == 0.0 or _mean_evidence(state, levels, level) >= ripe


@inlined
def _inform(levels: Levels, coarse: int, fine: int, arms: int) -> None:
    """Estimate the means of parts between two levels, if a part may differ from the one around it in all arms alike."""
    parents, worths, means, informed = levels.parents, levels.worths, levels.means, levels.informed
    for at in range(levels.firsts[coarse] * arms, levels.firsts[coarse + 1] * arms):
        informed[at] = means[at]
    for each in range(levels.firsts[coarse + 1], levels.firsts[fine + 1]):
        worth, more = 0.0, 0.0
        for arm in range(arms):
            at, around = each * arms + arm, parents[each] * arms + arm
            worth += worths[at] - NEAR
            more += means[at] * worths[at] - NEAR * means[around] - (worths[at] - NEAR) * informed[around]
        common = more / worth if worth > MIN_WORTH else 0.0
        for arm in range(arms):
            at, around = each * arms + arm, parents[each] * arms + arm
            informed[at] = means[at] + NEAR * (informed[around] + common - means[around]) / worths[at]


@inlined
def _usual_arm(policy: Any) -> int:
    """Return the open arm that is best by what the policy of a part has seen itself.

    Evidence of finer parts would mislead here: they play different arms in places that differ in all arms alike.
    """
    best, highest = 0, -np.inf
    for arm in range(policy.scalars[0].arms):
        worth, more = evidence_of(policy, arm)
        if not policy.closed[arm] and more / (worth + PRIOR) > highest:
            best, highest = arm, more / (worth + PRIOR)
    return best


@inlined
def _chooses_better(state: Any, levels: Levels, coarse: int, fine: int) -> bool:
    """Return whether finer parts are seen to have other best arms than the parts around them.

    By chance another arm looks better now and then. So compare gains with those by chance, in standard deviations.
    """
    if levels.habits.proof == -np.inf:
        return True
    policy = select_state(state, 0)
    arms, worths, informed = policy.scalars[0].arms, levels.worths, levels.informed
    _inform(levels, coarse, fine, arms)
    for part in range(levels.firsts[coarse + 1] - levels.firsts[coarse]):
        levels.decided[part] = _usual_arm(select_state(state, levels.firsts[coarse] + part))
    gain, variance = 0.0, 0.0
    for part in range(levels.firsts[fine], levels.firsts[fine + 1]):
        parent = levels.firsts[coarse] + levels.parts[coarse, levels.members[part]]
        around, within, share = parent * arms, part * arms, levels.part_shares[part]
        usual = levels.decided[levels.parts[coarse, levels.members[part]]]
        best = 0.0
        for arm in range(arms):
            if arm == usual or policy.closed[arm]:
                continue
            best = max(best, informed[within + arm] - informed[within + usual])
            noise = _noise(worths[within + arm]) + _noise(worths[within + usual])
            if noise > 0.0:
                mean, square = _moments_above(informed[around + usual] - informed[around + arm], math.sqrt(noise))
                gain -= share * mean
                variance += share * share * square
        gain += share * best
    return gain > levels.habits.proof * math.sqrt(variance)


@inlined
def _noise(worth: float) -> float:
    """Return the variance of an estimate that is shrunk by a prior."""
    return 0.25 * (worth - NEAR) / (worth * worth)


@inlined
def _moments_above(threshold: float, deviation: float) -> tuple[float, float]:
    """Return the mean and the mean square of what a centred normal number exceeds a threshold by, if it does."""
    scaled = threshold / deviation
    density = math.exp(-0.5 * scaled * scaled) / math.sqrt(2.0 * math.pi)
    tail = 0.5 * math.erfc(scaled / math.sqrt(2.0))
    square = (1.0 + scaled * scaled) * tail - scaled * density
    return deviation * (density - scaled * tail), deviation * deviation * square


@inlined
def _coarsest_left(levels: Levels) -> int:
    """Return the coarsest level that is not out."""
    level = 0
    while levels.weights[level] == -np.inf:
        level += 1
    return level


@inlined
def _best_ripe(state: Any, levels: Levels) -> int:
    """Return the level of the largest weight among those that may decide; the coarsest one left always may."""
    best = _coarsest_left(levels)
    for level in range(best + 1, levels.weights.size):
        is_likelier = levels.weights[level] > levels.weights[best]
        if is_likelier and _is_ripe(state, levels, level) and _chooses_better(state, levels, best, level):
            best = level
    return best


@inlined
def draw_level(state: Any, levels: Levels) -> int:
    """Draw the deciding level."""
    finest = levels.weights.size - 1
    if _is_settled(levels):
        return finest
    first = select_state(state, 0)
    scalars = first.scalars[0]
    if float(scalars.time + scalars.pending_total) < FIRST * scalars.arms * first.rates[0] * first.rates[0]:
        return 0
    if levels.habits.proof > -np.inf and levels.weights[_coarsest_left(levels)] < 0.0:
        _update_means(state, levels)
    best = _best_ripe(state, levels)
    draw = rng.uniform(first.rng)
    if draw < levels.habits.curious and best < finest:
        return best + 1 + min(int(draw / levels.habits.curious * (finest - best)), finest - best - 1)
    candidate = best
    for level in range(best + 1, finest + 1):
        if levels.weights[level] > levels.weights[candidate] and _is_ripe(state, levels, level):
            candidate = level
    if candidate > best and draw < levels.habits.curious + levels.habits.trial:
        return candidate
    total = 0.0
    for level in range(finest + 1):
        levels.chances[level] = 0.0
        if level <= best or (levels.weights[level] <= levels.weights[best] and _is_ripe(state, levels, level)):
            levels.chances[level] = math.exp(levels.weights[level] - levels.weights[best])
        total += levels.chances[level]
    left = total * rng.uniform(first.rng)
    for level in range(finest):
        left -= levels.chances[level]
        if left < 0.0:
            return level
    return finest if levels.chances[finest] > 0.0 else best


@inlined
def draw_listening_level(state: Any, levels: Levels, level: int) -> int:
    """Draw the level that learns from a question decided by this one: itself, or a finer one."""
    finer = levels.weights.size - 1 - level
    if finer == 0 or levels.habits.enough == np.inf:
        return level
    known = _mean_evidence(state, levels, level)
    chance = MAX_LISTENING * known / (known + levels.habits.enough)
    draw = rng.uniform(select_state(state, 0).rng)
    return level if draw >= chance else level + 1 + min(int(draw / chance * finer), finer - 1)


@inlined
def pass_down_arms(levels: Levels, level: int, listening: int, table: Ints) -> None:
    """Give every part of the listening level the arm of the deciding part around it."""
    first = levels.firsts[listening]
    for part in range(levels.firsts[listening + 1] - first):
        table[part] = levels.decided[levels.parts[level, levels.members[first + part]]]


@inlined
def _update_means(state: Any, levels: Levels) -> None:
    """Estimate the means of every part: everything seen in it, shrunk towards the part around it."""
    arms, parents, worths, means = state.scalars[0].arms, levels.parents, levels.worths, levels.means
    for level in range(levels.weights.size):
        counts = 1.0 if levels.weights[level] > -np.inf else 0.0  # a level that is out has stopped learning
        for each in range(levels.firsts[level], levels.firsts[level + 1]):
            policy = select_state(state, each)
            for arm in range(arms):
                worth, more = evidence_of(policy, arm)
                worths[each * arms + arm] = counts * worth
                means[each * arms + arm] = counts * more
    for each in range(parents.size - 1, 0, -1):
        for arm in range(arms):
            worths[parents[each] * arms + arm] += worths[each * arms + arm]
            means[parents[each] * arms + arm] += means[each * arms + arm]
    for each in range(parents.size):
        for arm in range(arms):
            at = each * arms + arm
            prior, mean = PRIOR, 0.0
            if parents[each] >= 0:
                prior, mean = NEAR, means[parents[each] * arms + arm]
            worths[at] += prior
            means[at] = (means[at] + prior * mean) / worths[at]


@inlined
def _predict_mean(state: Any, levels: Levels, level: int, group: int, arm: int) -> float:
    """Return the mean of an arm in a group that a level predicts, less 1/2."""
    return levels.means[(levels.firsts[level] + levels.parts[level, group]) * state.scalars[0].arms + arm]


@inlined
def weigh_bit(state: Any, levels: Levels, listening: int, table: Ints, slope: float) -> None:
    """Update the weights of all levels by a bit, masked with a slope, as the parts of the listening level see it."""
    if _is_settled(levels):
        return
    _update_means(state, levels)
    for level in range(levels.weights.size):
        chance = 0.5
        for group in range(levels.shares.size):
            part = levels.parts[listening, group]
            above = _predict_mean(state, levels, level, group, table[part])
            chance += slope * levels.shares[group] * (2.0 * levels.feedbacks[part] - 1.0) * above
        levels.weights[level] += math.log(max(chance, MIN_PROBABILITY))
    _normalise_weights(state, levels)


@inlined
def weigh_one(state: Any, levels: Levels, listening: int, part: int, arm: int, feedback: float, rate: float) -> None:
    """Update the weights by an answer that names a part of the listening level; its mask has the slope 1 / rate."""
    if _is_settled(levels):
        return
    _update_means(state, levels)
    for level in range(levels.weights.size):
        above, share = 0.0, 0.0
        for group in range(levels.shares.size):
            if levels.parts[listening, group] == part:
                above += levels.shares[group] * _predict_mean(state, levels, level, group, arm)
                share += levels.shares[group]
        chance = 0.5 + (2.0 * feedback - 1.0) * above / (share * rate)
        levels.weights[level] += math.log(max(chance, MIN_PROBABILITY))
    _normalise_weights(state, levels)


@inlined
def _normalise_weights(state: Any, levels: Levels) -> None:
    """Make the largest weight 1, drop refuted levels, and keep finer ones in reach."""
    weights = levels.weights
    best = 0
    for level in range(1, weights.size):
        if weights[level] > weights[best]:
            best = level
    largest, ripe = weights[best], _best_ripe(state, levels)
    against = weights[ripe]
    for level in range(weights.size):
        if level < ripe and weights[level] < against + OUT:
            weights[level] = -np.inf
        weights[level] -= largest
        if level > best:
            weights[level] = max(weights[level], BACK)


class Groups(NamedTuple):
    """The groups of visitors in a simulation, and the regret of each."""

    ends: Floats  # (G,) the sum of the shares up to each group
    table: Ints  # (parts,) the arm of the present question for each part
    lost: Floats  # (G,) regret so far
    lost_over_time: NDArray[np.float64]  # (C, G) regret up to each checkpoint


class Answers(NamedTuple):
    """Masked answers to questions, in order; tables and signs are by part, padded with zeros."""

    levels: Ints  # (n,) the listening level of each question
    tables: NDArray[np.int64]  # (n, G)
    signs: NDArray[np.int64]  # (n, G)
    values: Ints  # (n,)
    masks: Ints  # (n,) index of the mask of each answer, or ARMS_OWN
    lines: NDArray[np.float64]  # (masks x policies, 3) each mask as each policy sees it (``report_masks.py``)
    slopes: NDArray[np.float64]  # (masks, M) slope of each mask at each level


_INTS, _TABLE = np.zeros(0, dtype=np.int64), np.zeros((0, 1), dtype=np.int64)
NO_ANSWERS = Answers(_INTS, _TABLE, _TABLE, _INTS, _INTS, np.zeros((0, 3)), np.zeros((0, 1)))  # for its types


@entry
def start_groups(state: Any) -> None:
    """Start the policies of all parts."""
    for each in range(state.scalars.size):
        start(select_state(state, each))


@entry
def ask_groups(state: Any, levels: Levels, table: Ints, limited: int, decides: int) -> int:
    """Draw the deciding and the listening level; write the arm for each part of the latter, and return it.

    With ``decides``, each part waits for a report. With ``limited``, the open arms may change from call to call.
    """
    level = draw_level(state, levels)
    listening = draw_listening_level(state, levels, level)
    for part in range(levels.firsts[level + 1] - levels.firsts[level]):
        policy = select_state(state, levels.firsts[level] + part)
        levels.decided[part] = choose_open(policy) if limited else next_arm(policy)
    pass_down_arms(levels, level, listening, table)
    if decides:
        first = levels.firsts[listening]
        for part in range(levels.firsts[listening + 1] - first):
            await_reports(select_state(state, first + part), table[part], 1)
    return listening


@inlined
def _learn(policy: Any, arm: int, feedback: float, answers: Answers, line: int, masked: int, honest: float) -> None:
    """Let a part learn from an answer, through its own mask or that of the answer."""
    take_pending(policy, arm)
    if masked:
        value, low, span, shown = as_seen(policy, arm, feedback, line, answers.lines, honest)
        observe_masked(policy, arm, value, low, span, shown, line == ARMS_OWN)
    else:
        observe(policy, arm, feedback)


@entry
def take_in_answers(state: Any, levels: Levels, answers: Answers, masked: int, honest: float) -> None:
    """Let parts learn from masked answers, in order: all parts from a bit, or the part that an answer names.

    With ``masked``, some answer has or had another mask than the policies (``report_masks.py``).
    """
    every = state.scalars.size
    for index in range(answers.values.size):
        level, value, mask = answers.levels[index], answers.values[index], answers.masks[index]
        table = answers.tables[index]
        first = levels.firsts[level]
        many = levels.firsts[level + 1] - first
        slope = levels.slopes[level] if mask == ARMS_OWN else answers.slopes[mask, level]
        if levels.one_bit[level]:
            begin, end = 0, many
            for part in range(many):
                levels.feedbacks[part] = float(value ^ answers.signs[index, part])
            weigh_bit(state, levels, level, table, slope)
        else:
            begin, end = value >> 1, (value >> 1) + 1
            levels.feedbacks[begin] = float(value & 1)
            if level == levels.weights.size - 1:
                _count_named_part(levels, begin, many, slope)
            arm, line = table[begin], mask * every + first + begin
            rate = select_state(state, first + begin).rates[arm]
            if mask != ARMS_OWN:
                rate = 1.0 / (honest * (answers.lines[line, 2] - answers.lines[line, 1]))
            weigh_one(state, levels, level, begin, arm, levels.feedbacks[begin], rate)
        for part in range(many):
            policy = select_state(state, first + part)
            if begin <= part < end:
                line = ARMS_OWN if mask == ARMS_OWN else mask * every + first + part
                _learn(policy, table[part], levels.feedbacks[part], answers, line, masked, honest)
            else:  # the other parts get no report
                take_pending(policy, table[part])


@inlined
def _count_named_part(levels: Levels, part: int, many: int, slope: float) -> None:
    """Count the named group; each of 2 G answers has probability q = (1 - slope) / (2 G) by chance."""
    levels.named[part] += 1
    levels.expected[0] += (1.0 - slope) / many
    levels.expected[1] += slope


@inlined
def _draw_visitor(state: Arms, groups: Groups) -> int:
    """Draw the group of the next visitor."""
    draw = rng.uniform(state.rng)
    group = 0
    while group < groups.ends.size - 1 and draw >= groups.ends[group]:
        group += 1
    return group


@inlined
def _play_bit(state: Any, levels: Levels, level: int, listening: int, table: Ints, means: Floats, group: int) -> int:
    """Ask for a bit, and let all parts learn from it; return the arm that was played.

    To the visitor's own part the bit is the masked reward. To every other part it is a fair coin, because its sign is.
    """
    policy = select_state(state, 0)
    for part in range(levels.firsts[level + 1] - levels.firsts[level]):
        levels.decided[part] = choose(select_state(state, levels.firsts[level] + part))
    pass_down_arms(levels, level, listening, table)
    arms, first, visited = policy.scalars[0].arms, levels.firsts[listening], levels.parts[listening, group]
    many = levels.firsts[listening + 1] - first
    arm = table[visited]
    chance = 0.5 + levels.slopes[listening] * (means[group * arms + arm] - 0.5)
    feedback = 1.0 if rng.uniform(policy.rng) < chance else 0.0
    coins = np.uint64(0)
    for part in range(many):
        if part % WORD_BITS == 0:
            coins = rng.word(policy.rng)
        coin = float(coins >> np.uint64(part % WORD_BITS) & np.uint64(1))
        levels.feedbacks[part] = feedback if part == visited else coin
    weigh_bit(state, levels, listening, table, levels.slopes[listening])
    for part in range(many):
        observe(select_state(state, first + part), table[part], levels.feedbacks[part])
    return arm


@inlined
def _play_one_of_many(state: Any, levels: Levels, level: int, listening: int, means: Floats, group: int) -> int:
    """Ask for part and reward together, and let the named part learn; return the arm that was played."""
    policy = select_state(state, 0)
    first, slope, visited = levels.firsts[listening], levels.slopes[listening], levels.parts[listening, group]
    arms, many = policy.scalars[0].arms, 2 * (levels.firsts[listening + 1] - first)
    decides = levels.parts[level, group]
    arm = choose(select_state(state, levels.firsts[level] + decides))
    draw = rng.uniform(policy.rng)
    if draw < slope:  # the answer is the truth
        named, other = visited, arm
        feedback = 1.0 if rng.uniform(policy.rng) < means[group * arms + arm] else 0.0
    else:
        answer = min(int((draw - slope) / (1.0 - slope) * many), many - 1)  # any of all answers
        named = answer >> 1
        parent = levels.parts[level, levels.members[first + named]]
        other = arm if parent == decides else choose(select_state(state, levels.firsts[level] + parent))
        feedback = float(answer & 1)
    learner = select_state(state, first + named)
    weigh_one(state, levels, listening, named, other, feedback, learner.rates[other])
    observe(learner, other, feedback)
    return arm


@compiled
def advance_groups(
    state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, groups: Groups, levels: Levels
) -> None:
    """Continue a run up to step ``until``; a row of the world has the arms of one group after those of another."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    policy = select_state(state, 0)
    arms = policy.scalars[0].arms
    while done < until:
        group = _draw_visitor(policy, groups)
        means = world.feedback_means[segment]
        level = draw_level(state, levels)
        listening = draw_listening_level(state, levels, level)
        if levels.one_bit[listening]:
            arm = _play_bit(state, levels, level, listening, groups.table, means, group)
        else:
            arm = _play_one_of_many(state, levels, level, listening, means, group)
        groups.lost[group] += world.gaps[segment, group * arms + arm]
        tally.recent[group * arms + arm] += 1
        done += 1
        before = following
        segment, following = settle_regret(world, checkpoints, tally, done, segment, following)
        if following > before:
            for each in range(groups.lost.size):
                groups.lost_over_time[before, each] = groups.lost[each]
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
