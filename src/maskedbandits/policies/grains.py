"""How coarsely people are told apart: several grains side by side, and how far each has earned its place.

A *grain* puts groups together into parts: the coarsest makes one part of all of them, the finest leaves each alone.
Every part of every grain has a policy of its own. A question is asked at one grain: all groups of a part get the same
arm and the same sign, so that to the part it is a question as to one group with the shares of all of them, and the
policies of this grain alone learn from it. A coarse part learns sooner: its slope is that of its whole share.

Which grain is asked is drawn by weights, and those follow from predictions (Dawid 1984, Present position and potential
developments: the prequential approach, Journal of the Royal Statistical Society A 147). Every answer has a probability
under every grain, by what its policies know of the means: a bit that speaks for (t_k = 1) or against (t_k = -1) a one
of group k, whose arm is A_k,

    P = 1/2 + s sum over the groups k of p_k t_k (mean of A_k in the part of k - 1/2),

and the weight of a grain is multiplied by the probability that it gave to what came. What a part knows of a mean is
drawn towards what the coarsest grain knows, and that towards 1/2. So a finer grain loses little while it knows nothing,
and gains as soon as its parts are seen to differ. To predict, the coarsest grain takes in what all others have seen,
too, which is about the same means if all are alike. Its policy learns from its own questions alone.

A coarser grain that is refuted is out for good. Else every change of the world would bring it back: what is known at a
finer grain is wrong for longer then. Finer grains never are, and are asked now and then.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits.compiled import inlined
from maskedbandits.maths import lots
from maskedbandits.policies.stacks import nth
from maskedbandits.policies.state import Arms
from maskedbandits.record import Floats, Ints

# Chosen on the problems of ``bench/context.py``, with epsilon from 1 to 4; on others at 2 pooling cost more than there:
BEHIND = -2.0  # the logarithm of the weight that a coarse grain starts with; the finest has 0
FIRST = 3.0  # unmasked observations of each arm, so to speak, that the coarsest grain asks for before all else
PRIOR = 3.0  # how many of them its prior is worth, that means are uniform: 1/4 over their variance
NEAR = 8.0  # and the prior of all others, that means are near those of the coarsest
OUT = -7.0  # a grain that is so far behind a finer one is out
BACK = -6.0  # no grain is further behind a coarser one, so that it can come back
CURIOUS = 0.03  # how often a grain is asked that is finer than the best
FAINT = 1e-6  # the least probability that a grain gives to anything


class Grains(NamedTuple):
    """All grains, the coarsest first."""

    firsts: Ints  # (M + 1,) the number of the first policy of each grain
    parts: NDArray[np.int64]  # (M, G) in which part of each grain a group is
    shares: Floats  # (G,)
    slopes: Floats  # (M,) of an answer: s for a bit, p - q for one of many
    one_bit: Ints  # (M,) 1 if an answer is a bit, 0 if it is one of many
    weights: Floats  # (M,) their logarithms, that of the best 0
    told: Floats  # (parts,) what the present answer says to each part
    middles: Floats  # (K,) by how much means are above 1/2 if all people are alike


_INTS, _FLOATS = np.zeros(1, dtype=np.int64), np.zeros(1)
NO_GRAINS = Grains(
    _INTS, _INTS[None, :], _FLOATS, _FLOATS, _INTS, _FLOATS, _FLOATS, _FLOATS
)  # what the compiler is shown


@inlined
def _is_settled(grains: Grains) -> bool:
    """Tell whether all grains but the finest are out."""
    left = 0
    for grain in range(grains.weights.size - 1):
        left += int(grains.weights[grain] > -np.inf)
    return left == 0


@inlined
def drawn_grain(state: Any, grains: Grains) -> int:
    """Draw the grain at which to ask."""
    finest = grains.weights.size - 1
    if _is_settled(grains):
        return finest
    first = nth(state, 0)
    own = first.own[0]
    if float(own.time + own.awaited) < FIRST * own.arms * first.rates[0] * first.rates[0]:
        return 0
    best, total = 0, 0.0
    for grain in range(finest + 1):
        total += math.exp(grains.weights[grain])
        if grains.weights[grain] > grains.weights[best]:
            best = grain
    lot = lots.uniform(first.lots)
    if lot < CURIOUS and best < finest:
        return best + 1 + min(int(lot / CURIOUS * (finest - best)), finest - best - 1)
    left = total * lots.uniform(first.lots)
    for grain in range(finest):
        left -= math.exp(grains.weights[grain])
        if left < 0.0:
            return grain
    return finest


@inlined
def _seen(own: Arms, arm: int) -> tuple[float, float]:
    """Return how many unmasked observations of an arm a policy's are worth, and by how much they are above 1/2."""
    count, rate = own.counts[arm], own.rates[arm]
    return count / (rate * rate), (own.sums[arm] - own.lows[arm] * count - 0.5 * count / rate) / rate


@inlined
def _find_middles(state: Any, grains: Grains) -> None:
    """Write down what the coarsest grain takes means to be: all that was seen is of one kind of people to it."""
    for arm in range(grains.middles.size):
        worth, above = PRIOR, 0.0
        for each in range(state.own.size):
            more, further = _seen(nth(state, each), arm)
            worth += more
            above += further
        grains.middles[arm] = above / worth


@inlined
def _expected(state: Any, grains: Grains, grain: int, group: int, arm: int) -> float:
    """Return by how much a grain takes the mean of an arm in a group to be above 1/2."""
    if grain == 0:
        return grains.middles[arm]
    worth, above = _seen(nth(state, grains.firsts[grain] + grains.parts[grain, group]), arm)
    return (above + NEAR * grains.middles[arm]) / (worth + NEAR)


@inlined
def weigh_bit(state: Any, grains: Grains, asked: int, table: Ints) -> None:
    """Weigh all grains by a bit that was told to the parts of the one that was asked."""
    if _is_settled(grains):
        return
    _find_middles(state, grains)
    for grain in range(grains.weights.size):
        chance = 0.5
        for group in range(grains.shares.size):
            part = grains.parts[asked, group]
            above = _expected(state, grains, grain, group, table[part])
            chance += grains.slopes[asked] * grains.shares[group] * (2.0 * grains.told[part] - 1.0) * above
        grains.weights[grain] += math.log(max(chance, FAINT))
    _settle(grains)


@inlined
def weigh_one(state: Any, grains: Grains, asked: int, part: int, arm: int, feedback: float) -> None:
    """Weigh all grains by an answer that names a part of the one that was asked."""
    if _is_settled(grains):
        return
    _find_middles(state, grains)
    rate = nth(state, grains.firsts[asked] + part).rates[arm]
    for grain in range(grains.weights.size):
        above, share = 0.0, 0.0
        for group in range(grains.shares.size):
            if grains.parts[asked, group] == part:
                above += grains.shares[group] * _expected(state, grains, grain, group, arm)
                share += grains.shares[group]
        chance = 0.5 + (2.0 * feedback - 1.0) * above / (share * rate)
        grains.weights[grain] += math.log(max(chance, FAINT))
    _settle(grains)


@inlined
def _settle(grains: Grains) -> None:
    """Let the largest weight be one; see who is out, and who may come back."""
    weights = grains.weights
    best = 0
    for grain in range(1, weights.size):
        if weights[grain] > weights[best]:
            best = grain
    largest = weights[best]
    for grain in range(weights.size):
        weights[grain] -= largest
        if grain > best:
            weights[grain] = max(weights[grain], BACK)
        elif weights[grain] < OUT:
            weights[grain] = -np.inf
