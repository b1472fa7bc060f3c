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

from typing import NamedTuple

import numpy as np

from maskedbandits.core import beta, corruption, lots
from maskedbandits.core.compiled import compiled, inlined
from maskedbandits.core.lots import Words
from maskedbandits.core.state import ALARMS, ARMS, OWN_HEAD, TIME, Floats, Solo, State

ROOM = 48  # hypotheses; twice as many gain nothing that can be measured
# The two numbers of the model, chosen on random problems of 10^5 steps:
FEW = 0.01  # changes seen before the first step, so to speak: more find a first quiet change sooner, at a cost to all
MOVES = 0.9  # probability that an arm moves at a change: less helps where arms move singly, and costs where all do


class Beliefs(NamedTuple):
    """Views over what is kept: hypotheses live in slots, and each has a row of arms in the last five."""

    alphas: Floats  # (K,) the priors of the feedback means
    betas: Floats
    live: Floats  # (1,) how many hypotheses there are
    order: Floats  # (ROOM,) their slots, the oldest first, and then the slots that are free
    begins: Floats  # (ROOM,) when the last change was
    weights: Floats
    changes: Floats  # how many changes there were
    counts: Floats  # (ROOM * K,) observations since the last change
    sums: Floats
    old_counts: Floats  # and before it
    old_sums: Floats
    moved: Floats  # probabilities that the arm moved at the change


def size(arms: int) -> int:
    """Return how many numbers it keeps."""
    return OWN_HEAD + 2 * arms + 1 + 4 * ROOM + 5 * ROOM * arms


@inlined
def beliefs(own: Floats, arms: int) -> Beliefs:
    """Lay the views."""
    betas = OWN_HEAD + arms
    live = betas + arms
    order = live + 1
    begins = order + ROOM
    weights = begins + ROOM
    changes = weights + ROOM
    counts = changes + ROOM
    sums = counts + ROOM * arms
    old_counts = sums + ROOM * arms
    old_sums = old_counts + ROOM * arms
    moved = old_sums + ROOM * arms
    return Beliefs(
        alphas=own[OWN_HEAD:betas],
        betas=own[betas:live],
        live=own[live:order],
        order=own[order:begins],
        begins=own[begins:weights],
        weights=own[weights:changes],
        changes=own[changes:counts],
        counts=own[counts:sums],
        sums=own[sums:old_counts],
        old_counts=own[old_counts:old_sums],
        old_sums=own[old_sums:moved],
        moved=own[moved : moved + ROOM * arms],
    )


def views(state: State) -> Beliefs:
    """Lay the views, for the interpreter."""
    return getattr(beliefs, "py_func", beliefs)(state.own, state.counts.size)


@compiled
def start(state: Solo) -> None:
    """Believe in one hypothesis: that the first change is yet to come."""
    arms = state.head[ARMS]
    state.own[OWN_HEAD + 2 * arms :] = 0.0
    held = beliefs(state.own, arms)
    for slot in range(ROOM):
        held.order[slot] = slot
    held.live[0] = 1.0
    held.weights[0] = 1.0
    held.moved[:] = 1.0


@inlined
def _mean_of(state: Solo, arm: int, feedback_mean: float) -> float:
    """Return the inverse of the arm's (increasing) corruption."""
    first = state.first_node[arm]
    last = state.last_node[arm]
    if last == first + 1:
        return (feedback_mean - state.lows[arm]) * state.rates[arm]
    return corruption.inverse(feedback_mean, state.node_means, state.node_feedbacks, first, last)


@compiled
def decide(state: Solo, words: Words) -> int:
    """Draw a hypothesis, a mean of every arm if it holds, and return the arm with the highest."""
    arms = state.head[ARMS]
    held = beliefs(state.own, arms)
    place = 0
    left = lots.uniform(words) - held.weights[int(held.order[0])]
    while left >= 0.0 and place + 1 < held.live[0]:
        place += 1
        left -= held.weights[int(held.order[place])]
    row = int(held.order[place]) * arms
    best = -np.inf
    chosen = 0
    for arm in range(arms):
        count = held.counts[row + arm]
        total = held.sums[row + arm]
        if held.moved[row + arm] < 1.0 and lots.uniform(words) >= held.moved[row + arm]:
            count += held.old_counts[row + arm]
            total += held.old_sums[row + arm]
        value = _mean_of(
            state, arm, beta.draw(words, held.alphas[arm] + total, held.betas[arm] + max(count - total, 0.0))
        )
        if value > best:
            best = value
            chosen = arm
    return chosen


@inlined
def _expectations(held: Beliefs, row: int, arm: int) -> tuple[float, float]:
    """Return the mean of the next feedback of an arm if it moved at the last change, and if it stayed."""
    alpha = held.alphas[arm]
    weight = alpha + held.betas[arm]
    count = held.counts[row + arm]
    total = held.sums[row + arm]
    stayed = (total + held.old_sums[row + arm] + alpha) / (count + held.old_counts[row + arm] + weight)
    return (total + alpha) / (count + weight), stayed


@compiled
def score(state: Solo, arm: int) -> float:
    """Return the mean of the arm's posterior."""
    arms = state.head[ARMS]
    held = beliefs(state.own, arms)
    mean = 0.0
    for place in range(int(held.live[0])):
        slot = int(held.order[place])
        fresh, stayed = _expectations(held, slot * arms, arm)
        moved = held.moved[slot * arms + arm]
        mean += held.weights[slot] * (moved * fresh + (1.0 - moved) * stayed)
    return _mean_of(state, arm, mean)


