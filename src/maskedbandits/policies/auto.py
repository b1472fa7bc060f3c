"""Thompson sampling in a world that may have changed, in any of several ways. It needs no tuning.

The state is a posterior over the last change. A choice draws a hypothesis about the last change, then whether each arm
moved at it, then the mean of each arm, and returns the best arm. The longer an arm was not pulled, the more weight lies
on changes since. No arm is starved, and arms that cannot win are spared.

**The model.** Changes come at random and are of KINDS kinds:

* ALL arms move, each to a mean drawn afresh from its prior; or ONE arm does, and it may be any; or all arms take a STEP
  from where they were. After a step, n earlier observations are still worth N n / (N + n), where N is COARSE or FINE
  times the worth of an unmasked observation: two sizes of steps. Many steps are a drift.
* *Hypotheses.* There is one for each time and kind of the last change. It holds, for every arm, the observations since
  the change, those before it, and the probability that the arm moved. It predicts the next feedback, and its weight is
  multiplied by the probability of that feedback. This detects changes without a threshold, by all arms together.
* *Rates.* A hypothesis that has seen c changes of a kind in t steps expects (c + a few) / (t + 1) of them a step
  (Wilson, Nassar and Gold 2010, Bayesian online learning of the hazard rate in change-point problems). So the policy
  learns how often the world changes, and in what way.
  Before it has seen any, "a few" is FEW for ALL and FEWER for each other kind: the premium of an insurance against
  changes (docs/how_auto_works.md). ``expected_changes`` scales both.

A masked observation is worth s^2 of an unmasked one, with s the slope of its mask. So a hypothesis is added every
BEAT / s^2 steps, of each kind in turn: more often would only crowd them. When there are EACH of a kind, two neighbours
are merged first: the pair with the least smaller weight times the difference of their ages, relative to the age.

The prior of a feedback mean is the Beta distribution with the mean and variance of g(U), U uniform. Under strong
privacy, a flat prior would lie mostly outside the range of g.

**Lies** (``contamination``). At most a share c of an arm's reports are lies, of the last STRETCH reports if there are
more. They may be any reports, in the worst case those that favour a change most, also in a burst. So a change is
believed if it is likely without the c n reports that favour it most, with n the number of reports of the arm that
count. About c n lies in a row change nothing, and after a real change about as many reports are lost before the others
can show it. Which reports favour a hypothesis most is known only in hindsight. Two numbers of each hypothesis and arm
stand in for them: the number of reports set aside, and the sum of their gains. The gain of a report is the ratio of the
probabilities that the hypothesis and the likeliest hypothesis gave to it, less 1. The sum never exceeds that of the c n
largest gains.

**Differences from plain Thompson sampling.**

* In the long run, draws from a posterior pull bad arms more often than is worth it. Once an arm has more than a SCANT
  number of observations, its mean is drawn WIDE (less than 1) times as far from its expectation.
* Under hypotheses other than the likeliest, means are drawn NARROW times as far: most of these hypotheses are about to
  be refuted by whatever is chosen. The exception are changes of ONE arm, which only a pull of that arm can reveal. They
  are drawn as wide as the likeliest.
* The larger the share of changes of ONE arm so far, the more often other hypotheses are drawn than they are likely, up
  to DOUBT / s times: finding such a change takes 1 / s^2 as many pulls as without a mask.

Without these it is the algorithm of Mellor and Shapiro 2013 (Thompson sampling in switching environments with Bayesian
online change detection, AISTATS), except for the kinds of changes, the rates, and the corruption.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import Floats, Ints, array, computed, fixed_array, param, record, size, variable
from maskedbandits.math import beta, rng
from maskedbandits.policies.state import NOT_NEGATIVE, Arms, flip_feedback, forget, mean_behind
from maskedbandits.policies.validation import between, perhaps, share_of_lies

SUMMARY = "Thompson sampling that learns how often, and how, the world changes: needs to know nothing"
REFERENCE = "Mellor & Shapiro 2013; Wilson et al. 2010"
DRAWS_FROM = "posterior"
LEARNS_FROM = "masked feedback"
ARMS_COME_AND_GO = True

ALL, ONE, COARSE_STEP, FINE_STEP = range(4)
KINDS = 4
EACH = 12  # hypotheses of a kind; a third more or less changes little
ROOM = KINDS * EACH
# The constants were chosen on random problems of 10^5 and 10^6 steps, those of `python -m bench.regret --training`.
FEW, FEWER = 0.05, 0.02  # prior number of changes of ALL, and of each other kind
STAYS = 0.2  # probability that an arm stays where all move
COARSE, FINE = 25.0, 100.0
BEAT = 4.0
FAINT = 1e-6  # least probability of a report under a hypothesis; only reports with their own masks come near
MAX_CHANGES = 1e9
VAST = 1e60  # more than any number of observations, and small enough for products of four
NOTHING = 1e-100  # smaller weights become 0, because denormal numbers are slow
STRETCH = 10_000.0  # reports that limit the length of a burst of lies
ROUNDING = 1e-9  # gains up to this are rounding errors
WIDE, NARROW = 0.8, 0.4
SCANT = 3.0  # unmasked observations of an arm up to which its mean is drawn at full width
DOUBT = 6.0
MAX_DOUBT = 0.5  # probability of other hypotheses than the likeliest, unless they are likelier
SURE = 1.0 - 1e-9  # probability from which on no random number is drawn


def _slots(scalars: Any) -> int:
    """Return the number of slots of all arms together."""
    return int(scalars.arms * ROOM)


@record
class Policy(Arms):
    """The hypotheses, in slots: those of a kind are adjacent, and each arm has a row of them."""

    contamination: float = param(0.0, share_of_lies, "the share of reports that may be lies, also in a burst")
    expected_changes: float = param(
        None,
        perhaps(between(0.0, MAX_CHANGES)),
        "how many changes you expect in all, if you know; with 0 it detects none, and the default prior is that of 1",
        stored=False,
    )
    few: float = computed()  # the prior number of changes of ALL
    fewer: float = computed()  # and of each other kind
    wary: int = size()  # 1 if contamination is above 0
    beat: int = computed()  # steps from one new hypothesis to the next
    heaviest: int = variable(0, most=ROOM - 1)  # the slot of the likeliest hypothesis
    singly: float = variable(0.0, most=1.0)  # the share of changes of ONE arm under that hypothesis
    mixed: int = variable(0, most=1)  # 1 if some report had its own mask
    alphas: Floats = fixed_array(lambda scalars: scalars.arms)  # the priors of the feedback means
    betas: Floats = fixed_array(lambda scalars: scalars.arms)
    worths: Floats = fixed_array(lambda scalars: scalars.arms)  # observations that are worth an unmasked one
    lives: Ints = array(lambda scalars: KINDS, least=0, most=EACH)  # hypotheses of each kind
    order: Ints = array(
        lambda scalars: ROOM, least=0, most=ROOM - 1
    )  # slots of each kind, the oldest first, then free ones
    begins: Floats = array(
        lambda scalars: ROOM, least=0.0, most=lambda scalars: scalars.time
    )  # when the last change was
    weights: Floats = array(lambda scalars: ROOM, least=0.0, most=1.0 + 1e-9)
    tallies: Floats = array(
        lambda scalars: KINDS * ROOM, least=0.0, most=lambda scalars: scalars.time + 1.0
    )  # changes of a kind
    since_counts: Floats = array(_slots, least=0.0, most=VAST)  # observations since the change
    since_sums: Floats = array(_slots, least=-VAST, most=VAST)
    old_counts: Floats = array(_slots, least=0.0, most=VAST)  # and before it
    old_sums: Floats = array(_slots, least=-VAST, most=VAST)
    moved: Floats = array(_slots, least=0.0, most=1.0, added=1.0)  # probability that the arm moved
    # Only with contamination: reports set aside as possible lies, and the sum of their gains.
    aside_counts: Floats = array(lambda scalars: scalars.wary * scalars.arms * ROOM, least=0.0, most=VAST)
    aside_sums: Floats = array(lambda scalars: scalars.wary * scalars.arms * ROOM, least=0.0, most=VAST)
    last_weights: Floats = array(lambda scalars: scalars.wary * ROOM, least=0.0, most=1.0 + 1e-9, scratch=True)


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return whether evidence is set aside, as a size."""
    return {"wary": int(parameters["contamination"] > 0.0)}


