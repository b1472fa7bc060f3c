"""The posterior over the last change, from which ``auto`` draws.

What may have changed, when, and how likely that is: Bayes' rule over the last change.

The model: changes come at random, and are of KINDS kinds, in which all arms take part together.

* ALL arms move, each to a mean drawn afresh from its prior; or ONE does, which may be any; or all take a STEP from
  where they were. Then what was known from n observations is still worth N n / (N + n), N being COARSE or FINE times
  what an unmasked observation is worth: two sizes of steps. Many steps are a drift.
* *Hypotheses.* One for each time and kind that the last change may have had. It keeps, of every arm, what was seen
  since, what was known before, and the probability that the arm moved. It predicts the next feedback, and its weight is
  multiplied by the probability that it gave to what came: detection without a threshold, by all arms together.
* *Rates.* A hypothesis that has seen c changes of a kind in t steps expects (c + a few) / (t + 1) of them a step
  (Wilson, Nassar and Gold 2010, Bayesian online learning of the hazard rate in change-point problems). So it is learnt
  how often the world changes, and in what way.

A masked observation is worth s^2 of an unmasked one, s the slope of its mask. So a hypothesis is added every BEAT / s^2
steps, of each kind in turn: oftener would only crowd them. When there are EACH of a kind, two neighbours first become
one, the pair for which the smaller weight times the difference of their ages, relative to the age, is least.

Evidence of a change that lies may explain, also if they come in a burst (``contamination`` of ``auto``).

The assumption: at most a share c of the reports of an arm are lies, of the last STRETCH if there are more, and they may
be any reports, in the worst case those that speak most for a change. So a change is believed if it is likely without
the c n reports that favour it most, n being how many reports of the arm count. About as many lies in a row turn
nothing, and after a real change as many reports are lost before the others can show it.

Which reports favour a hypothesis most is known only in hindsight. Two numbers stand for them, of each hypothesis and
arm: how many reports are set aside, and the sum of their gains. The gain of a report is the ratio of the probabilities
that the hypothesis and the likeliest one gave to it, less 1. That sum is never above that of the c n largest gains.
"""

import numpy as np

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import Floats, Ints, array, computed, fixed_array, param, record, size, variable
from maskedbandits.policies.state import NOT_NEGATIVE, Arms, forget
from maskedbandits.policies.validation import share_of_lies

ALL, ONE, COARSE_STEP, FINE_STEP = range(4)
KINDS = 4
EACH = 12  # hypotheses of a kind; a third more or less changes little
ROOM = KINDS * EACH
# The numbers of the model, as those in ``auto.py`` chosen on random problems of 10^5 steps:
FEW, FEWER = 0.014, 0.002  # changes of ALL, and of each other kind, seen before the first step, so to speak
STAYS = 0.02  # probability that an arm stays where all move
COARSE, FINE = 25.0, 100.0
BEAT = 4.0
FAINT = 1e-6  # least probability that a hypothesis gives to anything: only reports with masks of their own come near
VAST = 1e60  # more than any number of observations is worth, and small enough for products of four
NOTHING = 1e-100  # a smaller weight is none: numbers with less than all their digits are slow


