"""What is called from outside: the entry points of a live policy, and the one loop of the simulator.

In the loop the arm's mean, corrupted, gives a feedback; the policy takes it in; regret is counted. A reward drawn with
mean m and then corrupted is a Bernoulli feedback of mean g(m), so one random number a step draws both at once, in law
exactly. Regret is counted in gaps of means, not in rewards.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, dispatch, entry, inlined
from maskedbandits._numba.state import Floats, Ints
from maskedbandits.math import rng
from maskedbandits.policies.index.report_masks import ARMS_OWN, as_seen, is_the_arms
from maskedbandits.policies.pending import await_reports, give_up, take_pending
from maskedbandits.policies.state import Arms, count_feedback, forget


class World(NamedTuple):
    """A piecewise stationary problem, as arrays."""

    starts: Ints  # (L + 1,), the horizon at the end
    feedback_means: NDArray[np.float64]  # (L, K) of what the policy is shown
    gaps: NDArray[np.float64]  # (L, K) best mean less the arm's
    worse: NDArray[np.bool_]  # (L, K) whether another arm is better


class Tally(NamedTuple):
    """What is counted of one run."""

    position: Ints  # steps done, segment, next checkpoint
    regret: Floats  # (C,) cumulative at the checkpoints
    total: Floats  # (1,) cumulative so far
    pulls: Ints  # (K,)
    suboptimal_pulls: Ints  # (K,)
    recent: Ints  # (K,) pulls since the last reckoning
    pulls_over_time: NDArray[np.int64]  # (C, K) pulls up to each checkpoint, of all runs that were given this array


# What a policy does; one that has no function of such a name does as here.


@dispatch("code")
def start(state: Arms) -> None:
    """Forget everything, also the time."""
    forget(state)


@dispatch("code")
def choose(state: Arms) -> int:
    """Return the arm to pull next: that of the highest score, the lowest such arm."""
    best = -math.inf
    chosen = 0
    for arm in range(state.scalars[0].arms):
        value = score_ahead(state, arm)
        if value > best:
            best = value
            chosen = arm
    return chosen


@dispatch("code")
def choose_ahead(state: Arms) -> int:
    """Return the arm to pull next while reports are awaited."""
    return choose(state)


@dispatch("code")
def choose_open(state: Arms) -> int:
    """Return the arm to pull next among those that are open at this moment, which may change from call to call."""
    return choose(state)


@dispatch("code")
def observe(state: Arms, arm: int, feedback: float) -> None:
    """Take in the feedback of a pull."""
    count_feedback(state, arm, feedback)


@dispatch("code", inline=False)
def begin_segment(state: Arms) -> None:
    """Begin the next segment of a plan, when a log that is replayed has reached its row (``logging.py``)."""


@dispatch("code")
def score(state: Arms, arm: int) -> float:
    """Return what is compared to choose; of those that draw an arm, the probability that it is this one."""
    return 0.0


@dispatch("code")
def score_ahead(state: Arms, arm: int) -> float:
    """Return what is compared: the score, with reports that are awaited counted as come."""
    return score(state, arm)


@dispatch("code")
def observe_masked(state: Arms, arm: int, feedback: float, low: float, span: float, shown: float, usual: bool) -> None:
    """Take in a feedback with a corruption of its own: flipped, if need be, so that it increases from low by span.

    A detector is shown another number instead, or nothing if that is NaN. Usual is what has the arm's corruption, among
    others that have not. Most that stand alone take none.
    """


@inlined
def next_arm(state: Arms) -> int:
    """Choose an arm."""
    return choose(state) if state.scalars[0].awaited == 0 else choose_ahead(state)


@inlined
def decide(state: Arms) -> int:
    """Choose an arm, whose report is awaited from now on."""
    arm = next_arm(state)
    await_reports(state, arm, 1)
    return arm


@inlined
def take_in(state: Arms, arm: int, feedback: float) -> None:
    """Take in a report."""
    take_pending(state, arm)
    observe(state, arm, feedback)


@entry
def start_live(state: Any) -> None:
    """Forget everything, also the time."""
    start(state)


@entry
def choose_live(state: Any) -> int:
    """Return the arm to pull next."""
    return decide(state)


@entry
def wait_live(state: Any, arm: int, more: int) -> int:
    """Await so many more reports of an arm, or give up on some if that is negative; return how many more there are."""
    if more < 0:
        return -give_up(state, arm, -more)
    if more > 0:
        await_reports(state, arm, more)
    return more


@entry
def observe_live(state: Any, arm: int, feedback: float) -> None:
    """Take in the feedback of a pull."""
    take_in(state, arm, feedback)


@entry
def choose_many_live(state: Any, out: Ints) -> None:
    """Write down the arms of many decisions."""
    for place in range(out.size):
        out[place] = decide(state)


@entry
def observe_many_live(state: Any, arms: Ints, feedbacks: Floats) -> None:
    """Take in many reports."""
    for place in range(arms.size):
        take_in(state, arms[place], feedbacks[place])


@entry
def sample_live(state: Any, out: Ints) -> None:
    """Write down the arms that would be chosen next, if it were asked so many times; none of them is a decision."""
    for place in range(out.size):
        out[place] = next_arm(state)


@entry
def choose_open_live(state: Any, out: Ints, decides: int) -> None:
    """Write down arms that are open at this moment: of many decisions, or that would be chosen."""
    for place in range(out.size):
        out[place] = choose_open(state)
        if decides:
            await_reports(state, out[place], 1)


@entry
def tell_apart_live(state: Any, arms: Ints, masks: Ints, lines: NDArray[np.float64], honest: float) -> int:
    """Let corruptions be those of arms that have them anyway; return the place of the first that is another's."""
    first = arms.size
    for place in range(arms.size - 1, -1, -1):
        if masks[place] != ARMS_OWN and is_the_arms(state, arms[place], masks[place], lines, honest):
            masks[place] = ARMS_OWN
        if masks[place] != ARMS_OWN:
            first = place
    return first


