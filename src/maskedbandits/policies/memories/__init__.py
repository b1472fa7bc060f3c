"""What of the past counts: everything, the last observations, or all of them at a discount.

A memory keeps, for every arm, how many observations count and the sum of their feedbacks. It is a module with a record
and functions of the names below; those that it does not have are as here, for a memory that keeps everything.
"""

from maskedbandits._numba.jit import dispatch, inlined
from maskedbandits.policies.index.state import Axes, add_masked

NOBODY = -1


@dispatch("memory")
def forget_all(state: Axes) -> None:
    """Forget what is kept beside counts and sums."""


@dispatch("memory")
def weight(state: Axes) -> float:
    """Return what the latest observation weighs in the counts."""
    return 1.0


@dispatch("memory")
def fading(state: Axes) -> float:
    """Return 1 / weight; where all weigh alike, without a division."""
    return 1.0


@dispatch("memory")
def age(state: Axes) -> None:
    """Let one step pass."""


@dispatch("memory")
def push(state: Axes, arm: int, feedback: float) -> int:
    """Take in an observation; return the arm whose oldest one was pushed out, or NOBODY."""
    add(state, arm, feedback)
    return NOBODY


@dispatch("memory", inline=False)
def push_masked(state: Axes, arm: int, feedback: float, low: float, span: float) -> int:
    """Take in a report with a mask of its own; return the arm whose oldest one was pushed out, or NOBODY."""
    add_masked(state, arm, feedback, low, span, weight(state))
    return NOBODY


@dispatch("memory")
def tidy(state: Axes, evicted: int) -> bool:
    """Add sums up anew, if the rounding errors of those pushed out should go, and tell whether that was done."""
    return False


@dispatch("memory", inline=False)
def tidy_masked(state: Axes, evicted: int) -> bool:
    """Do the same where reports have masks of their own."""
    return False


@dispatch("memory")
def seen(state: Axes) -> float:
    """Return how many observations count, of all arms together; 0 if that is as it was a step ago."""
    scalars = state.scalars[0]
    return float(scalars.time - scalars.since)


@dispatch("memory")
def is_full(state: Axes) -> bool:
    """Tell whether from now on as much is forgotten as comes in."""
    return False


@dispatch("memory")
def epoch(state: Axes) -> int:
    """Return how many steps to plan ahead."""
    scalars = state.scalars[0]
    return (scalars.time - scalars.since) // 64 + scalars.arms


@dispatch("memory")
def seen_after(state: Axes, steps: int) -> float:
    """Return how many observations will count after so many steps."""
    scalars = state.scalars[0]
    return float(scalars.time - scalars.since + steps)


@dispatch("memory")
def seen_with(state: Axes, more: int) -> float:
    """Return how many observations would count if so many more had come."""
    scalars = state.scalars[0]
    return float(scalars.time - scalars.since + more)


@dispatch("memory")
def fades(state: Axes) -> bool:
    """Tell whether counts fade with time alone."""
    return False


@dispatch("memory")
def fade(state: Axes) -> float:
    """Return what will be left of a count at the end of the epoch."""
    return 1.0


@dispatch("memory")
def settle(state: Axes, plain: bool) -> None:
    """Get ready for the short way, once full; plain if a step has nothing to do but to remember and to score."""


@dispatch("memory")
def takes_short_way(state: Axes, arm: int, feedback: float) -> bool:
    """Take in an observation the short way, and tell whether that was possible."""
    return False


@inlined
def add(state: Axes, arm: int, feedback: float) -> None:
    """Count an observation."""
    heavy = weight(state)
    state.counts[arm] += heavy
    state.sums[arm] += heavy * feedback
