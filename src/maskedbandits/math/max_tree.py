"""A tournament tree over the arms: the highest score is at the root, and a new score updates one path.

Node 1 is the root, the children of node i are 2i and 2i + 1, the leaves begin at ``leaves`` (a power of two).
Ties go to the left, that is, to the lowest arm.
"""

import math

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.jit import compiled, inlined


@inlined
def set_score(values: NDArray[np.float64], winners: NDArray[np.int64], arm: int, value: float) -> None:
    """Give an arm a new score.

    The winner so far stays in registers. Each match is a selection rather than a branch, since the processor cannot
    predict its outcome.
    """
    node = (values.size >> 1) + arm
    values[node] = value
    winner = arm
    while node > 1:
        rival = node ^ 1
        other = values[rival]
        rival_winner = winners[rival]
        # on a tie the left child wins
        beaten = (other > value) | ((other == value) & (rival < node))
        value = max(other, value)
        winner = rival_winner if beaten else winner
        node >>= 1
        values[node] = value
        winners[node] = winner


@compiled
def fill(values: NDArray[np.float64], winners: NDArray[np.int64], arms: int, value: float) -> None:
    """Give all arms the same score; leaves beyond them have none."""
    leaves = values.size >> 1
    for leaf in range(leaves):  # slices would take long to compile
        values[leaves + leaf] = value if leaf < arms else -math.inf
        winners[leaves + leaf] = leaf
    play_all(values, winners)


@compiled
def play_all(values: NDArray[np.float64], winners: NDArray[np.int64]) -> None:
    """Play every match, once the leaves are set."""
    for node in range((values.size >> 1) - 1, 0, -1):
        better = 2 * node if values[2 * node] >= values[2 * node + 1] else 2 * node + 1  # on a tie the left child wins
        values[node] = values[better]
        winners[node] = winners[better]
