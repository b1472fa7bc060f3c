"""Initial states of a policy: for live use, for the replay of a log, and for a simulation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maskedbandits._numba.state import copy_resized, layout_of
from maskedbandits.corruption import Polyline
from maskedbandits.policies import pending
from maskedbandits.policies.pending import FOREVER
from maskedbandits.policies.registry import Kind

MASK_ARRAYS = ("flips", "first_node", "last_node", "node_means", "node_feedbacks", "lows", "rates")


def build_state(kind: Kind, parameters: Mapping[str, Any], lines: Sequence[Polyline]) -> Any:
    """Return the initial state; arms with the same polyline share its nodes."""
    distinct = {id(line): line for line in lines}
    ends = np.cumsum([line.means.size for line in distinct.values()])
    starts = dict(zip(distinct, [0, *ends[:-1]], strict=True))
    first = [starts[id(line)] for line in lines]
    common = {"arms": len(lines), "nodes": int(ends[-1]), "leaves": 1 << (len(lines) - 1).bit_length()}
    common["ages"] = pending.age_groups(parameters["expire_after"])
    state = kind.layout.build({**common, **kind.sizes(parameters)}, parameters)
    honest = 1.0 - parameters.get("contamination", 0.0)  # see Policy.contamination
    state.flips[:] = [line.flipped for line in lines]
    state.first_node[:] = first
    state.last_node[:] = [begin + line.means.size - 1 for begin, line in zip(first, lines, strict=True)]
    state.node_means[:] = np.concatenate([line.means for line in distinct.values()])
    state.node_feedbacks[:] = np.concatenate([honest * line.feedbacks for line in distinct.values()])
    state.lows[:] = [honest * line.feedbacks[0] for line in lines]
    state.rates[:] = [1.0 / (honest * line.feedbacks[-1] - honest * line.feedbacks[0]) for line in lines]
    state.scalars[0].curved = any(line.means.size != 2 for line in distinct.values())
    pending.configure(state, parameters["expire_after"])
    kind.configure(state, parameters)
    return state


def rebuild_state(kind: Kind, parameters: Mapping[str, Any], state: Any) -> Any:
    """Return the initial state with other parameters and the masks of a given state."""
    old = state.scalars[0]
    sizes: dict[str, int] = {key: int(old[key]) for key in ("arms", "nodes", "leaves") if key in kind.layout.sizes}
    sizes["ages"] = pending.age_groups(parameters["expire_after"])
    new = kind.layout.build({**sizes, **kind.sizes(parameters)}, parameters)
    for key in MASK_ARRAYS:
        getattr(new, key)[:] = getattr(state, key)
    new.scalars[0].curved = old.curved
    pending.configure(new, parameters["expire_after"])
    kind.configure(new, parameters)
    return new


def simulation_state(state: Any, horizon: int, memo: int, expire_after: int | None) -> Any:
    """Return the initial state for a simulation, with no window longer than the horizon."""
    layout, scalars = layout_of(state), state.scalars[0]
    sizes = {key: value for key, value in (("memo", memo), ("mixed", 0)) if key in layout.sizes}
    is_endless = "span" in layout.computed and scalars.span >= horizon
    if is_endless:
        sizes["ring"] = 0
    if expire_after is not None:
        sizes["ages"] = pending.age_groups(expire_after)
    fixed = [key for key, section in layout.arrays.items() if section.fixed]
    new = copy_resized(state, sizes, fixed)
    if expire_after is not None:
        pending.configure(new, expire_after)
    new.scalars[0].retired = 0
    if is_endless:
        new.scalars[0].span = FOREVER
    return new
