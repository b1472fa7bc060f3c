"""Machine code for policies that choose for each group, made ahead of time."""

import numpy as np

from maskedbandits._numba.jit import INTERPRETED
from maskedbandits.policies.groups.kernels import Groups, advance_groups
from maskedbandits.policies.groups.levels import NO_GRAINS
from maskedbandits.policies.kernels import Tally, World
from maskedbandits.policies.registry import Kind
from maskedbandits.policies.runtime import get_entries


def compile_groups(kind: Kind) -> None:
    """Compile what it takes to ask groups, of a policy that can, and to simulate it on problems with groups."""
    if INTERPRETED:
        return
    layout, title = kind.layout, kind.name
    if kind.sees_corruption and not kind.sees_rewards:
        get_entries(layout, title, ".groups").load()
    times, zeros = np.zeros(1, dtype=np.int64), np.zeros(1)
    world = World(times, np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1), dtype=np.bool_))
    tally = Tally(times, zeros, zeros, times, times, times, times[None, :])
    groups = Groups(zeros, times, zeros, zeros[None, :])
    get_entries(layout, title).compile_simulator(advance_groups, world, times, tally, 0, groups, NO_GRAINS)
