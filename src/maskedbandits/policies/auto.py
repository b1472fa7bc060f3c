"""Thompson sampling in a world that may have changed: what is believed of the last change, and what follows from it.

The model: a step brings a change with probability r. At a change every arm moves with probability MOVES, independently,
to a mean drawn afresh from its prior. Everything else is Bayes' rule, so that little is left to tune:

* *Hypotheses.* One for each time at which the last change may have come. It keeps, of every arm, what was seen since;
  what was known of the arm before; and the probability that the arm moved. It predicts the next feedback, and its
  weight is multiplied by the probability it gave to what came: detection without a threshold, by all arms together.
* *The rate of changes* is learnt. A hypothesis that has seen c changes in t steps expects r = (c + FEW) / (t + 1)
  (Wilson, Nassar and Gold 2010, Bayesian online learning of the hazard rate in change-point problems). So
  watching for changes costs little where there are none, about sqrt(t) in all, and more where they come often.
* *Exploration.* A draw from the posterior is a draw of a hypothesis, then of whether each arm moved, then of its mean.
  The longer an arm was not looked at, the more weight lies on changes since: then it is drawn from its prior, and
  looked at if that draw wins. No arm is starved, and those are spared that could not win.

This is the Thompson sampling of Mellor and Shapiro 2013 (Thompson sampling in switching environments with Bayesian
online change detection, AISTATS) with arms that may stay, a rate that is learnt, and the corruption: the prior of a
feedback mean is the Beta distribution with the mean and variance of g(U), U uniform. A flat one would lie, under strong
privacy, mostly where g never leads.

At most ROOM hypotheses are kept: when there is one too many, two neighbours become one, the pair for which the smaller
weight times the difference of their ages, relative to the age, is least.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from maskedbandits.compiled import inlined, inner
from maskedbandits.maths import beta, lots
from maskedbandits.policies.state import Arms, flipped, forget, mean_behind
from maskedbandits.record import Floats, Ints, fixed, gathered, record, section

SUMMARY = "Thompson sampling that learns how often the world changes: needs to know nothing"
REFERENCE = "Mellor & Shapiro 2013; Wilson et al. 2010"
DRAWS_FROM = "posterior"
LEARNS_FROM = "masked feedback"

ROOM = 48  # hypotheses; twice as many gain nothing that can be measured
# The two numbers of the model, chosen on random problems of 10^5 steps:
FEW = 0.01  # changes seen before the first step, so to speak: more find a first quiet change sooner, at a cost to all
MOVES = 0.9  # probability that an arm moves at a change: less helps where arms move singly, and costs where all do


@record
class Policy(Arms):
    """What is believed: hypotheses live in slots, and each has a row of arms in the last five sections."""

    live: int = gathered(1, least=1, most=ROOM)  # how many hypotheses there are
    alphas: Floats = fixed(lambda own: own.arms)  # the priors of the feedback means
    betas: Floats = fixed(lambda own: own.arms)
    order: Ints = section(lambda own: ROOM, least=0, most=ROOM - 1)  # their slots, the oldest first, then the free ones
    begins: Floats = section(lambda own: ROOM, least=0.0, most=lambda own: own.time)  # when the last change was
    weights: Floats = section(lambda own: ROOM, least=0.0, most=1.0)
    changes: Floats = section(lambda own: ROOM, least=0.0, most=lambda own: own.time + 1.0)  # how many there were
    since_counts: Floats = section(lambda own: ROOM * own.arms, least=0.0, most=lambda own: own.time)  # observations
    since_sums: Floats = section(lambda own: ROOM * own.arms, least=0.0)  # since the last change
    old_counts: Floats = section(lambda own: ROOM * own.arms, least=0.0, most=lambda own: own.time)  # and before it
    old_sums: Floats = section(lambda own: ROOM * own.arms, least=0.0)
    moved: Floats = section(lambda own: ROOM * own.arms, least=0.0, most=1.0)  # how likely the arm moved at the change


def configure(state: Policy, parameters: Mapping[str, Any]) -> None:
    """Write down the priors of feedback means: Beta, with the mean and variance of g(U) for a uniform U."""
    for arm, (first, last) in enumerate(zip(state.first_node, state.last_node, strict=True)):
        widths = np.diff(state.node_means[first : last + 1])
        left, right = state.node_feedbacks[first:last], state.node_feedbacks[first + 1 : last + 1]
        mean = float(np.sum(widths * (left + right)) / 2.0)
        variance = float(np.sum(widths * (left * left + left * right + right * right)) / 3.0) - mean * mean
        weight = mean * (1.0 - mean) / max(variance, 1e-12) - 1.0
        state.alphas[arm] = max(1.0, mean * weight)
        state.betas[arm] = max(1.0, (1.0 - mean) * weight)


def contradiction(state: Policy, parameters: Mapping[str, Any]) -> str:
    """Return where saved beliefs contradict themselves."""
    live = state.order[: state.own[0].live]
    in_order = np.array_equal(np.sort(state.order), np.arange(ROOM)) and np.all(np.diff(state.begins[live]) > 0.0)
    rows = (state.since_counts, state.since_sums), (state.old_counts, state.old_sums)
    fit = all(np.all(sums <= counts + 1e-9 * (1.0 + counts)) for counts, sums in rows)
    return "" if in_order and fit and state.weights[live].sum() > 0.0 else "its beliefs are not in order"


@inner
def start(state: Policy) -> None:
    """Believe in one hypothesis: that the first change is yet to come."""
    forget(state)
    state.own[0].live = 1
    for slot in range(ROOM):
        state.order[slot] = slot
    state.begins[:] = 0.0
    state.weights[:] = 0.0
    state.weights[0] = 1.0
    state.changes[:] = 0.0
    state.since_counts[:] = 0.0
    state.since_sums[:] = 0.0
    state.old_counts[:] = 0.0
    state.old_sums[:] = 0.0
    state.moved[:] = 1.0


@inner
def choose(state: Policy) -> int:
    """Draw a hypothesis, a mean of every arm if it holds, and return the arm with the highest."""
    own = state.own[0]
    words = state.lots
    order, weights = state.order, state.weights
    place = 0
    left = lots.uniform(words) - weights[order[0]]
    while left >= 0.0 and place + 1 < own.live:
        place += 1
        left -= weights[order[place]]
    row = order[place] * own.arms
    since_counts, since_sums = state.since_counts, state.since_sums
    lows, rates, straight = state.lows, state.rates, not own.curved
    best = -np.inf
    chosen = 0
    for arm in range(own.arms):
        at = row + arm
        count = since_counts[at]
        total = since_sums[at]
        moved = state.moved[at]
        if moved < 1.0 and lots.uniform(words) >= moved:
            count += state.old_counts[at]
            total += state.old_sums[at]
        drawn = beta.draw(words, state.alphas[arm] + total, state.betas[arm] + max(count - total, 0.0))
        value = (drawn - lows[arm]) * rates[arm] if straight else mean_behind(state, arm, drawn)
        if value > best:
            best = value
            chosen = arm
    return chosen


@inlined
def _expectations(
    count: float, total: float, old_count: float, old_total: float, alpha: float, prior: float
) -> tuple[float, float]:
    """Return the mean of the next feedback of an arm if it moved at the last change, and if it stayed."""
    return (total + alpha) / (count + prior), (total + old_total + alpha) / (count + old_count + prior)


@inner
def score(state: Policy, arm: int) -> float:
    """Return the mean of the arm's posterior."""
    own = state.own[0]
    prior = state.alphas[arm] + state.betas[arm]
    mean = 0.0
    for place in range(own.live):
        slot = state.order[place]
        at = slot * own.arms + arm
        since, before = (state.since_counts[at], state.since_sums[at]), (state.old_counts[at], state.old_sums[at])
        fresh, stayed = _expectations(since[0], since[1], before[0], before[1], state.alphas[arm], prior)
        moved = state.moved[at]
        mean += state.weights[slot] * (moved * fresh + (1.0 - moved) * stayed)
    return mean_behind(state, arm, mean)


