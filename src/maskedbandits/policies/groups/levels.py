"""How coarsely people are told apart: several grains side by side, and how far each has earned its place.

A *grain* puts groups together into parts: the coarsest makes one part of all of them, the finest leaves each alone, and
the parts of each lie in those of the one before. Every part of every grain has a policy of its own. One grain *decides*
a question: all groups of a part get the arm that its policy chooses. One *listens*, the same or a finer one: all groups
of a part get the same sign, or are named as one, so that to the part it is a question as to one group with the shares
of all of them, and the policies of this grain alone learn from it. A coarse part learns sooner: its slope is that of
its whole share.

Which grain decides is drawn by weights, and those follow from predictions (Dawid 1984, Present position and potential
developments: the prequential approach, Journal of the Royal Statistical Society A 147). Every answer has a probability
under every grain, by what its policies know of the means: a bit that speaks for (t_k = 1) or against (t_k = -1) a one
of group k, whose arm is A_k,

    P = 1/2 + s sum over the groups k of p_k t_k (mean of A_k in the part of k - 1/2),

and the weight of a grain is multiplied by the probability that it gave to what came. What a part knows of a mean is
drawn towards what the part knows in which it lies, and what the coarsest knows towards 1/2. So a finer grain loses
little while it knows nothing, and gains as soon as its parts are seen to differ. To predict, a part takes in what all
finer ones in it have seen, too, which is about the same means if they are alike. Its policy learns from answers to
itself alone.

A coarser grain that is refuted is out for good. Else every change of the world would bring it back: what is known at a
finer grain is wrong for longer then. Finer grains never are, and are asked now and then.

There are two sets of *habits*. In a pool of groups that somebody named, the finest is taken to be right unless it
predicts worse, and whoever decides listens. In a tree of grids nobody knows which is right, and to learn at a fine one
takes long: a grid of n cells needs n times as many visitors as if each cell were alone. So the coarsest is taken to be
right; the more it has seen, the oftener do finer ones listen while it decides, which costs no visitor a worse arm; and
a finer one that predicts better decides only when it is *ripe*: when its parts have seen enough to choose well.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import dispatch, inlined
from maskedbandits._numba.state import Floats, Ints, select_state
from maskedbandits.math import rng
from maskedbandits.policies.state import Arms

# Chosen on the problems of ``bench/context.py``, with epsilon from 1 to 4; on others at 2 pooling cost more than there:
BEHIND = -2.0  # the logarithm of the weight that a coarse grain starts with; the finest has 0. In a tree, per halving
FIRST = 3.0  # unmasked observations of each arm, so to speak, that the coarsest grain asks for before all else
PRIOR = 3.0  # how many of them its prior is worth, that means are uniform: 1/4 over their variance
NEAR = 8.0  # and the prior of all others, that means are near those of the part in which they lie
OUT = -7.0  # a grain that is so far behind a finer one is out
BACK = -6.0  # no grain is further behind a coarser one, so that it can come back
FAINT = 1e-6  # the least probability that a grain gives to anything
MOST = 0.9  # finer grains listen at most so often


class Habits(NamedTuple):
    """How grains share the questions."""

    curious: float  # how often a grain decides that is finer than the best
    enough: float  # unmasked observations of a part from which on finer grains listen half as often as they may
    ripe: float  # unmasked observations of each arm, in each part, that a finer grain must have to decide


POOL = Habits(0.03, np.inf, 0.0)
TREE = Habits(0.01, 50.0, 4.0)  # chosen on the problems "for choosing" of ``bench/partitions.py``


class Grains(NamedTuple):
    """All grains, the coarsest first."""

    firsts: Ints  # (M + 1,) the number of the first policy of each grain
    parts: NDArray[np.int64]  # (M, G) in which part of each grain a group is
    shares: Floats  # (G,)
    slopes: Floats  # (M,) of an answer: s for a bit, p - q for one of many
    one_bit: Ints  # (M,) 1 if an answer is a bit, 0 if it is one of many
    weights: Floats  # (M,) their logarithms, that of the best 0
    told: Floats  # (parts,) what the present answer says to each part
    habits: Habits
    above: Ints  # (policies,) the number of the policy of the part in which a part lies; of the coarsest -1
    someone: Ints  # (policies,) a group of each part
    worths: Floats  # (policies * K,) how many unmasked observations what a part knows of an arm is worth
    means: Floats  # (policies * K,) by how much a part takes the mean of an arm to be above 1/2
    chances: Floats  # (M,) how likely each grain is to decide, but for a factor
    decided: Ints  # (parts,) the arm for each part of the grain that decides
    named: Ints  # (G,) how often one of many answers named each group
    expected: Floats  # (2,) how often any group would be by chance alone, and how much oftener one of all visitors is


_INTS, _FLOATS = np.zeros(1, dtype=np.int64), np.zeros(1)
NO_GRAINS = Grains(
    firsts=_INTS,
    parts=_INTS[None, :],
    shares=_FLOATS,
    slopes=_FLOATS,
    one_bit=_INTS,
    weights=_FLOATS,
    told=_FLOATS,
    habits=POOL,
    above=_INTS,
    someone=_INTS,
    worths=_FLOATS,
    means=_FLOATS,
    chances=_FLOATS,
    decided=_INTS,
    named=_INTS,
    expected=_FLOATS,
)  # what the compiler is shown


@inlined
def _is_settled(grains: Grains) -> bool:
    """Tell whether all grains but the finest are out."""
    left = 0
    for grain in range(grains.weights.size - 1):
        left += int(grains.weights[grain] > -np.inf)
    return left == 0


@dispatch("code")
def evidence_of(state: Arms, arm: int) -> tuple[float, float]:
    """Return how many unmasked observations of an arm a policy's are worth, and by how much they are above 1/2."""
    count, rate = state.counts[arm], state.rates[arm]
    return count / (rate * rate), (state.sums[arm] - state.lows[arm] * count - 0.5 * count / rate) / rate


