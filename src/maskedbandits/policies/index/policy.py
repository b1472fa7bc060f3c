"""A policy on the axes: a memory (``memories/``), an index (``indices/``), and restarts (``restarts/``).

``scores.py`` keeps the highest index cheap to find.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import has_field
from maskedbandits.policies import indices, memories, restarts
from maskedbandits.policies.index import ties
from maskedbandits.policies.index.state import Axes
from maskedbandits.policies.index.state import evidence_of as evidence_of  # the evidence of a group (``groups.py``)
from maskedbandits.policies.pending import clear_pending
from maskedbandits.policies.restarts.planned import Phases, forget_everything
from maskedbandits.policies.state import NOT_NEGATIVE, flip_feedback


@inner
def start(state: Phases) -> None:
    """Forget everything, also the time."""
    scalars = state.scalars[0]
    scalars.time = 0
    scalars.following = 0
    scalars.alarms = 0
    scalars.fractional = 0
    clear_pending(state)
    indices.start(state)
    forget_everything(state)


@inner
def begin_segment(state: Phases) -> None:
    """Forget every observation, like a planned restart."""
    forget_everything(state)


@inlined
def choose(state: Axes) -> int:
    """Return the arm to pull next."""
    arm = restarts.due_exploration(state)
    if arm == restarts.NOT_NOW:
        arm = indices.highest_arm(state)
    return arm & NOT_NEGATIVE


@inlined
def choose_ahead(state: Axes) -> int:
    """Return the arm to pull next while reports are pending; a pending forced pull is not repeated."""
    arm = restarts.due_exploration(state)
    if arm == restarts.NOT_NOW or restarts.is_exploration_pending(state, arm):
        arm = indices.highest_with_pending(state)
    return arm & NOT_NEGATIVE


@inner
def choose_open(state: Axes) -> int:
    """Return the arm to pull next among those open now."""
    arm = restarts.due_exploration(state)
    if arm == restarts.NOT_NOW or state.closed[arm] or restarts.is_exploration_pending(state, arm):
        arm = indices.highest_open(state)
    return arm


@inlined
def observe(state: Axes, arm: int, feedback: float) -> None:
    """Update the state with the feedback of a pull."""
    memories.advance(state)
    feedback = flip_feedback(state, arm, feedback)
    if not memories.push_fast(state, arm, feedback):
        _observe_any(state, arm, feedback)


@inner
def observe_masked(state: Axes, arm: int, feedback: float, low: float, span: float, shown: float, usual: bool) -> None:
    """Update the state with a feedback that has its own mask, which increases from low by span (flipped if necessary).

    A detector is shown another number instead, or nothing if that is NaN.
    """
    memories.advance(state)
    evicted = memories.push_masked(state, arm, feedback, low, span)
    _finish_step(state, arm, evicted, memories.resum_masked(state, evicted), shown)


@inner
def _observe_any(state: Axes, arm: int, feedback: float) -> None:
    """Update the state with any feedback under the arm's mask."""
    scalars = state.scalars[0]
    if feedback != 0.0 and feedback != 1.0:
        scalars.fractional = 1
        memories.settle(state, False)
    evicted = memories.push(state, arm, feedback)
    _finish_step(state, arm, evicted, memories.resum(state, evicted), feedback)


@inner
def _finish_step(state: Axes, arm: int, evicted: int, is_resummed: bool, shown: float) -> None:
    """Restart if it is time, or else update the scores."""
    scalars = state.scalars[0]
    scalars.time += 1
    scalars.pulled = arm
    if not restarts.is_active(state) or not restarts.restart_if_due(state, arm, shown):
        indices.update_scores(state, arm, evicted, is_resummed)


@inner
def score(state: Axes, arm: int) -> float:
    """Return the score of an arm now; for Thompson sampling, the mean of its posterior."""
    return indices.score(state, arm)


def contradiction(state: Any, parameters: Mapping[str, Any]) -> str:
    """Return how a saved state contradicts itself, or an empty text."""
    scalars = state.scalars[0]
    if scalars.since > scalars.time:
        return "it was forgotten later than it is"
    if parameters.get("sigma") is None and not _sums_fit(state):  # unbounded feedback has any sum
        return "a count is out of range"
    if has_field(state, "winners"):
        return ties.contradiction(state) or ("" if _tournament_holds(state) else "its scores are not in order")
    return ""


def _sums_fit(state: Any) -> bool:
    """Return whether sums are those of as many numbers in [0, 1] as are counted, up to rounding."""
    fit = _are_in_range(state.sums, state.counts)
    return bool(fit and _masks_fit(state)) if state.scalars[0].mixed else fit


def _are_in_range(sums: Any, weights: Any) -> bool:
    """Return whether weighted sums of numbers in [0, 1] fit their weights, up to rounding."""
    slack = 1e-9 * (1.0 + weights)
    return bool(np.all((sums >= -slack) & (sums <= weights + slack)))


def _masks_fit(state: Any) -> bool:
    """Return whether the sums over the masks of reports fit the counts."""
    seen = state.mask_numbers > 0.0
    weights, squares, spans = (one[seen] for one in (state.mask_weights, state.mask_squares, state.mask_spans))
    if not (np.all(weights > 0.0) and np.all(squares > 0.0) and np.all(spans > 0.0)):
        return False
    counts = np.zeros_like(state.counts)
    with np.errstate(over="ignore"):  # an infinite count is invalid anyway
        counts[seen] = weights**2 / squares
    shares = (state.mask_sums, state.mask_lows, state.mask_spans)
    return np.allclose(counts, state.counts, rtol=1e-9) and all(
        _are_in_range(one, state.mask_weights) for one in shares
    )


def _tournament_holds(state: Any) -> bool:
    """Return whether every match was won by the higher score, and none by an arm that does not exist."""
    scalars = state.scalars[0]
    leaves, first_absent = int(scalars.leaves), int(scalars.leaves + scalars.arms)
    if np.any(state.winners[leaves:] != np.arange(leaves)) or np.any(state.values[first_absent:] != -math.inf):
        return False
    away = (state.leaders != ties.NONE) | (state.closed != 0)
    if np.any((state.values[leaves:first_absent] > -math.inf) == away):
        return False  # arms that wait for another arm and retired arms have no score, and only these
    values, winners = state.values[2:].reshape(-1, 2), state.winners[2:].reshape(-1, 2)
    right = values[:, 1] > values[:, 0]
    played = values.max(axis=1, initial=-math.inf) > -math.inf
    higher = np.array_equal(state.values[1:leaves], np.where(right, values[:, 1], values[:, 0]))
    won = np.where(right, winners[:, 1], winners[:, 0])
    return bool(higher and np.array_equal(state.winners[1:leaves][played], won[played]))
