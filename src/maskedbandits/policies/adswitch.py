"""AdSwitch (Auer, Gajane and Ortner 2019): near-optimal regret under changes, without knowing how many there are.

It plays in episodes. In an episode arms are good until evicted, and the good arms are pulled in turn. With n_I(a) and
m_I(a) the number and the mean of the arm's gains in an interval I of time, T the horizon, l the number of the episode:

    evict    a good arm a if for some s: max m_[s,t] over good arms - m_[s,t](a) > sqrt(C log T / (n_[s,t](a) - 1));
             remember m~(a) = m_[s,t](a) and the gap D~(a) on the left
    check    an evicted arm, with probability 2^-i sqrt(l / (K T log T)) a step for each i with 2^-i >= D~(a) / F, by
             pulling it in turn with the good arms until it has ceil(2^(2i+1) log T) more gains
    restart  with a new episode if the gains of a good arm contradict themselves: for some s and [s', t']
             |m_[s',t'] - m_[s,t]| > sqrt(2 log T / n_[s',t']) + sqrt(2 log T / n_[s,t]), or if an evicted arm has
             changed: for some s, |m_[s,t] - m~| > D~ / 4 + sqrt(2 log T / n_[s,t])

C = F = 16 in the proof, and by default. They are costly: on means (.9, .4, .3) that never change, regret is 77 % of
that of uniform play at T = 10^5, 44 % at 10^6 and 16 % at 10^7; under epsilon = 1 it is 90, 66 and 29 %. C = F = 2
leaves 13 % and 35 % at T = 10^5.

**Differences from the paper.** All starts s would cost O(K t) a step, and all intervals more. Here s runs over a grid:
with n steps played in the episode, s = (floor(n / 2^j) - 1) 2^j for every j with 2^j <= n, and, for an evicted arm, the
beginning of its present check. So at least a quarter of any interval up to now is seen, which costs a constant factor
of the observations needed to notice a change; [s', t'] runs over all intervals [s, t] so far. For these it suffices to
keep the highest lower and the lowest upper end of the confidence intervals. A step costs O(K log t) while several arms
are good, and O(K + log t) once one is left. An arm evicted on a long interval is no longer compared on shorter ones. Of
several checks that begin at once only the longest is drawn: it covers the others.

Gains are debiased feedbacks, shrunk to [0, 1] (``exp3.py``), so that T and C mean what they do in the paper.
"""

import math
from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import compiled, inlined, inner
from maskedbandits._numba.state import DURATION, REQUIRED, Floats, Ints, array, computed, param, record, variable
from maskedbandits.math import rng
from maskedbandits.policies import validation
from maskedbandits.policies.exp3 import Gains, configure_gains, gain_of
from maskedbandits.policies.pending import FOREVER
from maskedbandits.policies.state import count_feedback, forget

SUMMARY = "evicts arms, checks them at random, restarts on a change"
REFERENCE = "Auer et al. 2019"
LEARNS_FROM = "debiased feedback"
LEVELS = 48  # of the grid: enough for any episode
FAR = 1e9  # outside any confidence interval of a gain
PATIENCE = (
    4.0  # times as many decisions as there are arms: after these, half of the unanswered decisions of an arm count
)
LONG_WAIT = float(1 << 32)  # longer than any real wait


@record
class Policy(Gains):
    """The statistics of an episode, beside the counts."""

    horizon: int = param(REQUIRED, validation.count, "number of steps", stored=False, time=DURATION)
    strictness: float = param(
        16.0,
        validation.between(0, math.inf),
        "evidence required to evict an arm: 16 in the proof, 2 performs better",
    )
    finest: float = param(  # less, and an arm with a large gap would never be checked
        16.0,
        validation.between(2, math.inf),
        "smallest change to check an evicted arm for, as its gap divided by this: 16 in the proof",
    )
    log: float = computed()  # log T
    rate: float = computed()  # 1 / sqrt(K T log T)
    since: int = variable(0, most=lambda scalars: scalars.time)  # when the episode began
    last: Ints = array(
        lambda scalars: scalars.arms, least=0, most=lambda scalars: scalars.time
    )  # when the arm was last pulled
    gained: Floats = array(lambda scalars: scalars.arms, least=-FOREVER, most=FOREVER)  # gains, added up
    lowest: Floats = array(
        lambda scalars: scalars.arms, least=-FAR, most=FAR
    )  # highest lower end of an interval so far
    highest: Floats = array(lambda scalars: scalars.arms, least=-FAR, most=FAR)  # lowest upper end
    evicted: Ints = array(lambda scalars: scalars.arms, least=0, most=1)
    means: Floats = array(lambda scalars: scalars.arms, least=-FAR, most=FAR)  # what an evicted arm had
    gaps: Floats = array(
        lambda scalars: scalars.arms, least=-FAR, most=FAR
    )  # and by how much that was less than the best
    quotas: Floats = array(lambda scalars: scalars.arms, least=0, most=FOREVER)  # the count up to which it is pulled
    check_counts: Floats = array(
        lambda scalars: scalars.arms, least=0, most=FOREVER
    )  # count and sum when its check began
    check_sums: Floats = array(lambda scalars: scalars.arms, least=-FOREVER, most=FOREVER)
    # The grid: of each level j, counts and sums at the last multiple of 2^j steps, and at the one before
    last_counts: Floats = array(lambda scalars: LEVELS * scalars.arms, least=0, most=FOREVER)
    last_sums: Floats = array(lambda scalars: LEVELS * scalars.arms, least=-FOREVER, most=FOREVER)
    start_counts: Floats = array(lambda scalars: LEVELS * scalars.arms, least=0, most=FOREVER)
    start_sums: Floats = array(lambda scalars: LEVELS * scalars.arms, least=-FOREVER, most=FOREVER)


