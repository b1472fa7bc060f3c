"""A memory in which observations fade by a factor of gamma a step.

Later observations get larger weights, 1, 1/gamma, 1/gamma^2, ..., and counts are divided by the weight of the latest.
So one arm changes in a step, and not all.
"""

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import DECAY, REQUIRED, param, record, variable
from maskedbandits.policies import validation
from maskedbandits.policies.index.state import Axes
from maskedbandits.policies.memories import NO_ARM

MAX_WEIGHT = 1e100  # larger weights are scaled down


@record
class Memory(Axes):
    """The discount, and the weights so far."""

    gamma: float = param(
        REQUIRED,
        validation.between(0, 1, above=True, below=True),
        "weight of all earlier observations after each step, such as 0.999",
        time=DECAY,
    )
    weight: float = variable(1.0, least=1.0, most=MAX_WEIGHT)  # of the latest observation
    count: float = variable(0.0)  # of all observations, by weight
    ahead: float = variable(1.0, most=1.0)  # the factor by which a weight fades until the end of the epoch


@inlined
def forget_all(state: Memory) -> None:
    """Start with small weights."""
    scalars = state.scalars[0]
    scalars.weight = 1.0
    scalars.count = 0.0
    scalars.ahead = 1.0


@inlined
def weight(state: Memory) -> float:
    """Return the weight of the latest observation in the counts."""
    return state.scalars[0].weight


@inlined
def inverse_weight(state: Memory) -> float:
    """Return 1 / weight."""
    return 1.0 / state.scalars[0].weight


@inner
def advance(state: Memory) -> None:
    """Give the next observation a larger weight than all before."""
    scalars = state.scalars[0]
    scalars.weight /= scalars.gamma
    scalars.ahead = min(scalars.ahead / scalars.gamma, 1.0)  # without plans it would grow forever
    if scalars.weight > MAX_WEIGHT:
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
def total_count(state: Memory) -> float:
    """Return the number of observations that count, which rises to 1 / (1 - gamma); 0 once it is there."""
    scalars = state.scalars[0]
    count = scalars.gamma * scalars.count + 1.0
    if count - scalars.count <= 1e-15 * count:
        return 0.0
    scalars.count = count
    return count


@inlined
def epoch(state: Memory) -> int:
    """Return the number of steps until weights fade by half a percent."""
    scalars = state.scalars[0]
    steps = max(scalars.arms, int(0.005 / (1.0 - scalars.gamma)))
    scalars.ahead = scalars.gamma ** float(steps)
    return steps


@inlined
def total_count_after(state: Memory, steps: int) -> float:
    """Return the number of observations that will count at the end of the epoch."""
    scalars = state.scalars[0]
    most = 1.0 / (1.0 - scalars.gamma)
    return most - (most - scalars.count) * scalars.ahead


@inlined
def total_count_with(state: Memory, more: int) -> float:
    """Return the number of observations that would count with some more."""
    scalars = state.scalars[0]
    return min(scalars.count + float(more), 1.0 / (1.0 - scalars.gamma))


@inlined
def fades(state: Memory) -> bool:
    """Return True: counts fade."""
    return True


@inlined
def push(state: Memory, arm: int, feedback: float) -> int:
    """Add an observation; nothing is evicted."""
    heavy = state.scalars[0].weight
    state.counts[arm] += heavy
    state.sums[arm] += heavy * feedback
    return NO_ARM


@inlined
def count_now(state: Memory, arm: int) -> float:
    """Return the effective number of observations of an arm."""
    return state.counts[arm] * inverse_weight(state)


@inlined
def count_at_epoch(state: Memory, arm: int) -> float:
    """Return the effective number of observations of an arm at the end of the epoch, if it is not pulled."""
    return state.counts[arm] * (inverse_weight(state) * state.scalars[0].ahead)


@inlined
def epoch_fade(state: Memory) -> float:
    """Return the factor by which counts fade until the end of the epoch."""
    return state.scalars[0].ahead