def configure(state: Policy, parameters: Mapping[str, Any]) -> None:
    """Compute the priors: of changes, and of feedback means, Beta with the mean and variance of g(U), U uniform."""
    expected = parameters["expected_changes"]
    scale = 1.0 if expected is None else expected
    state.scalars[0].few = FEW * scale
    state.scalars[0].fewer = FEWER * scale
    for arm, (first, last) in enumerate(zip(state.first_node, state.last_node, strict=True)):
        widths = np.diff(state.node_means[first : last + 1])
        left, right = state.node_feedbacks[first:last], state.node_feedbacks[first + 1 : last + 1]
        mean = float(np.sum(widths * (left + right)) / 2.0)
        variance = float(np.sum(widths * (left * left + left * right + right * right)) / 3.0) - mean * mean
        weight = mean * (1.0 - mean) / max(variance, 1e-12) - 1.0
        state.alphas[arm] = max(1.0, mean * weight)
        state.betas[arm] = max(1.0, (1.0 - mean) * weight)
    state.worths[:] = (state.alphas + state.betas + 1.0) / 3.0  # 1 / s^2 for randomised response
    state.scalars[0].beat = max(1, int(BEAT * state.worths.mean()))


def contradiction(state: Policy, parameters: Mapping[str, Any]) -> str:
    """Return how saved hypotheses contradict themselves, or an empty text."""
    scalars = state.scalars[0]
    live = np.zeros(ROOM, dtype=np.bool_)
    in_order = True
    for kind in range(KINDS):
        slots = state.order[kind * EACH : (kind + 1) * EACH]
        held = slots[: state.lives[kind]]
        live[held] = True
        in_order &= np.array_equal(np.sort(slots), kind * EACH + np.arange(EACH))
        in_order &= bool(np.all(np.diff(state.begins[held]) > 0.0))
    rows = (state.since_counts, state.since_sums), (state.old_counts, state.old_sums)
    fit = scalars.mixed or all(
        np.all((sums >= 0.0) & (sums <= counts + 1e-9 * (1.0 + counts))) for counts, sums in rows
    )
    weighed = live[scalars.heaviest] and not state.weights[~live].any() and 0.99 < state.weights.sum() < 1.01
    return "" if in_order and fit and weighed else "its beliefs are not in order"


