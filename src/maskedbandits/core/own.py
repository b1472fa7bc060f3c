"""Policies that stand on their own: what does not fit the axes memory x index.

Each kind has a file, and keeps its numbers in the section ``own`` of the state: OWN_HEAD parameters, then what it has
gathered. Two are short enough to be here: ``uniform`` draws every arm alike; ``oracle`` plays the best arm, which it is
told: they are the two ends of the scale on which the others lie. Counts and sums of feedback are kept for all of them.
"""

from maskedbandits.core import adswitch, exp3, lots, private, switching
from maskedbandits.core.compiled import compiled
from maskedbandits.core.lots import Words
from maskedbandits.core.state import (
    ALARMS,
    ARMS,
    FOLLOWING,
    OWN_HEAD,
    OWN_KIND,
    SINCE,
    TIME,
    Floats,
    Ints,
    Solo,
    solo,
    unpack,
)

NONE, UNIFORM, ORACLE, EXP3, ADSWITCH, LAPLACE, CENTRAL, SWITCHING = range(8)


def size(kind: int, arms: int, segments: int) -> int:
    """Return how many numbers a policy of this kind keeps."""
    sizes = {
        NONE: 0,
        UNIFORM: OWN_HEAD,
        ORACLE: OWN_HEAD + segments,
        EXP3: exp3.size(arms),
        ADSWITCH: adswitch.size(arms),
        LAPLACE: OWN_HEAD,
        CENTRAL: private.size(arms),
        SWITCHING: switching.size(arms),
    }
    return sizes[kind]


@compiled
def start(state: Solo) -> None:
    """Forget everything, also the time."""
    state.head[TIME] = 0
    state.head[SINCE] = 0
    state.head[FOLLOWING] = 0
    state.head[ALARMS] = 0
    state.counts[:] = 0.0
    state.sums[:] = 0.0
    state.last[:] = 0
    kind = state.head[OWN_KIND]
    if kind == EXP3:
        exp3.start(state)
    elif kind == ADSWITCH:
        adswitch.start(state)
    elif kind == CENTRAL:
        state.own[OWN_HEAD:] = 0.0
    elif kind == SWITCHING:
        switching.start(state)


@compiled
def decide(state: Solo, words: Words) -> int:
    """Return the arm to pull next."""
    kind = state.head[OWN_KIND]
    arms = state.head[ARMS]
    if kind == SWITCHING:
        return switching.decide(state, words)
    if kind == EXP3:
        return exp3.decide(state, words)
    if kind == ADSWITCH:
        return adswitch.decide(state)
    if kind in (LAPLACE, CENTRAL):
        return private.decide(state, kind == LAPLACE)
    if kind == ORACLE:
        return _best(state)
    return min(int(lots.uniform(words) * arms), arms - 1)


@compiled
def _best(state: Solo) -> int:
    """Return the arm that is best in this segment, as the oracle was told."""
    segments = state.own.size - OWN_HEAD
    return int(state.own[OWN_HEAD + min(state.head[FOLLOWING], segments - 1)])


@compiled
def observe(state: Solo, arm: int, feedback: float, words: Words) -> None:
    """Take in the feedback of a pull; noise that the policy adds comes from the generator."""
    kind = state.head[OWN_KIND]
    state.head[TIME] += 1
    if state.flips[arm]:
        feedback = 1.0 - feedback
    if kind == SWITCHING:
        switching.observe(state, arm, feedback)
        return
    if kind == LAPLACE:
        private.local_observe(state, arm, feedback, words)
        return
    if kind == CENTRAL:
        private.central_observe(state, arm, feedback, words)
        return
    state.counts[arm] += 1.0
    state.sums[arm] += feedback
    following = state.head[FOLLOWING]
    if kind == EXP3:
        exp3.observe(state, arm, feedback)
    elif kind == ADSWITCH:
        adswitch.observe(state, arm, feedback, words)
    elif kind == ORACLE and following < state.plan.size and state.head[TIME] == state.plan[following]:
        state.head[FOLLOWING] = following + 1


@compiled
def score(state: Solo, arm: int) -> float:
    """Return what is compared to choose; of those that draw an arm, the probability that it is this one."""
    kind = state.head[OWN_KIND]
    if kind == SWITCHING:
        return switching.score(state, arm)
    if kind == EXP3:
        return exp3.score(state, arm)
    if kind == ADSWITCH:
        return adswitch.score(state, arm)
    if kind == LAPLACE:
        return private.local_score(state, arm)
    if kind == CENTRAL:
        return private.central_score(state, arm)
    if kind == ORACLE:
        return 1.0 if arm == _best(state) else 0.0
    return 1.0 / state.head[ARMS]


# What a live policy calls, as in policy.py


@compiled
def start_packed(ints: Ints, floats: Floats) -> None:
    """See start."""
    start(solo(unpack(ints, floats)))


@compiled
def decide_packed(ints: Ints, floats: Floats, words: Words) -> int:
    """See decide."""
    return decide(solo(unpack(ints, floats)), words)


@compiled
def observe_packed(ints: Ints, floats: Floats, arm: int, feedback: float, words: Words) -> None:
    """See observe."""
    observe(solo(unpack(ints, floats)), arm, feedback, words)


@compiled
def scores_packed(ints: Ints, floats: Floats, out: Floats) -> None:
    """Write down the scores."""
    state = solo(unpack(ints, floats))
    for arm in range(state.head[ARMS]):
        out[arm] = score(state, arm)
