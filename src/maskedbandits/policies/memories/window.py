"""A memory of the last observations, in a ring buffer."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from maskedbandits._numba.jit import inlined, inner
from maskedbandits._numba.state import DURATION, REQUIRED, Floats, Ints, array, computed, param, record, size, variable
from maskedbandits.errors import UserError
from maskedbandits.policies import indices, validation
from maskedbandits.policies.index.state import Axes, add_masked, forget_reports
from maskedbandits.policies.memories import NO_ARM, add
from maskedbandits.policies.pending import FOREVER
from maskedbandits.policies.state import NOT_NEGATIVE
from maskedbandits.policies.validation import MAX_FEEDBACK


@record
class Memory(Axes):
    """The window: the ring has its length, or is empty if the window is longer than the play."""

    ring: int = size()
    window: int = param(
        REQUIRED,
        validation.window,
        "how many of the last steps it remembers; theory.corrected_window(problem) gives a number, and window = "
        "'corrected' does in an experiment file",
        stored=False,
        time=DURATION,
    )
    span: int = computed()  # the window, or FOREVER
    slot: int = variable(0, most=lambda scalars: max(scalars.ring - 1, 0))  # of the oldest observation
    settled: int = variable(
        0,
        most=lambda scalars: int(
            scalars.ring > 0 and scalars.time - scalars.since >= scalars.ring and not (scalars.mixed or scalars.retired)
        ),
    )
    ring_arms: Ints = array(lambda scalars: scalars.ring, least=0, most=lambda scalars: scalars.arms - 1)
    ring_feedbacks: Floats = array(
        lambda scalars: scalars.ring, least=-MAX_FEEDBACK, most=MAX_FEEDBACK
    )  # most are in [0, 1]
    ring_lows: Floats = array(lambda scalars: scalars.ring * scalars.mixed, least=0.0, most=1.0)
    ring_spans: Floats = array(lambda scalars: scalars.ring * scalars.mixed, least=1e-12, most=1.0)


def check(parameters: Mapping[str, Any], arms: int) -> None:
    """Refuse a window that cannot hold an observation of every arm."""
    if parameters["window"] < arms:
        raise UserError(
            f"window {parameters['window']} is smaller than the number of arms {arms}: an arm would always be "
            f"outside the window; give {arms} or more"
        )


def sizes(parameters: Mapping[str, Any]) -> dict[str, int]:
    """Return the length of the ring."""
    return {"ring": 0 if parameters["window"] == math.inf else int(parameters["window"])}


def configure(state: Memory, parameters: Mapping[str, Any]) -> None:
    """Write the window to the state."""
    state.scalars[0].span = FOREVER if parameters["window"] == math.inf else int(parameters["window"])


@inlined
def _steps_since_restart(state: Memory) -> int:
    """Return the number of steps since the last restart."""
    scalars = state.scalars[0]
    return scalars.time - scalars.since


@inlined
def _is_turning(state: Memory) -> bool:
    """Return whether an observation evicts another."""
    return state.scalars[0].ring > 0 and _steps_since_restart(state) >= state.scalars[0].ring


@inlined
def forget_all(state: Memory) -> None:
    """Empty the ring."""
    scalars = state.scalars[0]
    scalars.slot = 0
    scalars.settled = 0


@inlined
def _replace(state: Memory, slot: int, arm: int, feedback: float) -> int:
    """Replace an observation by another; return the arm of the evicted one."""
    evicted = state.ring_arms[slot] & NOT_NEGATIVE
    state.counts[evicted] -= 1.0
    state.sums[evicted] -= state.ring_feedbacks[slot]
    state.ring_arms[slot] = arm
    state.ring_feedbacks[slot] = feedback
    add(state, arm, feedback)
    return evicted


@inlined
def push(state: Memory, arm: int, feedback: float) -> int:
    """Put an observation in the ring; return the arm of the evicted one, or NO_ARM."""
    scalars = state.scalars[0]
    if scalars.ring == 0:
        add(state, arm, feedback)
        return NO_ARM
    slot = scalars.slot & NOT_NEGATIVE
    scalars.slot = slot + 1 if slot + 1 < scalars.ring else 0
    if _is_turning(state):
        return _replace(state, slot, arm, feedback)
    state.ring_arms[slot] = arm
    state.ring_feedbacks[slot] = feedback
    add(state, arm, feedback)
    return NO_ARM


@inner
def push_masked(state: Memory, arm: int, feedback: float, low: float, span: float) -> int:
    """Put a report with its own mask in the ring; return the arm of the evicted one, or NO_ARM."""
    scalars = state.scalars[0]
    evicted = NO_ARM
    if scalars.ring > 0:
        slot = scalars.slot
        scalars.slot = slot + 1 if slot + 1 < scalars.ring else 0
        if _is_turning(state):
            evicted = state.ring_arms[slot]
            _add_slot(state, slot, -1.0)
        state.ring_arms[slot] = arm
        state.ring_feedbacks[slot] = feedback
        state.ring_lows[slot] = low
        state.ring_spans[slot] = span
    add_masked(state, arm, feedback, low, span, 1.0)
    return evicted


@inlined
def _add_slot(state: Memory, slot: int, times: float) -> None:
    """Add a report of the ring ``times`` times; -1 removes it."""
    ring = (state.ring_feedbacks[slot], state.ring_lows[slot], state.ring_spans[slot])
    add_masked(state, state.ring_arms[slot], ring[0], ring[1], ring[2], times)


@inlined
def resum(state: Memory, evicted: int) -> bool:
    """Recompute the sums at each turn of the ring, if feedback is fractional."""
    inexact = evicted != NO_ARM and state.scalars[0].slot == 0 and state.scalars[0].fractional > 0
    if inexact:
        _recount(state)
    return inexact


@inner
def _recount(state: Memory) -> None:
    """Recompute the sums from the ring."""
    for arm in range(state.sums.size):
        state.sums[arm] = 0.0
    for slot in range(state.ring_arms.size):
        state.sums[state.ring_arms[slot]] += state.ring_feedbacks[slot]


@inner
def resum_masked(state: Memory, evicted: int) -> bool:
    """Recompute all sums at each turn of the ring."""
    turned = evicted != NO_ARM and state.scalars[0].slot == 0
    if turned:
        forget_reports(state, 0, state.scalars[0].arms - 1)
        for slot in range(state.ring_arms.size):
            _add_slot(state, slot, 1.0)
    return turned


@inlined
def total_count(state: Memory) -> float:
    """Return the number of observations of all arms that count."""
    return float(min(_steps_since_restart(state), state.scalars[0].span))


@inlined
def is_full(state: Memory) -> bool:
    """Return whether the window is full."""
    return _steps_since_restart(state) >= state.scalars[0].span


@inlined
def total_count_after(state: Memory, steps: int) -> float:
    """Return the number of observations that will count after some steps."""
    return float(min(_steps_since_restart(state) + steps, state.scalars[0].span))


@inlined
def total_count_with(state: Memory, more: int) -> float:
    """Return the number of observations that would count with some more."""
    return float(min(_steps_since_restart(state) + more, state.scalars[0].span))


@inlined
def settle(state: Memory, plain: bool) -> None:
    """Use the fast path from now on, if a step only remembers bits and scores."""
    scalars = state.scalars[0]
    scalars.settled = (
        plain and scalars.ring > 0 and not scalars.fractional and not scalars.mixed and not scalars.retired
    )


def retire(state: Memory, arm: int) -> None:
    """Leave the fast path: it does not check whether an arm is retired."""
    state.scalars[0].settled = 0


@inlined
def push_fast(state: Memory, arm: int, feedback: float) -> bool:
    """Add a bit to a full, plain window, with the same result as the slow path."""
    scalars = state.scalars[0]
    if not scalars.settled or (feedback != 0.0 and feedback != 1.0):
        return False
    slot = scalars.slot & NOT_NEGATIVE
    scalars.time += 1
    scalars.slot = slot + 1 if slot + 1 < scalars.ring else 0
    if state.ring_arms[slot] != arm or state.ring_feedbacks[slot] != feedback:  # else the same comes as goes
        evicted = _replace(state, slot, arm, feedback)
        if evicted != arm:
            indices.place_from_memo(state, evicted)
        indices.place_from_memo(state, arm)
    return True


def contradiction(state: Memory, parameters: Mapping[str, Any]) -> str:
    """Return where a saved ring contradicts the counts."""
    scalars = state.scalars[0]
    held = [0] * int(scalars.arms)
    for arm in state.ring_arms[: min(int(scalars.time - scalars.since), int(scalars.ring))]:
        held[arm] += 1
    if parameters.get("sigma") is None and np.any((state.ring_feedbacks < 0.0) | (state.ring_feedbacks > 1.0)):
        return "a number is out of range"
    numbers = state.mask_numbers if scalars.mixed else state.counts
    return "counts and observations disagree" if scalars.ring and held != numbers.tolist() else ""