@inner
def start(state: Policy) -> None:
    """Start with one hypothesis: no change so far."""
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
    for at in range(KINDS * ROOM):
        state.tallies[at] = 0.0
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
def take_in(state: Policy, arm: int, still: float, rising: float, count: float, ones: float) -> None:
    """Take in a report of probability still + rising p under the feedback mean p, with its count and sum."""
    scalars = state.scalars[0]
    scalars.time += 1
    if scalars.wary:
        _weigh_warily(state, arm, still, rising, count, ones)
    else:
        _weigh(state, arm, still, rising, count, ones)
    _normalise(state)
    if scalars.time % scalars.beat == 0:
        _add_hypothesis(state)
    else:
        _update_counts(state, scalars.heaviest, arm)


@inlined
def _weigh(state: Policy, arm: int, still: float, rising: float, count: float, ones: float) -> None:
    """Update all hypotheses by a report: a plain loop, in which one division replaces three."""
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
def _weigh_warily(state: Policy, arm: int, still: float, rising: float, count: float, ones: float) -> None:
    """Update all hypotheses by a report, and undo the part that lies may explain."""
    scalars = state.scalars[0]
    weights, before = state.weights, state.last_weights
    for slot in range(ROOM):
        before[slot] = weights[slot]
    _weigh(state, arm, still, rising, count, ones)
    most = scalars.contamination * min(state.counts[arm], STRETCH)
    set_aside(weights, before, scalars.heaviest, most, arm * ROOM, state.aside_counts, state.aside_sums)