@record
class Beliefs(Arms):
    """What is believed: hypotheses live in slots, those of a kind together, and each arm has a row of them."""

    contamination: float = param(0.0, share_of_lies, "the share of reports that may be lies, also in a burst")
    wary: int = size()  # 1 if contamination is above 0
    beat: int = computed()  # steps from one new hypothesis to the next
    heaviest: int = variable(0, most=ROOM - 1)  # the slot of the likeliest hypothesis
    singly: float = variable(0.0, most=1.0)  # the share of changes, if it holds, that were of one arm
    mixed: int = variable(0, most=1)  # 1 if some report had a mask of its own
    alphas: Floats = fixed_array(lambda scalars: scalars.arms)  # the priors of the feedback means
    betas: Floats = fixed_array(lambda scalars: scalars.arms)
    worths: Floats = fixed_array(lambda scalars: scalars.arms)  # how many observations are worth an unmasked one
    lives: Ints = array(lambda scalars: KINDS, least=0, most=EACH)  # how many hypotheses there are of a kind
    order: Ints = array(
        lambda scalars: ROOM, least=0, most=ROOM - 1
    )  # slots, the oldest of a kind first, then free ones
    begins: Floats = array(
        lambda scalars: ROOM, least=0.0, most=lambda scalars: scalars.time
    )  # when the last change was
    weights: Floats = array(lambda scalars: ROOM, least=0.0, most=1.0 + 1e-9)
    tallies: Floats = array(
        lambda scalars: KINDS * ROOM, least=0.0, most=lambda scalars: scalars.time + 1.0
    )  # changes of a kind
    since_counts: Floats = array(
        lambda scalars: scalars.arms * ROOM, least=0.0, most=VAST
    )  # observations since the change
    since_sums: Floats = array(lambda scalars: scalars.arms * ROOM, least=-VAST, most=VAST)
    old_counts: Floats = array(lambda scalars: scalars.arms * ROOM, least=0.0, most=VAST)  # and before it
    old_sums: Floats = array(lambda scalars: scalars.arms * ROOM, least=-VAST, most=VAST)
    moved: Floats = array(
        lambda scalars: scalars.arms * ROOM, least=0.0, most=1.0, added=1.0
    )  # how likely it moved then
    # With contamination alone: reports set aside as possible lies, and by how much they favoured it.
    aside_counts: Floats = array(lambda scalars: scalars.wary * scalars.arms * ROOM, least=0.0, most=VAST)
    aside_sums: Floats = array(lambda scalars: scalars.wary * scalars.arms * ROOM, least=0.0, most=VAST)
    last_weights: Floats = array(lambda scalars: scalars.wary * ROOM, least=0.0, most=1.0 + 1e-9, scratch=True)


@inner
def start(state: Beliefs) -> None:
    """Believe in one hypothesis: that the first change is yet to come."""
    forget(state)
    scalars = state.scalars[0]
    scalars.heaviest = 0
    scalars.singly = 0.0
    scalars.mixed = 0
    for kind in range(KINDS):
        state.lives[kind] = 1 if kind == ALL else 0
    for slot in range(ROOM):
        state.order[slot] = slot
        state.begins[slot] = 0.0
        state.weights[slot] = 1.0 if slot == 0 else 0.0
    for place in range(KINDS * ROOM):
        state.tallies[place] = 0.0
    for at in range(scalars.arms * ROOM):
        state.since_counts[at] = 0.0
        state.since_sums[at] = 0.0
        state.old_counts[at] = 0.0
        state.old_sums[at] = 0.0
        state.moved[at] = 1.0
        if scalars.wary:
            state.aside_counts[at] = 0.0
            state.aside_sums[at] = 0.0


@inner
def take_in(state: Beliefs, arm: int, still: float, rising: float, count: float, ones: float) -> None:
    """Take in what has the probability still + rising p if p is the feedback mean, and what it counts for."""
    scalars = state.scalars[0]
    scalars.time += 1
    if scalars.wary:
        _weigh_warily(state, arm, still, rising, count, ones)
    else:
        _weigh(state, arm, still, rising, count, ones)
    _normalise(state)
    if scalars.time % scalars.beat == 0:
        _renew(state)
    else:
        _remember(state, scalars.heaviest, arm)


@inlined
def _weigh(state: Beliefs, arm: int, still: float, rising: float, count: float, ones: float) -> None:
    """Show what came to all hypotheses: a plain loop over rows of numbers, in which one division does for three."""
    row = arm * ROOM & NOT_NEGATIVE
    alpha = state.alphas[arm]
    prior = alpha + state.betas[arm]
    weights, all_moved = state.weights, state.moved
    since_counts, since_sums = state.since_counts, state.since_sums
    old_counts, old_sums = state.old_counts, state.old_sums
    for slot in range(ROOM):
        at = row + slot
        seen, total = since_counts[at], since_sums[at]
        if_moved = seen + prior
        if_stayed = if_moved + old_counts[at]
        fresh = max(still * if_moved + rising * (total + alpha), FAINT * if_moved)
        known = max(still * if_stayed + rising * (total + old_sums[at] + alpha), FAINT * if_stayed)
        moved = all_moved[at] * fresh * if_stayed
        either = moved + (1.0 - all_moved[at]) * known * if_moved
        scale = if_moved * if_stayed
        share = 1.0 / (either * scale)
        all_moved[at] = min(moved * scale * share, 1.0)
        weights[slot] *= either * either * share
        since_counts[at] = seen + count
        since_sums[at] = total + ones


