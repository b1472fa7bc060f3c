"""A policy that was saved, checked and set to work again: compiled code would trust its arrays blindly."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from maskedbandits import own
from maskedbandits.core import change, index, memory, restart, state
from maskedbandits.core.lots import Words
from maskedbandits.core.state import Floats, Ints, Layout, State
from maskedbandits.corruption import Polyline
from maskedbandits.errors import DAMAGED
from maskedbandits.policies import FORMAT, Policy, layout_for, layout_of, pack
from maskedbandits.recipes import REGISTRY, complete


def load_policy(path: str | Path) -> Policy:
    """Return the policy that was saved, to go on where it stood."""
    try:
        with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            about = json.loads(str(file["about"]))
            ints, floats = file["ints"], file["floats"]
    except FileNotFoundError:
        raise
    except DAMAGED as error:
        raise ValueError(f"{path} is not a saved policy, or is damaged: save it again ({error})") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"{path} was saved in another format: load it with the version that saved it")
    fault = _fault(about, ints, floats)
    if fault:
        raise ValueError(f"{path} is damaged: {fault}; load an older copy")
    return Policy(about["name"], about["parameters"], ints, floats, _words(path, about.get("lots")))


def _words(path: str | Path, told: Any) -> Words:
    """Return the state of the generator."""
    try:
        words = np.array(told, dtype=np.uint64)
    except (TypeError, ValueError, OverflowError):
        words = np.zeros(0, dtype=np.uint64)
    if words.shape != (4,):
        raise ValueError(f"{path} is damaged: its generator is not in order; load an older copy")
    return words


def _fault(about: dict[str, Any], ints: Ints, floats: Floats) -> str:
    """Return what is wrong with the arrays, if anything."""
    if about.get("name") not in REGISTRY or not isinstance(about.get("parameters"), dict):
        return "no policy of that name is known"
    if ints.dtype != np.int64 or floats.dtype != np.float64 or ints.ndim != 1 or floats.ndim != 1:
        return "the arrays have the wrong type"
    if ints.size < state.INT_HEAD or floats.size < state.FLOAT_HEAD or np.any(ints[: state.INT_HEAD] < 0):
        return "the head is cut off"
    layout = layout_of(ints)
    if layout.arms < 1 or (ints.size, floats.size) != layout.lengths or ints[state.LEAVES] != layout.leaves:
        return "the lengths disagree"
    try:
        parameters = complete(about["name"], about["parameters"], layout.arms)
        expected = layout_for(about["name"], parameters, layout.arms, layout.nodes)
        if layout._replace(mixed=0) != expected or layout.mixed > 1:  # before arrays are made as large as asked for
            return "it is not of the size that its parameters say"
        with np.errstate(all="ignore"):  # a line without a slope is refused below
            fresh = pack(about["name"], parameters, _lines(state.views(ints, floats)))
    except (ValueError, IndexError, OverflowError) as error:
        return f"its parameters are not those of a policy ({error})"
    return _contradiction(state.views(ints, floats), state.views(*fresh), layout)


def _lines(view: State) -> list[Polyline]:
    """Return the polylines of the arms; those that share their nodes are one."""
    known: dict[tuple[int, int, bool], Polyline] = {}
    for a, b, flip in zip(view.first_node, view.last_node, view.flips, strict=True):
        line = Polyline(view.node_means[a : b + 1], view.node_feedbacks[a : b + 1], bool(flip))
        known.setdefault((int(a), int(b), bool(flip)), line)
    return [
        known[int(a), int(b), bool(flip)]
        for a, b, flip in zip(view.first_node, view.last_node, view.flips, strict=True)
    ]


def _contradiction(view: State, fresh: State, layout: Layout) -> str:
    """Return where a state contradicts itself or a fresh one of the same kind."""
    kinds = slice(state.MEMORY, state.WINDOW + 1)
    fixed = ("flips", "first_node", "last_node", "node_means", "node_feedbacks", "lows", "rates", "plan")
    gathered = [state.WEIGHT, state.LEVEL, state.EVIDENCE, state.SEEN, state.LEVEL_AHEAD, state.FADE]
    if view.head[state.RESTART] == restart.DOUBLING:
        gathered.append(state.HORIZON)
        if view.real[state.HORIZON] != max(restart.FIRST_PHASE, view.head[state.SINCE]):
            return "its horizon is not that of its phase"
    if not np.array_equal(view.head[kinds], fresh.head[kinds]):
        return "it is not of the kind that its name says"
    if not np.array_equal(np.delete(view.real, gathered), np.delete(fresh.real, gathered)):
        return "its parameters are not those that it tells"
    if not all(np.array_equal(getattr(view, one), getattr(fresh, one)) for one in fixed):
        return "its corruption is not in order"
    if np.any(view.last_node <= view.first_node):
        return "its corruption is cut off"
    head, played = view.head, view.head[state.TIME] - view.head[state.SINCE]
    ranges = (
        (view.ring_arms, layout.arms - 1),
        (view.winners[1], layout.arms - 1),
        (view.winners, layout.leaves - 1),
        (head[state.SLOT], max(layout.ring - 1, 0)),
        (head[state.EXPLORE_ARM], layout.arms - 1),
        (head[state.PULLED], layout.arms - 1),
        (view.since, head[state.TIME]),
        (view.last, head[state.TIME]),
        (head[state.SINCE], head[state.TIME]),
        (head[state.TIME], state.FOREVER),
        (head[state.SETTLED], int(layout.ring > 0 and played >= layout.ring and not layout.mixed)),
        (head[state.EPOCH], state.FOREVER),
        (head[state.EXPLORE_AT], state.FOREVER),
        (head[state.FOLLOWING], max(layout.plan, 50)),  # a schedule that doubles gets no further
    )
    if any(np.any((numbers < 0) | (numbers > most)) for numbers, most in ranges):
        return "a number is out of range"
    if head[state.INDEX] == index.OWN:
        return own.contradiction(view, fresh)
    held = np.bincount(view.ring_arms[: min(played, layout.ring)], minlength=layout.arms)
    if layout.ring and not np.array_equal(held, view.counts):
        return "counts and observations disagree"
    if not _sums_fit(view):
        return "a count is out of range"
    if not _tournament_holds(view, layout):
        return "its scores are not in order"
    boxes, fresh_boxes = view.boxes.reshape(layout.arms, -1), fresh.boxes.reshape(layout.arms, -1)
    if layout.box and not np.array_equal(boxes[:, change.ROOM], fresh_boxes[:, change.ROOM]):
        return "its detectors are not of the size that they should be"
    if not all(change.is_sound(head[state.DETECTOR], box) for box in boxes):
        return "a detector is not in order"
    return ""


def _sums_fit(view: State) -> bool:
    """Tell whether sums are sums of as many numbers in [0, 1] as are counted, but for rounding."""
    if not np.all((view.counts >= 0.0) & (view.counts < 1e200)):  # nor is NaN
        return False
    slack = 1e-9 * (1.0 + view.counts)
    sums = [view.sums, view.low_sums, view.span_sums] if view.head[state.MIXED] else [view.sums]
    fit = all(np.all((one >= -slack) & (one <= view.counts + slack)) for one in sums)
    spans = view.span_sums[view.counts[: view.span_sums.size] > 0.0]
    weight, *running = view.real[[state.WEIGHT, state.LEVEL, state.LEVEL_AHEAD, state.SEEN, state.FADE]]
    heaviest = memory.HEAVY if view.head[state.MEMORY] == memory.DISCOUNTED else 1.0
    in_range = 1.0 <= weight <= heaviest and all(0.0 <= number < math.inf for number in running)
    laid = np.isfinite([view.anchors, view.bounds, view.slopes])
    return bool(np.all(spans > 0.0) and fit and in_range and np.all(laid))


def _tournament_holds(view: State, layout: Layout) -> bool:
    """Tell whether every match went to the higher score, and none to an arm that does not exist."""
    leaves, first_absent = layout.leaves, layout.leaves + layout.arms
    if np.any(view.winners[leaves:] != np.arange(leaves)) or np.any(view.values[first_absent:] != -math.inf):
        return False
    if not np.all(view.values[leaves:first_absent] > -math.inf):  # nor is NaN
        return False
    values, winners = view.values[2:].reshape(-1, 2), view.winners[2:].reshape(-1, 2)
    right = values[:, 1] > values[:, 0]
    played = values.max(axis=1, initial=-math.inf) > -math.inf
    return bool(
        np.array_equal(view.values[1:leaves], np.where(right, values[:, 1], values[:, 0]))
        and np.array_equal(view.winners[1:leaves][played], np.where(right, winners[:, 1], winners[:, 0])[played])
    )
