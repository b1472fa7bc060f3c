"""What policies that stand on their own (``core/own.py``) start from: parameters turned into their numbers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maskedbandits.core import adswitch, exp3, private, state, switching
from maskedbandits.core import own as core
from maskedbandits.core.state import Floats, State
from maskedbandits.corruption import Polyline

DEBIASED = (core.EXP3, core.ADSWITCH)  # those that turn every single feedback back into a reward


def size(kind: int, arms: int, parameters: Mapping[str, Any]) -> int:
    """Return how many numbers a policy keeps."""
    return core.size(kind, arms, len(parameters.get("best", ())))


def refuse_curves(name: str, kind: int, lines: Sequence[Polyline]) -> None:
    """Refuse a g that is no straight line, where single feedbacks must be debiased."""
    if kind in DEBIASED and any(line.means.size != 2 for line in lines):
        raise ValueError(f"{name} cannot debias a Monotone corruption report by report: give a RandomizedResponse")


def configure(view: State, kind: int, parameters: Mapping[str, Any]) -> None:
    """Write the parameters down."""
    numbers = view.own
    if kind in DEBIASED:
        _write_range(view)
    if kind == core.EXP3:
        _configure_exp3(numbers, view.counts.size, parameters)
    elif kind == core.ADSWITCH:
        log = max(1.0, math.log(parameters["horizon"]))
        numbers[adswitch.LOG] = log
        numbers[adswitch.RATE] = 1.0 / math.sqrt(view.counts.size * parameters["horizon"] * log)
        numbers[adswitch.STRICTNESS] = parameters["strictness"]
        numbers[adswitch.FINEST] = parameters["finest"]
    elif kind == core.ORACLE:
        numbers[state.OWN_HEAD :] = parameters["best"]
    elif kind in (core.LAPLACE, core.CENTRAL):
        numbers[private.EPSILON] = parameters["epsilon"]
    elif kind == core.SWITCHING:
        _write_priors(view)


def _write_priors(view: State) -> None:
    """Write down the priors of feedback means: Beta, with the mean and variance of g(U) for a uniform U."""
    held = switching.views(view)
    for arm, (first, last) in enumerate(zip(view.first_node, view.last_node, strict=True)):
        widths = np.diff(view.node_means[first : last + 1])
        left, right = view.node_feedbacks[first:last], view.node_feedbacks[first + 1 : last + 1]
        mean = float(np.sum(widths * (left + right)) / 2.0)
        variance = float(np.sum(widths * (left * left + left * right + right * right)) / 3.0) - mean * mean
        weight = mean * (1.0 - mean) / max(variance, 1e-12) - 1.0
        held.alphas[arm] = max(1.0, mean * weight)
        held.betas[arm] = max(1.0, (1.0 - mean) * weight)


def _write_range(view: State) -> None:
    """Write down the range of debiased feedbacks, the same for all arms."""
    floor = float(np.min(-view.lows * view.rates))
    view.own[state.FLOOR] = floor
    view.own[state.WIDTH] = float(np.max((1.0 - view.lows) * view.rates)) - floor


def _configure_exp3(numbers: Floats, arms: int, parameters: Mapping[str, Any]) -> None:
    """Tune EXP3.S as Corollary 8.3 of Auer et al. 2002 does, REXP3 as Theorem 2 of Besbes et al. 2014."""
    horizon = parameters["horizon"]
    if "variation" in parameters:
        effort = arms * math.log(arms)
        budget = parameters["variation"] / numbers[state.WIDTH]  # gains move by that much less than means
        batch = effort ** (1 / 3) * (horizon / budget) ** (2 / 3) if budget > 0.0 else math.inf
        length = max(1, math.ceil(min(batch, horizon)))
        numbers[exp3.BATCH] = length
        numbers[exp3.GAMMA] = min(1.0, math.sqrt(effort / ((math.e - 1.0) * length)))
    else:
        effort = arms * (parameters["changes"] * math.log(arms * horizon) + math.e)
        numbers[exp3.GAMMA] = min(1.0, math.sqrt(effort / ((math.e - 1.0) * horizon)))
        numbers[exp3.ALPHA] = 1.0 / horizon


def contradiction(view: State, fresh: State) -> str:
    """Return where a saved state contradicts itself or a fresh one: compiled code would trust it blindly."""
    kind = view.head[state.OWN_KIND]
    given = {core.ORACLE: view.own.size, core.SWITCHING: state.OWN_HEAD + 2 * view.counts.size}.get(
        kind, state.OWN_HEAD
    )
    if (
        kind != fresh.head[state.OWN_KIND]
        or view.head[state.MIXED]
        or not np.array_equal(view.own[:given], fresh.own[:given])
    ):
        return "it is not of the kind that its name says"
    if not np.all(np.isfinite(view.own[given:])) or (kind == core.EXP3 and np.any(view.own[given:] <= 0.0)):
        return "a number is out of range"
    if np.any(view.counts < 0.0) or not np.all(np.isfinite(view.counts) & np.isfinite(view.sums)):
        return "a count is out of range"
    if kind == core.SWITCHING and not switching.is_sound(view):
        return "its beliefs are not in order"
    return ""