@inlined
def _normalise(state: Policy) -> None:
    """Make the weights sum to 1."""
    weights = state.weights
    first, second, third, fourth = (
        0.0,
        0.0,
        0.0,
        0.0,
    )  # four sums at once, because each addition waits for the one before
    for slot in range(0, ROOM, 4):
        first += weights[slot]
        second += weights[slot + 1]
        third += weights[slot + 2]
        fourth += weights[slot + 3]
    share = 1.0 / ((first + second) + (third + fourth))
    for slot in range(ROOM):
        weights[slot] *= share


@inlined
def _expected_changes(state: Policy, kind: int) -> float:
    """Return the expected number of changes of a kind."""
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
def _update_counts(state: Policy, slot: int, arm: int) -> None:
    """Store the count and sum of an arm under a hypothesis."""
    at = arm * ROOM + slot
    stayed = state.moved[at] < 0.5
    state.counts[arm] = state.since_counts[at] + (state.old_counts[at] if stayed else 0.0)
    state.sums[arm] = state.since_sums[at] + (state.old_sums[at] if stayed else 0.0)


@inner
def _add_hypothesis(state: Policy) -> None:
    """Add the hypothesis that a change of the kind in turn happens now."""
    scalars = state.scalars[0]
    weights, tallies = state.weights, state.tallies
    kind = scalars.time // scalars.beat % KINDS
    few = scalars.few if kind == ALL else scalars.fewer
    steps = float(KINDS * scalars.beat) / (float(scalars.time) + 1.0)
    changes = (
        _expected_changes(state, 0),
        _expected_changes(state, 1),
        _expected_changes(state, 2),
        _expected_changes(state, 3),
    )
    born = 0.0
    for slot in range(ROOM):
        leaving = weights[slot] * min(0.5, (tallies[kind * ROOM + slot] + few) * steps)
        weights[slot] -= leaving
        if weights[slot] < NOTHING:
            weights[slot] = 0.0
        born += leaving
    if state.lives[kind] == EACH:
        _merge(state, kind)
    _find_likeliest(state)
    slot = state.order[kind * EACH + state.lives[kind]]
    state.lives[kind] += 1
    for each in range(KINDS):
        tallies[each * ROOM + slot] = changes[each] + (1.0 if each == kind else 0.0)
    weights[slot] = born
    state.begins[slot] = scalars.time
    _inherit(state, slot, kind)


@inner
def _merge(state: Policy, kind: int) -> None:
    """Merge the two neighbours of a kind whose difference matters least."""
    order, begins, weights, tallies = state.order, state.begins, state.weights, state.tallies
    time = float(state.scalars[0].time)
    first, last = kind * EACH, (kind + 1) * EACH - 1
    least = np.inf
    choice = first
    for index in range(first, last):
        older, younger = order[index], order[index + 1]
        apart = (begins[younger] - begins[older]) / (time - begins[older])
        loss = min(weights[older], weights[younger]) * apart
        if loss < least:
            least = loss
            choice = index
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
    for index in range(choice + 1, last):
        order[index] = order[index + 1]
    order[last] = freed
    state.lives[kind] -= 1


@inner
def _find_likeliest(state: Policy) -> None:
    """Find the likeliest hypothesis, and store the counts and sums under it."""
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
    all_changes = changes + scalars.few + (KINDS - 1) * scalars.fewer
    scalars.singly = (state.tallies[ONE * ROOM + heaviest] + scalars.fewer) / all_changes if all_changes > 0.0 else 0.0
    for arm in range(scalars.arms):
        _update_counts(state, heaviest, arm)


@inner
def _inherit(state: Policy, slot: int, kind: int) -> None:
    """Initialise a new hypothesis with the knowledge of the likeliest one, as knowledge before the change."""
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


