"""The loop of the simulator where a log is replayed: a policy plays the rows in which it chooses as the log did.

A policy counts the rows that it plays. The loop knows the row: it announces the segments of a policy's plan, such as
restarts, exactly when the log reaches them (``log_times.py``).
"""

from typing import Any, NamedTuple

from maskedbandits._numba.jit import compiled
from maskedbandits._numba.state import Ints
from maskedbandits.math import rng
from maskedbandits.policies.play import Tally, World, begin_segment, choose, observe


class Recorded(NamedTuple):
    """What the log chose, and the rows at which the policy begins a segment."""

    chosen: Ints
    segments: Ints


@compiled
def advance_log(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, log: Recorded) -> None:
    """Go on with one run, up to row ``until``."""
    done, segment, following = tally.position[0], tally.position[1], tally.position[2]
    while done < until:
        if segment < log.segments.size and done == log.segments[segment]:
            begin_segment(state)
            segment += 1
        arm = choose(state)
        if arm == log.chosen[done]:
            observe(state, arm, 1.0 if rng.uniform(state.lots) < world.feedback_means[done, 0] else 0.0)
            tally.pulls[arm] += 1
            tally.suboptimal_pulls[arm] += int(world.worse[done, 0])
            tally.total[0] += world.gaps[done, 0]
        done += 1
        if following < checkpoints.size and done == checkpoints[following]:
            tally.regret[following] = tally.total[0]
            for each in range(tally.pulls.size):
                tally.pulls_over_time[following, each] += tally.pulls[each]
            following += 1
    tally.position[0], tally.position[1], tally.position[2] = done, segment, following
