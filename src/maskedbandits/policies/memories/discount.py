"""A memory in which observations fade, by a factor of gamma a step.

It is kept by giving later observations larger weights, 1, 1/gamma, 1/gamma^2, ..., and dividing by the weight of the
latest when a count is asked for: so one arm changes in a step, not all.
"""

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import DECAY, REQUIRED, param, record, variable
from maskedbandits.policies import validation
from maskedbandits.policies.index.state import Axes

HEAVY = 1e100  # a weight at which all are scaled down


@record
class Memory(Axes):
    """A discount."""

    gamma: float = param(
        REQUIRED,
        validation.between(0, 1, above=True, below=True),
        "the weight that a step leaves to what came before, such as 0.999",
        time=DECAY,
    )
    weight: float = variable(1.0, least=1.0, most=HEAVY)  # of the latest observation
    count: float = variable(0.0)  # of all observations, as they weigh
    ahead: float = variable(1.0, most=1.0)  # what is left of a weight at the end of the epoch


@inlined
def forget_all(state: Memory) -> None:
    """Begin with light weights."""
    scalars = state.scalars[0]
    scalars.weight = 1.0
    scalars.count = 0.0
    scalars.ahead = 1.0


@inlined
def weight(state: Memory) -> float:
    """Return what the latest observation weighs in the counts."""
    return state.scalars[0].weight


@inlined
def fading(state: Memory) -> float:
    """Return 1 / weight."""
    return 1.0 / state.scalars[0].weight


@inner
def age(state: Memory) -> None:
    """Make the next observation weigh more than all before."""
    scalars = state.scalars[0]
    scalars.weight /= scalars.gamma
    scalars.ahead = min(scalars.ahead / scalars.gamma, 1.0)  # what is never planned ahead would grow for ever
    if scalars.weight > HEAVY:
        scale = 1.0 / scalars.weight
        for arm in range(state.counts.size):
            state.counts[arm] *= scale
            state.sums[arm] *= scale
        for arm in range(state.mask_numbers.size):
            state.mask_numbers[arm] *= scale
            state.mask_weights[arm] *= scale
            state.mask_squares[arm] *= scale
            state.mask_sums[arm] *= scale
            state.mask_lows[arm] *= scale
            state.mask_spans[arm] *= scale
        scalars.weight = 1.0


@inlined
def seen(state: Memory) -> float:
    """Return how many observations count, of all arms together; it rises to 1 / (1 - gamma), and stays there."""
    scalars = state.scalars[0]
    count = scalars.gamma * scalars.count + 1.0
    if count - scalars.count <= 1e-15 * count:
        return 0.0
    scalars.count = count
    return count


@inlined
def epoch(state: Memory) -> int:
    """Return how many steps to plan ahead: until weights have faded by half a percent."""
    scalars = state.scalars[0]
    steps = max(scalars.arms, int(0.005 / (1.0 - scalars.gamma)))
    scalars.ahead = scalars.gamma ** float(steps)
    return steps


@inlined
def seen_after(state: Memory, steps: int) -> float:
    """Return how many observations will count at the end of the epoch."""
    scalars = state.scalars[0]
    most = 1.0 / (1.0 - scalars.gamma)
    return most - (most - scalars.count) * scalars.ahead


@inlined
def seen_with(state: Memory, more: int) -> float:
    """Return how many observations would count if so many more had come."""
    scalars = state.scalars[0]
    return min(scalars.count + float(more), 1.0 / (1.0 - scalars.gamma))


@inlined
def fades(state: Memory) -> bool:
    """Tell that counts fade."""
    return True


@inlined
def fade(state: Memory) -> float:
    """Return what will be left of a count at the end of the epoch."""
    return state.scalars[0].ahead