@inner
def set_aside(
    weights: Floats, before: Floats, likeliest: int, lies: float, row: int, counts: Floats, sums: Floats
) -> None:
    """Undo the effect of a report on every hypothesis, compared with the likeliest, if it may be a lie.

    The first reports that favour a hypothesis are set aside. Once their number reaches that of possible lies, a report
    that favours it more than their average replaces an average one.
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


@inner
def choose(state: Policy) -> int:
    """Draw a hypothesis and a mean of every arm under it; return the arm with the highest mean."""
    scalars = state.scalars[0]
    words = state.rng
    slot = _draw_hypothesis(state)
    curious = slot == scalars.heaviest or slot // EACH == ONE
    since_counts, since_sums, all_moved = state.since_counts, state.since_sums, state.moved
    lows, rates, straight, closed = state.lows, state.rates, not scalars.curved, state.closed
    best = -np.inf
    chosen = 0
    for arm in range(scalars.arms):
        if closed[arm]:
            continue
        at = arm * ROOM + slot
        count = since_counts[at]
        total = since_sums[at]
        moved = all_moved[at]
        if moved < SURE and (moved < 1.0 - SURE or rng.uniform(words) >= moved):
            count += state.old_counts[at]
            total += state.old_sums[at]
        total = min(max(total, 0.0), count)
        width = (1.0 if count < SCANT * state.worths[arm] else WIDE) if curious else NARROW
        drawn = beta.draw_near(words, state.alphas[arm] + total, state.betas[arm] + (count - total), width)
        value = (drawn - lows[arm]) * rates[arm] if straight else mean_behind(state, arm, drawn)
        if value > best:
            best = value
            chosen = arm
    return chosen


@inlined
def _draw_hypothesis(state: Policy) -> int:
    """Draw a hypothesis, and return its slot."""
    scalars = state.scalars[0]
    weights = state.weights
    heaviest = scalars.heaviest & NOT_NEGATIVE
    others = 1.0 - weights[heaviest]
    doubt = 1.0 + scalars.singly * (DOUBT * math.sqrt(scalars.beat / BEAT) - 1.0)
    if rng.uniform(state.rng) >= min(doubt * others, max(MAX_DOUBT, others)):
        return heaviest
    found = heaviest
    left = others * rng.uniform(state.rng)
    for index in range(ROOM):
        slot = state.order[index]
        if slot != heaviest and weights[slot] > 0.0:
            found = slot
            left -= weights[slot]
            if left < 0.0:
                break
    return found


@inner
def score(state: Policy, arm: int) -> float:
    """Return the mean of the arm's posterior."""
    alpha = state.alphas[arm]
    prior = alpha + state.betas[arm]
    mean = 0.0
    for slot in range(ROOM):
        at = arm * ROOM + slot
        total, count = state.since_sums[at] + alpha, state.since_counts[at] + prior
        stayed = (total + state.old_sums[at]) / (count + state.old_counts[at])
        mean += state.weights[slot] * (state.moved[at] * (total / count) + (1.0 - state.moved[at]) * stayed)
    return mean_behind(state, arm, mean)


@inner
def observe(state: Policy, arm: int, feedback: float) -> None:
    """Update the hypotheses by a report."""
    _take_in_usual(state, arm, flip_feedback(state, arm, feedback))


@inlined
def _take_in_usual(state: Policy, arm: int, feedback: float) -> None:
    """Take in a feedback with the arm's own mask."""
    take_in(state, arm, 1.0 - feedback, 2.0 * feedback - 1.0, 1.0, feedback)


@inner
def observe_masked(
    state: Policy, arm: int, feedback: float, low: float, span: float, shown: float, usual: bool
) -> None:
    """Take in a feedback with its own mask, which increases from low by span (flipped if necessary).

    With share the ratio of the spans, a report under the arm's mask would be (feedback - low) / share above the arm's
    low end, and this report is worth share squared of one.
    """
    if usual:
        _take_in_usual(state, arm, feedback)
        return
    state.scalars[0].mixed = 1
    share = span * state.rates[arm]
    lowest = low - share * state.lows[arm]
    rising = 2.0 * feedback - 1.0
    ones = share * (feedback - lowest)
    take_in(state, arm, 1.0 - feedback + rising * lowest, rising * share, share * share, ones)