@inlined
def _known(state: Any, grains: Grains, grain: int) -> float:
    """Return how many unmasked observations the parts of a grain have seen, so to speak, on average."""
    total = 0.0
    for each in range(grains.firsts[grain], grains.firsts[grain + 1]):
        policy = select_state(state, each)
        for arm in range(policy.scalars[0].arms):
            total += evidence_of(policy, arm)[0]
    return total / (grains.firsts[grain + 1] - grains.firsts[grain])


@inlined
def _is_ripe(state: Any, grains: Grains, grain: int) -> bool:
    """Tell whether a finer grain may decide: its parts have seen enough."""
    ripe = grains.habits.ripe * state.scalars[0].arms
    return ripe == 0.0 or _known(state, grains, grain) >= ripe


@inlined
def _best_ripe(state: Any, grains: Grains) -> int:
    """Return the grain of the largest weight among those that may decide: the coarsest that is not out always may."""
    best = 0
    while grains.weights[best] == -np.inf:
        best += 1
    for grain in range(best + 1, grains.weights.size):
        if grains.weights[grain] > grains.weights[best] and _is_ripe(state, grains, grain):
            best = grain
    return best


@inlined
def drawn_grain(state: Any, grains: Grains) -> int:
    """Draw the grain that decides."""
    finest = grains.weights.size - 1
    if _is_settled(grains):
        return finest
    first = select_state(state, 0)
    scalars = first.scalars[0]
    if float(scalars.time + scalars.awaited) < FIRST * scalars.arms * first.rates[0] * first.rates[0]:
        return 0
    best = _best_ripe(state, grains)
    lot = rng.uniform(first.rng)
    if lot < grains.habits.curious and best < finest:
        return best + 1 + min(int(lot / grains.habits.curious * (finest - best)), finest - best - 1)
    total = 0.0
    for grain in range(finest + 1):
        grains.chances[grain] = 0.0
        if grain <= best or _is_ripe(state, grains, grain):
            grains.chances[grain] = math.exp(grains.weights[grain] - grains.weights[best])
        total += grains.chances[grain]
    left = total * rng.uniform(first.rng)
    for grain in range(finest):
        left -= grains.chances[grain]
        if left < 0.0:
            return grain
    return finest if grains.chances[finest] > 0.0 else best