@inner
def _weigh_warily(state: Beliefs, arm: int, still: float, rising: float, count: float, ones: float) -> None:
    """Show what came to all hypotheses, and take back what lies may explain."""
    scalars = state.scalars[0]
    weights, before = state.weights, state.last_weights
    for slot in range(ROOM):
        before[slot] = weights[slot]
    _weigh(state, arm, still, rising, count, ones)
    most = scalars.contamination * min(state.counts[arm], STRETCH)
    set_aside(weights, before, scalars.heaviest, most, arm * ROOM, state.aside_counts, state.aside_sums)


@inlined
def _normalise(state: Beliefs) -> None:
    """Make the weights add up to one."""
    weights = state.weights
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0  # four sums at once, as each addition waits for the one before
    for slot in range(0, ROOM, 4):
        first += weights[slot]
        second += weights[slot + 1]
        third += weights[slot + 2]
        fourth += weights[slot + 3]
    share = 1.0 / ((first + second) + (third + fourth))
    for slot in range(ROOM):
        weights[slot] *= share


@inlined
def _expected(state: Beliefs, kind: int) -> float:
    """Return how many changes of a kind there were."""
    weights, tallies = state.weights, state.tallies
    row = kind * ROOM
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    for slot in range(0, ROOM, 4):
        first += weights[slot] * tallies[row + slot]
        second += weights[slot + 1] * tallies[row + slot + 1]
        third += weights[slot + 2] * tallies[row + slot + 2]
        fourth += weights[slot + 3] * tallies[row + slot + 3]
    return (first + second) + (third + fourth)


@inlined
def _remember(state: Beliefs, slot: int, arm: int) -> None:
    """Write down what counts of an arm if a hypothesis holds."""
    at = arm * ROOM + slot
    stayed = state.moved[at] < 0.5
    state.counts[arm] = state.since_counts[at] + (state.old_counts[at] if stayed else 0.0)
    state.sums[arm] = state.since_sums[at] + (state.old_sums[at] if stayed else 0.0)


@inner
def _renew(state: Beliefs) -> None:
    """Add a hypothesis: that the next step is the first after a change, of the kind whose turn it is."""
    scalars = state.scalars[0]
    weights, tallies = state.weights, state.tallies
    kind = scalars.time // scalars.beat % KINDS
    few = FEW if kind == ALL else FEWER
    steps = float(KINDS * scalars.beat) / (float(scalars.time) + 1.0)
    changes = _expected(state, 0), _expected(state, 1), _expected(state, 2), _expected(state, 3)
    born = 0.0
    for slot in range(ROOM):
        leaving = weights[slot] * min(0.5, (tallies[kind * ROOM + slot] + few) * steps)
        weights[slot] -= leaving
        if weights[slot] < NOTHING:
            weights[slot] = 0.0
        born += leaving
    if state.lives[kind] == EACH:
        _merge(state, kind)
    _look_around(state)
    slot = state.order[kind * EACH + state.lives[kind]]
    state.lives[kind] += 1
    for each in range(KINDS):
        tallies[each * ROOM + slot] = changes[each] + (1.0 if each == kind else 0.0)
    weights[slot] = born
    state.begins[slot] = scalars.time
    _inherit(state, slot, kind)


