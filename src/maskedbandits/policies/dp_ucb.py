"""DP-UCB (Mishra and Thakurta 2015; Tossou and Dimitrakakis 2016): central privacy, for policies that see rewards.

The learner sees every reward, and its *choices* are epsilon-differentially private. The sum of each arm is released by
the hybrid mechanism (Chan, Shi and Song 2011), which needs no horizon. A reward enters the sum of one arm, so each sum
may spend all of epsilon. With N = 2^k + r rewards, r < 2^k,

    - at each power of two the rewards since the one before are added, with Laplace noise of scale 2 / epsilon, and
    - the r rewards since are covered by one node of a binary tree for each bit set in r; a reward is part of at most k
      nodes, and a node has noise of scale 2 k / epsilon.

A sum of Laplace noises of scales b_i exceeds ``max(sqrt(sum b_i^2), max b_i sqrt(l)) sqrt(8 l)``, l = log(2 t^4), with
probability at most t^-4 (Lemma 2.8 of Chan et al.), so the index is the mean of the public sum plus sqrt(2 log t / N)
plus that over N.

The noise is drawn in floating point. This suffices to compare regrets. Do not use it to publish data. A saved
state holds true sums, and is as secret as the rewards.
"""

import math

from maskedbandits._numba.jit import compiled, inlined, inner
from maskedbandits._numba.state import REQUIRED, Floats, array, param, record
from maskedbandits.math import rng
from maskedbandits.policies import validation
from maskedbandits.policies.pending import ENOUGH, FOREVER, overdue_delay, patience, unanswered_count
from maskedbandits.policies.state import Arms, flip_feedback, forget

SUMMARY = "receives plain rewards, publishes noisy sums: central privacy"
REFERENCE = "Mishra & Thakurta 2015; Tossou & Dimitrakakis 2016"
LEARNS_FROM = "rewards"
DEPTH = 48  # levels of the tree


@record
class Policy(Arms):
    """A binary tree over the rewards of every arm."""

    epsilon: float = param(REQUIRED, validation.epsilon, "epsilon of a reward, such as 1.0")
    true: Floats = array(lambda scalars: scalars.arms * DEPTH, least=-FOREVER, most=FOREVER)  # sums of the nodes
    public: Floats = array(lambda scalars: scalars.arms * DEPTH, least=-FOREVER, most=FOREVER)  # and with noise
    base: Floats = array(
        lambda scalars: scalars.arms, least=-FOREVER, most=FOREVER
    )  # up to the last power of two, with noise
    open: Floats = array(lambda scalars: scalars.arms, least=-FOREVER, most=FOREVER)  # rewards since


@inner
def start(state: Policy) -> None:
    """Forget everything."""
    forget(state)
    state.true[:] = 0.0
    state.public[:] = 0.0
    state.base[:] = 0.0
    state.open[:] = 0.0


@compiled
def _level(count: int) -> int:
    """Return k, the largest with 2^k <= count."""
    level = 0
    while level < DEPTH - 1 and count >> (level + 1) > 0:
        level += 1
    return level


@compiled
def noise_bound(count: int, epsilon: float, step: float) -> float:
    """Return a bound that the noise in a sum of rewards exceeds with probability at most step^-4."""
    level = _level(count)
    nodes = 0
    for bit in range(level):
        nodes += (count >> bit) & 1
    at_powers, in_tree = 2.0 / epsilon, 2.0 * level / epsilon
    squares = (level + 1) * at_powers * at_powers + nodes * in_tree * in_tree
    widest = max(at_powers, in_tree) if nodes > 0 else at_powers
    log = math.log(2.0) + 4.0 * math.log(step)
    return max(math.sqrt(squares), widest * math.sqrt(log)) * math.sqrt(8.0 * log)


@inlined
def _index(state: Policy, arm: int, all_pending: int, unanswered: float, pending: int) -> float:
    """Return the index, with pending reports of all arms and of this one counted as received.

    The noise is small at the counts 2, 4, 8, ..., and the policy tends to stop there. Where reports are late it stops
    at such a count of decisions, because their reports will arrive; otherwise at such a count of rewards.
    """
    count = state.counts[arm] + unanswered
    if count <= 0.0:
        return math.inf
    step = float(state.scalars[0].time + all_pending + 1)
    total = state.sums[arm]
    if unanswered > 0.0:
        total += unanswered * (total / state.counts[arm] if state.counts[arm] > 0.0 else 0.5)
    known = int(min(state.counts[arm], 1e15))
    noise = noise_bound(known, state.scalars[0].epsilon, step)
    if pending > 0 and state.scalars[0].prompt < ENOUGH:
        noise = min(noise, noise_bound(known + pending, state.scalars[0].epsilon, step))
    return (total + noise) / count + math.sqrt(2.0 * math.log(step) / count)


@inner
def score(state: Policy, arm: int) -> float:
    """Return the index; infinite for an arm without a reward."""
    return _index(state, arm, 0, 0.0, 0)


@inner
def score_ahead(state: Policy, arm: int) -> float:
    """Return the index with pending reports."""
    scalars = state.scalars[0]
    unanswered = unanswered_count(state, arm, scalars.decisions, overdue_delay(state), patience(state))
    return _index(state, arm, scalars.pending_total, unanswered, state.pending[arm])


@inner
def observe(state: Policy, arm: int, feedback: float) -> None:
    """Add the reward, and release the arm's sum again: one node of the tree closes, with fresh noise."""
    scalars = state.scalars[0]
    scalars.time += 1
    state.counts[arm] += 1.0
    reward = flip_feedback(state, arm, feedback)
    count = int(min(state.counts[arm], 1e15))
    state.open[arm] += reward
    level = _level(count)
    rest = count - (1 << level)
    if rest <= 0:
        state.base[arm] += state.open[arm] + rng.laplace(state.rng, 2.0 / scalars.epsilon)
        state.open[arm] = 0.0
        state.sums[arm] = state.base[arm]
        return
    _close_node(state, arm, reward, rest, level)


@inner
def _close_node(state: Policy, arm: int, reward: float, rest: int, level: int) -> None:
    """Close a node of the tree, and release the sum of the arm."""
    true = state.true[arm * DEPTH : (arm + 1) * DEPTH]
    public = state.public[arm * DEPTH : (arm + 1) * DEPTH]
    node = 0
    total = reward
    while node < level - 1 and not (rest >> node) & 1:
        total += true[node]  # the smaller nodes merge into this one
        node += 1
    true[node] = total
    public[node] = total + rng.laplace(state.rng, 2.0 * level / state.scalars[0].epsilon)
    released = state.base[arm]
    for bit in range(level):
        if (rest >> bit) & 1:
            released += public[bit]
    state.sums[arm] = released
