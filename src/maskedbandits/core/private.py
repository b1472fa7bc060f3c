"""Noise that the policy adds itself: LDP-UCB-L and DP-UCB. Both are shown rewards as they are, and mask them.

**LDP-UCB-L** (Ren, Zhou, Liu and Shroff 2020) is local: Laplace noise of scale 1 / epsilon joins each reward before it
is added up. With N noisy rewards of an arm at step t its index is their mean + sqrt(2 log t / N) +
sqrt(32 log t / N) / epsilon, once N > 4 log(t + 1); an arm that has fewer is pulled first.

**DP-UCB** is central (Mishra and Thakurta 2015; Tossou and Dimitrakakis 2016): the learner knows every reward, and
what it *does* is epsilon-differentially private. Each arm has its own sum, made public by the hybrid mechanism (Chan,
Shi and Song 2011), which needs no horizon. One reward enters the sum of one arm, so each sum may spend all of epsilon.
With N = 2^k + r rewards, r < 2^k,

    - at each power of two the rewards since the one before are added, with Laplace noise of scale 2 / epsilon, and
    - the r rewards since are covered by one node of a binary tree for each bit set in r; a reward is part of at most k
      nodes, and a node has noise of scale 2 k / epsilon.

A sum of Laplace noises of scales b_i exceeds ``max(sqrt(sum b_i^2), max b_i sqrt(l)) sqrt(8 l)``, l = log(2 t^4), with
probability at most t^-4 (Lemma 2.8 of Chan et al.), so the index is the mean of the public sum plus sqrt(2 log t / N)
plus that over N.

The noise is drawn in floating point: good to compare regrets by, and no mechanism to publish anything through. A saved
DP-UCB holds true sums, and is as secret as the rewards are.
"""

import math

from maskedbandits.core import lots
from maskedbandits.core.compiled import compiled
from maskedbandits.core.lots import Words
from maskedbandits.core.state import ARMS, OWN_HEAD, TIME, Solo

EPSILON = 2  # place among the parameters
DEPTH = 48  # of the tree: more rewards than can be counted in a float
TRUE, PUBLIC, BASE, OPEN = 0, DEPTH, 2 * DEPTH, 2 * DEPTH + 1  # places in the box of an arm of DP-UCB
BOX = 2 * DEPTH + 2


def size(arms: int) -> int:
    """Return how many numbers DP-UCB keeps."""
    return OWN_HEAD + arms * BOX


@compiled
def local_score(state: Solo, arm: int) -> float:
    """Return the index of LDP-UCB-L; infinite for an arm that must be pulled first."""
    count = state.counts[arm]
    step = float(state.head[TIME] + 1)
    if count <= 4.0 * math.log(step + 1.0):
        return math.inf
    log = math.log(step)
    noise = math.sqrt(32.0 * log / count) / state.own[EPSILON]
    return state.sums[arm] / count + math.sqrt(2.0 * log / count) + noise


@compiled
def local_observe(state: Solo, arm: int, reward: float, words: Words) -> None:
    """Add noise to the reward and forget what it was."""
    state.counts[arm] += 1.0
    state.sums[arm] += reward + lots.laplace(words, 1.0 / state.own[EPSILON])


@compiled
def _level(count: int) -> int:
    """Return k, the largest with 2^k <= count."""
    level = 0
    while level < DEPTH - 1 and count >> (level + 1) > 0:
        level += 1
    return level


@compiled
def noise_bound(count: int, epsilon: float, step: float) -> float:
    """Return what the noise in a sum of so many rewards exceeds with probability step^-4 at most."""
    level = _level(count)
    nodes = 0
    for bit in range(level):
        nodes += (count >> bit) & 1
    at_powers, in_tree = 2.0 / epsilon, 2.0 * level / epsilon
    squares = (level + 1) * at_powers * at_powers + nodes * in_tree * in_tree
    widest = max(at_powers, in_tree) if nodes > 0 else at_powers
    log = math.log(2.0) + 4.0 * math.log(step)
    return max(math.sqrt(squares), widest * math.sqrt(log)) * math.sqrt(8.0 * log)


@compiled
def central_score(state: Solo, arm: int) -> float:
    """Return the index of DP-UCB; infinite for an arm without a reward."""
    count = state.counts[arm]
    if count <= 0.0:
        return math.inf
    step = float(state.head[TIME] + 1)
    noise = noise_bound(int(min(count, 1e15)), state.own[EPSILON], step)
    return (state.sums[arm] + noise) / count + math.sqrt(2.0 * math.log(step) / count)


@compiled
def central_observe(state: Solo, arm: int, reward: float, words: Words) -> None:
    """Take in the reward, and make the arm's sum public anew: one node of the tree closes, with fresh noise."""
    state.counts[arm] += 1.0
    count = int(min(state.counts[arm], 1e15))
    box = state.own[OWN_HEAD + arm * BOX : OWN_HEAD + (arm + 1) * BOX]
    box[OPEN] += reward
    level = _level(count)
    rest = count - (1 << level)
    if rest <= 0:
        box[BASE] += box[OPEN] + lots.laplace(words, 2.0 / state.own[EPSILON])
        box[OPEN] = 0.0
        state.sums[arm] = box[BASE]
        return
    node = 0
    total = reward
    while node < level - 1 and not (rest >> node) & 1:
        total += box[TRUE + node]  # the smaller nodes merge into this one
        node += 1
    box[TRUE + node] = total
    box[PUBLIC + node] = total + lots.laplace(words, 2.0 * level / state.own[EPSILON])
    public = box[BASE]
    for bit in range(level):
        if (rest >> bit) & 1:
            public += box[PUBLIC + bit]
    state.sums[arm] = public


@compiled
def decide(state: Solo, local: bool) -> int:
    """Return the arm of the highest index, the lowest such arm."""
    best = -math.inf
    chosen = 0
    for arm in range(state.head[ARMS]):
        value = local_score(state, arm) if local else central_score(state, arm)
        if value > best:
            best = value
            chosen = arm
    return chosen