@inner
def _merge(state: Beliefs, kind: int) -> None:
    """Make one hypothesis of two neighbours of a kind, where it matters least."""
    order, begins, weights, tallies = state.order, state.begins, state.weights, state.tallies
    time = float(state.scalars[0].time)
    first, last = kind * EACH, (kind + 1) * EACH - 1
    least = np.inf
    choice = first
    for place in range(first, last):
        older, younger = order[place], order[place + 1]
        apart = (begins[younger] - begins[older]) / (time - begins[older])
        loss = min(weights[older], weights[younger]) * apart
        if loss < least:
            least = loss
            choice = place
    kept, freed = order[choice], order[choice + 1]
    if weights[kept] < weights[freed]:
        kept, freed = freed, kept
    both = weights[kept] + weights[freed]
    if both > 0.0:
        for each in range(KINDS):
            tally = weights[kept] * tallies[each * ROOM + kept] + weights[freed] * tallies[each * ROOM + freed]
            tallies[each * ROOM + kept] = tally / both
    weights[kept] = both
    weights[freed] = 0.0
    order[choice] = kept
    for place in range(choice + 1, last):
        order[place] = order[place + 1]
    order[last] = freed
    state.lives[kind] -= 1


@inner
def _look_around(state: Beliefs) -> None:
    """Find the likeliest hypothesis, and write down what counts if it holds."""
    scalars = state.scalars[0]
    heaviest = 0
    for slot in range(1, ROOM):
        if state.weights[slot] > state.weights[heaviest]:
            heaviest = slot
    scalars.heaviest = heaviest
    changes = 0.0
    for kind in range(KINDS):
        changes += state.tallies[kind * ROOM + heaviest]
    scalars.alarms = int(changes + 0.5)
    scalars.singly = (state.tallies[ONE * ROOM + heaviest] + FEWER) / (changes + FEW + (KINDS - 1) * FEWER)
    for arm in range(scalars.arms):
        _remember(state, heaviest, arm)


@inner
def _inherit(state: Beliefs, slot: int, kind: int) -> None:
    """Let a new hypothesis know before the change what the likeliest knows."""
    scalars = state.scalars[0]
    since_counts, since_sums = state.since_counts, state.since_sums
    old_counts, old_sums = state.old_counts, state.old_sums
    moves = 1.0 - STAYS if kind == ALL else (1.0 / (scalars.arms - scalars.retired) if kind == ONE else 0.0)
    step = FINE if kind == FINE_STEP else COARSE
    for arm in range(scalars.arms):
        at = arm * ROOM + slot
        count = state.counts[arm]
        worth = step * state.worths[arm]
        kept = 1.0 if kind < COARSE_STEP else worth / (worth + count)
        since_counts[at] = 0.0
        since_sums[at] = 0.0
        old_counts[at] = kept * count
        old_sums[at] = kept * state.sums[arm]
        state.moved[at] = moves
        if scalars.wary:
            state.aside_counts[at] = 0.0
            state.aside_sums[at] = 0.0


STRETCH = 10_000.0  # a longer memory allows for no longer burst
ROUNDING = 1e-9  # a gain up to which a report favours nothing


@inner
def set_aside(
    weights: Floats, before: Floats, likeliest: int, lies: float, row: int, counts: Floats, sums: Floats
) -> None:
    """Take back what a report did for every hypothesis, compared with the likeliest, if it is one that may be a lie.

    The first that favour a hypothesis are set aside. Once there are as many as there may be lies, one that favours it
    more than they do on average takes the place of such an average one.
    """
    if before[likeliest] <= 0.0 or weights[likeliest] <= 0.0:
        return
    usual = weights[likeliest] / before[likeliest]
    for slot in range(weights.size):
        expected = before[slot] * usual
        gain = weights[slot] - expected
        if slot == likeliest or expected <= 0.0 or gain <= ROUNDING * expected:
            continue
        gain /= expected
        at = row + slot
        aside = counts[at]
        average = sums[at] / aside if aside > 0.0 else 0.0
        first = min(max(lies - aside, 0.0), 1.0)
        swapped = min(1.0 - first, aside) if gain > average else 0.0
        taken = first * gain + swapped * (gain - average)
        counts[at] = aside + first
        sums[at] += taken
        weights[slot] -= taken * expected