@inlined
def listening_grain(state: Any, grains: Grains, grain: int) -> int:
    """Draw the grain that learns from the answer to a question that this one decides: itself, or a finer one."""
    finer = grains.weights.size - 1 - grain
    if finer == 0 or grains.habits.enough == np.inf:
        return grain
    known = _known(state, grains, grain)
    chance = MOST * known / (known + grains.habits.enough)
    lot = rng.uniform(select_state(state, 0).rng)
    return grain if lot >= chance else grain + 1 + min(int(lot / chance * finer), finer - 1)


@inlined
def hand_down(grains: Grains, grain: int, listening: int, table: Ints) -> None:
    """Let every part of the grain that listens have the arm of the part of the deciding one in which it lies."""
    first = grains.firsts[listening]
    for part in range(grains.firsts[listening + 1] - first):
        table[part] = grains.decided[grains.parts[grain, grains.someone[first + part]]]


@inlined
def _find_means(state: Any, grains: Grains) -> None:
    """Write down what every part takes means to be: all that was seen in it, drawn towards the part above."""
    arms, above, worths, means = state.scalars[0].arms, grains.above, grains.worths, grains.means
    for grain in range(grains.weights.size):
        counts = 1.0 if grains.weights[grain] > -np.inf else 0.0  # one that is out learns no more
        for each in range(grains.firsts[grain], grains.firsts[grain + 1]):
            policy = select_state(state, each)
            for arm in range(arms):
                worth, more = evidence_of(policy, arm)
                worths[each * arms + arm] = counts * worth
                means[each * arms + arm] = counts * more
    for each in range(above.size - 1, 0, -1):
        for arm in range(arms):
            worths[above[each] * arms + arm] += worths[each * arms + arm]
            means[above[each] * arms + arm] += means[each * arms + arm]
    for each in range(above.size):
        for arm in range(arms):
            at = each * arms + arm
            prior, mean = PRIOR, 0.0
            if above[each] >= 0:
                prior, mean = NEAR, means[above[each] * arms + arm]
            worths[at] += prior
            means[at] = (means[at] + prior * mean) / worths[at]


@inlined
def _expected(state: Any, grains: Grains, grain: int, group: int, arm: int) -> float:
    """Return by how much a grain takes the mean of an arm in a group to be above 1/2."""
    return grains.means[(grains.firsts[grain] + grains.parts[grain, group]) * state.scalars[0].arms + arm]


@inlined
def weigh_bit(state: Any, grains: Grains, asked: int, table: Ints, slope: float) -> None:
    """Weigh all grains by a bit, masked with such a slope, that was told to the parts of the one that was asked."""
    if _is_settled(grains):
        return
    _find_means(state, grains)
    for grain in range(grains.weights.size):
        chance = 0.5
        for group in range(grains.shares.size):
            part = grains.parts[asked, group]
            above = _expected(state, grains, grain, group, table[part])
            chance += slope * grains.shares[group] * (2.0 * grains.told[part] - 1.0) * above
        grains.weights[grain] += math.log(max(chance, FAINT))
    _settle(state, grains)


@inlined
def weigh_one(state: Any, grains: Grains, asked: int, part: int, arm: int, feedback: float, rate: float) -> None:
    """Weigh all grains by an answer that names a part of the one that was asked; its mask has a slope of 1 / rate."""
    if _is_settled(grains):
        return
    _find_means(state, grains)
    for grain in range(grains.weights.size):
        above, share = 0.0, 0.0
        for group in range(grains.shares.size):
            if grains.parts[asked, group] == part:
                above += grains.shares[group] * _expected(state, grains, grain, group, arm)
                share += grains.shares[group]
        chance = 0.5 + (2.0 * feedback - 1.0) * above / (share * rate)
        grains.weights[grain] += math.log(max(chance, FAINT))
    _settle(state, grains)


@inlined
def _settle(state: Any, grains: Grains) -> None:
    """Let the largest weight be one; see who is out, and who may come back."""
    weights = grains.weights
    best = 0
    for grain in range(1, weights.size):
        if weights[grain] > weights[best]:
            best = grain
    largest, ripe = weights[best], _best_ripe(state, grains)
    against = weights[ripe]
    for grain in range(weights.size):
        if grain < ripe and weights[grain] < against + OUT:
            weights[grain] = -np.inf
        weights[grain] -= largest
        if grain > best:
            weights[grain] = max(weights[grain], BACK)