@inner
def observe(state: Policy, arm: int, feedback: float) -> None:
    """Weigh the hypotheses anew, and add one: that the next step is the first after a change."""
    own = state.own[0]
    own.time += 1
    total = _weigh(state, arm, flipped(state, arm, feedback))
    order, weights, all_changes = state.order, state.weights, state.changes  # found once, not at every turn
    time = own.time + 1.0
    born = 0.0
    changes = 0.0
    heaviest = order[0]
    for place in range(own.live):
        slot = order[place]
        weight = weights[slot] / total
        share = weight * min(0.5, (all_changes[slot] + FEW) / time)
        weights[slot] = weight - share
        born += share
        changes += share * (all_changes[slot] + 1.0)
        if weights[slot] > weights[heaviest]:
            heaviest = slot
    _remember(state, heaviest)
    if own.live == ROOM:
        _merge(state)
    _add(state, born, changes / born)


@inlined
def _weigh(state: Policy, arm: int, feedback: float) -> float:
    """Show a feedback to all hypotheses; return the sum of their weights by what they expected."""
    order, weights, all_moved = state.order, state.weights, state.moved
    since_counts, since_sums = state.since_counts, state.since_sums
    old_counts, old_sums = state.old_counts, state.old_sums
    arms = state.own[0].arms
    alpha = state.alphas[arm]
    prior = alpha + state.betas[arm]
    total = 0.0
    for place in range(state.own[0].live):
        slot = order[place]
        at = slot * arms + arm
        count, ones = since_counts[at], since_sums[at]
        fresh, stayed = _expectations(count, ones, old_counts[at], old_sums[at], alpha, prior)
        fresh = feedback * fresh + (1.0 - feedback) * (1.0 - fresh)
        stayed = feedback * stayed + (1.0 - feedback) * (1.0 - stayed)
        moved = all_moved[at] * fresh
        either = moved + (1.0 - all_moved[at]) * stayed
        all_moved[at] = moved / either
        since_counts[at] = count + 1.0
        since_sums[at] = ones + feedback
        weights[slot] *= either
        total += weights[slot]
    return total