def configure(state: Policy, parameters: Mapping[str, Any]) -> None:
    """Compute the constants that depend on the horizon."""
    configure_gains(state)
    scalars = state.scalars[0]
    scalars.log = max(1.0, math.log(parameters["horizon"]))
    scalars.rate = 1.0 / math.sqrt(scalars.arms * parameters["horizon"] * scalars.log)


@inlined
def _depth(state: Policy) -> int:
    """Return the number of grid levels that have a start in this episode."""
    played = state.scalars[0].time - state.scalars[0].since
    depth = 0
    while depth < LEVELS and played >> depth > 0:
        depth += 1
    return depth


@inner
def start(state: Policy) -> None:
    """Forget everything."""
    forget(state)
    state.last[:] = 0
    _begin_episode(state)


@inner
def _begin_episode(state: Policy) -> None:
    """Begin an episode: all arms are good, and have no observations."""
    state.counts[:] = 0.0
    state.sums[:] = 0.0
    state.scalars[0].since = state.scalars[0].time
    state.gained[:] = 0.0
    state.lowest[:] = -FAR
    state.highest[:] = FAR
    state.evicted[:] = 0
    state.means[:] = 0.0
    state.gaps[:] = 0.0
    state.quotas[:] = 0.0
    state.check_counts[:] = 0.0
    state.check_sums[:] = 0.0
    state.last_counts[:] = 0.0
    state.last_sums[:] = 0.0
    state.start_counts[:] = 0.0
    state.start_sums[:] = 0.0


@inlined
def _wait_of(state: Policy, arm: int) -> int:
    """Return the steps since an arm was last pulled, or -1 if it is not in turn."""
    if state.evicted[arm] and state.counts[arm] >= state.quotas[arm]:
        return -1
    return state.scalars[0].time - state.last[arm]


@inner
def score(state: Policy, arm: int) -> float:
    """Return the steps since the arm was last pulled, or -1 if it is not in turn."""
    return float(_wait_of(state, arm))


@inner
def score_ahead(state: Policy, arm: int) -> float:
    """Return the same score, with the arms of the fewest unanswered decisions first.

    If no report of an arm has arrived since it was first chosen, all of its unanswered decisions fade from then on. So
    it is chosen as often later as at first, however many of its reports are lost.
    """
    scalars = state.scalars[0]
    since = (
        state.first_decision[arm] if state.last_report[arm] < state.first_decision[arm] else state.last_decision[arm]
    )
    unanswered = state.unanswered[arm] / (1.0 + float(scalars.decisions - since) / (PATIENCE * float(scalars.arms)))
    pending = math.floor(unanswered + 0.5)
    if state.evicted[arm] and state.counts[arm] + pending >= state.quotas[arm]:
        return -math.inf
    return float(_wait_of(state, arm)) - LONG_WAIT * pending


@inner
def observe(state: Policy, arm: int, feedback: float) -> None:
    """Update the state with a gain; restart, evict, or draw what to check in the next step."""
    scalars = state.scalars[0]
    state.gained[arm] += gain_of(state, arm, count_feedback(state, arm, feedback))
    state.last[arm] = scalars.time
    depth = _depth(state)
    _move_grid(state, depth)
    good = not state.evicted[arm]
    if _contradicts_itself(state, arm, depth) if good else _has_changed(state, arm, depth):
        scalars.alarms += 1
        _begin_episode(state)
        return
    if good:
        _evict(state, depth)
    _draw_checks(state, scalars.rate * math.sqrt(scalars.alarms + 1.0))


