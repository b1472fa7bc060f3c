"""The loop of the simulator where a log is replayed: a policy plays the rounds in which it chooses as the log did."""

from typing import Any

from maskedbandits.compiled import compiled
from maskedbandits.maths import lots
from maskedbandits.policies.play import Tally, World, choose, observe
from maskedbandits.record import Ints


@compiled
def advance_log(state: Any, world: World, checkpoints: Ints, tally: Tally, until: int, chosen: Ints) -> None:
    """Go on with one run, up to round ``until``."""
    done, following = tally.position[0], tally.position[2]
    while done < until:
        arm = choose(state)
        if arm == chosen[done]:
            observe(state, arm, 1.0 if lots.uniform(state.lots) < world.feedback_means[done, 0] else 0.0)
            tally.pulls[arm] += 1
            tally.suboptimal_pulls[arm] += int(world.worse[done, 0])
            tally.total[0] += world.gaps[done, 0]
        done += 1
        if following < checkpoints.size and done == checkpoints[following]:
            tally.regret[following] = tally.total[0]
            for each in range(tally.pulls.size):
                tally.pulls_over_time[following, each] += tally.pulls[each]
            following += 1
    tally.position[0], tally.position[2] = done, following