@inner
def _remember(state: Policy, heaviest: int) -> None:
    """Write down what counts if the likeliest hypothesis holds."""
    own = state.own[0]
    own.alarms = int(state.changes[heaviest] + 0.5)
    counts, sums, moved = state.counts, state.sums, state.moved
    since_counts, since_sums = state.since_counts, state.since_sums
    old_counts, old_sums = state.old_counts, state.old_sums
    for arm in range(own.arms):
        at = heaviest * own.arms + arm
        stayed = moved[at] < 0.5
        counts[arm] = since_counts[at] + (old_counts[at] if stayed else 0.0)
        sums[arm] = since_sums[at] + (old_sums[at] if stayed else 0.0)


@inner
def _merge(state: Policy) -> None:
    """Make one hypothesis of two neighbours, where it matters least."""
    own = state.own[0]
    order, begins, weights = state.order, state.begins, state.weights
    time = float(own.time)
    least = np.inf
    choice = 0
    last = own.live - 1
    for place in range(last):
        older = order[place]
        younger = order[place + 1]
        apart = (begins[younger] - begins[older]) / (time - begins[older])
        loss = min(weights[older], weights[younger]) * apart
        if loss < least:
            least = loss
            choice = place
    kept = state.order[choice]
    freed = state.order[choice + 1]
    if state.weights[kept] < state.weights[freed]:
        kept, freed = freed, kept
    both = state.weights[kept] + state.weights[freed]
    if both > 0.0:
        weighted = state.weights[kept] * state.changes[kept] + state.weights[freed] * state.changes[freed]
        state.changes[kept] = weighted / both
    state.weights[kept] = both
    state.order[choice] = kept
    for place in range(choice + 1, last):
        order[place] = order[place + 1]
    order[last] = freed
    own.live = last


@inner
def _add(state: Policy, weight: float, changes: float) -> None:
    """Add the hypothesis that a change comes right now."""
    own = state.own[0]
    slot = state.order[own.live]
    own.live += 1
    state.begins[slot] = own.time
    state.weights[slot] = weight
    state.changes[slot] = changes
    row, end = slot * own.arms, (slot + 1) * own.arms
    state.since_counts[row:end] = 0.0
    state.since_sums[row:end] = 0.0
    state.moved[row:end] = MOVES
    counts, sums = state.counts, state.sums
    old_counts, old_sums = state.old_counts, state.old_sums
    for arm in range(own.arms):
        old_counts[row + arm] = counts[arm]
        old_sums[row + arm] = sums[arm]