@inner
def _move_grid(state: Policy, depth: int) -> None:
    """Store counts and sums at the levels whose multiple is reached."""
    scalars = state.scalars[0]
    played = scalars.time - scalars.since
    counts, gained = state.counts, state.gained  # looked up once, outside the loop
    start_counts, start_sums = state.start_counts, state.start_sums
    last_counts, last_sums = state.last_counts, state.last_sums
    for level in range(depth):
        if played & ((1 << level) - 1):
            return
        for arm in range(scalars.arms):
            at = level * scalars.arms + arm
            start_counts[at] = last_counts[at]
            start_sums[at] = last_sums[at]
            last_counts[at] = counts[arm]
            last_sums[at] = gained[arm]


@inner
def _contradicts_itself(state: Policy, arm: int, depth: int) -> bool:
    """Return whether two confidence intervals of a good arm are disjoint."""
    scalars = state.scalars[0]
    count, gained = state.counts[arm], state.gained[arm]
    lowest, highest = state.lowest[arm], state.highest[arm]
    for level in range(depth):
        at = level * scalars.arms + arm
        number = count - state.start_counts[at]
        if number > 0.0:
            mean = (gained - state.start_sums[at]) / number
            radius = math.sqrt(2.0 * scalars.log / number)
            lowest = max(lowest, mean - radius)
            highest = min(highest, mean + radius)
    state.lowest[arm] = lowest
    state.highest[arm] = highest
    return lowest > highest


@inlined
def _is_far(state: Policy, arm: int, number: float, total: float) -> bool:
    """Return whether the gains of an evicted arm are too far from its mean at eviction."""
    if number <= 0.0:
        return False
    slack = 0.25 * state.gaps[arm] + math.sqrt(2.0 * state.scalars[0].log / number)
    return abs(total / number - state.means[arm]) > slack


@inner
def _has_changed(state: Policy, arm: int, depth: int) -> bool:
    """Return whether an evicted arm has changed."""
    count = state.counts[arm]
    total = state.gained[arm]
    if _is_far(state, arm, count - state.check_counts[arm], total - state.check_sums[arm]):
        return True
    for level in range(depth):
        at = level * state.scalars[0].arms + arm
        if _is_far(state, arm, count - state.start_counts[at], total - state.start_sums[at]):
            return True
    return False


@inner
def _evict(state: Policy, depth: int) -> None:
    """Evict the good arms that are clearly worse than another, on the longest interval that says so."""
    scalars = state.scalars[0]
    good = 0
    for arm in range(scalars.arms):
        if not state.evicted[arm]:
            good += 1
    if good > 1:
        for level in range(depth - 1, -1, -1):
            _evict_since(state, level * scalars.arms)


@inner
def _evict_since(state: Policy, start: int) -> None:
    """Evict arms by their gains since a point of the grid."""
    strictness = state.scalars[0].strictness * state.scalars[0].log
    counts, gained, evicted = state.counts, state.gained, state.evicted  # looked up once, outside the loop
    since_counts, since_sums = state.start_counts[start:], state.start_sums[start:]
    best = -FAR
    for arm in range(counts.size):
        number = counts[arm] - since_counts[arm]
        if not evicted[arm] and number > 0.0:
            best = max(best, (gained[arm] - since_sums[arm]) / number)
    for arm in range(counts.size):
        number = counts[arm] - since_counts[arm]
        if evicted[arm] or number < 2.0:
            continue
        gap = best - (gained[arm] - since_sums[arm]) / number
        if gap > math.sqrt(strictness / (number - 1.0)):
            state.evicted[arm] = 1
            state.means[arm] = best - gap
            state.gaps[arm] = gap
            state.quotas[arm] = state.counts[arm]
            state.check_counts[arm] = state.counts[arm]
            state.check_sums[arm] = state.gained[arm]


@inner
def _draw_checks(state: Policy, rate: float) -> None:
    """Draw, for each evicted arm, the longest check that begins now, if any."""
    scalars = state.scalars[0]
    for arm in range(scalars.arms):
        if not state.evicted[arm]:
            continue
        draw = rng.uniform(state.rng)
        if draw >= rate:  # the probabilities of all lengths sum to less
            continue
        exponent = longest_check(draw, rate, state.gaps[arm] / scalars.finest)
        if exponent == 0:
            continue
        count = state.counts[arm]
        if count >= state.quotas[arm]:
            state.check_counts[arm] = count
            state.check_sums[arm] = state.gained[arm]
        state.quotas[arm] = max(state.quotas[arm], count + math.ceil(2.0 * scalars.log * 4.0**exponent))


@compiled
def longest_check(draw: float, rate: float, least: float) -> int:
    """Return the largest i of the checks that begin, each with probability 2^-i rate, independently; 0 if none does."""
    exponent = 0
    while exponent < 30 and 0.5 ** (exponent + 1) >= least:
        exponent += 1
    none = 1.0
    while exponent > 0:
        none *= 1.0 - min(0.5**exponent * rate, 1.0)
        if draw < 1.0 - none:
            return exponent
        exponent -= 1
    return 0