@entry
def observe_masked_live(
    state: Any, arms: Ints, feedbacks: Floats, masks: Ints, lines: NDArray[np.float64], honest: float
) -> None:
    """Take in reports, each with one of several corruptions, or that of its arm (``report_masks.py``)."""
    for place in range(arms.size):
        arm, mask = arms[place], masks[place]
        take_pending(state, arm)
        value, low, span, shown = as_seen(state, arm, feedbacks[place], mask, lines, honest)
        observe_masked(state, arm, value, low, span, shown, mask == ARMS_OWN)


@entry
def scores_live(state: Any, out: Floats) -> None:
    """Write down the scores."""
    for arm in range(state.scalars[0].arms):
        out[arm] = score(state, arm)


@inlined
def _play(state: Arms, feedback_means: Floats, recent: Ints, steps: int) -> None:
    """Play on in a world that stands still."""
    for _ in range(steps):
        arm = choose(state)
        feedback = 1.0 if rng.uniform(state.rng) < feedback_means[arm] else 0.0
        observe(state, arm, feedback)
        recent[arm] += 1


@inlined
def _add_regret(world: World, segment: int, tally: Tally) -> None:
    """Turn the pulls since the last reckoning into regret."""
    gaps, worse = world.gaps[segment], world.worse[segment]
    for arm in range(gaps.size):
        pulls = tally.recent[arm]
        tally.recent[arm] = 0
        tally.pulls[arm] += pulls
        if worse[arm]:
            tally.suboptimal_pulls[arm] += pulls
        tally.total[0] += gaps[arm] * pulls  # in a round that is replayed the best arm of a period may have lost


@inlined
def settle_regret(
    world: World, checkpoints: Ints, tally: Tally, done: int, segment: int, following: int
) -> tuple[int, int]:
    """Reckon at a change or a checkpoint; return the segment and the checkpoint that come next."""
    changed = done == world.starts[segment + 1]
    checked = following < checkpoints.size and done == checkpoints[following]
    if changed or checked:  # and nowhere else: where a caller pauses must not change how sums are rounded
        _add_regret(world, segment, tally)
    if checked:
        tally.regret[following] = tally.total[0]
        for arm in range(tally.pulls.size):
            tally.pulls_over_time[following, arm] += tally.pulls[arm]
    return segment + int(changed), following + int(checked)


@compiled
def advance(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int) -> None:
    """Play one run on, up to step ``until``, stopping at every change and every checkpoint to reckon."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        stop = min(until, world.starts[segment + 1])
        if following < checkpoints.size:
            stop = min(stop, checkpoints[following])
        _play(state, world.feedback_means[segment], tally.recent, stop - done)
        done = stop
        segment, following = settle_regret(world, checkpoints, tally, done, segment, following)
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
