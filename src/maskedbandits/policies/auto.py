"""Thompson sampling in a world that may have changed, in any of several ways; told nothing (``change_posterior.py``).

A hypothesis of the last change is drawn, then whether each arm moved at it, then the arm's mean; the best is chosen.
The longer an arm was not looked at, the more weight lies on changes since. No arm is starved, and those are spared that
could not win. What is not plain Thompson sampling:

* In the long run draws from a posterior look at bad arms more often than is worth it: means are drawn WIDE, less than
  1, times as far from where they are expected, once there are more than a SCANT number of observations.
* Under hypotheses that are not the likeliest they are drawn NARROW times as far: most of those are about to be refuted
  anyway by whatever is chosen. Not where one arm alone has moved: nothing but a look at it will ever tell. Those are
  drawn as wide as the likeliest.
* The more of the changes so far were of one arm, the oftener are other hypotheses drawn than they are likely, up to
  DOUBT / s times: to find such a change takes 1 / s^2 as many looks as without a mask.

Without these it is the algorithm of Mellor and Shapiro 2013 (Thompson sampling in switching environments with Bayesian
online change detection, AISTATS), but for the kinds of changes, the rates, and the corruption: the prior of a feedback
mean is the Beta distribution with the mean and variance of g(U), U uniform. A flat one would lie, under strong privacy,
mostly where g never leads.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner
from maskedbandits.math import beta, rng
from maskedbandits.policies.change_posterior import (  # noqa: F401 -- it starts by them
    BEAT,
    EACH,
    KINDS,
    ONE,
    ROOM,
    Beliefs,
    start,
    take_in,
)
from maskedbandits.policies.state import NOT_NEGATIVE, flipped, mean_behind

SUMMARY = "Thompson sampling that learns how often, and how, the world changes: needs to know nothing"
REFERENCE = "Mellor & Shapiro 2013; Wilson et al. 2010"
DRAWS_FROM = "posterior"
LEARNS_FROM = "masked feedback"
ARMS_COME_AND_GO = True

WIDE, NARROW = 0.8, 0.4
SCANT = 3.0  # unmasked observations of an arm that are too few to draw its mean less wide than it is
DOUBT = 6.0
MOST_DOUBT = 0.5  # the likeliest hypothesis is drawn at least so often, unless it is less likely
SURE = 1.0 - 1e-9  # a probability from which on no lot is drawn

Policy = Beliefs


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return the size that decides whether evidence is set aside."""
    return {"wary": int(parameters["contamination"] > 0.0)}


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
    state.worths[:] = (state.alphas + state.betas + 1.0) / 3.0  # 1 / s^2 for randomised response
    state.scalars[0].beat = max(1, int(BEAT * state.worths.mean()))


def contradiction(state: Policy, parameters: Mapping[str, Any]) -> str:
    """Return where saved beliefs contradict themselves."""
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
def choose(state: Policy) -> int:
    """Draw a hypothesis, a mean of every arm if it holds, and return the arm with the highest."""
    scalars = state.scalars[0]
    words = state.rng
    slot = _drawn(state)
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
def _drawn(state: Policy) -> int:
    """Draw a hypothesis, and return its slot."""
    scalars = state.scalars[0]
    weights = state.weights
    heaviest = scalars.heaviest & NOT_NEGATIVE
    others = 1.0 - weights[heaviest]
    doubt = 1.0 + scalars.singly * (DOUBT * math.sqrt(scalars.beat / BEAT) - 1.0)
    if rng.uniform(state.rng) >= min(doubt * others, max(MOST_DOUBT, others)):
        return heaviest
    found = heaviest
    left = others * rng.uniform(state.rng)
    for place in range(ROOM):
        slot = state.order[place]
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
    """Weigh the hypotheses anew."""
    _take_in_usual(state, arm, flipped(state, arm, feedback))


@inlined
def _take_in_usual(state: Policy, arm: int, feedback: float) -> None:
    take_in(state, arm, 1.0 - feedback, 2.0 * feedback - 1.0, 1.0, feedback)


@inner
def observe_masked(
    state: Policy, arm: int, feedback: float, low: float, span: float, shown: float, usual: bool
) -> None:
    """Take in a feedback with a mask of its own: flipped, if need be, so that it increases from low by span.

    As a report under the arm's mask it would be (feedback - low) / share above the arm's low end, and it is worth share
    squared of one, share the ratio of the spans.
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
