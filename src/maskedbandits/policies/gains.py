"""Gains in [0, 1], for algorithms that want them: debiased feedbacks, shrunk.

A feedback y is debiased by the inverse of an affine g, (y - g(0)) / (g(1) - g(0)): its mean is that of the reward, and
its range wider. Less the floor and over the width of that range, which are the same for all arms, it is a gain: gaps of
means come out smaller by the width. With one randomised response for all arms the gain is the feedback itself.
"""

from collections.abc import Mapping
from typing import Any

from maskedbandits._numba.jit import inlined
from maskedbandits._numba.state import derived, record
from maskedbandits.policies.state import Arms


@record
class Gains(Arms):
    """The range of debiased feedbacks, the same for all arms."""

    floor: float = derived()
    width: float = derived()


def configure(state: Gains, parameters: Mapping[str, Any]) -> None:
    """Write down the range."""
    own = state.own[0]
    own.floor = float((-state.lows * state.rates).min())
    own.width = float(((1.0 - state.lows) * state.rates).max()) - own.floor


@inlined
def gain(state: Gains, arm: int, feedback: float) -> float:
    """Return the gain that a feedback stands for."""
    own = state.own[0]
    return ((feedback - state.lows[arm]) * state.rates[arm] - own.floor) / own.width