@compiled
def observe(state: Solo, arm: int, feedback: float) -> None:
    """Weigh the hypotheses anew, and add one: that the next step is the first after a change."""
    arms = state.head[ARMS]
    held = beliefs(state.own, arms)
    total = 0.0
    for place in range(int(held.live[0])):
        total += _weigh(held, int(held.order[place]), arms, arm, feedback)
    born = 0.0
    changes = 0.0
    heaviest = int(held.order[0])
    for place in range(int(held.live[0])):
        slot = int(held.order[place])
        weight = held.weights[slot] / total
        share = weight * min(0.5, (held.changes[slot] + FEW) / (state.head[TIME] + 1.0))
        held.weights[slot] = weight - share
        born += share
        changes += share * (held.changes[slot] + 1.0)
        if held.weights[slot] > held.weights[heaviest]:
            heaviest = slot
    _remember(state, held, heaviest)
    if held.live[0] == ROOM:
        _merge(held, float(state.head[TIME]))
    _add(state, held, born, changes / born)


@inlined
def _weigh(held: Beliefs, slot: int, arms: int, arm: int, feedback: float) -> float:
    """Show a feedback to a hypothesis; return its weight by what it expected."""
    at = slot * arms + arm
    fresh, stayed = _expectations(held, slot * arms, arm)
    fresh = feedback * fresh + (1.0 - feedback) * (1.0 - fresh)
    stayed = feedback * stayed + (1.0 - feedback) * (1.0 - stayed)
    moved = held.moved[at] * fresh
    either = moved + (1.0 - held.moved[at]) * stayed
    held.moved[at] = moved / either
    held.counts[at] += 1.0
    held.sums[at] += feedback
    held.weights[slot] *= either
    return held.weights[slot]


@compiled
def _remember(state: Solo, held: Beliefs, heaviest: int) -> None:
    """Write down what counts if the likeliest hypothesis holds."""
    arms = state.head[ARMS]
    state.head[ALARMS] = int(held.changes[heaviest] + 0.5)
    for arm in range(arms):
        at = heaviest * arms + arm
        stayed = held.moved[at] < 0.5
        state.counts[arm] = held.counts[at] + (held.old_counts[at] if stayed else 0.0)
        state.sums[arm] = held.sums[at] + (held.old_sums[at] if stayed else 0.0)


@compiled
def _merge(held: Beliefs, time: float) -> None:
    """Make one hypothesis of two neighbours, where it matters least."""
    least = np.inf
    choice = 0
    last = int(held.live[0]) - 1
    for place in range(last):
        older = int(held.order[place])
        younger = int(held.order[place + 1])
        apart = (held.begins[younger] - held.begins[older]) / (time - held.begins[older])
        loss = min(held.weights[older], held.weights[younger]) * apart
        if loss < least:
            least = loss
            choice = place
    kept = int(held.order[choice])
    freed = int(held.order[choice + 1])
    if held.weights[kept] < held.weights[freed]:
        kept, freed = freed, kept
    both = held.weights[kept] + held.weights[freed]
    if both > 0.0:
        weighted = held.weights[kept] * held.changes[kept] + held.weights[freed] * held.changes[freed]
        held.changes[kept] = weighted / both
    held.weights[kept] = both
    held.order[choice] = kept
    for place in range(choice + 1, last):
        held.order[place] = held.order[place + 1]
    held.order[last] = freed
    held.live[0] = last


@compiled
def _add(state: Solo, held: Beliefs, weight: float, changes: float) -> None:
    """Add the hypothesis that a change comes right now."""
    arms = state.head[ARMS]
    slot = int(held.order[int(held.live[0])])
    held.live[0] += 1.0
    held.begins[slot] = state.head[TIME]
    held.weights[slot] = weight
    held.changes[slot] = changes
    for arm in range(arms):
        at = slot * arms + arm
        held.counts[at] = 0.0
        held.sums[at] = 0.0
        held.old_counts[at] = state.counts[arm]
        held.old_sums[at] = state.sums[arm]
        held.moved[at] = MOVES


def is_sound(view: State) -> bool:
    """Tell whether beliefs from elsewhere can be trusted: some numbers are used as places."""
    held = views(view)
    live = held.live[0]
    if not 1.0 <= live <= ROOM or live != np.floor(live) or not np.array_equal(np.sort(held.order), np.arange(ROOM)):
        return False
    slots = held.order[: int(live)].astype(np.int64)
    time = float(view.head[TIME])
    begins = held.begins[slots]
    in_order = np.all(np.diff(begins) > 0.0) and np.all((begins >= 0.0) & (begins <= time))
    weighed = np.all((held.weights >= 0.0) & (held.weights <= 1.0)) and held.weights[slots].sum() > 0.0
    counted = np.all((held.changes >= 0.0) & (held.changes <= time + 1.0))
    old, new = (held.old_counts, held.old_sums), (held.counts, held.sums)
    fit = all(np.all((s >= 0.0) & (s <= n + 1e-9 * (1.0 + n)) & (n <= time)) for n, s in (old, new))
    return bool(in_order and weighed and counted and fit and np.all((held.moved >= 0.0) & (held.moved <= 1.0)))
