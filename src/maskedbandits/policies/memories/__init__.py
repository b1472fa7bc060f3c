"""Memories: which part of the past counts, such as everything, the last observations, or all of them at a discount.

A memory holds, for every arm, the number of observations that count and the sum of their feedbacks. It is a module with
a record and functions of the names below. The functions below apply where a memory has none of its own: they remember
everything.
"""

from maskedbandits._numba.jit import dispatch, inlined
from maskedbandits.policies.index.state import Axes, add_masked

NO_ARM = -1


@dispatch("memory")
def forget_all(state: Axes) -> None:
    """Forget everything but counts and sums."""


@dispatch("memory")
def weight(state: Axes) -> float:
    """Return the weight of the latest observation in the counts.

    A memory with other weights than 1 also has ``push``, ``count_now`` and ``count_at_epoch`` of its own.
    """
    return 1.0


@dispatch("memory")
def inverse_weight(state: Axes) -> float:
    """Return 1 / weight, without a division where all weights are equal."""
    return 1.0


@dispatch("memory")
def advance(state: Axes) -> None:
    """Advance by one step."""


@dispatch("memory")
def push(state: Axes, arm: int, feedback: float) -> int:
    """Add an observation; return the arm of the observation that it evicts, or NO_ARM."""
    add(state, arm, feedback)
    return NO_ARM


@dispatch("memory", inline=False)
def push_masked(state: Axes, arm: int, feedback: float, low: float, span: float) -> int:
    """Add a report with its own mask; return the arm of the report that it evicts, or NO_ARM."""
    add_masked(state, arm, feedback, low, span, weight(state))
    return NO_ARM


@dispatch("memory")
def resum(state: Axes, evicted: int) -> bool:
    """Recompute the sums if it is time to remove rounding errors of evictions; return whether it was."""
    return False


@dispatch("memory", inline=False)
def resum_masked(state: Axes, evicted: int) -> bool:
    """Do the same where reports have their own masks."""
    return False


@dispatch("memory")
def total_count(state: Axes) -> float:
    """Return the number of observations of all arms that count; 0 if it has not changed since the last step."""
    scalars = state.scalars[0]
    return float(scalars.time - scalars.since)


@dispatch("memory")
def is_full(state: Axes) -> bool:
    """Return whether every further observation evicts another."""
    return False


@dispatch("memory")
def epoch(state: Axes) -> int:
    """Return the number of steps to plan ahead."""
    scalars = state.scalars[0]
    return (scalars.time - scalars.since) // 64 + scalars.arms


@dispatch("memory")
def total_count_after(state: Axes, steps: int) -> float:
    """Return the number of observations that will count after some steps."""
    scalars = state.scalars[0]
    return float(scalars.time - scalars.since + steps)


@dispatch("memory")
def total_count_with(state: Axes, more: int) -> float:
    """Return the number of observations that would count with some more."""
    scalars = state.scalars[0]
    return float(scalars.time - scalars.since + more)


@dispatch("memory")
def fades(state: Axes) -> bool:
    """Return whether counts fade with time alone."""
    return False


@dispatch("memory")
def count_now(state: Axes, arm: int) -> float:
    """Return the effective number of observations of an arm."""
    return state.counts[arm]


@dispatch("memory")
def count_at_epoch(state: Axes, arm: int) -> float:
    """Return the effective number of observations of an arm at the end of the epoch, if it is not pulled."""
    return state.counts[arm]


@dispatch("memory")
def epoch_fade(state: Axes) -> float:
    """Return the factor by which counts fade until the end of the epoch."""
    return 1.0


@dispatch("memory")
def settle(state: Axes, plain: bool) -> None:
    """Prepare for `push_fast` once full; ``plain`` if a step only remembers and scores."""


@dispatch("memory")
def push_fast(state: Axes, arm: int, feedback: float) -> bool:
    """Add an observation and update its score on the fast path; return False if that is not possible."""
    return False


@inlined
def add(state: Axes, arm: int, feedback: float) -> None:
    """Count an observation where all weights are 1."""
    state.counts[arm] += 1.0
    state.sums[arm] += feedback
