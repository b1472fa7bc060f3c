"""Arms that are added and retired while a policy is live; everything learned about the others stays, bit for bit.

An added arm has no observations, and is explored like any arm at the beginning. A retired arm is never chosen again.
Its number is never reused, and late reports of it are taken in as ever.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maskedbandits._numba.state import Ints, copy_widened, has_field
from maskedbandits.corruption import IDENTITY, Corruption, Polyline, expand_per_arm
from maskedbandits.errors import UserError
from maskedbandits.noise import Noise
from maskedbandits.policies.registry import Kind


def check_kind(kind: Kind) -> None:
    """Refuse a kind of policy whose arms cannot change."""
    if not kind.takes_arms:
        raise UserError(
            f"{kind.name} does not support adding or retiring arms: use auto, or klucb-cf, ucb-cf or ts-cf, also as "
            "sw-, d-, glr-, cusum-, ph- or m-"
        )


def polyline_of(kind: Kind, corruption: Corruption | None, arms: int, noisy: bool) -> Polyline | None:
    """Return the mask of a new arm beside ``arms`` arms; None if it is that of the others."""
    if corruption is None or not kind.sees_corruption:
        return None
    one = expand_per_arm((*(IDENTITY,) * arms, corruption), arms + 1)[-1]
    if noisy or isinstance(one, Noise):
        raise UserError(f"all arms of a {kind.name} have the same noise, or none: leave out corruption")
    return one.polyline


def add_arm(kind: Kind, parameters: Mapping[str, Any], state: Any, line: Polyline | None) -> Any:
    """Return the state with one more arm."""
    arm, honest = int(state.scalars[0].arms), 1.0 - parameters.get("contamination", 0.0)
    like = _check_one_mask(state) if line is None else _find_mask(state, line, honest)
    more = 0 if like is not None or line is None else line.means.size
    if line is not None and line.means.size != 2 and has_field(state, "mixed") and state.scalars[0].mixed:
        raise UserError("reports had their own corruptions, which exclude a Monotone: give a RandomizedResponse")
    nodes = int(state.scalars[0].nodes)
    new = copy_widened(state, {"arms": arm + 1, "nodes": nodes + more, "leaves": 1 << arm.bit_length()})
    scalars = new.scalars[0]
    if like is not None:
        for key in ("flips", "first_node", "last_node", "lows", "rates"):
            getattr(new, key)[arm] = getattr(state, key)[like]
    elif line is not None:
        low, high = honest * line.feedbacks[0], honest * line.feedbacks[-1]
        new.flips[arm], new.lows[arm], new.rates[arm] = line.flipped, low, 1.0 / (high - low)
        new.first_node[arm], new.last_node[arm] = nodes, nodes + more - 1
        new.node_means[nodes:] = line.means
        new.node_feedbacks[nodes:] = honest * line.feedbacks
        scalars.curved = scalars.curved or more != 2
    gathered = {key: scalars[key] for key in kind.layout.variables}
    kind.configure(new, parameters)
    for key, value in gathered.items():
        scalars[key] = value
    for module in kind.modules:
        if hasattr(module, "widen"):
            module.widen(state, new)
    return new


def _arm_of_each_mask(state: Any) -> Ints:
    """Return one arm for each mask: arms with the same mask share its nodes."""
    return np.unique(state.first_node, return_index=True)[1]


def _check_one_mask(state: Any) -> int:
    """Return an arm, if all arms have the same mask."""
    lines = {(state.flips[arm], *(part.tobytes() for part in _nodes(state, arm))) for arm in _arm_of_each_mask(state)}
    if len(lines) > 1:
        raise UserError("the arms have different corruptions: give corruption for the new arm")
    return 0


def _find_mask(state: Any, line: Polyline, honest: float) -> int | None:
    """Return an arm that has this mask already, if there is one."""
    for arm in _arm_of_each_mask(state):
        means, feedbacks = _nodes(state, arm)
        same = np.array_equal(means, line.means) and np.array_equal(feedbacks, honest * line.feedbacks)
        if same and bool(state.flips[arm]) == line.flipped:
            return int(arm)
    return None


def _nodes(state: Any, arm: int) -> tuple[Any, Any]:
    """Return the means and feedbacks of an arm's polyline."""
    nodes = slice(state.first_node[arm], state.last_node[arm] + 1)
    return state.node_means[nodes], state.node_feedbacks[nodes]


@contextmanager
def only_open(closed: NDArray[Any], arms: Ints | None) -> Iterator[None]:
    """Close all other arms for the moment, in a state or in a row for each of several states; None closes none."""
    if arms is None:
        yield
        return
    before = closed.copy()
    retired = np.atleast_2d(before)[0, arms] > 0
    if retired.any():
        raise UserError(f"among: arm {arms[retired][0]} is retired: leave it out")
    try:
        closed[:] = 1
        closed[..., arms] = 0
        yield
    finally:
        closed[:] = before


def retire_arm(kind: Kind, state: Any, arm: int) -> None:
    """Mark an arm as never to be chosen again."""
    scalars = state.scalars[0]
    if state.closed[arm]:
        raise UserError(f"arm {arm} is already retired")
    if scalars.retired + 1 == scalars.arms:
        raise UserError(f"arm {arm} is the last open arm: add another first")
    state.closed[arm] = 1
    scalars.retired += 1
    for module in kind.modules:
        if hasattr(module, "retire"):
            module.retire(state, arm)
